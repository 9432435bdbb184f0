"""The suite for adapters itself: whatever an adapter claims and does not keep is found by the fitting check.

Drives `testing/adapter_conformance`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from perdure.platforms.api import Capabilities
from perdure.testing import AdapterConformance, PlatformStage
from support.faulty_adapters import FaultyStage, FaultyWebhookStage

NEVER = "never came true"  # what is missing can only be waited for
SHORT = 4.0

HONEST = Capabilities(keeps_missed=True, threads=True, buttons=True, edit=True, max_length=500)
LARGE: dict[str, Any] = {"files": True, "max_file": 3_000_000}
TYPES: dict[str, Any] = {"typing_every": 4.0}
TYPING = "test_typing_is_seen_where_the_answer_will_be_and_only_when_told_to"
STANDBY = "test_opened_adapter_can_send_and_leaves_the_events_to_the_one_that_receives"
TESTS = {name for name in dir(AdapterConformance) if name.startswith("test_")}


class Suite(AdapterConformance):
    def __init__(self, fault: str, says: str = "", **claims: Any) -> None:
        self.patience = SHORT if says == NEVER else AdapterConformance.patience
        self._fault = fault
        self._claims = msgspec.structs.replace(HONEST, **claims)

    def stage(self, folder: Path) -> PlatformStage:
        return FaultyStage(self._claims, self._fault)


class PostingSuite(Suite):
    """For an adapter that takes posts."""

    def stage(self, folder: Path) -> PlatformStage:
        return FaultyWebhookStage(self._claims, self._fault)


def test_honest_adapter_is_accepted() -> None:
    for name in sorted(TESTS):
        getattr(Suite("", **LARGE, **TYPES), name)()
    for name in sorted({found for _, found, _ in POSTED}):
        getattr(PostingSuite(""), name)()


LIES = [
    ("acknowledges too early", {}, "test_nothing_is_acknowledged_before_it_is_stored", "before it was stored"),
    ("acknowledges too early", {}, "test_message_that_could_not_be_stored_comes_again", "could not be stored"),
    ("never acknowledges", {}, "test_each_message_is_answered_once_in_its_chat", NEVER),
    ("names events anew every time", {}, "test_message_that_is_handed_over_again_is_one_turn", "two turns"),
    ("names events by their words", {}, "test_each_message_is_answered_once_in_its_chat", "people see"),
    ("keeps nothing", {}, "test_messages_written_while_nobody_was_there_are_answered_in_order", "people see"),
    (
        "passes over what makes no sense",
        {},
        "test_event_that_makes_no_sense_is_kept_as_rejected_and_acknowledged",
        "problem",
    ),
    ("fetches something else", {}, "test_file_that_somebody_sends_can_be_fetched", "not what was sent"),
    ("sends no files", {"files": True}, "test_file_arrives_as_it_is", "a file of"),
    ("spoils files", {"files": True}, "test_file_arrives_as_it_is", "other bytes"),
    ("takes smaller files than it says", LARGE, "test_file_arrives_as_it_is", "is not taken"),
    ("hears threads as the chat", {}, "test_each_thread_is_a_conversation_of_its_own", "people see"),
    ("answers beside the thread", {}, "test_each_thread_is_a_conversation_of_its_own", "people see"),
    ("answers everybody", {}, "test_each_message_is_answered_once_in_its_chat", "people see"),
    ("shows no buttons", {}, "test_question_is_answered_by_a_button_after_a_death", "has the buttons"),
    ("throws out whoever receives when it is opened", {}, STANDBY, "was cut off"),
    ("sends only where it receives", {}, STANDBY, "cannot send"),
    (
        "does not see that the platform is down",
        {},
        "test_platform_that_is_down_at_the_start_is_connected_to_later",
        "returned",
    ),
    (
        "cannot say that the platform is down",
        {},
        "test_platform_that_is_down_at_the_start_is_connected_to_later",
        "only NotConnected",
    ),
    (
        "does not see that the line is lost",
        {},
        "test_what_runs_when_the_line_is_lost_is_answered_once_it_is_back",
        NEVER,
    ),
    (
        "passes over notices",
        {},
        "test_answer_is_given_up_with_a_notice_when_the_operator_prefers_that",
        "people see",
    ),
    ("cannot be stopped", {}, "test_adapter_lets_go_when_it_is_told_to", NEVER),
    ("leaves something running", {}, "test_adapter_lets_go_when_it_is_told_to", NEVER),
    (
        "takes a lost answer for a lost message",
        {},
        "test_answer_comes_once_or_marked_when_its_receipt_is_lost",
        "says it is not",
    ),
    (
        "knows no keys",
        {"idempotent_send": True},
        "test_answer_comes_once_or_marked_when_the_gateway_dies_after_sending",
        "people see",
    ),
    (
        "finds nothing",
        {"read_back": True},
        "test_answer_comes_once_or_marked_when_the_gateway_dies_after_sending",
        "people see",
    ),
    (
        "finds everything",
        {"read_back": True},
        "test_answer_comes_once_when_the_gateway_dies_before_sending",
        "people see",
    ),
    (
        "finds everything",
        {"read_back": True, "idempotent_send": True},
        "test_sent_message_can_be_looked_up_by_its_delivery_key",
        "never sent",
    ),
    ("takes a wait for a refusal", {}, "test_answer_waits_when_the_platform_says_so", "it is to wait"),
    ("takes a wait for a mystery", {}, "test_answer_waits_when_the_platform_says_so", "it is to wait"),
    ("takes a refusal for a wait", {}, "test_refused_answer_is_given_up_and_the_next_one_comes", "it was refused"),
    ("sends in bundles, the newest first", {}, "test_answers_keep_their_order", "people see"),
    ("takes less than it says", {}, "test_long_answer_arrives_whole", "people see"),
    ("leaves no room for a mark", {}, "test_long_answer_arrives_whole", "people see"),
    ("cannot edit", {}, "test_answer_grows_in_one_message", "people see"),
    ("edits nothing", {}, "test_answer_grows_in_one_message", "people see"),
    ("edits by sending again", {}, "test_answer_grows_in_one_message", "people s[ae]"),
    ("no glimpses", {"live": True}, "test_glimpse_of_an_answer_leaves_nothing_behind", "people saw"),
    ("glimpses that stay", {"live": True}, "test_glimpse_of_an_answer_leaves_nothing_behind", "people saw"),
    ("never types", TYPES, TYPING, "nobody sees it"),
    ("types beside the thread", TYPES, TYPING, "nobody sees it"),
    ("types for everybody", TYPES, TYPING, "no answer was under way"),
    ("types behind its answers", TYPES, TYPING, "told to"),
    ("types in words", TYPES, TYPING, "people see"),
]

POSTED = [
    ("takes posts of everybody", "test_post_of_somebody_else_is_refused_and_not_stored", "forged"),
    (
        "refuses posts of others and keeps them",
        "test_post_of_somebody_else_is_refused_and_not_stored",
        "handed over",
    ),
    (
        "answers posts before they are stored",
        "test_post_is_answered_with_success_once_it_is_stored",
        "answered with success",
    ),
    ("refuses posts that it knows", "test_post_whose_answer_is_lost_comes_again_and_is_one_turn", NEVER),
    ("names posts anew every time", "test_post_whose_answer_is_lost_comes_again_and_is_one_turn", "two turns"),
]


@pytest.mark.parametrize(("fault", "claims", "found", "says"), LIES, ids=[f"{lie[0]}-{lie[2]}" for lie in LIES])
def test_b74_lie_is_found_when_an_adapter(fault: str, claims: dict[str, Any], found: str, says: str) -> None:
    with pytest.raises(AssertionError, match=says):
        getattr(Suite(fault, says, **claims), found)()


@pytest.mark.parametrize(("fault", "found", "says"), POSTED, ids=[lie[0] for lie in POSTED])
def test_b103_lie_is_found_when_an_adapter(fault: str, found: str, says: str) -> None:
    with pytest.raises(AssertionError, match=says):
        getattr(PostingSuite(fault, says), found)()


def test_every_check_finds_a_lie() -> None:
    assert {lie[-2] for lie in (*LIES, *POSTED)} == TESTS

"""The sentences that people and models see from us.

Drives `core/texts`.
"""

from __future__ import annotations

import inspect

import pytest

from perdure.core import texts
from perdure.core.recovery.decision import InterruptionReason

CAUSES = {
    InterruptionReason.RESTART_TIMEOUT: "a gateway restart",
    InterruptionReason.SHUTDOWN_TIMEOUT: "a gateway shutdown",
    InterruptionReason.RESTART_INTERRUPTED: "a gateway interruption",
    InterruptionReason.LEASE_LOST: "a gateway interruption",
}


@pytest.mark.parametrize("reason", InterruptionReason)
def test_recovery_note_names_the_cause_in_words(reason: InterruptionReason) -> None:
    """B47: a gateway restart, a gateway shutdown, a gateway interruption."""
    note = texts.recovery.note_resumed(reason)
    assert [cause for cause in set(CAUSES.values()) if cause in note] == [CAUSES[reason]]
    assert reason not in note


def test_recovery_note_names_an_interruption_when_the_reason_is_unknown() -> None:
    assert "a gateway interruption" in texts.recovery.note_resumed("act_of_god")


def test_recovery_note_asks_to_go_on_and_is_no_users_text() -> None:
    """B46: finished steps are not repeated; B47: the note is ours."""
    note = texts.recovery.note_resumed(InterruptionReason.RESTART_TIMEOUT, finished=True)
    assert note.startswith("[Gateway note:")
    assert "do not repeat them" in note


def test_unknown_outcome_says_that_it_may_have_run() -> None:
    """B62: look before repeating."""
    assert texts.tool_calls.OUTCOME_UNKNOWN.startswith("outcome unknown")
    assert "may have run" in texts.tool_calls.OUTCOME_UNKNOWN


def test_duplicate_keeps_the_reply_and_says_what_it_may_be() -> None:
    """B74: resent with a visible mark."""
    assert texts.delivery.maybe_duplicate("The answer.").startswith("The answer.\n\n")
    assert "may be a duplicate" in texts.delivery.maybe_duplicate("The answer.")


@pytest.mark.parametrize(("count", "words"), [(1, "1 message was"), (3, "3 messages were")])
def test_old_messages_are_counted_in_words(count: int, words: str) -> None:
    """B72: reported once."""
    assert texts.turns.messages_expired(count).startswith(words)


def test_tools_are_listed_when_there_is_none_of_that_name() -> None:
    assert texts.tool_calls.unknown_tool("lok", ["look", "step"]).endswith("the tools are: look, step")
    assert texts.tool_calls.unknown_tool("lok", []).endswith("the tools are: none")


def test_failure_of_a_tool_names_its_error() -> None:
    assert texts.tool_calls.failed(KeyError("name")) == "the tool failed: KeyError: 'name'"


def test_limits_are_told_with_their_numbers() -> None:
    assert "90 steps" in texts.turns.too_many_steps(90)
    assert texts.turns.queue_full(100).startswith("100 messages")


def test_offline_greeting_says_that_it_is_offline() -> None:
    assert "offline model" in texts.agents.OFFLINE_GREETING


def test_no_sentence_is_blank() -> None:
    sentences = {
        f"{module.__name__}.{name}": value
        for _, module in inspect.getmembers(texts, inspect.ismodule)
        for name, value in inspect.getmembers(module)
        if isinstance(value, str) and name.isupper()
    }
    assert sentences
    assert [name for name, sentence in sentences.items() if not sentence.strip()] == []

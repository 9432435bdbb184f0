"""Recovery in plain words."""

from __future__ import annotations

import pytest

from perdure.core.explain import ENDINGS, GOES_ON, LEFT, NEXT, STAYS, Situation, explain
from perdure.core.journal import Cancelled, Decided, Entry, Failed, Finished, Undone
from perdure.core.notes import ago
from perdure.core.recovery import Choice, Rule
from perdure.core.session import Recovery, SessionState, Why
from support.journals import TICK, again, began, claimed, cut_off, saying, told

NOTHING = Recovery()
FOUND = (
    "Found: cut off once, 60 s ago, by a gateway interruption (restart_interrupted); "
    "it ended with an unanswered message."
)
PENDING = Recovery(True, "restart_interrupted", 3 * TICK, 1)


def test_nothing_has_happened_when_there_is_no_turn() -> None:
    assert explain(Situation(SessionState.OPEN, NOTHING, []), 0) == ["Nothing has happened here yet."]


def test_finished_turn_is_told_as_done() -> None:
    view = told(began(), claimed(), saying(), Finished("All done."))
    assert explain(Situation(SessionState.OPEN, NOTHING, [view]), 0) == [
        "The last turn is done (attempt 1).",
        "It was never cut off.",
        "Nothing is marked to be resumed.",
    ]


def test_turn_that_was_taken_back_is_told_as_such() -> None:
    view = told(began(), claimed(), saying(), Finished("All done."), Undone("ada"))
    lines = explain(Situation(SessionState.OPEN, NOTHING, [view]), 0)
    assert lines[2] == "It was taken back since: the model does not see it any more."


@pytest.mark.parametrize(
    ("choice", "rule", "next_"),
    [
        (Choice.RESUME, Rule.RESUME, GOES_ON),
        (Choice.ASK_USER, Rule.ASK, NEXT[Choice.ASK_USER]),
        (Choice.WAIT_FOR_PLATFORM, Rule.NOT_CONNECTED, NEXT[Choice.WAIT_FOR_PLATFORM]),
        (Choice.SKIP, Rule.STALE, LEFT),
        (Choice.SKIP, Rule.OFF, STAYS),
        ("act_of_god", "of another version", STAYS),
    ],
)
def test_every_decision_is_told_with_its_rule_and_what_comes_next(choice: str, rule: str, next_: str) -> None:
    view = told(began(), claimed(), cut_off(), Decided(choice, "so it is", rule=rule))
    lines = explain(Situation(SessionState.OPEN, PENDING, [view]), 63 * TICK)
    assert lines == [
        "The last turn was cut off (attempt 1).",
        FOUND,
        f"Rule: {rule}: so it is.",
        f"Next: {next_}",
        "The session is marked to be resumed (restart_interrupted).",
    ]


@pytest.mark.parametrize(
    ("choice", "end", "then"),
    [
        pytest.param(Choice.RESUME, Finished("x"), "it went on from where it was, and finished.", id="resumed"),
        pytest.param(
            Choice.DELIVER, Finished("x"), "its answer was delivered; nothing was run again.", id="delivered"
        ),
        pytest.param(Choice.RESUME, Failed("no credit"), "it failed: no credit", id="failed"),
        *(pytest.param(Choice.SKIP, Cancelled(why), ENDINGS[why], id=why) for why in Why),
        pytest.param(Choice.SKIP, Cancelled("eaten"), "it was ended (eaten).", id="of another version"),
    ],
)
def test_what_became_of_it_is_told_when_it_is_over(choice: Choice, end: Entry, then: str) -> None:
    view = told(began(), claimed(), cut_off(), Decided(choice, "so it is", rule="rule"), *again(), end)
    lines = explain(Situation(SessionState.OPEN, NOTHING, [view]), 63 * TICK)
    assert lines[1:4] == [FOUND, "Rule: rule: so it is.", f"Then: {then}"]
    assert not any("Next:" in line for line in lines)


def test_failure_is_told_though_it_was_never_cut_off() -> None:
    lines = explain(Situation(SessionState.OPEN, NOTHING, [told(began(), claimed(), Failed("no credit"))]), 0)
    assert lines[:3] == [
        "The last turn failed (attempt 1).",
        "It was never cut off.",
        "Then: it failed: no credit",
    ]


def test_what_is_owed_and_what_waits_is_told() -> None:
    view = told(began(), claimed(), cut_off(), *again(), cut_off())
    lines = explain(Situation(SessionState.SUSPENDED, PENDING, [view], owed=1, waiting=2), 0)
    assert lines[0] == "The session is suspended."
    assert "cut off 2 times, the last time 0 s ago, by" in lines[2]
    assert lines[3] == "Next: a decision is made once its platform is connected."
    assert lines[-3:] == [
        "Its mark (restart_interrupted) stays, but nothing goes on by itself.",
        "1 message is owed to the chat and not confirmed yet.",
        "2 messages are waiting for their turn.",
    ]


@pytest.mark.parametrize(
    ("milliseconds", "words"),
    [
        (-5, "0 s"),
        (0, "0 s"),
        (59_999, "59 s"),
        (119_000, "119 s"),
        (120_000, "2 min"),
        (7_200_000, "2 h"),
        (200_000_000, "2 d"),
    ],
)
def test_age_is_told_in_the_largest_unit_that_fits_twice(milliseconds: int, words: str) -> None:
    assert ago(milliseconds) == words

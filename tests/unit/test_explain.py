"""Recovery in plain words."""

from __future__ import annotations

import pytest

from perdure.core.explain import NEXT, Situation, ago, explain
from perdure.core.journal import Decided, Finished
from perdure.core.recovery import Choice, Rule
from perdure.core.session import Recovery, SessionState
from support.journals import TICK, again, began, claimed, cut_off, saying, told

NOTHING = Recovery()
FOUND = (
    "Found: cut off once, last by a gateway interruption (restart_interrupted), 60 s ago; "
    "it ends with an unanswered message."
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


@pytest.mark.parametrize("choice", list(Choice))
def test_every_decision_is_told_with_its_rule_and_what_comes_next(choice: Choice) -> None:
    view = told(began(), claimed(), cut_off(), Decided(choice, "it is stale", rule=Rule.STALE))
    lines = explain(Situation(SessionState.OPEN, PENDING, [view]), 63 * TICK)
    assert lines == [
        "The last turn was cut off (attempt 1).",
        FOUND,
        "Rule: stale: it is stale.",
        f"Next: {NEXT[choice]}",
        "The session is marked to be resumed (restart_interrupted).",
    ]


def test_what_is_owed_and_what_waits_is_told() -> None:
    view = told(began(), claimed(), cut_off(), *again(), cut_off())
    lines = explain(Situation(SessionState.SUSPENDED, PENDING, [view], owed=1, waiting=2), 0)
    assert lines[0] == "The session is suspended."
    assert "cut off 2 times" in lines[2]
    assert lines[3] == "No decision has been made since."
    assert lines[-2:] == [
        "1 message is owed to the chat, not confirmed yet.",
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

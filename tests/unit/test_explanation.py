"""Recovery in plain words.

Drives `core/texts/explanation`.
"""

from __future__ import annotations

import pytest

from perdure.core import texts
from perdure.core.journal import Entry, RecoveryDecided, TurnCancelled, TurnFailed, TurnFinished, TurnUndone
from perdure.core.recovery.decision import RecoveryChoice, RecoveryRule
from perdure.core.states import CancelReason, RecoveryState, SessionState
from perdure.core.texts.explanation import (
    CANCELLATIONS,
    NEXT_RESUMES,
    NEXT_STAYS,
    NEXT_STEPS,
    NEXT_SUPERSEDED,
    SessionSnapshot,
    explain_snapshot,
)
from support.journals import (
    TICK_MS,
    answer_with_text,
    began,
    claimed,
    interruption,
    requeue_and_claim,
    turn_view_of,
)

NOTHING = RecoveryState()
FOUND = (
    "Found: interrupted once, 60 s ago, by a gateway interruption (restart_interrupted); "
    "it ended with an unanswered message."
)
PENDING = RecoveryState(True, "restart_interrupted", 3 * TICK_MS, 1)


def test_nothing_has_happened_when_there_is_no_turn() -> None:
    assert explain_snapshot(SessionSnapshot(SessionState.OPEN, NOTHING, []), 0) == [
        "Nothing has happened here yet."
    ]


def test_finished_turn_is_told_as_done() -> None:
    view = turn_view_of(began(), claimed(), answer_with_text(), TurnFinished("All done."))
    assert explain_snapshot(SessionSnapshot(SessionState.OPEN, NOTHING, [view]), 0) == [
        "The last turn is done (attempt 1).",
        "It was never interrupted.",
        "Nothing is marked to be resumed.",
    ]


def test_turn_that_was_taken_back_is_told_as_such() -> None:
    view = turn_view_of(began(), claimed(), answer_with_text(), TurnFinished("All done."), TurnUndone("ada"))
    lines = explain_snapshot(SessionSnapshot(SessionState.OPEN, NOTHING, [view]), 0)
    assert lines[2] == "It was taken back since: the model does not see it any more."


@pytest.mark.parametrize(
    ("choice", "rule", "next_"),
    [
        (RecoveryChoice.RESUME, RecoveryRule.RESUME, NEXT_RESUMES),
        (RecoveryChoice.ASK_USER, RecoveryRule.ASK, NEXT_STEPS[RecoveryChoice.ASK_USER]),
        (
            RecoveryChoice.WAIT_FOR_PLATFORM,
            RecoveryRule.NOT_CONNECTED,
            NEXT_STEPS[RecoveryChoice.WAIT_FOR_PLATFORM],
        ),
        (RecoveryChoice.SKIP, RecoveryRule.STALE, NEXT_SUPERSEDED),
        (RecoveryChoice.SKIP, RecoveryRule.OFF, NEXT_STAYS),
        ("act_of_god", "of another version", NEXT_STAYS),
    ],
)
def test_every_decision_is_told_with_its_rule_and_what_comes_next(choice: str, rule: str, next_: str) -> None:
    view = turn_view_of(began(), claimed(), interruption(), RecoveryDecided(choice, "so it is", rule=rule))
    lines = explain_snapshot(SessionSnapshot(SessionState.OPEN, PENDING, [view]), 63 * TICK_MS)
    assert lines == [
        "The last turn was interrupted (attempt 1).",
        FOUND,
        f"Rule: {rule}: so it is.",
        f"Next: {next_}",
        "The session is marked to be resumed (restart_interrupted).",
    ]


@pytest.mark.parametrize(
    ("choice", "end", "then"),
    [
        pytest.param(
            RecoveryChoice.RESUME, TurnFinished("x"), "it went on from where it was, and finished.", id="resumed"
        ),
        pytest.param(
            RecoveryChoice.DELIVER,
            TurnFinished("x"),
            "its answer was delivered; nothing was run again.",
            id="delivered",
        ),
        pytest.param(RecoveryChoice.RESUME, TurnFailed("no credit"), "it failed: no credit", id="failed"),
        *(
            pytest.param(RecoveryChoice.SKIP, TurnCancelled(why), CANCELLATIONS[why], id=why)
            for why in CancelReason
        ),
        pytest.param(
            RecoveryChoice.SKIP, TurnCancelled("eaten"), "it was ended (eaten).", id="of another version"
        ),
    ],
)
def test_what_became_of_it_is_told_when_it_is_over(choice: RecoveryChoice, end: Entry, then: str) -> None:
    view = turn_view_of(
        began(),
        claimed(),
        interruption(),
        RecoveryDecided(choice, "so it is", rule="rule"),
        *requeue_and_claim(),
        end,
    )
    lines = explain_snapshot(SessionSnapshot(SessionState.OPEN, NOTHING, [view]), 63 * TICK_MS)
    assert lines[1:4] == [FOUND, "Rule: rule: so it is.", f"Then: {then}"]
    assert not any("Next:" in line for line in lines)


def test_failure_is_told_though_it_was_never_cut_off() -> None:
    lines = explain_snapshot(
        SessionSnapshot(SessionState.OPEN, NOTHING, [turn_view_of(began(), claimed(), TurnFailed("no credit"))]), 0
    )
    assert lines[:3] == [
        "The last turn failed (attempt 1).",
        "It was never interrupted.",
        "Then: it failed: no credit",
    ]


def test_what_is_owed_and_what_waits_is_told() -> None:
    view = turn_view_of(began(), claimed(), interruption(), *requeue_and_claim(), interruption())
    lines = explain_snapshot(
        SessionSnapshot(SessionState.SUSPENDED, PENDING, [view], unconfirmed_replies=1, waiting_messages=2), 0
    )
    assert lines[0] == "The session is suspended."
    assert "interrupted 2 times, the last time 0 s ago, by" in lines[2]
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
    assert texts.phrases.duration(milliseconds) == words

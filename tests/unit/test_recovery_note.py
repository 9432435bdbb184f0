"""Which note the model gets, and that it is one at most (B47, B49).

Drives `core/recovery/note`.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from perdure.core import texts
from perdure.core.effects import Effect
from perdure.core.journal import (
    Entry,
    JournalRecord,
    QuestionAnswered,
    QuestionAsked,
    RecoveryNoted,
    ToolOutcome,
    TurnCancelled,
    TurnFailed,
    TurnFinished,
    TurnView,
    fold,
)
from perdure.core.recovery.decision import InterruptionReason
from perdure.core.recovery.note import LATE_REPLY_MS, note_for_model
from perdure.core.states import CancelReason
from support.journals import (
    ADA,
    answer_with_calls,
    answer_with_text,
    began,
    claimed,
    ended,
    interruption,
    joined,
    journal_records,
    requeue_and_claim,
    started,
    turn_view_of,
)

HOUR = 3_600_000
DONE = turn_view_of(began(), claimed(), answer_with_text(), TurnFinished("All done."))


def note_of(view: TurnView, history: list[TurnView], *, now: int = 0) -> str | None:
    """The note that is due, where recovery goes back one hour."""
    return note_for_model(view, history, now, HOUR)


@pytest.mark.parametrize(
    ("reason", "cause"),
    [
        (InterruptionReason.RESTART_TIMEOUT, "a gateway restart"),
        (InterruptionReason.SHUTDOWN_TIMEOUT, "a gateway shutdown"),
        (InterruptionReason.RESTART_INTERRUPTED, "a gateway interruption"),
        (InterruptionReason.LEASE_LOST, "a gateway interruption"),
    ],
)
def test_b47_note_names_the_cause_when_the_turn_was_cut_off(reason: str, cause: str) -> None:
    note = note_of(turn_view_of(began(), claimed(), interruption(reason), *requeue_and_claim()), [])
    assert note is not None
    assert f"cut off by {cause}" in note


def test_b47_note_is_given_once() -> None:
    assert (
        note_of(
            turn_view_of(began(), claimed(), interruption(), *requeue_and_claim(), RecoveryNoted("[note]")), []
        )
        is None
    )


def test_b47_note_tells_what_is_known_of_the_steps_that_were_cut_off() -> None:
    calls = answer_with_calls("c1", "c2", "c3")
    steps = (started("c1", Effect.ONCE), started("c2"), started("c3"), ended("c3"))
    note = note_of(turn_view_of(began(), claimed(), calls, *steps, interruption(), *requeue_and_claim()), []) or ""
    assert "look(at='c1') was cut off: its outcome is unknown" in note
    assert "look(at='c2') was cut off and is run again" in note
    assert "c3" not in note


def test_b49_note_asks_for_both_when_a_message_joined() -> None:
    note = (
        note_of(turn_view_of(began(), claimed(), interruption(), *requeue_and_claim(), joined("and this")), [])
        or ""
    )
    assert "finish what was begun, then answer that too" in note


def test_b49_note_says_that_old_work_was_left_when_it_was_superseded() -> None:
    before = turn_view_of(
        began(),
        claimed(),
        answer_with_calls("c1"),
        started("c1", Effect.ONCE),
        interruption(),
        TurnCancelled(CancelReason.SUPERSEDED),
    )
    note = note_of(turn_view_of(began("new"), claimed()), [before]) or ""
    assert "left unfinished" in note
    assert "look(at='c1')" in note


def test_b11_note_is_kept_for_the_next_message_when_the_resumed_turn_failed() -> None:
    before = turn_view_of(began(), claimed(), interruption(), *requeue_and_claim(), TurnFailed("no credit"))
    assert "a gateway interruption" in (note_of(turn_view_of(began(), claimed()), [before]) or "")


def test_b47_tool_result_note_is_used_when_nothing_was_interrupted() -> None:
    before = turn_view_of(
        began(), claimed(), answer_with_calls("c1"), started("c1"), ended("c1"), TurnFailed("no credit")
    )
    assert note_of(turn_view_of(began(), claimed()), [before]) == texts.recovery.UNANSWERED_RESULTS


@pytest.mark.parametrize(
    ("age", "note"),
    [
        pytest.param(HOUR, texts.recovery.UNANSWERED_RESULTS, id="as old as a turn that goes on by itself"),
        pytest.param(HOUR + 1, None, id="older"),
        pytest.param(-HOUR, texts.recovery.UNANSWERED_RESULTS, id="in the future, when the clock was wrong"),
    ],
)
def test_b43_b47_tool_result_note_is_given_while_the_result_is_fresh(age: int, note: str | None) -> None:
    """The end of the turn is ours, and does not make its result younger."""
    before = turn_view_of(
        began(), claimed(), answer_with_calls("c1"), started("c1"), ended("c1"), TurnFailed("no credit")
    )
    assert note_of(turn_view_of(began(), claimed()), [before], now=before.content[-1].at + age) == note


@pytest.mark.parametrize(
    "end", [TurnCancelled(CancelReason.STOPPED), TurnCancelled(CancelReason.DROPPED), TurnFailed("hung")]
)
def test_b44_b47_result_that_we_wrote_at_the_end_of_a_turn_is_no_tool_result(
    end: TurnCancelled | TurnFailed,
) -> None:
    calls = (answer_with_calls("c1", "c2"), started("c1"), started("c2"), ended("c1"), ended("c2", "cancelled"))
    assert note_of(turn_view_of(began(), claimed()), [turn_view_of(began(), claimed(), *calls, end)]) is None


# ── only what is so ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("facts", "finished"),
    [
        pytest.param((), False, id="the model was not asked"),
        pytest.param((answer_with_text(finish="length"),), False, id="a response was cut off"),
        pytest.param((answer_with_calls("c1"), started("c1")), False, id="the first step was cut off"),
        pytest.param(
            (answer_with_calls("c1"), started("c1"), ended("c1", "unknown")), False, id="nobody knows its outcome"
        ),
        pytest.param((answer_with_calls("c1"), started("c1"), ended("c1")), True, id="a step has a result"),
        pytest.param((answer_with_calls("c1"), started("c1"), ended("c1", "error")), True, id="a step has failed"),
    ],
)
@pytest.mark.parametrize("failed", [False, True], ids=["goes on", "failed"])
def test_b46_b47_note_speaks_of_finished_steps_only_when_there_are_some(
    facts: tuple[Entry, ...], finished: bool, failed: bool
) -> None:
    cut = (began(), claimed(), *facts, interruption(), *requeue_and_claim())
    after = note_of(turn_view_of(began(), claimed()), [turn_view_of(*cut, TurnFailed("no credit"))])
    note = (after if failed else note_of(turn_view_of(*cut), [])) or ""
    assert (texts.recovery.NOTE_FINISHED_STEPS in note) is finished
    assert (texts.recovery.NOTE_FIRST_LINE in note) is (finished and not failed)
    assert (texts.recovery.NOTE_CARRY_ON in note) is not failed


@pytest.mark.parametrize(
    ("effect", "outcome", "said"),
    [
        (Effect.PURE, None, texts.recovery.call_run_again),
        (Effect.KEYED, None, texts.recovery.call_run_again),
        (Effect.ATTACHED, None, texts.recovery.call_still_running),
        (Effect.ONCE, None, texts.recovery.call_in_doubt),
        (Effect.PURE, "cancelled", texts.recovery.call_not_run_again),
        (Effect.ATTACHED, "cancelled", texts.recovery.call_in_doubt),
        (Effect.ONCE, "cancelled", texts.recovery.call_in_doubt),
        (Effect.PURE, "unknown", texts.recovery.call_in_doubt),
        (Effect.ATTACHED, "unknown", texts.recovery.call_in_doubt),
        (Effect.ONCE, "unknown", texts.recovery.call_in_doubt),
    ],
)
def test_b47_note_offers_no_repetition_of_what_may_have_run(
    effect: Effect, outcome: ToolOutcome | None, said: Callable[[str], str]
) -> None:
    end = (ended("c1", outcome),) if outcome else ()
    view = turn_view_of(
        began(),
        claimed(),
        answer_with_calls("c1"),
        started("c1", effect),
        *end,
        interruption(),
        *requeue_and_claim(),
    )
    assert said("look(at='c1')") in (note_of(view, []) or "")


# ── replies that come late ──────────────────────────────────────────────────────────────────────────────────


def replied(age: int, *behind: Entry) -> TurnView:
    """A turn whose question was answered so many milliseconds after it was asked."""
    asked = journal_records(began(), claimed(), QuestionAsked("q1", "Which?"))
    later = (QuestionAnswered("q1", "a", ADA), claimed(2), *behind)
    return fold([*asked, *(JournalRecord(seq, asked[-1].at + age, entry) for seq, entry in enumerate(later, 4))])


@pytest.mark.parametrize(("age", "late"), [(0, False), (-HOUR, False), (LATE_REPLY_MS, False), (2 * HOUR, True)])
def test_b67_reply_is_told_as_late_when_its_question_is_old(age: int, late: bool) -> None:
    assert note_of(replied(age), []) == (texts.recovery.late_answer(age) if late else None)
    assert not late or "2 h after the question" in texts.recovery.late_answer(age)


def test_b67_late_reply_is_told_once() -> None:
    assert note_of(replied(2 * HOUR, RecoveryNoted("[note]")), []) is None
    assert note_of(replied(2 * HOUR, answer_with_calls("c1"), started("c1"), ended("c1")), []) is None


def test_b47_b67_recovery_note_says_that_the_reply_is_late_until_a_model_has_heard_it() -> None:
    unheard = note_of(replied(2 * HOUR, RecoveryNoted("[note]"), interruption(), *requeue_and_claim(3)), []) or ""
    assert "a gateway interruption" in unheard
    assert texts.recovery.late_answer_sentence(2 * HOUR) in unheard
    heard = (
        note_of(
            replied(2 * HOUR, answer_with_calls("c1"), started("c1"), interruption(), *requeue_and_claim(3)), []
        )
        or ""
    )
    assert "a gateway interruption" in heard
    assert texts.recovery.late_answer_sentence(2 * HOUR) not in heard


# ── nothing to tell ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "before",
    [
        pytest.param([], id="the first turn"),
        pytest.param([DONE], id="behind a finished turn"),
        pytest.param(
            [turn_view_of(began(), claimed(), TurnCancelled(CancelReason.STOPPED))], id="behind a stopped turn"
        ),
    ],
)
def test_b47_message_is_untouched_when_there_is_nothing_to_tell(before: list[TurnView]) -> None:
    assert note_of(turn_view_of(began(), claimed()), before) is None

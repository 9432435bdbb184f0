"""The journal: every entry reads back, and the fold tells what became of the turn.

Drives `core/journal` and `core/entries`.
"""

from __future__ import annotations

import msgspec
import pytest

from perdure.core.effects import Effect
from perdure.core.journal import (
    ENTRY_TYPES,
    Cause,
    ConversationCompacted,
    Entry,
    JournalRecord,
    MessagesJoined,
    MessagesReturned,
    ModelAnswered,
    ModelAsked,
    ModelFailed,
    QuestionAnswered,
    QuestionAsked,
    RecoveryDecided,
    RecoveryNoted,
    TokenUsage,
    ToolCall,
    ToolEnded,
    ToolStarted,
    TurnBegan,
    TurnCancelled,
    TurnClaimed,
    TurnFailed,
    TurnFinished,
    TurnInterrupted,
    TurnRequeued,
    TurnUndone,
    TurnView,
    decode_entry,
    encode_entry,
    fold,
)
from perdure.core.messages import Attachment, Sender
from perdure.core.states import TurnMove, TurnState
from perdure.errors import IllegalMove, NewerEntry
from support.journals import (
    ADA,
    answer_with_calls,
    answer_with_text,
    began,
    cause,
    claimed,
    ended,
    interruption,
    joined,
    journal_records,
    requeue_and_claim,
    started,
    turn_view_of,
)

FULL = Cause("in_1", "hé\n", Sender("1", "Ada"), "m1", 99, (Attachment("a.png", "ref", "image/png", 3),))
SAMPLES: dict[str, Entry] = {
    "began": TurnBegan((FULL,)),
    "joined": MessagesJoined((FULL, FULL)),
    "returned": MessagesReturned(("in_1", "in_2")),
    "model_asked": ModelAsked(1, "offline"),
    "model_failed": ModelFailed(1, "m", 2, "Slow down.", 429, 2000, broke_off=True),
    "model_answered": ModelAnswered(
        2, "hm", (ToolCall("c1", "look", {"deep": [1, {"x": None}]}),), "stop", TokenUsage(3, 4)
    ),
    "tool_started": ToolStarted("c1", "look", Effect.KEYED, "t1:c1"),
    "compacted": ConversationCompacted(7, "in short", TokenUsage(1, 2)),
    "tool_ended": ToolEnded("c1", "unknown", "who knows"),
    "asked": QuestionAsked("q1", "Which?", ("a", "b")),
    "answered": QuestionAnswered("q1", "a", ADA),
    "claimed": TurnClaimed("r1", 3, 2),
    "interrupted": TurnInterrupted("restart_timeout", "r1"),
    "decided": RecoveryDecided("skip", "it is old", evidence={"age_ms": 5, "reason": None}, rule="stale"),
    "requeued": TurnRequeued(),
    "noted": RecoveryNoted("[a note]"),
    "finished": TurnFinished("bye"),
    "failed": TurnFailed("no"),
    "cancelled": TurnCancelled("stopped"),
    "undone": TurnUndone("1"),
}
CONTENT = {"began", "joined", "model_answered", "tool_started", "tool_ended", "asked", "answered"}


# ── entries ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_words_of_the_entries_stay_as_databases_have_them() -> None:
    """B65: a kind that changed its word could not be read by the next version."""
    assert set(ENTRY_TYPES) == set(SAMPLES)


@pytest.mark.parametrize("kind", SAMPLES)
def test_entry_reads_back_as_it_was_written(kind: str) -> None:
    entry = SAMPLES[kind]
    assert entry.kind == kind
    assert decode_entry(kind, entry.version, encode_entry(entry)) == entry
    assert decode_entry(kind, entry.version, encode_entry(entry).encode()) == entry


def test_entry_reads_back_when_an_older_body_lacks_what_came_later() -> None:
    """B65: what has a default may be missing."""
    assert decode_entry("interrupted", 1, '{"reason":"lease_lost"}') == TurnInterrupted("lease_lost")
    assert decode_entry("model_answered", 1, '{"step":1,"text":"x"}') == ModelAnswered(1, "x")


def test_entry_reads_back_when_its_body_says_more_than_is_known() -> None:
    assert decode_entry("finished", 1, '{"text":"bye","mood":"fine"}') == TurnFinished("bye")


def test_body_is_refused_when_it_has_the_wrong_shape() -> None:
    with pytest.raises(msgspec.ValidationError, match="text"):
        decode_entry("finished", 1, '{"text":3}')


@pytest.mark.parametrize(
    ("kind", "version"),
    [pytest.param("finished", 2, id="a newer version"), pytest.param("sang", 1, id="a kind nobody knows")],
)
def test_entry_of_a_newer_program_is_refused_with_a_hint(kind: str, version: int) -> None:
    with pytest.raises(NewerEntry) as caught:
        decode_entry(kind, version, "{}")
    assert f"{kind!r} of version {version}" in caught.value.message
    assert "newer Perdure" in caught.value.hint


def test_every_move_is_recorded_by_the_entry_of_its_name() -> None:
    moving = {kind: entry.move for kind, entry in ENTRY_TYPES.items() if entry.move is not None}
    assert moving == {move.value: move for move in TurnMove}


@pytest.mark.parametrize("kind", SAMPLES)
def test_content_is_what_people_models_and_tools_did(kind: str) -> None:
    assert SAMPLES[kind].is_content == (kind in CONTENT)


def test_beginning_is_no_content_when_it_has_no_cause() -> None:
    assert not TurnBegan(()).is_content


def test_facts_that_come_late_are_results_decisions_and_what_goes_with_them() -> None:
    assert {kind for kind, entry in ENTRY_TYPES.items() if entry.late} == {"tool_ended", "decided", "returned"}


# ── the fold ────────────────────────────────────────────────────────────────────────────────────────────────


def test_turn_without_records_is_queued_and_empty() -> None:
    assert fold([]) == TurnView()
    assert (fold([]).state, fold([]).attempt, fold([]).last_interruption) == (TurnState.QUEUED, 0, None)


def test_turn_knows_its_causes_in_order_when_messages_join() -> None:
    view = turn_view_of(began("one", "two"), claimed(), joined("three"))
    assert [cause.text for cause in view.causes] == ["one", "two", "three"]


def test_turn_counts_its_attempts_and_keeps_its_records() -> None:
    records = journal_records(began(), claimed(), interruption(), *requeue_and_claim())
    view = fold(records)
    assert (view.state, view.attempt) == (TurnState.RUNNING, 2)
    assert view.records == records
    assert view.content == records[:1]


def test_view_is_the_same_when_records_are_applied_one_by_one() -> None:
    records = journal_records(
        began(),
        claimed(),
        answer_with_calls("a", "b"),
        started("a"),
        ended("a"),
        interruption(),
        *requeue_and_claim(),
    )
    view = TurnView()
    for record in records:
        view.apply(record)
    assert view == fold(records)


def test_fold_refuses_a_journal_with_an_illegal_move() -> None:
    with pytest.raises(IllegalMove, match="a turn that is done cannot be claimed"):
        turn_view_of(began(), claimed(), TurnFinished("bye"), claimed(2))


def test_open_calls_are_those_without_result_in_the_order_of_the_wish() -> None:
    view = turn_view_of(
        began(), claimed(), answer_with_calls("a", "b", "c"), started("c"), started("b"), ended("b")
    )
    assert [call.request.id for call in view.open_calls] == ["a", "c"]
    assert [call.started is not None for call in view.open_calls] == [False, True]


def test_late_result_closes_its_call_when_the_turn_is_interrupted() -> None:
    view = turn_view_of(began(), claimed(), answer_with_calls("a"), started("a"), interruption(), ended("a"))
    assert (view.state, view.open_calls) == (TurnState.INTERRUPTED, [])


def test_question_is_open_until_it_is_answered() -> None:
    asked, answered = QuestionAsked("q1", "Which?"), QuestionAnswered("q1", "this", ADA)
    waiting = turn_view_of(began(), claimed(), asked)
    assert (waiting.state, waiting.question, waiting.answer) == (TurnState.WAITING, asked, None)
    queued = turn_view_of(began(), claimed(), asked, answered)
    assert (queued.state, queued.question, queued.answer) == (TurnState.QUEUED, asked, answered)
    once_more = turn_view_of(began(), claimed(), asked, answered, claimed(2), QuestionAsked("q2", "And?"))
    assert (once_more.question, once_more.answer) == (QuestionAsked("q2", "And?"), None)


def test_tokens_are_the_sum_of_all_responses_when_some_were_cut_off() -> None:
    """B56: what a model call cost counts, whatever came of it."""
    view = turn_view_of(
        began(),
        claimed(),
        answer_with_text("long", finish="length"),
        answer_with_calls("a", step=2),
        interruption(),
        ended("a"),
    )
    assert view.tokens == 30


@pytest.mark.parametrize(
    ("ending", "state"),
    [
        (TurnFinished("bye"), TurnState.DONE),
        (TurnFailed("no"), TurnState.FAILED),
        (TurnCancelled("stopped"), TurnState.CANCELLED),
    ],
)
def test_turn_knows_its_end(ending: Entry, state: TurnState) -> None:
    view = turn_view_of(began(), claimed(), ending)
    assert (view.ended, view.state) == (ending, state)


def test_newest_content_belongs_to_the_run_that_wrote_it() -> None:
    """B43: attempts that add nothing leave the sign of life where it was."""
    before = (began(), claimed(1, "r1"), answer_with_calls("a"), interruption())
    idle = turn_view_of(
        *before, *requeue_and_claim(2, "r2"), RecoveryNoted("[note]"), ModelAsked(2, "m"), interruption(run="r2")
    )
    assert idle.content_run == "r1"
    assert idle.content[-1].seq == 3
    busy = turn_view_of(*before, *requeue_and_claim(2, "r2"), ended("a"))
    assert (busy.content_run, busy.content[-1].seq) == ("r2", 7)


def test_decision_is_about_the_newest_interruption_only() -> None:
    skip = RecoveryDecided("skip", "stale")
    assert turn_view_of(began(), claimed(), interruption(), skip).last_decision == skip
    assert (
        turn_view_of(
            began(),
            claimed(),
            interruption(),
            RecoveryDecided("resume", "why"),
            *requeue_and_claim(),
            interruption(),
        ).last_decision
        is None
    )


# ── interruptions ───────────────────────────────────────────────────────────────────────────────────────────


def attempts(*between: tuple[Entry, ...]) -> TurnView:
    """A turn whose attempts were all cut off, each after these facts."""
    entries: list[Entry] = [began(), claimed()]
    for number, facts in enumerate(between, 2):
        entries += [*facts, interruption(), *requeue_and_claim(number)]
    return turn_view_of(*entries[:-2])


STEP = (answer_with_calls("a"),)
NOTHING = (ModelAsked(1, "m"),)


@pytest.mark.parametrize(
    ("between", "counted"),
    [
        pytest.param([STEP], 1, id="once, after a step"),
        pytest.param([NOTHING], 1, id="once, after nothing"),
        pytest.param([NOTHING] * 3, 3, id="three times after nothing"),
        pytest.param([STEP, NOTHING, NOTHING], 3, id="a step, then twice nothing"),
        pytest.param([NOTHING, NOTHING, STEP], 1, id="twice nothing, then a step"),
        pytest.param([NOTHING, STEP, NOTHING], 2, id="a step between"),
        pytest.param([STEP, (ended("a"),)], 1, id="a result is progress"),
        pytest.param([STEP, (started("a"),)], 2, id="an intent is no progress"),
        pytest.param([STEP, (joined("hurry"),)], 2, id="a message that joins is no progress"),
        pytest.param([STEP, (RecoveryNoted("[note]"), *NOTHING)], 2, id="our own note is no progress"),
    ],
)
def test_interruptions_without_progress_are_counted_from_the_newest(
    between: list[tuple[Entry, ...]], counted: int
) -> None:
    """B52: progress is a newly finished step."""
    view = attempts(*between)
    assert view.without_progress == counted
    assert len(view.interruptions) == len(between)


def test_result_that_came_late_is_progress_for_the_next_interruption() -> None:
    view = turn_view_of(
        began(),
        claimed(),
        answer_with_calls("a"),
        started("a"),
        interruption(),
        ended("a"),
        *requeue_and_claim(),
        interruption(),
    )
    assert [found.progress for found in view.interruptions] == [True, True]


def test_interruption_knows_its_reason_its_time_and_its_place() -> None:
    last = turn_view_of(began(), claimed(), TurnInterrupted("lease_lost", "r1", position=7)).last_interruption
    assert last is not None
    assert (last.reason, last.at, last.seq, last.progress) == ("lease_lost", 3_000, 3, False)
    assert last.position == 7


def test_note_is_due_until_the_model_was_told() -> None:
    """B47: one note for an interruption, and one more for the next."""
    assert turn_view_of(began(), claimed()).unreported_interruption() is None
    first = (began(), claimed(), interruption("restart_timeout"), *requeue_and_claim())
    due = turn_view_of(*first).unreported_interruption()
    assert due is not None
    assert due.reason == "restart_timeout"
    assert turn_view_of(*first, RecoveryNoted("[note]")).unreported_interruption() is None
    second = turn_view_of(
        *first, RecoveryNoted("[note]"), interruption("lease_lost"), *requeue_and_claim(3)
    ).unreported_interruption()
    assert second is not None
    assert second.reason == "lease_lost"


def test_order_is_by_sequence_when_the_clock_goes_back() -> None:
    """B43: order is by sequence, never by time."""
    entries = (began(), claimed(), interruption(), *requeue_and_claim(), RecoveryNoted("[note]"))
    view = fold(JournalRecord(seq, 10_000 - seq, entry) for seq, entry in enumerate(entries, 1))
    assert view.unreported_interruption() is None
    assert view.last_interruption is not None
    assert view.last_interruption.at == 9_997


def test_causes_keep_what_the_reply_needs() -> None:
    """B79: the reply is attached to the newest message it answers."""
    view = turn_view_of(
        TurnBegan((cause("one", message="41"),)), claimed(), MessagesJoined((cause("two", message="42"),))
    )
    assert view.causes[-1].message == "42"

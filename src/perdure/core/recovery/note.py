"""The gateway's note to the model before its next answer: at most one."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from perdure.core import texts
from perdure.core.effects import REMEDIES, Remedy
from perdure.core.journal import (
    CallProgress,
    MessagesJoined,
    ModelAnswered,
    QuestionAnswered,
    QuestionAsked,
    RecoveryNoted,
    TurnCancelled,
    TurnFailed,
    TurnView,
)
from perdure.core.recovery.decision import Tail, tail_of
from perdure.core.states import CancelReason

LATE_REPLY_MS = 3_600_000  # a reply that comes later than this after its question gets a note


def note_for_model(view: TurnView, history: Sequence[TurnView], now: int, freshness_ms: int) -> str | None:
    """The note that is due now, if any. A note about an interruption takes the place of every other."""
    last, late = view.unreported_interruption(), _late_reply(view)
    if last is not None:
        late_words = texts.recovery.late_answer_sentence(late.age) if late else ""
        return texts.recovery.note_resumed(
            last.reason,
            _describe_doubtful_calls(view),
            finished=_has_finished_step(view),
            joined=_has_joined_messages(view),
            late=late_words,
        )
    noted = max((record.seq for record in view.records if isinstance(record.entry, RecoveryNoted)), default=0)
    if late is not None and noted < late.seq:
        return texts.recovery.late_answer(late.age)
    if not history or noted:
        return None
    fresh = _is_fresh(history[-1], now, freshness_ms)
    return _note_about_previous(history[-1], written=any(not cause.wish for cause in view.causes), fresh=fresh)


class _LateReply(Struct, frozen=True):
    seq: int
    age: int  # milliseconds between the question and the reply


def _late_reply(view: TurnView) -> _LateReply | None:
    """The person's reply that no model has read yet, if it came long after its question was first asked."""
    asked: dict[str, int] = {}
    late = None
    for record in view.records:
        match record.entry:
            case QuestionAsked(question=question):
                asked.setdefault(question, record.at)
            case QuestionAnswered(question=question):
                age = record.at - asked.get(question, record.at)
                late = _LateReply(record.seq, age) if age > LATE_REPLY_MS else None
            case ModelAnswered():
                late = None
    return late


def _is_fresh(previous: TurnView, now: int, freshness_ms: int) -> bool:
    """Whether an ended turn is as recent as a turn that may resume by itself. 0 means at any age."""
    last = previous.content[-1].at if previous.content else 0
    return freshness_ms == 0 or now - last <= freshness_ms


def _has_joined_messages(view: TurnView) -> bool:
    """Whether a person has written since the turn began. It may have begun with several messages."""
    joined = (record.entry for record in view.records if isinstance(record.entry, MessagesJoined))
    return any(
        not cause.note and cause.inbox not in view.returned_messages for entry in joined for cause in entry.causes
    )


def _note_about_previous(previous: TurnView, *, written: bool, fresh: bool) -> str | None:
    """The note to a new turn about the turn before it; `written`: the new turn has a message of its own."""
    known, finished = _describe_doubtful_calls(previous), _has_finished_step(previous)
    match previous.ended:
        case TurnCancelled(why=CancelReason.SUPERSEDED | CancelReason.REPLACED):
            return texts.recovery.note_superseded(known)
        case TurnCancelled(why=CancelReason.SUSPENDED) if previous.last_interruption is not None:
            return texts.recovery.note_resumed(
                previous.last_interruption.reason, known, finished=finished, joined=written
            )
        case TurnFailed() if previous.last_interruption is not None:
            return texts.recovery.note_failed(previous.last_interruption.reason, known, finished=finished)
        case TurnCancelled() | TurnFailed() if fresh and tail_of(previous) is Tail.RESULT:
            return texts.recovery.UNANSWERED_RESULTS
        case _:
            return None


def _has_finished_step(view: TurnView) -> bool:
    """Whether a step of the turn has a result of its own."""
    return any(call.ended is not None and call.ended.outcome in ("ok", "error") for call in view.calls.values())


def _describe_doubtful_calls(view: TurnView) -> list[str]:
    """What is known of the calls that had begun before the interruption and have no result of their own."""
    return [_describe_call(call) for call in view.calls.values() if _is_in_doubt(call)]


def _is_in_doubt(call: CallProgress) -> bool:
    return call.started is not None and (call.ended is None or call.ended.outcome in ("unknown", "cancelled"))


def _describe_call(call: CallProgress) -> str:
    assert call.started is not None  # noqa: S101 reason: only calls in doubt come here
    text = texts.tool_calls.format_call(call.request.tool, call.request.arguments)
    remedy, outcome = REMEDIES[call.started.effect], call.ended.outcome if call.ended else None
    match remedy, outcome:
        case Remedy.REPEAT, None:
            return texts.recovery.call_run_again(text)
        case Remedy.REPEAT, "cancelled":
            return texts.recovery.call_not_run_again(text)
        case Remedy.ATTACH, None:
            return texts.recovery.call_still_running(text)
        case _:
            return texts.recovery.call_in_doubt(text)

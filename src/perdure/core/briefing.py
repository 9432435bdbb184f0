"""What the model must be told before its next answer: at most one note."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from perdure.core import notes
from perdure.core.effects import REMEDIES, Remedy
from perdure.core.journal import (
    Answered,
    Asked,
    Call,
    Cancelled,
    Failed,
    Joined,
    ModelAnswered,
    Noted,
    TurnView,
)
from perdure.core.session import Why
from perdure.core.tail import Tail, tail_of

LATE_REPLY_MS = 3_600_000  # a reply that comes later than this after its question is told as late


def briefing(view: TurnView, history: Sequence[TurnView], now: int, freshness_ms: int) -> str | None:
    """The note that is due now, if any. A note about an interruption takes the place of every other."""
    last, late = view.note_due(), _late_reply(view)
    if last is not None:
        late_words = notes.replied_late(late.age) if late else ""
        return notes.recovery_note(
            last.reason, _known(view), finished=_has_finished(view), joined=_joined(view), late=late_words
        )
    noted = max((record.seq for record in view.records if isinstance(record.entry, Noted)), default=0)
    if late is not None and noted < late.seq:
        return notes.late_reply(late.age)
    if not history or noted:
        return None
    fresh = _is_fresh(history[-1], now, freshness_ms)
    return _about_before(history[-1], written=any(not cause.wish for cause in view.causes), fresh=fresh)


class _LateReply(Struct, frozen=True):
    seq: int
    age: int  # milliseconds between the question and the reply


def _late_reply(view: TurnView) -> _LateReply | None:
    """The person's reply that no model has heard yet, if it came long after its question was first asked."""
    asked: dict[str, int] = {}
    late = None
    for record in view.records:
        match record.entry:
            case Asked(question=question):
                asked.setdefault(question, record.at)
            case Answered(question=question):
                age = record.at - asked.get(question, record.at)
                late = _LateReply(record.seq, age) if age > LATE_REPLY_MS else None
            case ModelAnswered():
                late = None
    return late


def _is_fresh(before: TurnView, now: int, freshness_ms: int) -> bool:
    """Whether a turn that has ended is as recent as one that may go on by itself. 0 means at any age."""
    last = before.content[-1].at if before.content else 0
    return freshness_ms == 0 or now - last <= freshness_ms


def _joined(view: TurnView) -> bool:
    """Whether a person has written since the turn began. It may have begun with several messages."""
    joined = (record.entry for record in view.records if isinstance(record.entry, Joined))
    return any(not cause.note and cause.inbox not in view.returned for entry in joined for cause in entry.causes)


def _about_before(before: TurnView, *, written: bool, fresh: bool) -> str | None:
    """What a new turn must know of the one before it; `written` says whether it has a message of its own."""
    known, finished = _known(before), _has_finished(before)
    match before.ended:
        case Cancelled(why=Why.SUPERSEDED | Why.REPLACED):
            return notes.superseded_note(known)
        case Cancelled(why=Why.SUSPENDED) if before.interrupted is not None:
            return notes.recovery_note(before.interrupted.reason, known, finished=finished, joined=written)
        case Failed() if before.interrupted is not None:
            return notes.failed_note(before.interrupted.reason, known, finished=finished)
        case Cancelled() | Failed() if fresh and tail_of(before) is Tail.RESULT:
            return notes.UNANSWERED_RESULTS
        case _:
            return None


def _has_finished(view: TurnView) -> bool:
    """Whether a step of the turn has a result of its own."""
    return any(call.ended is not None and call.ended.outcome in ("ok", "error") for call in view.calls.values())


def _known(view: TurnView) -> list[str]:
    """What is known of the calls that had begun when the turn was cut off and have no result of their own."""
    return [_about_call(call) for call in view.calls.values() if _in_doubt(call)]


def _in_doubt(call: Call) -> bool:
    return call.started is not None and (call.ended is None or call.ended.outcome in ("unknown", "cancelled"))


def _about_call(call: Call) -> str:
    assert call.started is not None  # noqa: S101 reason: only calls in doubt come here
    what = notes.call(call.request.tool, call.request.arguments)
    remedy, outcome = REMEDIES[call.started.effect], call.ended.outcome if call.ended else None
    match remedy, outcome:
        case Remedy.REPEAT, None:
            return notes.run_again(what)
        case Remedy.REPEAT, "cancelled":
            return notes.not_run_again(what)
        case Remedy.ATTACH, None:
            return notes.attached(what)
        case _:
            return notes.in_doubt(what)

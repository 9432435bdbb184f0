"""What the model must be told before its next answer: at most one note, about what was cut off."""

from __future__ import annotations

from collections.abc import Sequence

from perdure.core import notes
from perdure.core.effects import REMEDIES, Remedy
from perdure.core.journal import Call, Cancelled, Failed, Joined, Noted, TurnView
from perdure.core.session import Why
from perdure.core.tail import Tail, tail_of


def briefing(view: TurnView, history: Sequence[TurnView]) -> str | None:
    """The note that is due now, if any. A note about an interruption takes the place of every other."""
    last = view.note_due()
    if last is not None:
        return notes.recovery_note(last.reason, _known(view), joined=_joined(view))
    if not history or any(isinstance(record.entry, Noted) for record in view.records):
        return None
    return _about_before(history[-1], written=any(not cause.wish for cause in view.causes))


def _joined(view: TurnView) -> bool:
    """Whether a person has written since the turn began. It may have begun with several messages."""
    joined = (record.entry for record in view.records if isinstance(record.entry, Joined))
    return any(not cause.note and cause.inbox not in view.returned for entry in joined for cause in entry.causes)


def _about_before(before: TurnView, *, written: bool) -> str | None:
    """What a new turn must know of the one before it; `written` says whether it has a message of its own."""
    match before.ended:
        case Cancelled(why=Why.SUPERSEDED | Why.REPLACED):
            return notes.superseded_note(_known(before))
        case Cancelled(why=Why.SUSPENDED) if before.interrupted is not None:
            return notes.recovery_note(before.interrupted.reason, _known(before), joined=written)
        case Failed() if before.interrupted is not None:
            return notes.failed_note(before.interrupted.reason, _known(before))
        case Cancelled() | Failed() if tail_of(before) is Tail.RESULT:
            return notes.UNANSWERED_RESULTS
        case _:
            return None


def _known(view: TurnView) -> list[str]:
    """What is known of the calls that had begun when the turn was cut off and have no result of their own."""
    return [_about_call(call) for call in view.calls.values() if _in_doubt(call)]


def _in_doubt(call: Call) -> bool:
    return call.started is not None and (call.ended is None or call.ended.outcome in ("unknown", "cancelled"))


def _about_call(call: Call) -> str:
    assert call.started is not None  # noqa: S101 reason: only calls in doubt come here
    what = notes.call(call.request.tool, call.request.arguments)
    remedy = REMEDIES[call.started.effect]
    if remedy is Remedy.SAY_UNKNOWN:
        return notes.in_doubt(what)
    if remedy is Remedy.ATTACH and call.ended is None:
        return notes.attached(what)
    return notes.run_again(what) if call.ended is None else notes.not_run_again(what)

"""The mark of an imported session: told by its journal, or made part of it.

The recovery fields of a record are derived from its journal, so the journal is believed where they differ. A mark
that no journal tells of, as another program may have kept it, becomes an interrupted turn.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Raw
from msgspec.structs import replace

from perdure.core.delivery import Delivery
from perdure.core.exports import ExportedEntry, ExportedSession, ExportedTurn, read_time, time_text
from perdure.core.journal import (
    Began,
    Cancelled,
    Entry,
    Finished,
    Interrupted,
    Record,
    TurnView,
    decode,
    encode,
    fold,
)
from perdure.core.session import UNMARKING, Mark, Recovery, recovery_of
from perdure.core.turn import BEGUN, MOVES, Move, State
from perdure.errors import RecordRefused

NO_REASON = "unknown"  # of a mark that came without one; such a turn does not go on by itself


def settle_mark(session: ExportedSession) -> tuple[ExportedSession, list[str]]:
    """The session with its mark in its journal, and a warning for all that was said otherwise."""
    warnings = []
    unreadable = session.last_resume_marked_at is not None and read_time(session.last_resume_marked_at) is None
    if unreadable:
        warnings.append(".last_resume_marked_at: not a time, so it was dropped")
    if session.resume_pending and not told(session).resume_pending:
        if session.resume_reason is None:
            warnings.append(f".resume_reason: a mark without a reason, imported as {NO_REASON!r}")
            session = replace(session, resume_reason=NO_REASON)
        session = _marked(session, session.resume_reason or NO_REASON)
    elif session.resume_pending and unreadable:
        session = _undated(session)
    return session, [*warnings, *_differences(session)]


def told(session: ExportedSession) -> Recovery:
    """The recovery state that the session's journal tells of; nearly every journal has no mark."""
    if not any(line.kind == Interrupted.kind for turn in session.turns for line in turn.journal):
        return Recovery()
    views = [(turn, fold(records(turn))) for turn in session.turns]
    marks = [mark for _, view in views for mark in _marks(view)]
    unsent = {row.turn for row in session.outbox if row.state != Delivery.SENT}
    delivered = [
        _last(view, Finished) for turn, view in views if view.state is State.DONE and turn.id not in unsent
    ]
    return recovery_of(sorted(marks, key=lambda mark: mark.seq), max(delivered, default=0))


def records(turn: ExportedTurn) -> list[Record]:
    """The turn's journal, as the store reads it."""
    return [Record(line.seq, line.at, decode(line.kind, line.version, bytes(line.body))) for line in turn.journal]


def _marks(view: TurnView) -> Iterator[Mark]:
    why = view.ended.why if isinstance(view.ended, Cancelled) else None
    for record in view.records:
        if isinstance(record.entry, Interrupted):
            yield Mark(record.seq, record.at if record.entry.dated else None, record.entry.reason, why)


def _last(view: TurnView, kind: type[Entry]) -> int:
    return max((record.seq for record in view.records if isinstance(record.entry, kind)), default=0)


# ── making it part of the journal ───────────────────────────────────────────────────────────────────────────


def _marked(session: ExportedSession, reason: str) -> ExportedSession:
    """Interrupt the turn that is under way, or one made for the sake of the mark."""
    time = read_time(session.last_resume_marked_at)
    mark = Interrupted(reason, dated=time is not None)
    at = session.updated_at if time is None else time
    begun = next((turn for turn in session.turns if turn.state in BEGUN), None)
    if begun is None:
        return replace(session, turns=(*session.turns, _turn_for(session, mark, at)))
    if Move.INTERRUPTED not in MOVES[State(begun.state)]:
        raise RecordRefused(".resume_pending", f"expected false, as its turn is {begun.state}, got true")
    lines = _lines([mark], _next_seq(session), at)
    cut_off = replace(begun, state=State.INTERRUPTED.value, journal=(*begun.journal, *lines))
    return replace(session, turns=tuple(cut_off if turn is begun else turn for turn in session.turns))


def _turn_for(session: ExportedSession, mark: Interrupted, at: int) -> ExportedTurn:
    """A turn that nothing is known of but its interruption. The same file always makes the same turn."""
    seq = _next_seq(session)
    return ExportedTurn(
        id=f"t_{session.id}.{seq}",
        key=session.key,
        generation=1 + max(session.run_generation, *(turn.generation for turn in session.turns), 0),
        state=State.INTERRUPTED.value,
        epoch=0,
        attempt=0,
        began_at=at,
        updated_at=at,
        journal=_lines([Began(()), mark], seq, at),
    )


def _undated(session: ExportedSession) -> ExportedSession:
    """Take the time from the newest mark that counts: the file contradicts itself, and we do not guess."""
    marks = [mark for turn in session.turns for mark in _marks(fold(records(turn)))]
    newest = max(mark.seq for mark in marks if mark.cancelled not in UNMARKING)
    return replace(session, turns=tuple(_undate(turn, newest) for turn in session.turns))


def _undate(turn: ExportedTurn, seq: int) -> ExportedTurn:
    lines = [
        replace(line, body=_body(replace(record.entry, dated=False))) if line.seq == seq else line
        for line, record in zip(turn.journal, records(turn), strict=True)
    ]
    return replace(turn, journal=tuple(lines))


def _lines(entries: Sequence[Entry], seq: int, at: int) -> tuple[ExportedEntry, ...]:
    return tuple(
        ExportedEntry(seq + number, entry.kind, entry.version, _body(entry), at)
        for number, entry in enumerate(entries)
    )


def _body(entry: Entry) -> Raw:
    return Raw(encode(entry))


def _next_seq(session: ExportedSession) -> int:
    return 1 + max((line.seq for turn in session.turns for line in turn.journal), default=0)


# ── what was said otherwise ─────────────────────────────────────────────────────────────────────────────────


def _differences(session: ExportedSession) -> Iterator[str]:
    """The recovery fields that are not what the journal tells; an older export says nothing of them."""
    if session.resume_pending is None:
        return
    truth = told(session)
    marked_at = read_time(session.last_resume_marked_at)
    count = truth.interruptions if session.interruptions is None else session.interruptions
    said = Recovery(session.resume_pending, session.resume_reason, marked_at, count)
    for name in Recovery.__struct_fields__:
        was, is_now = getattr(said, name), getattr(truth, name)
        if was != is_now:
            yield f".{name}: it says {_words(name, was)}; {_words(name, is_now)} was taken, as its journal says"


def _words(name: str, value: object) -> str:
    return time_text(value) if name == "last_resume_marked_at" and isinstance(value, int) else repr(value)

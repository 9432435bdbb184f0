"""The mark of an imported session: found in its journal, or added to it.

The recovery fields of a record are derived from its journal; where they differ, the journal wins. A mark that is
not in the journal, as another program may export it, becomes an interrupted turn.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Raw
from msgspec.structs import replace

from perdure.core.delivery import DeliveryState
from perdure.core.journal import (
    Entry,
    JournalRecord,
    TurnBegan,
    TurnCancelled,
    TurnFinished,
    TurnInterrupted,
    TurnView,
    decode_entry,
    encode_entry,
    fold,
)
from perdure.core.states import (
    OPEN_STATES,
    TURN_MOVES,
    UNMARKING_REASONS,
    Mark,
    RecoveryState,
    TurnMove,
    TurnState,
    derive_recovery_state,
)
from perdure.core.transfer.export_format import (
    ExportedEntry,
    ExportedSession,
    ExportedTurn,
    format_time,
    parse_time,
)
from perdure.errors import RecordRefused

UNKNOWN_REASON = "unknown"  # of a mark without a reason; such a turn does not resume by itself


def settle_mark(session: ExportedSession) -> tuple[ExportedSession, list[str]]:
    """The session with its mark in its journal, and a warning for each field that differs from the journal."""
    warnings = []
    unreadable = session.last_resume_marked_at is not None and parse_time(session.last_resume_marked_at) is None
    if unreadable:
        warnings.append(".last_resume_marked_at: not a time, so it was dropped")
    if session.resume_pending and not journalled_recovery(session).resume_pending:
        if session.resume_reason is None:
            warnings.append(f".resume_reason: a mark without a reason, imported as {UNKNOWN_REASON!r}")
            session = replace(session, resume_reason=UNKNOWN_REASON)
        session = _add_mark(session, session.resume_reason or UNKNOWN_REASON)
    elif session.resume_pending and unreadable:
        session = _remove_mark_time(session)
    return session, [*warnings, *_field_differences(session)]


def journalled_recovery(session: ExportedSession) -> RecoveryState:
    """The recovery state by the session's journal."""
    if not any(line.kind == TurnInterrupted.kind for turn in session.turns for line in turn.journal):
        return RecoveryState()
    views = [(turn, fold(decode_journal(turn))) for turn in session.turns]
    marks = [mark for _, view in views for mark in _marks(view)]
    unsent = {row.turn for row in session.outbox if row.state != DeliveryState.SENT}
    delivered = [
        _last_seq(view, TurnFinished)
        for turn, view in views
        if view.state is TurnState.DONE and turn.id not in unsent
    ]
    return derive_recovery_state(sorted(marks, key=lambda mark: mark.seq), max(delivered, default=0))


def decode_journal(turn: ExportedTurn) -> list[JournalRecord]:
    """Decode a turn's journal, as the store does."""
    return [
        JournalRecord(line.seq, line.at, decode_entry(line.kind, line.version, bytes(line.body)))
        for line in turn.journal
    ]


def _marks(view: TurnView) -> Iterator[Mark]:
    why = view.ended.why if isinstance(view.ended, TurnCancelled) else None
    for record in view.records:
        if isinstance(record.entry, TurnInterrupted):
            yield Mark(record.seq, record.at if record.entry.dated else None, record.entry.reason, why)


def _last_seq(view: TurnView, kind: type[Entry]) -> int:
    return max((record.seq for record in view.records if isinstance(record.entry, kind)), default=0)


# ── adding a mark to the journal ────────────────────────────────────────────────────────────────────────────


def _add_mark(session: ExportedSession, reason: str) -> ExportedSession:
    """Add an `interrupted` entry to the open turn, or to a new turn if none is open."""
    time = parse_time(session.last_resume_marked_at)
    mark = TurnInterrupted(reason, dated=time is not None)
    at = session.updated_at if time is None else time
    begun = next((turn for turn in session.turns if turn.state in OPEN_STATES), None)
    if begun is None:
        return replace(session, turns=(*session.turns, _turn_with_mark(session, mark, at)))
    if TurnMove.INTERRUPTED not in TURN_MOVES[TurnState(begun.state)]:
        raise RecordRefused(".resume_pending", f"expected false, as its turn is {begun.state}, got true")
    lines = _export_entries([mark], _next_seq(session), at)
    interrupted = replace(begun, state=TurnState.INTERRUPTED.value, journal=(*begun.journal, *lines))
    return replace(session, turns=tuple(interrupted if turn is begun else turn for turn in session.turns))


def _turn_with_mark(session: ExportedSession, mark: TurnInterrupted, at: int) -> ExportedTurn:
    """A turn with nothing but an interruption. The same file always gives the same turn."""
    seq = _next_seq(session)
    return ExportedTurn(
        id=f"t_{session.id}.{seq}",
        key=session.key,
        generation=1 + max(session.run_generation, *(turn.generation for turn in session.turns), 0),
        state=TurnState.INTERRUPTED.value,
        epoch=0,
        attempt=0,
        began_at=at,
        updated_at=at,
        journal=_export_entries([TurnBegan(()), mark], seq, at),
    )


def _remove_mark_time(session: ExportedSession) -> ExportedSession:
    """Remove the time of the newest mark that counts, because the file states an unreadable one."""
    marks = [mark for turn in session.turns for mark in _marks(fold(decode_journal(turn)))]
    newest = max(mark.seq for mark in marks if mark.cancelled not in UNMARKING_REASONS)
    return replace(session, turns=tuple(_remove_entry_time(turn, newest) for turn in session.turns))


def _remove_entry_time(turn: ExportedTurn, seq: int) -> ExportedTurn:
    lines = [
        replace(line, body=_encode_body(replace(record.entry, dated=False))) if line.seq == seq else line
        for line, record in zip(turn.journal, decode_journal(turn), strict=True)
    ]
    return replace(turn, journal=tuple(lines))


def _export_entries(entries: Sequence[Entry], seq: int, at: int) -> tuple[ExportedEntry, ...]:
    return tuple(
        ExportedEntry(seq + number, entry.kind, entry.version, _encode_body(entry), at)
        for number, entry in enumerate(entries)
    )


def _encode_body(entry: Entry) -> Raw:
    return Raw(encode_entry(entry))


def _next_seq(session: ExportedSession) -> int:
    return 1 + max((line.seq for turn in session.turns for line in turn.journal), default=0)


# ── fields that differ from the journal ─────────────────────────────────────────────────────────────────────


def _field_differences(session: ExportedSession) -> Iterator[str]:
    """A warning for each recovery field that differs from the journal; an older export has no such fields."""
    if session.resume_pending is None:
        return
    journalled = journalled_recovery(session)
    marked_at = parse_time(session.last_resume_marked_at)
    count = journalled.interruptions if session.interruptions is None else session.interruptions
    stated = RecoveryState(session.resume_pending, session.resume_reason, marked_at, count)
    for name in RecoveryState.__struct_fields__:
        in_file, in_journal = getattr(stated, name), getattr(journalled, name)
        if in_file != in_journal:
            yield (
                f".{name}: it says {_format_value(name, in_file)}; "
                f"{_format_value(name, in_journal)} was taken, as its journal says"
            )


def _format_value(name: str, value: object) -> str:
    return format_time(value) if name == "last_resume_marked_at" and isinstance(value, int) else repr(value)

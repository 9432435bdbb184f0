"""Reads a session as an export record, with its turns, messages and replies.

A message belongs to the session of its turn, and without a turn to the session that received it. A notice, which
has no turn, belongs to the current session of its key. Rejected events, people, processes and goals are not
exported.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from msgspec import Raw
from msgspec.structs import replace

from perdure.core import texts
from perdure.core.address import split_session_key
from perdure.core.delivery import DeliveryState
from perdure.core.session import SessionState
from perdure.core.transfer.export_format import (
    ExportedAttachment,
    ExportedDelivery,
    ExportedEntry,
    ExportedMessage,
    ExportedSession,
    ExportedTurn,
    format_time,
)
from perdure.store import sessions
from perdure.store.database import Row, Tx
from perdure.store.outbox import PAIRING_PREFIX

EXPORTED_WHILE_SENDING = "it was being sent when it was exported"

_SESSION_COLUMNS = "id, key, state, auto_reset_reason, created_at, updated_at"
_TURN_COLUMNS = "id, key, generation, state, epoch, attempt, began_at, updated_at"
_MESSAGE_COLUMNS = (
    "i.id, i.event_key, i.key, i.state, i.turn, i.body, i.raw, i.position, i.received_at, i.kind, i.manner, "
    "i.sent_at"
)
_ATTACHMENT_COLUMNS = "a.inbox, a.id, a.ordinal, a.name, a.reference, a.media_type, a.size, a.state, a.problem"
_DELIVERY_COLUMNS = ", ".join(f"o.{name}" for name in ExportedDelivery.__struct_fields__)


def dump_key(tx: Tx, key: str) -> list[ExportedSession]:
    """Read every session of a key."""
    rows = tx.all(f"SELECT {_SESSION_COLUMNS} FROM sessions WHERE key = :key", key=key)
    return [_dump_row(tx, row) for row in sorted(rows)]


def dump_session(tx: Tx, session: str) -> ExportedSession | None:
    """Read the session of that id, if there is one."""
    row = tx.one(f"SELECT {_SESSION_COLUMNS} FROM sessions WHERE id = :id", id=session)
    return _dump_row(tx, row) if row else None


def _dump_row(tx: Tx, row: Row) -> ExportedSession:
    session, key, state, reset, created_at, updated_at = row
    recovery = sessions.read_recovery(tx, session)
    marked_at = recovery.last_resume_marked_at
    lease = tx.one("SELECT generation, position FROM leases WHERE key = :key", key=key) or (0, 0)
    turns = _turns(tx, session)
    return ExportedSession(
        key=key,
        id=session,
        state=state,
        created_at=created_at,
        updated_at=updated_at,
        address=split_session_key(key)[1],
        resume_pending=recovery.resume_pending,
        resume_reason=recovery.resume_reason,
        last_resume_marked_at=None if marked_at is None else format_time(marked_at),
        was_auto_reset=reset is not None,
        auto_reset_reason=reset,
        interruptions=recovery.interruptions,
        run_generation=lease[0],
        position=lease[1],
        turns=turns,
        inbox=_messages(tx, session, {key, *(turn.key for turn in turns)}),
        outbox=_deliveries(tx, session, key),
    )


def _turns(tx: Tx, session: str) -> tuple[ExportedTurn, ...]:
    journals: dict[str, list[ExportedEntry]] = defaultdict(list)
    sql = "SELECT turn, seq, kind, version, body, at FROM journal WHERE session = :session ORDER BY seq"
    for turn, seq, kind, version, body, at in tx.all(sql, session=session):
        journals[turn].append(ExportedEntry(seq, kind, version, Raw(body), at))
    rows = tx.all(f"SELECT {_TURN_COLUMNS} FROM turns WHERE session = :session", session=session)
    turns = [ExportedTurn(*(*row, tuple(journals[row[0]]))) for row in rows]
    return tuple(sorted(turns, key=lambda turn: (turn.generation, turn.id)))


def _messages(tx: Tx, session: str, keys: Iterable[str]) -> tuple[ExportedMessage, ...]:
    messages: list[ExportedMessage] = []
    for key in keys:
        files = _attachments(tx, key)
        sql = (
            f"SELECT {_MESSAGE_COLUMNS} FROM inbox i LEFT JOIN turns t ON t.id = i.turn WHERE i.key = :key "
            "AND i.state <> 'rejected' AND coalesce(t.session, i.session) = :session"
        )
        messages += [
            ExportedMessage(*(*row[:5], Raw(row[5]), *row[6:9], tuple(files[row[0]]), *row[9:]))
            for row in tx.all(sql, key=key, session=session)
        ]
    return tuple(sorted(messages, key=lambda message: (message.position, message.id)))


def _attachments(tx: Tx, key: str) -> dict[str, list[ExportedAttachment]]:
    """Return the files of a key's messages. Their bytes are not exported, so they are to be fetched again."""
    files: dict[str, list[ExportedAttachment]] = defaultdict(list)
    sql = f"SELECT {_ATTACHMENT_COLUMNS} FROM attachments a JOIN inbox i ON i.id = a.inbox WHERE i.key = :key"
    for row in sorted(tx.all(sql, key=key), key=lambda row: (row[0], row[2])):
        file = ExportedAttachment(*row[1:])
        files[row[0]].append(replace(file, state="referenced") if file.state == "fetched" else file)
    return files


def _deliveries(tx: Tx, session: str, key: str) -> tuple[ExportedDelivery, ...]:
    sql = f"SELECT {_DELIVERY_COLUMNS} FROM outbox o JOIN turns t ON t.id = o.turn WHERE t.session = :session"
    rows = tx.all(sql, session=session)
    if session == _current_session_id(tx, key):
        rows += tx.all(f"SELECT {_DELIVERY_COLUMNS} FROM outbox o WHERE o.turn IS NULL AND o.key = :key", key=key)
    return tuple(_delivery(row) for row in sorted(rows, key=lambda row: str(row[0])))


def _current_session_id(tx: Tx, key: str) -> str:
    """Return the id of the key's current session, or of its newest if none is current."""
    rows = tx.all("SELECT state, id FROM sessions WHERE key = :key", key=key)
    session: str = max((state != SessionState.CLOSED, session) for state, session in rows)[1]
    return session


def _delivery(row: Row) -> ExportedDelivery:
    delivery = ExportedDelivery(*row)
    if delivery.reply.startswith(PAIRING_PREFIX):
        delivery = replace(delivery, text=texts.people.PAIRING_CODE_HIDDEN)
    if delivery.state != DeliveryState.SENDING:
        return delivery
    # After an import, the outcome of this send cannot be known.
    return replace(
        delivery, state=DeliveryState.UNKNOWN.value, attempts=delivery.attempts + 1, problem=EXPORTED_WHILE_SENDING
    )

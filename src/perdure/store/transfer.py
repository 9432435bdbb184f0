"""Writes the sessions of an import, and reads those of an export with their turns, messages and replies.

A message belongs to the session of its turn, and without a turn to the session that received it. A notice, which
has no turn, belongs to the current session of its key. Rejected events, people, processes and goals are not
exported.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec import Raw
from msgspec.structs import asdict, replace

from perdure.core import texts
from perdure.core.address import split_session_key
from perdure.core.delivery import DeliveryState
from perdure.core.states import AttachmentState, InboxState, SessionState
from perdure.core.storable_text import to_json
from perdure.core.transfer.export_format import (
    ExportedAttachment,
    ExportedDelivery,
    ExportedEntry,
    ExportedMessage,
    ExportedSession,
    ExportedTurn,
    comparable_facts,
    format_time,
)
from perdure.errors import LockHeld, PerdureError, RecordRefused
from perdure.store import sessions
from perdure.store.conditions import SESSION_IS_CURRENT
from perdure.store.database import Database, Row, Tx
from perdure.store.outbox import PAIRING_PREFIX
from perdure.store.runs import LEASE_MS

_SESSION_COLUMNS = ("id", "key", "state", "auto_reset_reason", "created_at", "updated_at")


class Transfer:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def keys(self) -> list[str]:
        """Return every key that has a session, in an order that is the same on every database."""
        rows = await self._database.read(lambda tx: tx.all("SELECT DISTINCT key FROM sessions"))
        return sorted(row[0] for row in rows)

    async def dump(self, key: str) -> list[ExportedSession]:
        """Read the sessions of a key in one snapshot, so that a row that moves between them is in one of them."""
        return await self._database.read(lambda tx: dump_key(tx, key))

    async def load(self, session: ExportedSession) -> bool:
        """Write a session that is not in the database yet. False: exactly this session is there already.

        After return: all of it is durable. `RecordRefused` means that nothing of it was written.
        If we die inside: all of it is there, or nothing.
        """
        try:
            return await self._database.write(lambda tx: _load_session(tx, session), key=session.key)
        except PerdureError:
            raise
        except Exception as error:
            # The drivers have no common error, and one faulty record must not stop the others.
            raise RecordRefused("", f"the database refused it: {type(error).__name__}: {error}") from error

    async def require_no_gateway(self) -> None:
        """Raise if a gateway of another home runs on this database; a gateway of this home would hold the lock."""
        if self._database.exclusive:
            return
        row = await self._database.read(
            lambda tx: tx.one(
                # A heartbeat in the far future is from before a clock was set back.
                "SELECT coalesce(home, instance) FROM runs WHERE ended_at IS NULL "
                "AND heartbeat_at BETWEEN :now - lease_ms AND :now + lease_ms",
                now=tx.lease_clock(),
            )
        )
        if row is not None:
            raise LockHeld(
                f"a gateway is at work on this database: {row[0]}",
                hint=f"Stop it first. After a crash, wait {LEASE_MS // 1000} seconds and try again.",
            )


def _load_session(tx: Tx, session: ExportedSession) -> bool:
    """Write a session and all that belongs to it. False: exactly this is in the database already."""
    known = dump_session(tx, session.id)
    if known is not None:
        if comparable_facts(known) == comparable_facts(session):
            return False
        raise RecordRefused(".id", f"the session {session.id} is here already, and is not the same")
    _refuse_second_current(tx, session)
    for key in _keys(session):
        _raise_lease_counters(tx, session, key)
    values = {name: getattr(session, name) for name in _SESSION_COLUMNS}
    _insert(tx, "sessions", ".id", f"the session {session.id}", values)
    for number, turn in enumerate(session.turns):
        _load_turn(tx, session.id, turn, f".turns[{number}]")
    for number, message in enumerate(session.inbox):
        _load_message(tx, session.id, message, f".inbox[{number}]")
    for number, delivery in enumerate(session.outbox):
        _insert(tx, "outbox", f".outbox[{number}]", f"the reply {delivery.delivery_key}", asdict(delivery))
    return True


def _refuse_second_current(tx: Tx, session: ExportedSession) -> None:
    if session.state == SessionState.CLOSED:
        return
    row = tx.one(f"SELECT id FROM sessions WHERE key = :key AND {SESSION_IS_CURRENT}", key=session.key)
    if row is not None:
        raise RecordRefused(".key", f"the key {session.key} has another current session here: {row[0]}")


def _keys(session: ExportedSession) -> list[str]:
    parts: tuple[ExportedTurn | ExportedMessage | ExportedDelivery, ...]
    parts = (*session.turns, *session.inbox, *session.outbox)
    return sorted({session.key, *(part.key for part in parts)})


def _raise_lease_counters(tx: Tx, session: ExportedSession, key: str) -> None:
    """Make or raise the key's lease, so that later epochs, turn numbers and positions are higher."""
    turns = [turn for turn in session.turns if turn.key == key]
    places = {message.position for message in session.inbox if message.key == key}
    places |= {row.position for row in session.outbox if row.key == key and row.position is not None}
    _refuse_duplicates(tx, key, {turn.generation for turn in turns}, places)
    sessions.ensure_lease(tx, key)
    least = {
        "epoch": max((turn.epoch for turn in turns), default=0),
        "generation": max((turn.generation for turn in turns), default=0),
        "position": max(places, default=0),
    }
    if key == session.key:
        least["generation"] = max(least["generation"], session.run_generation)
        least["position"] = max(least["position"], session.position)
    for name, value in least.items():
        tx.run(f"UPDATE leases SET {name} = :value WHERE key = :key AND {name} < :value", key=key, value=value)


def _refuse_duplicates(tx: Tx, key: str, generations: set[int], positions: set[int]) -> None:
    """Refuse a turn number or a position of the chat that is used already."""
    rows = tx.all("SELECT generation FROM turns WHERE key = :key", key=key)
    if taken := generations & {row[0] for row in rows}:
        raise RecordRefused(".turns", f"{key} has a turn of the number {min(taken)} here already")
    rows = tx.all(
        "SELECT position FROM inbox WHERE key = :key UNION ALL SELECT position FROM outbox WHERE key = :key",
        key=key,
    )
    if filled := positions & {row[0] for row in rows}:
        raise RecordRefused("", f"{key} has another message at the place {min(filled)} here already")


def _load_turn(tx: Tx, session: str, turn: ExportedTurn, path: str) -> None:
    values = asdict(turn)
    del values["journal"]
    values |= {"session": session, "first_seq": turn.journal[0].seq}
    _insert(tx, "turns", path, f"the turn {turn.id}, or another that is under way in its chat,", values)
    for number, entry in enumerate(turn.journal):
        values = asdict(entry) | {"session": session, "turn": turn.id, "body": _normalised_json(entry.body)}
        _insert(tx, "journal", f"{path}.journal[{number}]", f"the entry {entry.seq}", values)


def _load_message(tx: Tx, session: str, message: ExportedMessage, path: str) -> None:
    values = asdict(message) | {"body": _normalised_json(message.body), "session": session}
    del values["attachments"]
    _insert(tx, "inbox", path, f"the message {message.event_key}", values)
    for number, file in enumerate(message.attachments):
        values = asdict(file) | {"inbox": message.id}
        _insert(tx, "attachments", f"{path}.attachments[{number}]", f"the file {file.id}", values)


def _normalised_json(body: Raw) -> str:
    """Return the body as we would have written it, however the file formats it."""
    return to_json(msgspec.json.decode(body))


def _insert(tx: Tx, table: str, path: str, what: str, values: dict[str, Any]) -> None:
    names, marks = ", ".join(values), ", ".join(f":{name}" for name in values)
    if not tx.run(f"INSERT INTO {table} ({names}) VALUES ({marks}) ON CONFLICT DO NOTHING", **values):
        raise RecordRefused(path, f"{what} is here already")


EXPORTED_WHILE_SENDING = "it was being sent when it was exported"

_SESSION_LIST = ", ".join(_SESSION_COLUMNS)
_TURN_COLUMNS = "id, key, generation, state, epoch, attempt, began_at, updated_at"
_MESSAGE_COLUMNS = (
    "i.id, i.event_key, i.key, i.state, i.turn, i.body, i.raw, i.position, i.received_at, i.kind, i.manner, "
    "i.sent_at"
)
_ATTACHMENT_COLUMNS = "a.inbox, a.id, a.ordinal, a.name, a.reference, a.media_type, a.size, a.state, a.problem"
_DELIVERY_COLUMNS = ", ".join(f"o.{name}" for name in ExportedDelivery.__struct_fields__)


def dump_key(tx: Tx, key: str) -> list[ExportedSession]:
    """Read every session of a key."""
    rows = tx.all(f"SELECT {', '.join(_SESSION_COLUMNS)} FROM sessions WHERE key = :key", key=key)
    return [_dump_row(tx, row) for row in sorted(rows)]


def dump_session(tx: Tx, session: str) -> ExportedSession | None:
    """Read the session of that id, if there is one."""
    row = tx.one(f"SELECT {', '.join(_SESSION_COLUMNS)} FROM sessions WHERE id = :id", id=session)
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
            f"AND i.state <> '{InboxState.REJECTED}' AND coalesce(t.session, i.session) = :session"
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
        fetched = file.state == AttachmentState.FETCHED
        files[row[0]].append(replace(file, state=AttachmentState.REFERENCED.value) if fetched else file)
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

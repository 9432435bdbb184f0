"""Export and import of sessions: `Transfer` reads sessions whole, and writes them whole or refuses them."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Raw
from msgspec.structs import asdict

from perdure.core.session import SessionState
from perdure.core.storable_text import to_json
from perdure.core.transfer.export_format import (
    ExportedDelivery,
    ExportedMessage,
    ExportedSession,
    ExportedTurn,
    comparable_facts,
)
from perdure.errors import LockHeld, PerdureError, RecordRefused
from perdure.store import sessions
from perdure.store.conditions import SESSION_IS_CURRENT
from perdure.store.database import Database, Tx
from perdure.store.runs import LEASE_MS
from perdure.store.transfer_dump import dump_key, dump_session

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
                "SELECT instance FROM runs WHERE ended_at IS NULL AND heartbeat_at BETWEEN :since AND :until",
                since=tx.lease_clock() - LEASE_MS,
                until=tx.lease_clock() + LEASE_MS,  # a later heartbeat is from before a clock was set back
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

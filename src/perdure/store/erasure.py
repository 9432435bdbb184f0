"""Erasure of sessions: first the intent is recorded, then, once nothing of the session moves, every row goes.

An erasure that was begun and not finished is found at the next start. Its session is closed from the beginning:
messages that arrive meanwhile begin a fresh one.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Literal

from msgspec import Struct

from perdure.core.address import parent_session_key
from perdure.core.delivery import DeliveryState
from perdure.core.file_names import chat_folder
from perdure.core.states import CancelReason, GoalState, InboxState, SessionState
from perdure.core.storable_text import make_storable
from perdure.store import sessions, transitions
from perdure.store.conditions import (
    DELIVERY_IS_OPEN,
    GOAL_IS_ACTIVE,
    MESSAGE_WAITS,
    PROCESS_IS_LIVE,
    TURN_IS_OPEN,
    state_in,
)
from perdure.store.database import Database, Row, Tx
from perdure.store.transitions import TURN_COLUMNS, as_turn

_TURNS = "SELECT id FROM turns WHERE session = :session"
# A message belongs to the session of its turn, and without one to the session that received it.
_MESSAGES = f"SELECT id FROM inbox WHERE turn IN ({_TURNS}) OR (session = :session AND turn IS NULL)"
_FILES = f"inbox IN ({_MESSAGES}) OR turn IN ({_TURNS})"
MAX_ROWS_PER_TRANSACTION = 500  # so that no other transaction waits for long
_NEVER_TAKEN = state_in((InboxState.REJECTED, InboxState.EXPIRED, InboxState.WITHDRAWN, InboxState.DELETED))


class BegunErasure(Struct, frozen=True):
    """An erasure that was begun."""

    session: str
    key: str
    turns: tuple[str, ...]  # every turn of the session; their commands must end first
    ended: tuple[str, ...]  # the turns that the erasure cancelled
    files: tuple[str, ...]  # the paths of its attachments


class ErasedSession(Struct, frozen=True):
    """How many rows of a session were removed."""

    session: str
    key: str
    turns: int = 0
    messages: int = 0
    replies: int = 0
    attachments: int = 0
    processes: int = 0


class Erasure:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def begin(self, session: str, now: int, *, idle_since: int | None = None) -> BegunErasure | None:
        """Record that a session is to be erased, and end what is open in it. None: there is no such session.

        With `idle_since`, only if nothing has happened in it since then, and nothing is open in it.
        After return: nothing begins in it any more, and the next start finishes the erasure if we do not.
        """
        return await self._database.write(lambda tx: _begin(tx, session, idle_since), key=session, at=now)

    async def finish(self, session: str, now: int) -> ErasedSession | None:
        """Delete every row of a session, some at a time. None: nothing was left.

        After return: only its tombstones are left, and the files that they name.
        If we die inside: some rows are gone; the next call deletes the rest.
        """
        found = await self._database.read(lambda tx: sessions.get(tx, session))
        gone: Counter[str] = Counter()
        while found is not None and not gone["sessions"]:
            some = await self._database.write(lambda tx: delete_some_rows(tx, session), key=session, at=now)
            if some is None:
                return None
            gone += some
        if found is None:
            return None
        replies = gone["outbox"] + gone[NOTICES]
        counts = (gone["turns"], gone["inbox"], replies, gone["attachments"], gone["processes"])
        return ErasedSession(session, found.key, *counts)

    async def was_erased(self, session: str) -> bool:
        """Say whether a session of that id was erased."""
        sql = "SELECT 1 FROM erased WHERE name = :name AND kind = 'session'"
        return await self._database.read(lambda tx: tx.one(sql, name=session) is not None)

    async def unfinished(self) -> list[str]:
        """Return the sessions whose erasure was begun and not finished."""
        sql = (
            "SELECT e.name FROM erased e JOIN sessions s ON s.id = e.name WHERE e.kind = 'session' ORDER BY e.name"
        )
        return await self._database.read(lambda tx: [row[0] for row in tx.all(sql)])

    async def files_to_remove(self) -> tuple[set[str], set[str]]:
        """Return the turns whose command directories are to be removed, and the paths of other files."""
        return await self._database.read(lambda tx: (names(tx, "turn"), names(tx, "file")))

    async def idle_sessions(self, before: int, limit: int) -> list[str]:
        """Return sessions in which nothing has happened since a time, and nothing is open; the oldest first."""
        sql = f"{_IDLE} ORDER BY s.updated_at, s.id LIMIT :limit"
        return await self._database.read(lambda tx: [row[0] for row in tx.all(sql, before=before, limit=limit)])

    async def delete_old_events(self, before: int, now: int, limit: int) -> int:
        """Delete up to `limit` events from before a time that began nothing; return how many there were."""
        found = await self._database.read(lambda tx: _old_events(tx, before, limit))
        return await self._database.write(lambda tx: _delete_events(tx, found), at=now) if found else 0

    async def delete_expired_tombstones(self, now: int) -> int:
        """Delete the tombstones of what was erased long ago; return how many there were."""
        if not await self._database.read(has_expired, at=now):
            return 0
        return await self._database.write(delete_expired, at=now)


def _begin(tx: Tx, session: str, idle_since: int | None) -> BegunErasure | None:
    found = sessions.get(tx, session)
    if found is None:
        return None
    tx.one(f"SELECT 1 FROM leases WHERE key = :key{tx.for_update}", key=found.key)  # no turn begins meanwhile
    if idle_since is not None and not tx.one(f"{_IDLE} AND s.id = :id", before=idle_since, id=session):
        return None
    record(tx, "session", [session])
    turns = tuple(row[0] for row in tx.all(_TURNS, session=session))
    return BegunErasure(session, found.key, turns, _end_session(tx, session), _file_paths(tx, session))


def _file_paths(tx: Tx, session: str) -> tuple[str, ...]:
    sql = f"SELECT path FROM attachments WHERE path IS NOT NULL AND ({_FILES})"
    return tuple(row[0] for row in tx.all(sql, session=session))


def _end_session(tx: Tx, session: str) -> tuple[str, ...]:
    """End what is open in a session without notices; return the turns that were open."""
    rows = tx.all(f"SELECT {TURN_COLUMNS} FROM turns WHERE session = :session AND {TURN_IS_OPEN}", session=session)
    for turn in map(as_turn, rows):
        transitions.cancel(tx, turn, CancelReason.DROPPED)
    values = {"session": session, "now": tx.time}
    tx.run(
        f"UPDATE goals SET state = '{GoalState.ENDED}' WHERE session = :session AND {GOAL_IS_ACTIVE}",
        session=session,
    )
    tx.run(f"UPDATE sessions SET state = '{SessionState.CLOSED}', updated_at = :now WHERE id = :session", **values)
    tx.run(
        f"UPDATE inbox SET state = '{InboxState.WITHDRAWN}' WHERE {MESSAGE_WAITS} AND session = :session",
        session=session,
    )
    tx.run(
        f"UPDATE outbox SET state = '{DeliveryState.WITHDRAWN}', updated_at = :now "
        f"WHERE turn IN ({_TURNS}) AND state = '{DeliveryState.OWED}'",
        **values,
    )
    tx.run(
        "UPDATE processes SET notify = 0, patterns = '[]', watching = 0, unnoticed = 0 "
        f"WHERE session = :session AND {PROCESS_IS_LIVE}",
        session=session,
    )
    return tuple(row[0] for row in rows)


def delete_some_rows(tx: Tx, session: str) -> Counter[str] | None:
    """Delete a bounded number of rows; return how many of which table. None: nothing of the session is left."""
    found = sessions.get(tx, session)
    if found is None:
        return None
    _end_session(tx, session)  # a person may have reopened the session meanwhile
    gone: Counter[str] = Counter()
    for table in _TABLES:
        room = MAX_ROWS_PER_TRANSACTION - gone.total()
        gone[table] += (
            _delete_notices(tx, session, room) if table == NOTICES else _delete_from(tx, table, session, room)
        )
        if gone.total() >= MAX_ROWS_PER_TRANSACTION:
            return gone
    tx.run(
        "UPDATE inbox SET session = (SELECT t.session FROM turns t WHERE t.id = inbox.turn) "
        "WHERE session = :session",  # messages that this session received, and a turn of another took
        session=session,
    )
    record(tx, "file", [chat_folder(found.key)])  # it goes when no session of the chat is left
    gone["sessions"] = tx.run("DELETE FROM sessions WHERE id = :session", session=session)
    return gone


NOTICES = "notices"
# The rows to delete, in an order that leaves no row which refers to a deleted one. The journal is deleted from its
# end: the rest of it stays readable.
_TABLES = {
    NOTICES: "",
    "attachments": f"SELECT id FROM attachments WHERE {_FILES}",
    "previews": f"SELECT delivery_key FROM previews WHERE turn IN ({_TURNS})",
    "outbox": f"SELECT id FROM outbox WHERE turn IN ({_TURNS})",
    "processes": "SELECT id FROM processes WHERE session = :session",
    "goals": "SELECT id FROM goals WHERE session = :session",
    "inbox": _MESSAGES,
    "journal": "SELECT seq FROM journal WHERE session = :session ORDER BY seq DESC",
    "turns": _TURNS,
}
_ID_COLUMNS = {"previews": "delivery_key", "journal": "session = :session AND seq"}


def _delete_from(tx: Tx, table: str, session: str, room: int) -> int:
    """Delete rows of a table, and record the tombstones that they need."""
    # The order makes each of the statements below select the same rows.
    order = "" if table == "journal" else " ORDER BY 1"
    due = f"{_TABLES[table]}{order} LIMIT :room"
    values = {"session": session, "room": room}
    if table == "attachments":
        files = tx.all(f"SELECT path FROM attachments WHERE path IS NOT NULL AND id IN ({due})", **values)
        record(tx, "file", (row[0] for row in files))
    elif table == "inbox":
        events = tx.all(f"SELECT event_key FROM inbox WHERE id IN ({due})", **values)
        record(tx, "event", (event_digest(row[0]) for row in events))
    elif table == "turns":
        record(tx, "turn", (row[0] for row in tx.all(due, **values)))
        tx.run(f"UPDATE inbox SET bound = NULL WHERE bound IN ({due})", **values)  # of messages of other sessions
    return tx.run(f"DELETE FROM {table} WHERE {_ID_COLUMNS.get(table, 'id')} IN ({due})", **values)


_NOTICES = "SELECT id, reply, key FROM outbox WHERE key = :key AND turn IS NULL"
_KEYS_OF_SESSION = (  # a session may have been in several chats
    "SELECT key FROM sessions WHERE id = :session UNION SELECT key FROM turns WHERE session = :session "
    f"UNION SELECT key FROM inbox WHERE id IN ({_MESSAGES})"
)


def _delete_notices(tx: Tx, session: str, room: int) -> int:
    """Delete the session's replies of no turn, such as answers to commands; of its only chat, all of them."""
    named = {row[0] for table in ("turns", "inbox", "processes", "goals") for row in _ids_in(tx, table, session)}
    keys = {parent_session_key(row[0]) for row in tx.all(_KEYS_OF_SESSION, session=session)}
    mine = tx.one(
        "SELECT s.key FROM sessions s WHERE s.id = :session "
        "AND NOT EXISTS (SELECT 1 FROM sessions o WHERE o.key = s.key AND o.id <> s.id)",
        session=session,
    )
    ours = [
        row[0]
        for key in sorted(keys)
        for row in tx.all(_NOTICES, key=key)
        if row[1].split(".")[0] in named or row[1] == f"fresh.{session}" or (mine and row[2] == mine[0])
    ]
    for notice in ours[:room]:
        tx.run("DELETE FROM outbox WHERE id = :id", id=notice)
    return len(ours[:room])


def _ids_in(tx: Tx, table: str, session: str) -> list[Row]:
    return tx.all(_TABLES[table], session=session)


# ── retention ───────────────────────────────────────────────────────────────────────────────────────────────

_IDLE = (
    "SELECT s.id FROM sessions s WHERE s.updated_at < :before "
    "AND NOT EXISTS (SELECT 1 FROM turns t WHERE t.session = s.id AND "
    f"(t.updated_at >= :before OR t.{TURN_IS_OPEN} "
    f"OR EXISTS (SELECT 1 FROM outbox r WHERE r.turn = t.id AND r.{DELIVERY_IS_OPEN}))) "
    f"AND NOT EXISTS (SELECT 1 FROM outbox o WHERE o.key = s.key AND o.{DELIVERY_IS_OPEN}) "
    f"AND NOT EXISTS (SELECT 1 FROM processes p WHERE p.session = s.id AND p.{PROCESS_IS_LIVE}) "
    f"AND NOT EXISTS (SELECT 1 FROM inbox i WHERE i.key = s.key AND i.session = s.id AND i.{MESSAGE_WAITS})"
)


def _old_events(tx: Tx, before: int, limit: int) -> list[str]:
    sql = f"SELECT id FROM inbox WHERE {_NEVER_TAKEN} AND received_at < :before ORDER BY id LIMIT :limit"
    return [row[0] for row in tx.all(sql, before=before, limit=limit)]


def _delete_events(tx: Tx, events: Sequence[str]) -> int:
    """Delete those events that still began nothing: a rejected event may have been stored since."""
    count = 0
    for event in events:
        row = tx.one(f"SELECT event_key FROM inbox WHERE id = :id AND {_NEVER_TAKEN}{tx.for_update}", id=event)
        if row is None:
            continue
        files = tx.all("SELECT path FROM attachments WHERE inbox = :id AND path IS NOT NULL", id=event)
        record(tx, "event", [event_digest(row[0])])
        record(tx, "file", (file[0] for file in files))
        tx.run("DELETE FROM attachments WHERE inbox = :id", id=event)
        count += tx.run("DELETE FROM inbox WHERE id = :id", id=event)
    return count


TombstoneKind = Literal["session", "turn", "event", "file"]

RETENTION_MS = 30 * 86_400_000  # far longer than any platform redelivers an event


def event_digest(event: str) -> str:
    """Return a name for an event that only somebody who has the event can recognise."""
    return hashlib.sha256(make_storable(event).encode()).hexdigest()


def record(tx: Tx, kind: TombstoneKind, names: Iterable[str]) -> None:
    """Record that these were erased."""
    sql = "INSERT INTO erased (name, kind, at) VALUES (:name, :kind, :now) ON CONFLICT DO NOTHING"
    for name in names:
        tx.run(sql, name=name, kind=kind, now=tx.time)


def is_erased_event(tx: Tx, event: str) -> bool:
    """Say whether an event was received before and erased."""
    return (
        tx.one("SELECT 1 FROM erased WHERE name = :name AND kind = 'event'", name=event_digest(event)) is not None
    )


def names(tx: Tx, kind: TombstoneKind) -> set[str]:
    return {row[0] for row in tx.all("SELECT name FROM erased WHERE kind = :kind", kind=kind)}


_EXPIRED = (  # all kinds are named so that the index is used
    "FROM erased WHERE kind IN ('session', 'turn', 'event', 'file') AND at < :before "
    "AND NOT (kind = 'session' AND name IN (SELECT id FROM sessions))"
)


def has_expired(tx: Tx) -> bool:
    """Say whether there is a tombstone older than `RETENTION_MS`."""
    return tx.one(f"SELECT 1 {_EXPIRED} LIMIT 1", before=tx.time - RETENTION_MS) is not None


def delete_expired(tx: Tx) -> int:
    """Delete expired tombstones, except of an unfinished erasure; return how many there were."""
    return tx.run(f"DELETE {_EXPIRED}", before=tx.time - RETENTION_MS)

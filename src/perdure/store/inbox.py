"""The inbox: what was received, stored before the platform is told so, and acting once."""

from __future__ import annotations

from typing import Literal

import msgspec
from msgspec import Struct

from perdure.core import notes
from perdure.core.address import parse_session_key
from perdure.core.journal import Cause
from perdure.core.messages import Attachment, Inbound, Stored, storable
from perdure.store import outbox, sessions
from perdure.store.database import Database, Row, Tx, Work
from perdure.store.ids import Ids
from perdure.store.outbox import Owed

InboxKind = Literal["message", "command", "wish", "report", "aside"]

LATEST = 1 << 62  # behind every place of every chat


class Seen(Struct, frozen=True):
    """A message as the people in a chat see it, theirs or ours, with its place in the chat."""

    position: int
    id: str
    author: str  # "user" or "agent"
    text: str
    at: int
    turn: str | None


class Inbox:
    def __init__(self, database: Database, ids: Ids) -> None:
        self._database = database
        self._ids = ids

    async def receive(
        self,
        inbound: Inbound,
        raw: str,
        key: str,
        now: int,
        kind: InboxKind = "message",
        first: Work[object] = lambda tx: None,
    ) -> Stored:
        """Take a message or a command in, once; of a new one, `first` is done before, in the same transaction.

        After return: it will be answered, whatever happens to us; the platform may be told so.
        If we die inside: it is here or not; delivered again, it acts once.
        """
        return await self._database.write(
            lambda tx: _receive(tx, self._ids, inbound, raw, key, now, kind, first), key=key
        )

    async def reject(self, event_key: str, raw: str, problem: str, now: int) -> None:
        """Keep an event that cannot be understood, so that it may be acknowledged and looked at."""
        await self._database.write(lambda tx: _reject(tx, self._ids, event_key, raw, problem, now), key=event_key)

    async def waiting(self, key: str, after: int = 0) -> int:
        """How many messages of a key wait for their turn, of those behind a place in the chat."""
        return await self._database.read(lambda tx: count_waiting(tx, key, after))

    async def seen(self, key: str, after: int, limit: int = 500) -> list[Seen]:
        """What the people in a chat see behind a place, in order."""
        return await self._database.read(lambda tx: _seen(tx, key, after, limit))

    async def place(self, key: str, message: str) -> int | None:
        """The place of a message, ours or a person's, in its chat."""
        row = await self._database.read(
            lambda tx: tx.one(
                "SELECT position FROM inbox WHERE key = :key AND id = :id "
                "UNION ALL SELECT position FROM outbox WHERE key = :key AND id = :id AND state = 'sent'",
                key=key,
                id=message,
            )
        )
        return row[0] if row else None


def _receive(
    tx: Tx, ids: Ids, inbound: Inbound, raw: str, key: str, now: int, kind: InboxKind, first: Work[object]
) -> Stored:
    known = _known(tx, inbound.event_key)
    if known is not None:
        return known
    first(tx)
    session = session_for(tx, ids, key, now) if kind == "message" else sessions.known(tx, ids, key, now)
    message = put(tx, ids, inbound, raw, key, session, now, kind)
    if message is None:
        known = _known(tx, inbound.event_key)
        assert known is not None, f"{inbound.event_key} is neither new nor known"
        return known
    for ordinal, attachment in enumerate(inbound.attachments):
        _refer(tx, ids, message, ordinal, attachment)
    return Stored(message, session, key, fresh=True)


def session_for(tx: Tx, ids: Ids, key: str, now: int) -> str:
    """The id of the session for a message. If it is a fresh one because one was set aside, the chat is told."""
    session, set_aside = sessions.ensure(tx, ids, key, now)
    if set_aside is not None:
        told = notes.fresh_after_suspension(set_aside)
        outbox.owe(tx, ids, key, None, Owed(parse_session_key(key)[1], f"fresh.{session}", (told,)), now)
    return session


def _known(tx: Tx, event_key: str) -> Stored | None:
    row = tx.one(
        "SELECT id, session, key FROM inbox WHERE event_key = :event AND key IS NOT NULL", event=event_key
    )
    return Stored(row[0], row[1], row[2], fresh=False) if row else None


# An event that was rejected is taken in after all if it is understood when it comes again. One that another
# gateway has taken in, while we waited for the chat's next place, stays as it is.
_PUT = (
    "INSERT INTO inbox (id, event_key, key, session, kind, state, bound, body, raw, position, received_at) "
    "VALUES (:id, :event, :key, :session, :kind, 'waiting', :bound, :body, :raw, :position, :now) "
    "ON CONFLICT (event_key) DO UPDATE SET key = excluded.key, session = excluded.session, kind = excluded.kind, "
    "state = 'waiting', bound = excluded.bound, body = excluded.body, raw = excluded.raw, problem = NULL, "
    "position = excluded.position, received_at = excluded.received_at WHERE inbox.state = 'rejected' RETURNING id"
)


def put(
    tx: Tx,
    ids: Ids,
    inbound: Inbound,
    raw: str,
    key: str,
    session: str,
    now: int,
    kind: InboxKind,
    *,
    event: str | None = None,
) -> str | None:
    """Write a row that waits, once; a command is bound to the turn that is current now."""
    begun = tx.one(_BEGUN, key=key) if kind == "command" else None
    row = tx.one(
        _PUT,
        id=ids.new("in"),
        event=event or inbound.event_key,
        key=key,
        session=session,
        kind=kind,
        bound=begun[0] if begun else None,
        body=msgspec.json.encode(inbound).decode(),
        raw=storable(raw),
        position=sessions.next_position(tx, key),
        now=now,
    )
    if row is None:
        sessions.give_back(tx, key)
        return None
    message: str = row[0]
    return message


_BEGUN = "SELECT id FROM turns WHERE key = :key AND state IN ('queued', 'running', 'waiting', 'interrupted')"


def _refer(tx: Tx, ids: Ids, message: str, ordinal: int, attachment: Attachment) -> None:
    tx.run(
        "INSERT INTO attachments (id, inbox, ordinal, name, reference, media_type, size, state) "
        "VALUES (:id, :inbox, :ordinal, :name, :reference, :media_type, :size, 'referenced')",
        id=ids.new("att"),
        inbox=message,
        ordinal=ordinal,
        **msgspec.structs.asdict(attachment),
    )


def _reject(tx: Tx, ids: Ids, event_key: str, raw: str, problem: str, now: int) -> None:
    tx.run(
        "INSERT INTO inbox (id, event_key, state, raw, problem, received_at) "
        "VALUES (:id, :event, 'rejected', :raw, :problem, :now) ON CONFLICT DO NOTHING",
        id=ids.new("in"),
        event=event_key,
        raw=storable(raw),
        problem=storable(problem),
        now=now,
    )


_SEEN = (
    "SELECT position, id, 'user', body, received_at, turn FROM inbox "
    "WHERE key = :key AND position > :after AND kind IN ('message', 'command') "
    "UNION ALL SELECT position, id, 'agent', text, updated_at, turn FROM outbox "
    "WHERE key = :key AND state = 'sent' AND position > :after ORDER BY 1 LIMIT :limit"
)


def _seen(tx: Tx, key: str, after: int, limit: int) -> list[Seen]:
    rows = tx.all(_SEEN, key=key, after=after, limit=limit)
    return [
        Seen(position, message, author, _text(text) if author == "user" else text, at, turn)
        for position, message, author, text, at, turn in rows
    ]


def _text(body: str) -> str:
    return msgspec.json.decode(body, type=Inbound).text


def withdraw(tx: Tx, key: str, before: int) -> int:
    """Drop the messages of a key that wait for their turn before a place in the chat; how many there were.

    Of what the gateway itself has to tell, only what nobody would be told by itself.
    """
    sql = (
        "UPDATE inbox SET state = 'withdrawn' "
        "WHERE key = :key AND state = 'waiting' AND kind IN ({kinds}) AND position < :before"
    )
    tx.run(sql.format(kinds="'aside'"), key=key, before=before)
    return tx.run(sql.format(kinds="'message', 'wish'"), key=key, before=before)


def count_waiting(tx: Tx, key: str, after: int = 0, before: int = LATEST) -> int:
    row = tx.one(_COUNT, key=key, after=after, before=before)
    return row[0] if row else 0


_COUNT = (
    "SELECT count(*) FROM inbox WHERE key = :key AND state = 'waiting' AND kind IN ('message', 'wish') "
    "AND position > :after AND position < :before"
)


def as_cause(row: Row) -> Cause:
    """A row (id, body, kind) as a turn keeps it: why it began, or what joined it."""
    inbound = msgspec.json.decode(row[1], type=Inbound)
    return Cause(
        row[0],
        inbound.text,
        inbound.sender,
        inbound.message,
        inbound.sent_at,
        inbound.attachments,
        wish=row[2] == "wish",
        note=row[2] in ("report", "aside"),
    )

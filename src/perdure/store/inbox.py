"""The inbox: received messages and commands, stored once, before the platform gets an acknowledgement."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeVar

import msgspec
from msgspec import Struct

from perdure.core import texts
from perdure.core.address import split_session_key
from perdure.core.commands import RETRY_KEY_PREFIX
from perdure.core.delivery import DeliveryState
from perdure.core.journal import Cause
from perdure.core.messages import Inbound, Stored, question_of_reply
from perdure.core.queue import Fate, QueueMode, QueueRules, needs_quiet
from perdure.core.states import AttachmentState, InboxState
from perdure.core.storable_text import to_json
from perdure.store import attachments, busy_modes, erasure, outbox, sessions
from perdure.store.conditions import MESSAGE_WAITS
from perdure.store.database import Database, Row, Transaction, Tx
from perdure.store.outbox import OutboxReply

T = TypeVar("T")

InboxKind = Literal["message", "command", "wish", "report", "aside", "change"]

MAX_POSITION = 1 << 62  # greater than every position of every chat
UNLIMITED_RULES = QueueRules()
MAX_REJECTED_EVENTS = 1000  # events that nobody understood, or whose sender nobody knows: the newest


class ChatAttachment(Struct, frozen=True):
    """A file of a message: `fetched` if it can be had, `referenced` while it is on its way, or `failed`."""

    id: str
    name: str
    media_type: str
    size: int | None
    state: AttachmentState = AttachmentState.FETCHED


class ChatMessage(Struct, frozen=True, omit_defaults=True):
    """A message as the people in a chat see it, theirs or ours, with its position in the chat."""

    position: int
    id: str
    author: str  # "user" or "agent"
    text: str
    at: int
    turn: str | None
    attachments: tuple[ChatAttachment, ...] = ()
    asks: str | None = None  # the id of the question that the message asks


class Inbox:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def receive(
        self,
        inbound: Inbound,
        raw: str,
        key: str,
        now: int,
        kind: InboxKind = "message",
        prepare: Transaction[object] = lambda tx: None,
        rules: QueueRules = UNLIMITED_RULES,
    ) -> Stored:
        """Store a message or a command, once; before a new one, `prepare` runs in the same transaction.

        The rules say what the message does to a running turn, and whether it is accepted at all.

        After return: the message will be answered, whatever happens to us, and may be acknowledged.
        If we die inside: it is stored or not; a message that is delivered again acts once.
        """
        return await self._database.write(
            lambda tx: _receive(tx, inbound, raw, key, kind, prepare, rules), key=key, at=now
        )

    async def receive_if_allowed(
        self,
        inbound: Inbound,
        raw: str,
        key: str,
        now: int,
        kind: InboxKind,
        *,
        resolve_key: Transaction[str | None],
        prepare: Callable[[str], Transaction[object]],
        refuse: Transaction[T],
        rules: QueueRules = UNLIMITED_RULES,
    ) -> Stored | T:
        """Like `receive`, for the key that `resolve_key` returns; if it returns none, `refuse` runs instead.

        `key` is the usual key of the chat, by which its messages are stored in order.
        """

        def transaction(tx: Tx) -> Stored | T:
            there = resolve_key(tx)
            if there is None:
                return refuse(tx)
            return _receive(tx, inbound, raw, there, kind, prepare(there), rules)

        return await self._database.write(transaction, key=key, at=now)

    async def reject(self, event_key: str, raw: str, problem: str, now: int) -> None:
        """Store an event that cannot be understood, so that it can be acknowledged and inspected."""
        await self._database.write(lambda tx: reject(tx, event_key, raw, problem), key=event_key, at=now)

    async def count_waiting(self, key: str, after: int = 0) -> int:
        """Return how many messages of a key wait for their turn after a position in the chat."""
        return await self._database.read(lambda tx: count_waiting(tx, key, after))

    async def chat_messages(self, key: str, after: int, limit: int = 500) -> list[ChatMessage]:
        """Return what the people in a chat see after a position, in order."""
        return await self._database.read(
            lambda tx: [
                _as_chat_message(tx, row) for row in tx.all(_CHAT_MESSAGES, key=key, after=after, limit=limit)
            ]
        )

    async def position_of(self, key: str, message: str) -> int | None:
        """Return the position of a message, ours or a person's, in its chat."""
        row = await self._database.read(
            lambda tx: tx.one(
                "SELECT position FROM inbox WHERE key = :key AND id = :id "
                "UNION ALL SELECT position FROM outbox "
                f"WHERE key = :key AND id = :id AND state = '{DeliveryState.SENT}'",
                key=key,
                id=message,
            )
        )
        return row[0] if row else None


def _receive(
    tx: Tx,
    inbound: Inbound,
    raw: str,
    key: str,
    kind: InboxKind,
    prepare: Transaction[object],
    rules: QueueRules,
) -> Stored:
    known = find(tx, inbound.event_key)
    if known is not None:
        return known
    if erasure.is_erased_event(tx, inbound.event_key):
        return Stored("", "", key, fresh=False, fate=Fate.ERASED)
    if inbound.sent_at is not None and inbound.sent_at < rules.too_old_before(tx.time):
        return _store_expired(tx, inbound, raw, key, kind) or _require_known(tx, inbound)
    if kind == "message" and busy_modes.is_queue_full(tx, key, rules.cap):
        return busy_modes.reject_queue_full(tx, inbound, raw, key, rules.cap) or _require_known(tx, inbound)
    prepare(tx)
    session = session_for_message(tx, key) if kind == "message" else sessions.ensure_current(tx, key)
    manner = busy_modes.mode_of(tx, key, rules.mode) if kind == "message" else None
    message = insert(tx, inbound, raw, key, session, kind, manner=manner)
    if message is None:
        return _require_known(tx, inbound)
    for ordinal, attachment in enumerate(inbound.attachments):
        attachments.record_reference(tx, message, ordinal, attachment)
    busy_modes.clear_full_notice(tx, key, rules.cap)
    quiet = kind == "message" and needs_quiet(manner, inbound.album)
    ended = busy_modes.cancel_replaced_turn(tx, key, manner)
    return Stored(message, session, key, fresh=True, quiet=quiet, ended=ended)


def _require_known(tx: Tx, inbound: Inbound) -> Stored:
    known = find(tx, inbound.event_key)
    assert known is not None, f"{inbound.event_key} is neither new nor known"
    return known


def _store_expired(tx: Tx, inbound: Inbound, raw: str, key: str, kind: InboxKind) -> Stored | None:
    """Store a message that was too old when it arrived, as expired."""
    session = sessions.ensure_current(tx, key)
    message = insert(tx, inbound, raw, key, session, kind, state=InboxState.EXPIRED)
    if message is None:
        return None
    busy_modes.add_expired(tx, key, 1)
    return Stored(message, session, key, fresh=True, fate=Fate.EXPIRED)


def session_for_message(tx: Tx, key: str) -> str:
    """Return the session's id for a message; if it replaces a suspended session, tell the chat."""
    session, suspended = sessions.ensure_open(tx, key)
    if suspended is not None:
        notice = texts.recovery.new_session_after_suspension(suspended)
        outbox.enqueue(tx, key, None, OutboxReply(split_session_key(key)[1], f"fresh.{session}", (notice,)))
    return session


def find(tx: Tx, event_key: str) -> Stored | None:
    """Return what became of an event that arrived before. A refused message has no position in the chat."""
    row = tx.one(
        "SELECT id, session, key, state, position FROM inbox WHERE event_key = :event AND key IS NOT NULL",
        event=event_key,
    )
    if row is None:
        return None
    fate = Fate.FULL if row[4] is None else Fate.EXPIRED if row[3] == InboxState.EXPIRED else Fate.WAITS
    return Stored(row[0], row[1], row[2], fresh=False, fate=fate)


# A rejected event is stored after all if it is understood when it arrives again. An event that another gateway
# stored, while we waited for the chat's next position, stays as it is.
_INSERT = (
    "INSERT INTO inbox (id, event_key, key, session, kind, state, bound, body, raw, position, received_at, "
    "manner, sent_at) VALUES (:id, :event, :key, :session, :kind, :state, :bound, :body, :raw, :position, :now, "
    ":manner, :sent_at) ON CONFLICT (event_key) DO UPDATE SET key = excluded.key, session = excluded.session, "
    "kind = excluded.kind, state = excluded.state, bound = excluded.bound, body = excluded.body, "
    "raw = excluded.raw, problem = NULL, position = excluded.position, received_at = excluded.received_at, "
    "manner = excluded.manner, sent_at = excluded.sent_at "
    f"WHERE inbox.state = '{InboxState.REJECTED}' RETURNING id"
)


def insert(
    tx: Tx,
    inbound: Inbound,
    raw: str,
    key: str,
    session: str,
    kind: InboxKind,
    *,
    event: str | None = None,
    manner: QueueMode | None = None,
    state: InboxState = InboxState.WAITING,
) -> str | None:
    """Insert a row, once; a command is bound to the current turn. None: the event was stored before."""
    row = tx.one(
        _INSERT,
        id=tx.ids.new("in"),
        event=event or inbound.event_key,
        key=key,
        session=session,
        kind=kind,
        state=state.value,
        bound=busy_modes.current_turn_id(tx, key) if kind == "command" else None,
        body=to_json(inbound),
        raw=raw,
        position=sessions.next_position(tx, key),
        now=tx.time,
        manner=manner,
        sent_at=None if inbound.sent_at is None else min(inbound.sent_at, tx.time),
    )
    if row is None:
        sessions.release_position(tx, key)
        return None
    message: str = row[0]
    return message


def reject(tx: Tx, event_key: str, raw: str, problem: str) -> bool:
    """Store a rejected event, a bounded number of them. False: it was stored already, or erased."""
    if erasure.is_erased_event(tx, event_key):
        return False
    new = tx.run(
        "INSERT INTO inbox (id, event_key, state, raw, problem, received_at) "
        f"VALUES (:id, :event, '{InboxState.REJECTED}', :raw, :problem, :now) ON CONFLICT DO NOTHING",
        id=tx.ids.new("in"),
        event=event_key,
        raw=raw,
        problem=problem,
        now=tx.time,
    )
    tx.run(_DELETE_OLD_REJECTED, kept=MAX_REJECTED_EVENTS)
    return bool(new)


_REJECTED = f"state = '{InboxState.REJECTED}' AND key IS NULL"  # word for word as in the partial index
_DELETE_OLD_REJECTED = (
    f"DELETE FROM inbox WHERE {_REJECTED} AND id <= "
    f"(SELECT id FROM inbox WHERE {_REJECTED} ORDER BY id DESC LIMIT 1 OFFSET :kept)"
)


def writers(tx: Tx, key: str) -> set[str]:
    """Return the ids of all people whose messages and commands the session key has received."""
    sql = "SELECT body FROM inbox WHERE key = :key AND kind IN ('message', 'command') AND body IS NOT NULL"
    return {msgspec.json.decode(body, type=Inbound).sender.id for (body,) in tx.all(sql, key=key)}


def reject_waiting(tx: Tx, message: str, problem: str) -> None:
    """Reject a row that still waits."""
    sql = (
        f"UPDATE inbox SET state = '{InboxState.REJECTED}', problem = :problem WHERE id = :id AND {MESSAGE_WAITS}"
    )
    tx.run(sql, problem=problem, id=message)


_CHAT_MESSAGES = (
    "SELECT position, id, 'user', body, received_at, turn, NULL, NULL FROM inbox "
    "WHERE key = :key AND position > :after AND kind IN ('message', 'command') "
    f"AND state <> '{InboxState.DELETED}' AND event_key NOT LIKE '{RETRY_KEY_PREFIX}%' "
    "UNION ALL SELECT position, id, 'agent', text, updated_at, turn, file, reply FROM outbox "
    f"WHERE key = :key AND state = '{DeliveryState.SENT}' AND position > :after ORDER BY 1 LIMIT :limit"
)


def _as_chat_message(tx: Tx, row: Row) -> ChatMessage:
    position, message, author, content, at, turn, _, reply = row
    text = msgspec.json.decode(content, type=Inbound).text if author == "user" else content
    return ChatMessage(
        position,
        message,
        author,
        text,
        at,
        turn,
        _chat_attachments(tx, row),
        question_of_reply(reply) if reply else None,
    )


def _chat_attachments(tx: Tx, row: Row) -> tuple[ChatAttachment, ...]:
    """Return the files of a row of `_CHAT_MESSAGES`."""
    if row[2] == "agent":
        return (msgspec.json.decode(row[6], type=ChatAttachment),) if row[6] else ()
    found = attachments.of_message(tx, row[1]) if attachments.has_files(row[3]) else []
    return tuple(ChatAttachment(file.id, file.name, file.media_type, file.size, file.state) for file in found)


def withdraw(tx: Tx, key: str, before: int) -> int:
    """Withdraw the messages of a key that wait before a position in the chat; return how many there were.

    Of the gateway's own rows, asides are withdrawn, too; reports stay, because they begin a turn themselves.
    """
    sql = (
        f"UPDATE inbox SET state = '{InboxState.WITHDRAWN}' "
        f"WHERE key = :key AND {MESSAGE_WAITS} AND kind IN ({{kinds}}) AND position < :before"
    )
    tx.run(sql.format(kinds="'aside'"), key=key, before=before)
    return tx.run(sql.format(kinds="'message', 'wish'"), key=key, before=before)


def count_waiting(tx: Tx, key: str, after: int = 0, before: int = MAX_POSITION) -> int:
    row = tx.one(_COUNT_WAITING, key=key, after=after, before=before)
    return row[0] if row else 0


_COUNT_WAITING = (
    f"SELECT count(*) FROM inbox WHERE key = :key AND {MESSAGE_WAITS} AND kind IN ('message', 'wish') "
    "AND position > :after AND position < :before"
)


def assign_to_turn(tx: Tx, message: str, turn: str) -> None:
    """Make a message a part of a turn."""
    tx.run(
        f"UPDATE inbox SET state = '{InboxState.TAKEN}', turn = :turn WHERE id = :inbox", turn=turn, inbox=message
    )


def as_cause(tx: Tx, row: Row) -> Cause:
    """Return a row (id, body, kind), with its files, as the cause that a turn records."""
    inbound = msgspec.json.decode(row[1], type=Inbound)
    return Cause(
        row[0],
        inbound.text,
        inbound.sender,
        inbound.message,
        inbound.sent_at,
        attachments.as_attachments(tx, row[0]) if inbound.attachments else (),
        wish=row[2] == "wish",
        note=row[2] in ("report", "aside"),
    )

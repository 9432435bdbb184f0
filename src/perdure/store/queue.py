"""The queue: waiting messages, which of them share a turn, and how they are edited, expired or steered."""

from __future__ import annotations

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from perdure.core import texts
from perdure.core.address import split_session_key
from perdure.core.commands import read_command
from perdure.core.journal import JournalRecord, MessagesJoined
from perdure.core.messages import Inbound, Stored
from perdure.core.queue import Fate, QueueMode, QueueRules, WaitingMessage, is_due, messages_of_next_turn
from perdure.core.states import InboxState, TurnState
from perdure.core.storable_text import to_json
from perdure.store import attachments, busy_modes, inbox, outbox, transitions
from perdure.store.authorisation import (
    Beginner,
    MayJoin,
    beginner_of,
    everybody_may_join,
    rows_that_may_join,
    sender_of,
)
from perdure.store.chat_commands import ChatCommand
from perdure.store.conditions import MESSAGE_WAITS
from perdure.store.database import Database, Row, Transaction, Tx
from perdure.store.outbox import OutboxReply
from perdure.store.transitions import Turn

# A message behind a command waits until the command was executed: after `/new`, "hello" goes to the new session.
BEFORE_COMMANDS = (
    "position < coalesce((SELECT min(c.position) FROM inbox c "
    f"WHERE c.key = :key AND c.{MESSAGE_WAITS} AND c.kind = 'command'), {inbox.MAX_POSITION})"
)
_ROW = "SELECT id, body, kind, manner, received_at, sent_at, position FROM inbox WHERE key = :key"
_INTERRUPTING = f"{_ROW} AND {MESSAGE_WAITS} AND manner = 'interrupt' AND {BEFORE_COMMANDS} ORDER BY position"
_STEERING = f"{_ROW} AND {MESSAGE_WAITS} AND manner = 'steer' AND {BEFORE_COMMANDS} ORDER BY position"
_FIRST_WAITING = (
    f"{_ROW} AND {MESSAGE_WAITS} AND kind NOT IN ('command', 'aside') AND {BEFORE_COMMANDS} "
    "ORDER BY position LIMIT 1"
)
_MESSAGES_AFTER = f"{_ROW} AND {MESSAGE_WAITS} AND kind IN ('message', 'wish') AND position > :after"
_FOLLOWING = (
    f"{_ROW} AND {MESSAGE_WAITS} AND kind NOT IN ('command', 'aside') AND {BEFORE_COMMANDS} "
    "AND position >= :first ORDER BY position"
)


class Queue:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def mode(self, key: str, default: QueueMode) -> QueueMode:
        """Return what a message does that arrives while a turn of the key runs."""
        return await self._database.read(lambda tx: busy_modes.mode_of(tx, key, default))

    async def amend(
        self,
        inbound: Inbound,
        raw: str,
        key: str,
        now: int,
        *,
        resolve_key: Transaction[str | None],
        rules: QueueRules,
    ) -> Stored:
        """Edit or delete a waiting message, once; `resolve_key` returns the key of its session, if it has one.

        After return: the change is durable, or the returned fate says why it was not made.
        If we die inside: the message is as before or as after; a change that is delivered again acts once.
        """

        def transaction(tx: Tx) -> Stored:
            there = resolve_key(tx)
            if there is None:
                return Stored("", "", key, fresh=False, fate=Fate.UNKNOWN)
            return _amend(tx, inbound, raw, there, rules)

        return await self._database.write(transaction, key=key, at=now)

    async def has_steering_message(self, key: str) -> bool:
        """Say whether a message waits that is to steer the running turn."""
        return await self._database.read(lambda tx: tx.one(f"{_STEERING} LIMIT 1", key=key) is not None)

    async def join(
        self, turn: Turn, rules: QueueRules, now: int, may_join: MayJoin = everybody_may_join
    ) -> list[JournalRecord] | None:
        """Let the steering messages join a running turn, in order; None: the turn has moved on.

        Those whose senders `may_join` refuses wait for a turn of their own.

        After return: the messages are a part of the turn, and begin no other turn.
        If we die inside: they are a part of the turn, or they still wait.
        """
        return await self._database.write(lambda tx: _join(tx, turn, rules, may_join), key=turn.key, at=now)

    async def has_joining_message(self, turn: Turn, after: int, may_join: MayJoin) -> bool:
        """Say whether a message waits, after a position in the chat, that will join an interrupted turn."""

        def transaction(tx: Tx) -> bool:
            rows = tx.all(_MESSAGES_AFTER, key=turn.key, after=after)
            return bool(rows and rows_that_may_join(tx, rows, turn.key, beginner_of(tx, turn), may_join))

        return await self._database.read(transaction)

    async def expire_old(self, before: int) -> list[str]:
        """Expire the waiting messages and commands that were sent before a time; return their keys."""
        keys = await self._database.read(lambda tx: [row[0] for row in tx.all(_KEYS_WITH_OLD, before=before)])
        for key in keys:
            await self._database.write(_expire_key(key, before), key=key)
        return keys

    async def notify_expired(self, now: int) -> list[str]:
        """Put a notice of its expired messages in each chat's lane, once; return the keys of those chats."""
        sql = "SELECT key FROM leases WHERE untold > 0 ORDER BY key"
        keys = await self._database.read(lambda tx: [row[0] for row in tx.all(sql)])
        for key in keys:
            await self._database.write(_notify_key(key), key=key, at=now)
        return keys


# ── the next turn ───────────────────────────────────────────────────────────────────────────────────────────


def is_ready(tx: Tx, key: str, rules: QueueRules, may_join: MayJoin) -> bool:
    """Say whether a turn may begin from the waiting messages, as far as one can tell without the lease."""
    row = _first(tx, key)
    return row is not None and (
        _is_too_old(row, rules.too_old_before(tx.time)) or bool(_rows_of_turn(tx, key, row, rules, may_join))
    )


def next_rows(tx: Tx, key: str, rules: QueueRules, may_join: MayJoin) -> list[Row]:
    """Return the rows that begin the next turn, (id, body, kind, …); none if nothing waits, or more may come.

    Messages that are too old expire on the way.
    """
    while (row := _first(tx, key, tx.for_update)) is not None:
        if not _is_too_old(row, rules.too_old_before(tx.time)):
            return _rows_of_turn(tx, key, row, rules, may_join, tx.for_update)
        _expire(tx, key, [row[0]])
    return []


def has_waiting(tx: Tx, key: str) -> bool:
    """Say whether a row waits that will begin a turn."""
    return tx.one(_FIRST_WAITING, key=key) is not None


def _first(tx: Tx, key: str, for_update: str = "") -> Row | None:
    """Return the first waiting row: interrupting messages first, then in the order of the chat."""
    return tx.one(f"{_INTERRUPTING} LIMIT 1{for_update}", key=key) or tx.one(
        f"{_FIRST_WAITING}{for_update}", key=key
    )


def _rows_of_turn(
    tx: Tx, key: str, row: Row, rules: QueueRules, may_join: MayJoin, for_update: str = ""
) -> list[Row]:
    """Return a message with those that share its turn; the rest of the queue is read only if some may."""
    rows, before = [row], rules.too_old_before(tx.time)
    if _as_waiting(row).may_share_turn:
        rows = [each for each in _candidate_rows(tx, key, row, for_update) if not _is_too_old(each, before)]
    beginner = Beginner(sender_of(row), key)
    turn = messages_of_next_turn(
        [_as_waiting(each, may_join=may_join(tx, key, beginner, sender_of(each))) for each in rows]
    )
    if not is_due(turn, rules.quiet_ms, tx.time):
        return []
    chosen = {each.id for each in turn}
    rows = [each for each in rows if each[0] in chosen]
    return [] if rules.await_files and attachments.any_pending(tx, rows) else rows


def _candidate_rows(tx: Tx, key: str, row: Row, for_update: str) -> list[Row]:
    if row[3] == "interrupt":
        return tx.all(f"{_INTERRUPTING}{for_update}", key=key)
    return tx.all(f"{_FOLLOWING}{for_update}", key=key, first=row[6])


def _as_waiting(row: Row, *, may_join: bool = True) -> WaitingMessage:
    album = msgspec.json.decode(row[1], type=Inbound).album if row[2] == "message" else None
    return WaitingMessage(row[0], row[3], album, row[4], may_join)


# ── joining ─────────────────────────────────────────────────────────────────────────────────────────────────


def _join(tx: Tx, turn: Turn, rules: QueueRules, may_join: MayJoin) -> list[JournalRecord] | None:
    before = rules.too_old_before(tx.time)
    rows = tx.all(f"{_STEERING}{tx.for_update}", key=turn.key)
    _expire(tx, turn.key, [row[0] for row in rows if _is_too_old(row, before)])
    rows = [row for row in rows if not _is_too_old(row, before)]
    rows = rows_that_may_join(tx, rows, turn.key, beginner_of(tx, turn), may_join) if rows else []
    rows = attachments.before_first_pending(tx, rows) if rules.await_files else rows
    if not rows:
        return []
    records = transitions.append_facts(tx, turn, [MessagesJoined(tuple(inbox.as_cause(tx, row) for row in rows))])
    if records is not None:
        for row in rows:
            inbox.assign_to_turn(tx, row[0], turn.id)
    return records


# ── what is too old ─────────────────────────────────────────────────────────────────────────────────────────

_TOO_OLD = f"{MESSAGE_WAITS} AND kind IN ('message', 'command') AND coalesce(sent_at, received_at) < :before"
_KEYS_WITH_OLD = f"SELECT DISTINCT key FROM inbox WHERE {_TOO_OLD} ORDER BY key"


def _is_too_old(row: Row, before: int) -> bool:
    sent_at: int = row[4] if row[5] is None else row[5]
    return row[2] == "message" and sent_at < before


def _expire(tx: Tx, key: str, messages: list[str]) -> None:
    sql = f"UPDATE inbox SET state = '{InboxState.EXPIRED}' WHERE id = :id AND {MESSAGE_WAITS}"
    gone = sum(tx.run(sql, id=message) for message in messages)
    if gone:
        busy_modes.add_expired(tx, key, gone)


def _expire_key(key: str, before: int) -> Transaction[None]:
    def transaction(tx: Tx) -> None:
        _lock_queue(tx, key)
        gone = tx.run(
            f"UPDATE inbox SET state = '{InboxState.EXPIRED}' WHERE key = :key AND {_TOO_OLD}",
            key=key,
            before=before,
        )
        busy_modes.add_expired(tx, key, gone)

    return transaction


def _notify_key(key: str) -> Transaction[None]:
    def transaction(tx: Tx) -> None:
        untold = _lock_queue(tx, key)
        if not untold:
            return  # another gateway has told the chat
        tx.run("UPDATE leases SET untold = 0 WHERE key = :key", key=key)
        notice = OutboxReply(split_session_key(key)[1], tx.ids.new("old"), (texts.turns.messages_expired(untold),))
        outbox.enqueue(tx, key, None, notice)

    return transaction


def _lock_queue(tx: Tx, key: str) -> int:
    """Lock a key's queue for this transaction; return how many expired messages its chat was not told of."""
    row = tx.one(f"SELECT untold FROM leases WHERE key = :key{tx.for_update}", key=key)
    return row[0] if row else 0


# ── edits ───────────────────────────────────────────────────────────────────────────────────────────────────


def _amend(tx: Tx, change: Inbound, raw: str, key: str, rules: QueueRules) -> Stored:
    done = Fate.DELETED if change.kind == "delete" else Fate.CHANGED
    known = inbox.find(tx, change.event_key)
    if known is not None:
        return replace(known, fate=done)
    _lock_queue(tx, key)
    row = tx.one(
        "SELECT id, session, state, body FROM inbox WHERE event_key = :event AND key = :key AND body IS NOT NULL"
        + tx.for_update,
        event=change.original_event_key,
        key=key,
    )
    written = msgspec.json.decode(row[3], type=Inbound) if row else None
    if row is None or written is None or written.sender.id != change.sender.id:
        return Stored("", "", key, fresh=False, fate=Fate.UNKNOWN)
    if row[2] != InboxState.WAITING:
        return Stored(row[0], row[1], key, fresh=False, fate=Fate.TOO_LATE)
    inbox.insert(tx, change, raw, key, row[1], "change", state=InboxState.OBEYED)
    if change.kind == "delete":
        tx.run(f"UPDATE inbox SET state = '{InboxState.DELETED}' WHERE id = :id", id=row[0])
        return Stored(row[0], row[1], key, fresh=True, fate=done)
    ended = _edit(tx, row[0], key, replace(written, text=change.text), rules)
    return Stored(row[0], row[1], key, fresh=True, fate=done, ended=ended)


def _edit(tx: Tx, message: str, key: str, inbound: Inbound, rules: QueueRules) -> str | None:
    """Change a message's text, which may turn it into a command or back; return the turn that it ended."""
    row = tx.one("SELECT manner, kind FROM inbox WHERE id = :id", id=message)
    was: QueueMode | None = row[0] if row else None
    ordered = read_command(inbound.text) is not None
    manner = None if ordered else was or busy_modes.mode_of(tx, key, rules.mode)
    bound = busy_modes.current_turn_id(tx, key) if ordered else None
    _update_message(tx, message, inbound, "command" if ordered else "message", manner, bound)
    became = row is not None and row[1] == "command"
    return busy_modes.cancel_replaced_turn(tx, key, manner) if became else None


def _update_message(
    tx: Tx, message: str, inbound: Inbound, kind: str, manner: QueueMode | None, bound: str | None
) -> None:
    tx.run(
        f"UPDATE inbox SET state = '{InboxState.WAITING}', kind = :kind, manner = :manner, bound = :bound, "
        "body = :body WHERE id = :id",
        id=message,
        kind=kind,
        manner=manner,
        bound=bound,
        body=to_json(inbound),
    )


# ── what commands do ────────────────────────────────────────────────────────────────────────────────────────


class QueuedCommand(Struct, frozen=True):
    """The result of turning a command into a message."""

    taken: bool  # False: the queue is full
    busy: bool = False  # whether a turn is under way
    before: int = 0  # messages that wait before it


def convert_to_message(
    command: ChatCommand, words: str, manner: QueueMode, rules: QueueRules
) -> Transaction[QueuedCommand]:
    """Turn a command into a message with these words, at the same position, with its own queue mode."""

    def transaction(tx: Tx) -> QueuedCommand:
        if busy_modes.is_queue_full(tx, command.key, rules.cap):
            return QueuedCommand(False)
        turn, before = (
            transitions.current_turn(tx, command.key),
            inbox.count_waiting(tx, command.key, before=command.position),
        )
        session = inbox.session_for_message(tx, command.key)
        row = tx.one("SELECT body FROM inbox WHERE id = :id", id=command.id)
        assert row is not None, f"the command {command.id} vanished"
        inbound = replace(msgspec.json.decode(row[0], type=Inbound), text=words)
        _update_message(tx, command.id, inbound, "message", manner, None)
        tx.run("UPDATE inbox SET session = :session WHERE id = :id", session=session, id=command.id)
        return QueuedCommand(
            True, turn is not None and turn.state in (TurnState.RUNNING, TurnState.QUEUED), before
        )

    return transaction


class ModeSwitch(Struct, frozen=True):
    mode: QueueMode
    ended: str | None  # the turn that was ended by a message right behind the command


def switch_mode(key: str, mode: QueueMode, since: int) -> Transaction[ModeSwitch]:
    """Switch the queue mode of a key; messages after a position in the chat follow the new mode."""

    def transaction(tx: Tx) -> ModeSwitch:
        tx.run("UPDATE leases SET mode = :mode WHERE key = :key", mode=mode, key=key)
        moved = tx.run(
            f"UPDATE inbox SET manner = :mode WHERE key = :key AND {MESSAGE_WAITS} AND kind = 'message' "
            f"AND position > :since AND {BEFORE_COMMANDS}",
            mode=mode,
            key=key,
            since=since,
        )
        return ModeSwitch(mode, busy_modes.cancel_replaced_turn(tx, key, mode) if moved else None)

    return transaction

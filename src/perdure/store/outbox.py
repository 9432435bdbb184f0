"""The outbox: replies and notices to be delivered, in one lane per address.

owed → sending → sent | unknown | refused | expired | withdrawn. A row is `sending` on disk before the platform
is called, so a crash in between leaves a send whose outcome is unknown, never a send without a record.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import msgspec
from msgspec import Struct

from perdure.core import texts
from perdure.core.address import Address, parent_session_key, split_parts
from perdure.core.delivery import OPEN_DELIVERY_STATES, DeliveryState, delivery_key
from perdure.core.messages import Button, Outbound, SentFile
from perdure.core.storable_text import to_json
from perdure.store import leases, sessions
from perdure.store.conditions import DEAD_RUNS, DELIVERY_IS_OPEN, has_service
from perdure.store.database import Database, Row, Transaction, Tx

T = TypeVar("T")

_COLUMNS = (
    "id, delivery_key, lane, key, turn, reply, part, text, reply_to, state, attempts, due_at, receipt, problem, "
    "position, created_at, updated_at, buttons, edits, file"
)
PAGE_WINDOW_ROWS = 5_000  # rows that one page reads at most: the wanted states may be rare among them
MAX_ID = "z" * 30  # behind every id
PAIRING_PREFIX = "pair_"  # begins the names of replies that contain a pairing code
INSERT_DELIVERY = (
    "INSERT INTO outbox (id, delivery_key, lane, key, turn, reply, part, text, reply_to, buttons, edits, "
    "file, state, attempts, due_at, created_at, updated_at) VALUES (:id, :delivery_key, :lane, :key, "
    f":turn, :reply, :part, :text, :reply_to, :buttons, :edits, :file, '{DeliveryState.OWED}', 0, :now, :since, "
    ":now) ON CONFLICT DO NOTHING"
)
# The row is still at the attempt that the caller made, not at a later one.
_IS_THIS_SEND = f"state = '{DeliveryState.SENDING}' AND attempts = :attempts"


class OutboxReply(Struct, frozen=True):
    """A reply to be delivered, split into its parts."""

    address: Address
    reply: str  # names the reply; parts of one reply stand or fall together
    parts: tuple[str, ...]
    reply_to: str | None = None
    buttons: tuple[Button, ...] = ()  # under the last part
    edits: str | None = None  # the receipt of the message that the first part replaces by an edit
    file: SentFile | None = None  # the reply is this file; its one part is the caption


class OutboxDelivery(Struct, frozen=True):
    """A row of the outbox."""

    id: str
    delivery_key: str
    lane: str
    key: str
    turn: str | None
    reply: str
    part: int
    text: str
    reply_to: str | None
    state: DeliveryState
    attempts: int
    due_at: int
    receipt: str | None
    problem: str | None
    position: int | None
    created_at: int
    updated_at: int
    buttons: str | None  # as JSON
    edits: str | None  # the receipt of the message that this row replaces by an edit
    file: str | None  # as JSON

    @property
    def delay_ms(self) -> int:
        """Milliseconds between the change that set the due time and the due time."""
        return self.due_at - self.updated_at

    @property
    def address(self) -> Address:
        return Address(*split_parts(self.lane))  # type: ignore[arg-type]  # written by Address.lane

    @property
    def has_pairing_code(self) -> bool:
        """Whether the text contains a pairing code, with which any reader could be let in."""
        return self.reply.startswith(PAIRING_PREFIX)

    @property
    def public_text(self) -> str:
        """The text with the pairing code removed, for everybody but its recipient."""
        return texts.people.PAIRING_CODE_HIDDEN if self.has_pairing_code else self.text

    def outbound(self, text: str | None = None) -> Outbound:
        buttons = msgspec.json.decode(self.buttons, type=tuple[Button, ...]) if self.buttons else ()
        return Outbound(self.address, text or self.text, self.delivery_key, self.reply_to, buttons)

    @property
    def sent_file(self) -> SentFile | None:
        """The file that this row sends, if it sends one."""
        return msgspec.json.decode(self.file, type=SentFile) if self.file else None


class OutboxPage(Struct, frozen=True):
    """Some rows, and the cursor of the next page; None after the last page."""

    rows: list[OutboxDelivery]
    after: str | None


class Outbox:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def lane_heads(self, run: str, platforms: Sequence[str]) -> list[OutboxDelivery]:
        """The first open row of every lane of these platforms whose session is ours or free.

        A row that another living run is sending is left to that run, though the session may be ours by now.
        """
        sql = (
            f"SELECT {_COLUMNS} FROM outbox WHERE id IN (SELECT min(o.id) FROM outbox o "
            f"JOIN leases ON leases.key = o.key WHERE o.{DELIVERY_IS_OPEN} AND {leases.OURS_OR_IDLE} "
            f"AND {has_service('leases')} GROUP BY o.lane) "
            f"AND (run IS NULL OR run = :run OR run IN ({DEAD_RUNS})) ORDER BY id"
        )
        rows = await self._database.read(lambda tx: tx.all(sql, run=run))
        return [row for row in map(_as_delivery, rows) if row.address.platform in platforms]

    async def start_sending(self, row: OutboxDelivery, run: str, now: int) -> bool:
        """Mark the row as being sent. False: it is not ours to send, or was withdrawn.

        After return: if we die now, the send counts as unknown.
        """
        return await self._database.write(lambda tx: _start_sending(tx, row, run), key=row.key, at=now)

    async def record_sent(
        self, row: OutboxDelivery, receipt: str, now: int, *, resolved: str | None = None
    ) -> bool:
        """Record the receipt. After return: the row is sent for good, and has its place in the chat.

        `resolved` stays on record: how an earlier send of unknown outcome was resolved.
        """
        return await self._database.write(lambda tx: _record_sent(tx, row, receipt, resolved), key=row.key, at=now)

    async def retry_later(self, row: OutboxDelivery, due_at: int, now: int, *, problem: str, counts: bool) -> bool:
        """Put the row back: nothing was sent. `counts` says whether this used up an attempt.

        A row that was unknown before this attempt stays unknown: an earlier send may have arrived.
        """
        state = row.state if row.state is DeliveryState.UNKNOWN else DeliveryState.OWED
        changes = f"state = '{state}', run = NULL, due_at = :due_at, attempts = attempts + :used"
        return await self._update(
            row, changes, now, _IS_THIS_SEND, problem=problem, due_at=due_at, used=int(counts)
        )

    async def record_unknown(self, row: OutboxDelivery, due_at: int, now: int, *, problem: str) -> bool:
        """Record that the outcome of the send is unknown. The row blocks its lane until that is resolved."""
        changes = f"state = '{DeliveryState.UNKNOWN}', run = NULL, due_at = :due_at, attempts = attempts + 1"
        return await self._update(row, changes, now, _IS_THIS_SEND, problem=problem, due_at=due_at)

    async def record_refused(self, row: OutboxDelivery, now: int, *, problem: str) -> bool:
        """Drop a row that the platform will never accept, with the rest of its reply, and free the lane."""
        sql = (
            f"UPDATE outbox SET state = '{DeliveryState.REFUSED}', run = NULL, problem = :problem, "
            f"updated_at = :now WHERE reply = :reply AND lane = :lane AND {DELIVERY_IS_OPEN}"
        )
        values = {"problem": problem, "now": now, "reply": row.reply, "lane": row.lane}
        return await self._database.write(lambda tx: bool(tx.run(sql, **values)), key=row.key, at=now)

    async def send_as_new_message(self, row: OutboxDelivery, now: int, *, problem: str) -> bool:
        """Owe the row as a message of its own, because the message that it should replace cannot be edited."""
        changes = f"state = '{DeliveryState.OWED}', run = NULL, due_at = :now, edits = NULL"
        return await self._update(row, changes, now, _IS_THIS_SEND, problem=problem)

    async def replace_file_with_text(self, row: OutboxDelivery, text: str, now: int, *, problem: str) -> bool:
        """Owe a text instead of the file, which the platform does not accept."""
        changes = f"state = '{DeliveryState.OWED}', run = NULL, due_at = :now, file = NULL, text = :text"
        return await self._update(row, changes, now, _IS_THIS_SEND, problem=problem, text=text)

    async def expire(
        self, row: OutboxDelivery, now: int, *, problem: str, notice: OutboxReply | None = None
    ) -> bool:
        """Give up an open row: it stays on record as expired, and the notice says so in the chat."""
        changes = f"state = '{DeliveryState.EXPIRED}', run = NULL"
        return await self._update(row, changes, now, DELIVERY_IS_OPEN, notice=notice, problem=problem)

    async def expire_unserved(self, before: int, now: int) -> int:
        """Give up the rows from before a time that no living run can send; return how many there were."""
        sql = (
            f"UPDATE outbox SET state = '{DeliveryState.EXPIRED}', run = NULL, updated_at = :now, "
            "problem = :problem WHERE "
            f"{DELIVERY_IS_OPEN} AND state <> '{DeliveryState.SENDING}' AND created_at < :before AND NOT EXISTS "
            "(SELECT 1 FROM leases l, runs r WHERE l.key = outbox.key AND r.ended_at IS NULL "
            f"AND {has_service('l', 'r.id')})"
        )
        values = {"before": before, "now": now, "problem": texts.platforms.NOT_SERVED}
        return await self._database.write(lambda tx: tx.run(sql, **values), at=now)

    async def mark_orphans_unknown(self, now: int) -> int:
        """Make the rows unknown that a dead run was sending; return how many there were."""
        sql = (
            f"UPDATE outbox SET state = '{DeliveryState.UNKNOWN}', run = NULL, attempts = attempts + 1, "
            "due_at = :now, updated_at = :now, problem = 'the gateway died while sending' "
            f"WHERE {DELIVERY_IS_OPEN} AND state = '{DeliveryState.SENDING}' AND run IN ({DEAD_RUNS})"
        )
        return await self._database.write(lambda tx: tx.run(sql, now=now), at=now)

    async def enqueue(self, key: str, reply: OutboxReply, now: int) -> None:
        """Put a notice of no turn in its lane. After return: it will be sent once."""
        await self._database.write(lambda tx: enqueue(tx, key, None, reply), key=key, at=now)

    async def of_turn(self, turn: str) -> list[OutboxDelivery]:
        """The rows of one turn, in order."""
        return await self._database.read(lambda tx: of_turn(tx, turn))

    async def open_deliveries(self, limit: int = 100) -> list[OutboxDelivery]:
        """Rows that are still owed, being sent, or unknown."""
        return await self._database.read(
            lambda tx: _select(tx, f"{DELIVERY_IS_OPEN} ORDER BY created_at, id LIMIT :limit", limit=limit)
        )

    async def get(self, name: str) -> OutboxDelivery | None:
        return await self._database.read(lambda tx: get(tx, name))

    async def page(self, states: Sequence[DeliveryState], after: str = "", limit: int = 100) -> OutboxPage:
        """Rows in these states, the newest first, beginning before `after`."""
        return await self._database.read(lambda tx: _page(tx, states, after or MAX_ID, limit))

    async def resent_id(self, row: OutboxDelivery) -> str | None:
        """The row that an operator sent again in the place of this one."""
        sql = "SELECT id FROM outbox WHERE delivery_key = :key"
        found = await self._database.read(lambda tx: tx.one(sql, key=delivery_key(resent_reply_name(row), 0)))
        return found[0] if found else None

    async def execute_verb(self, key: str, verb: Transaction[T], *, at: int | None = None) -> T:
        """Run an operator's verb on a row of that key. After return: its effect is durable."""
        return await self._database.write(verb, key=key, at=at)

    async def _update(
        self,
        row: OutboxDelivery,
        changes: str,
        now: int,
        guard: str,
        notice: OutboxReply | None = None,
        **values: str | int | None,
    ) -> bool:
        sql = f"UPDATE outbox SET {changes}, problem = :problem, updated_at = :now WHERE id = :id AND {guard}"
        values |= {"id": row.id, "attempts": row.attempts, "now": now}

        def transaction(tx: Tx) -> bool:
            changed = bool(tx.run(sql, **values))
            if changed and notice is not None:
                enqueue(tx, row.key, None, notice)
            return changed

        return await self._database.write(transaction, key=row.key, at=now)


def resent_reply_name(row: OutboxDelivery) -> str:
    """Return the name of the reply that repeats a row, the same each time; it keeps the pairing prefix."""
    return f"{PAIRING_PREFIX if row.has_pairing_code else ''}{row.id}.again"


def enqueue(tx: Tx, key: str, turn: str | None, reply: OutboxReply) -> None:
    """Put a reply in its lane, once: the same reply again changes nothing.

    Replies of a background session stand under the key of their chat, like everything else sent there.
    """
    key = parent_session_key(key)
    buttons = to_json(reply.buttons) if reply.buttons else None
    file = to_json(reply.file) if reply.file else None
    lane = reply.address.lane
    if turn is None:
        sessions.ensure_lease(tx, key)  # a notice may be the first message of a chat
    for part, text in enumerate(reply.parts):
        last = tx.one(f"SELECT max(id) FROM outbox WHERE lane = :lane AND {DELIVERY_IS_OPEN}", lane=lane)
        tx.run(
            INSERT_DELIVERY,
            id=tx.ids.new("out", after=last[0] if last else None),
            delivery_key=delivery_key(reply.reply, part),
            lane=lane,
            key=key,
            turn=turn,
            reply=reply.reply,
            part=part,
            text=text,
            reply_to=reply.reply_to if part == 0 else None,
            buttons=buttons if part == len(reply.parts) - 1 else None,
            edits=reply.edits if part == 0 else None,
            file=file,
            since=tx.time,
            now=tx.time,
        )


def withdraw_unsent(tx: Tx, key: str) -> list[tuple[str, str | None]]:
    """Withdraw the unsent parts of the replies of a key's turns; return each part's turn, and what it edits.

    Replies of background sessions stay: they are in the chat's lane and under its key, but of other turns.
    """
    rows = tx.all(
        f"UPDATE outbox SET state = '{DeliveryState.WITHDRAWN}', updated_at = :now "
        f"WHERE {DELIVERY_IS_OPEN} AND key = :home AND state = '{DeliveryState.OWED}' "
        "AND turn IN (SELECT t.id FROM turns t WHERE t.id = outbox.turn AND t.key = :key) RETURNING turn, edits",
        now=tx.time,
        key=key,
        home=parent_session_key(key),
    )
    return [(row[0], row[1]) for row in rows]


def withdraw_turn(tx: Tx, turn: str) -> list[str]:
    """Withdraw the unsent replies of one turn; return the receipts of the messages that they should edit."""
    rows = tx.all(
        f"UPDATE outbox SET state = '{DeliveryState.WITHDRAWN}', updated_at = :now "
        f"WHERE turn = :turn AND state = '{DeliveryState.OWED}' RETURNING edits",
        now=tx.time,
        turn=turn,
    )
    return [row[0] for row in rows if row[0] is not None]


def withdraw_notice(tx: Tx, lane: str, reply: str) -> bool:
    """Withdraw a notice that was not sent yet. False: it was sent, or there is none."""
    sql = (
        f"UPDATE outbox SET state = '{DeliveryState.WITHDRAWN}', updated_at = :now "
        f"WHERE {DELIVERY_IS_OPEN} AND lane = :lane AND reply = :reply AND state = '{DeliveryState.OWED}'"
    )
    return bool(tx.run(sql, lane=lane, reply=reply, now=tx.time))


def of_turn(tx: Tx, turn: str) -> list[OutboxDelivery]:
    return _select(tx, "turn = :turn ORDER BY id", turn=turn)


def get(tx: Tx, name: str, *, for_update: bool = False) -> OutboxDelivery | None:
    """Return a row by its id; with `for_update`, nobody else changes it before we commit."""
    row = tx.one(f"SELECT {_COLUMNS} FROM outbox WHERE id = :name{tx.for_update if for_update else ''}", name=name)
    return _as_delivery(row) if row else None


def _page(tx: Tx, states: Sequence[DeliveryState], after: str, limit: int) -> OutboxPage:
    """Read open rows from their index; rows in other states from a window of the newest rows."""
    wanted = ", ".join(f"'{state}'" for state in states)
    if set(states) <= set(OPEN_DELIVERY_STATES):
        # Not by the bare id: SQLite would read all rows in their order rather than sort the few open ones.
        name = "(id || '')"
        condition = (
            f"{DELIVERY_IS_OPEN} AND state IN ({wanted}) AND {name} < :after ORDER BY {name} DESC LIMIT :limit"
        )
        rows = _select(tx, condition, after=after, limit=limit + 1)
        return OutboxPage(rows[:limit], rows[limit - 1].id if len(rows) > limit else None)
    window = "SELECT id FROM outbox WHERE id < :after ORDER BY id DESC LIMIT :window"
    last = tx.one(f"SELECT min(w.id), count(*) FROM ({window}) w", after=after, window=PAGE_WINDOW_ROWS)
    end = last[0] if last and last[1] == PAGE_WINDOW_ROWS else ""
    condition = f"state IN ({wanted}) AND id < :after AND id >= :end ORDER BY id DESC LIMIT :limit"
    rows = _select(tx, condition, after=after, end=end, limit=limit + 1)
    return OutboxPage(rows[:limit], rows[limit - 1].id if len(rows) > limit else end or None)


def _as_delivery(row: Row) -> OutboxDelivery:
    state = DeliveryState(row[9])
    return OutboxDelivery(*(*row[:9], state, *row[10:]))


def _select(tx: Tx, condition: str, **values: str | int) -> list[OutboxDelivery]:
    return [_as_delivery(row) for row in tx.all(f"SELECT {_COLUMNS} FROM outbox WHERE {condition}", **values)]


def _start_sending(tx: Tx, row: OutboxDelivery, run: str) -> bool:
    if not leases.hold(tx, row.key, run):
        return False
    sql = (
        f"UPDATE outbox SET state = '{DeliveryState.SENDING}', run = :run, updated_at = :now "
        f"WHERE id = :id AND state = :state AND state IN ('{DeliveryState.OWED}', '{DeliveryState.UNKNOWN}')"
    )
    return bool(tx.run(sql, run=run, now=tx.time, id=row.id, state=row.state.value))


def _record_sent(tx: Tx, row: OutboxDelivery, receipt: str, resolved: str | None) -> bool:
    position = sessions.next_position(tx, row.key)
    changed = tx.run(
        f"UPDATE outbox SET state = '{DeliveryState.SENT}', run = NULL, receipt = :receipt, problem = :resolved, "
        f"position = :position, updated_at = :now WHERE id = :id AND {DELIVERY_IS_OPEN}",
        receipt=receipt,
        resolved=resolved,
        position=position,
        now=tx.time,
        id=row.id,
    )
    if not changed:
        sessions.release_position(tx, row.key)
    elif row.has_pairing_code:  # its one recipient has it
        tx.run("UPDATE outbox SET text = :text WHERE id = :id", text=row.public_text, id=row.id)
    return bool(changed)

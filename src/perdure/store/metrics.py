"""Metrics: `Gauges` counts what is open now, `Counters` what has ended since the database was made.

Rows that have ended never change, so `Counters` counts them once, a slice at a time, and recounts only the newest
rows. An erased session stays in the count while the process lives: a monitoring system takes a counter that
falls for a restart.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec
from msgspec import Struct, field

from perdure.core.address import split_parts
from perdure.core.delivery import OPEN_DELIVERY_STATES
from perdure.core.states import OPEN_STATES, SessionState
from perdure.store.conditions import DELIVERY_IS_OPEN, MESSAGE_WAITS, PROCESS_IS_LIVE, TURN_IS_OPEN
from perdure.store.database import Database, Row, Tx

SLICE_ROWS = 2_000
RECOUNTED_ROWS = 500  # a row with an earlier id than these may still be inserted among them
OPEN_TURNS, OPEN_REPLIES = frozenset[str](OPEN_STATES), frozenset[str](OPEN_DELIVERY_STATES)

_INTERRUPTED = (  # by the index of the marks
    "SELECT max(session), sum(marks), count(*) FROM (SELECT session, count(*) AS marks FROM journal "
    "WHERE kind = 'interrupted' AND session > :after GROUP BY session ORDER BY session LIMIT :slice) AS slice"
)
_DECIDED = (
    "SELECT body FROM journal WHERE kind = 'decided' AND turn IN (SELECT turn FROM journal "
    "WHERE kind = 'interrupted' AND session > :after AND session <= :last)"
)

EndedCounts = Counter[tuple[str, str]]


class OpenCounts(Struct, frozen=True):
    """Open turns by state, suspended sessions, open replies by state, waiting messages, running processes."""

    queued: int = 0
    running: int = 0
    waiting: int = 0
    interrupted: int = 0
    suspended: int = 0
    owed: int = 0
    sending: int = 0
    unknown: int = 0
    messages: int = 0  # that wait for their turn
    processes: int = 0  # background processes whose end is not on record


class Gauges:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def counts(self) -> OpenCounts:
        """Count what is open, in one snapshot, from the indexes of open rows."""

        def transaction(tx: Tx) -> OpenCounts:
            turns = tx.all(f"SELECT state, count(*) FROM turns WHERE {TURN_IS_OPEN} GROUP BY state")
            replies = tx.all(f"SELECT state, count(*) FROM outbox WHERE {DELIVERY_IS_OPEN} GROUP BY state")
            return OpenCounts(
                **{row[0]: row[1] for row in (*turns, *replies)},
                suspended=_count(tx, f"sessions WHERE state = '{SessionState.SUSPENDED}'"),
                messages=_count(tx, f"inbox WHERE {MESSAGE_WAITS} AND kind = 'message'"),
                processes=_count(tx, f"processes WHERE {PROCESS_IS_LIVE}"),
            )

        return await self._database.read(transaction)


def _count(tx: Tx, rows: str) -> int:
    row = tx.one(f"SELECT count(*) FROM {rows}")
    return row[0] if row else 0


class CountedDecision(Struct, frozen=True):
    """The fields of a decision's journal entry that are counted."""

    decision: str
    rule: str = ""


class RecoveryCounts(Struct, frozen=True):
    """How often turns were interrupted, the decisions about them by choice and rule, and how runs ended."""

    interruptions: int
    decisions: Counter[tuple[str, str]]
    runs: dict[str, int]


class TableCounter(Struct):
    """The count of a table up to a cursor: the rows that have ended, and the ids of those still open."""

    select: str  # of id, lane and state
    open_states: frozenset[str]
    cursor: str = ""
    ended: EndedCounts = field(default_factory=Counter)
    open: set[str] = field(default_factory=set)

    def add_slice(self, rows: list[Row]) -> None:
        """Count the next rows for good, as far as they have ended, and move the cursor behind them."""
        self.ended += self.count_ended(rows)
        self.open |= {row[0] for row in rows if row[2] in self.open_states}
        self.cursor = rows[-1][0]

    def recount_open(self, rows: list[Row]) -> None:
        """Count the rows that were open before and have ended since; a row that is missing was erased."""
        self.ended += self.count_ended(rows)
        self.open = {row[0] for row in rows if row[2] in self.open_states}

    def count_ended(self, rows: list[Row]) -> EndedCounts:
        """Count the rows that have ended, by platform and state."""
        lanes = Counter((row[1], row[2]) for row in rows if row[2] not in self.open_states)
        found: EndedCounts = Counter()
        for (lane, state), count in lanes.items():
            found[split_parts(lane)[0], state] += count
        return found


class Counters:
    def __init__(
        self, database: Database, slice_rows: int = SLICE_ROWS, recounted_rows: int = RECOUNTED_ROWS
    ) -> None:
        """Rows are counted for good `slice_rows` at a time; the newest `recounted_rows` are counted every time."""
        self._database = database
        self._slice_rows = slice_rows
        self._recounted_rows = recounted_rows
        self._turns = TableCounter("SELECT id, '', state FROM turns", OPEN_TURNS)
        self._replies = TableCounter("SELECT id, lane, state FROM outbox", OPEN_REPLIES)

    async def ended_turns(self) -> EndedCounts:
        """Count the turns that have ended, by state; their platform is left empty. One caller at a time."""
        return await self._count_ended(self._turns)

    async def ended_replies(self) -> EndedCounts:
        """Count the replies that have ended, by platform and state. One caller at a time."""
        return await self._count_ended(self._replies)

    async def open_replies(self) -> EndedCounts:
        """Count the open replies, by platform and state, from the index of open rows."""
        rows = await self._read(
            f"SELECT count(*), lane, state FROM outbox WHERE {DELIVERY_IS_OPEN} GROUP BY lane, state"
        )
        found: EndedCounts = Counter()
        for count, lane, state in rows:
            found[split_parts(lane)[0], state] += count
        return found

    async def recoveries(self) -> RecoveryCounts:
        """Count interruptions, decisions and ended runs. The cost grows with the number of interruptions."""
        interruptions, decisions = 0, Counter[tuple[str, str]]()
        after, more = "", True
        while more:
            [(last, marks, sessions)] = await self._read(_INTERRUPTED, after=after, slice=self._slice_rows)
            for [body] in await self._read(_DECIDED, after=after, last=last or ""):
                decision = msgspec.json.decode(body, type=CountedDecision)
                decisions[decision.decision, decision.rule] += 1
            interruptions += int(marks or 0)
            after, more = last or "", sessions == self._slice_rows
        runs = await self._read("SELECT ending, count(*) FROM runs WHERE ending IS NOT NULL GROUP BY ending")
        return RecoveryCounts(interruptions, decisions, dict(runs))

    async def _count_ended(self, table: TableCounter) -> EndedCounts:
        table.recount_open(await self._open_rows(table))
        while True:
            limit = self._slice_rows + self._recounted_rows
            rows = await self._read(
                f"{table.select} WHERE id > :cursor ORDER BY id LIMIT :limit", cursor=table.cursor, limit=limit
            )
            if len(rows) < limit:
                return table.ended + table.count_ended(rows)
            table.add_slice(rows[: self._slice_rows])

    async def _open_rows(self, table: TableCounter) -> list[Row]:
        def transaction(tx: Tx) -> list[Row]:
            found = [tx.one(f"{table.select} WHERE id = :id", id=each) for each in table.open]
            return [row for row in found if row is not None]

        return await self._database.read(transaction)

    async def _read(self, sql: str, **values: Any) -> list[Row]:
        def transaction(tx: Tx) -> list[Row]:
            return tx.all(sql, **values)

        return await self._database.read(transaction)

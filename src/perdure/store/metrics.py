"""Tallies: how much there was of everything since the database began, counted a few rows at a time.

What is over stays as it is, so it is counted once, and only the newest rows again each time. An erased session
stays in the count while the process lives: whoever reads a counter takes a fall for a restart.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec
from msgspec import Struct, field

from perdure.core.address import split_parts
from perdure.core.delivery import OPEN_DELIVERY_STATES
from perdure.core.turn import OPEN_STATES
from perdure.store.conditions import DELIVERY_IS_OPEN
from perdure.store.database import Database, Row, Tx

SLICE_ROWS = 2_000
RECOUNTED_ROWS = 500  # among them, one with an earlier id may still come
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


class CountedDecision(Struct, frozen=True):
    """As much of a decision's entry as is counted."""

    decision: str
    rule: str = ""


class RecoveryCounts(Struct, frozen=True):
    """How often a turn was cut off, what was decided about it (and by which rule), and how runs ended."""

    interruptions: int
    decisions: Counter[tuple[str, str]]
    runs: dict[str, int]


class TableCounter(Struct):
    """The count of a table so far: what is over, up to a place, and what is not over before it."""

    select: str  # id, where, state
    open_states: frozenset[str]
    cursor: str = ""
    ended: EndedCounts = field(default_factory=Counter)
    open: set[str] = field(default_factory=set)

    def add_slice(self, rows: list[Row]) -> None:
        """Count rows up to a place, for good, as far as they are over."""
        self.ended += self.count_ended(rows)
        self.open |= {row[0] for row in rows if row[2] in self.open_states}
        self.cursor = rows[-1][0]

    def recount_open(self, rows: list[Row]) -> None:
        """Count what was not over before. What is not there any more was erased."""
        self.ended += self.count_ended(rows)
        self.open = {row[0] for row in rows if row[2] in self.open_states}

    def count_ended(self, rows: list[Row]) -> EndedCounts:
        """What is over among rows, by platform and state."""
        lanes = Counter((row[1], row[2]) for row in rows if row[2] not in self.open_states)
        found: EndedCounts = Counter()
        for (lane, state), count in lanes.items():
            found[split_parts(lane)[0], state] += count
        return found


class Counters:
    def __init__(
        self, database: Database, slice_rows: int = SLICE_ROWS, recounted_rows: int = RECOUNTED_ROWS
    ) -> None:
        """`together` rows are counted for good at a time, and the `newest` never."""
        self._database = database
        self._slice_rows = slice_rows
        self._recounted_rows = recounted_rows
        self._turns = TableCounter("SELECT id, '', state FROM turns", OPEN_TURNS)
        self._replies = TableCounter("SELECT id, lane, state FROM outbox", OPEN_REPLIES)

    async def ended_turns(self) -> EndedCounts:
        """Turns that are over, by state; where they were is left empty. One caller at a time."""
        return await self._count(self._turns)

    async def ended_replies(self) -> EndedCounts:
        """Replies that are over, by platform and state. One caller at a time."""
        return await self._count(self._replies)

    async def open_replies(self) -> EndedCounts:
        """Replies that are not over, by platform and state, from their own index."""
        rows = await self._read(
            f"SELECT count(*), lane, state FROM outbox WHERE {DELIVERY_IS_OPEN} GROUP BY lane, state"
        )
        found: EndedCounts = Counter()
        for count, lane, state in rows:
            found[split_parts(lane)[0], state] += count
        return found

    async def recoveries(self) -> RecoveryCounts:
        """Counted anew each time: takes as long as there were interruptions."""
        interruptions, decisions = 0, Counter[tuple[str, str]]()
        after, more = "", True
        while more:
            [(last, marks, sessions)] = await self._read(_INTERRUPTED, after=after, slice=self._slice_rows)
            for [body] in await self._read(_DECIDED, after=after, last=last or ""):
                decided = msgspec.json.decode(body, type=CountedDecision)
                decisions[decided.decision, decided.rule] += 1
            interruptions += int(marks or 0)
            after, more = last or "", sessions == self._slice_rows
        runs = await self._read("SELECT ending, count(*) FROM runs WHERE ending IS NOT NULL GROUP BY ending")
        return RecoveryCounts(interruptions, decisions, dict(runs))

    async def _count(self, table: TableCounter) -> EndedCounts:
        table.recount_open(await self._open_rows(table))
        while True:
            most = self._slice_rows + self._recounted_rows
            rows = await self._read(
                f"{table.select} WHERE id > :place ORDER BY id LIMIT :most", place=table.cursor, most=most
            )
            if len(rows) < most:
                return table.ended + table.count_ended(rows)
            table.add_slice(rows[: self._slice_rows])

    async def _open_rows(self, table: TableCounter) -> list[Row]:
        def work(tx: Tx) -> list[Row]:
            found = [tx.one(f"{table.select} WHERE id = :id", id=each) for each in table.open]
            return [row for row in found if row is not None]

        return await self._database.read(work)

    async def _read(self, sql: str, **values: Any) -> list[Row]:
        def work(tx: Tx) -> list[Row]:
            return tx.all(sql, **values)

        return await self._database.read(work)

"""The audit of a drill: reads its database, keeps the record of its rounds, and makes the findings."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from perdure.errors import PerdureError
from perdure.store.audit import StoreAudit
from perdure.store.backends.read_only import open_read_only
from perdure.store.database import Database
from perdure.testing.drill.findings import FaultFinder, Findings
from perdure.testing.drill.people import DrillPeople
from perdure.testing.drill.points import Point
from perdure.testing.drill.report import RoundRecord
from perdure.testing.drill.scenarios import DrillChat, ExecutionTraces


class Audit:
    """Reads the drill's database beside its gateways, and writes nothing."""

    def __init__(self, home: Path, people: DrillPeople, *, may_give_up: bool = False) -> None:
        self._url = f"sqlite:///{home / 'perdure.db'}"
        self._people = people
        self._may_give_up = may_give_up
        self._database: Database | None = None
        self._record = RoundRecord()
        self.given_up = 0
        self.traces = ExecutionTraces(home)

    async def open(self) -> None:
        self._database = await open_read_only(self._url)

    async def close(self) -> None:
        if self._database is not None:
            await self._database.close()

    @property
    def _store(self) -> StoreAudit:
        if self._database is None:
            raise PerdureError("the drill has not been opened")
        return StoreAudit(self._database)

    async def is_quiet(self) -> bool:
        """Tell whether neither the gateway nor the people have anything left to do."""
        if self._people.has_unread() or not await self._store.is_idle():
            return False
        return not self._people.has_unread()  # the gateway may have sent a message during the query

    def begin_round(self, conversations: Sequence[DrillChat], points: Sequence[Point]) -> None:
        self._record.begin_round(conversations, points)

    async def note_kill(self) -> None:
        """Record what was finished when the gateway was killed: none of it may run again."""
        await self._record.note_kill(self._store, self.traces.runs_by_key())

    async def end_round(self, conversations: Sequence[DrillChat]) -> None:
        """Record that these conversations are over: no further message may come in their chats."""
        await self._record.end_round(
            self._store, {each.chat: len(self._people.seen(each)) for each in conversations}
        )

    async def turns(self) -> int:
        return len(await self._store.turns())

    async def findings(self) -> Findings:
        """Return all findings, by the name of their count; updates `given_up`."""
        finder = FaultFinder(self._store, self._people, self.traces, self._record, may_give_up=self._may_give_up)
        found = await finder.find_all()
        self.given_up += finder.given_up
        return found

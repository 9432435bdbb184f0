"""A clock that can be set, and a database whose writes can fail."""

from __future__ import annotations

from typing import TypeVar

from perdure.errors import StoreBroken, StoreError, StoreFull
from perdure.store.database import Database, Transaction
from perdure.store.ids import wall_clock

T = TypeVar("T")


class SettableClock:
    """The wall clock, moved forward or back by a test."""

    def __init__(self) -> None:
        self.ahead = 0

    def __call__(self) -> int:
        return wall_clock() + self.ahead

    def move(self, seconds: float) -> None:
        self.ahead += int(seconds * 1000)


class FaultyDatabase:
    """A database whose writes fail while `fault` is set. Reads go on, as on a real full disk."""

    def __init__(self, database: Database) -> None:
        self.beneath = database
        self.ids = database.ids
        self.exclusive = database.exclusive
        self.fault: StoreError | None = None

    def fill(self) -> None:
        self.fault = StoreFull("not written: the disk is full")

    def mend(self) -> None:
        self.fault = None

    def break_sync(self) -> None:
        self.fault = StoreBroken("the database cannot be written: disk I/O error")

    async def write(self, transaction: Transaction[T], *, key: str = "", at: int | None = None) -> T:
        if self.fault is not None:
            raise self.fault
        return await self.beneath.write(transaction, key=key, at=at)

    async def read(self, transaction: Transaction[T], *, at: int | None = None) -> T:
        return await self.beneath.read(transaction, at=at)

    @property
    def problem(self) -> str | None:
        return self.fault.message if self.fault else self.beneath.problem

    async def close(self) -> None:
        await self.beneath.close()

"""Crashes at chosen moments, a clock that can be set, and a database whose writes can fail.

`CrashingDatabase` is for a gateway inside the test's process: from the chosen call on the database refuses every
call, as if the process had been killed, so that nothing the gateway does afterwards reaches the disk.
`KillingDatabase` is for a gateway with a process of its own, and kills that process.
"""

from __future__ import annotations

import asyncio
import os
import signal
from typing import TypeVar

from perdure.errors import Killed, StoreBroken, StoreError, StoreFull
from perdure.store.database import Database, Transaction, Tx
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


class Crash(Killed):
    """The simulated kill of a gateway. Not an `Exception`, so that no part of the gateway catches it."""


class CrashingDatabase:
    """Counts every call and crashes at the n-th."""

    def __init__(self, database: Database, at: int | None = None, *, after: bool = False) -> None:
        self.beneath = database
        self._at = at
        self._after = after
        self._dead = asyncio.Event()
        self.calls = 0
        self.ids = database.ids
        self.exclusive = database.exclusive

    async def write(self, transaction: Transaction[T], *, key: str = "", at: int | None = None) -> T:
        fatal = self._count()
        if fatal and not self._after:
            self._die()
        result = await self.beneath.write(transaction, key=key, at=at)
        if fatal:
            self._die()
        return result

    async def read(self, transaction: Transaction[T], *, at: int | None = None) -> T:
        fatal = self._count()
        if fatal and not self._after:
            self._die()
        result = await self.beneath.read(transaction, at=at)
        if fatal:
            self._die()
        return result

    @property
    def problem(self) -> str | None:
        return self.beneath.problem

    @property
    def crashed(self) -> bool:
        return self._dead.is_set()

    def kill(self) -> None:
        """Crash now: every further call raises `Crash`."""
        self._dead.set()

    async def close(self) -> None:
        """Close the files and free the locks, as the kernel does for a dead process."""
        await self.beneath.close()

    def _count(self) -> bool:
        if self._dead.is_set():
            raise Crash
        self.calls += 1
        return self.calls == self._at

    def _die(self) -> None:
        self._dead.set()
        raise Crash


class KillingDatabase(CrashingDatabase):
    """Kills its own process with SIGKILL at the n-th call, for a gateway that has a process to itself."""

    _full_from: int | None = None  # the number of the first call that is refused as if the disk were full
    _refuse = 0  # how many more writes are refused

    def __init__(
        self, database: Database, at: int | None = None, *, after: bool = False, lease_ahead: int = 0
    ) -> None:
        """`lease_ahead` is how many milliseconds the clock of the leases is ahead of the real one."""
        super().__init__(database, at, after=after)
        self._lease_ahead = lease_ahead

    def arm(self, at: int, *, after: bool, refuse: int = 0) -> None:
        """Kill the process at the n-th call from now on.

        With `refuse`, that many writes are refused instead, as if the disk were full; the process is killed at the
        last of them unless `after`.
        """
        self._at, self._after = (self.calls + at, after) if not refuse else (None, after)
        self._full_from, self._refuse = self.calls + at, refuse

    async def write(self, transaction: Transaction[T], *, key: str = "", at: int | None = None) -> T:
        if self._refuse and self._full_from is not None and self.calls >= self._full_from:
            self._refuse -= 1
            if not self._refuse and not self._after:
                self._die()
            raise StoreFull("not written: the disk is full")
        return await super().write(lambda tx: transaction(self._moved(tx)), key=key, at=at)

    def _moved(self, tx: Tx) -> Tx:
        return _AheadTx(tx, self._lease_ahead) if self._lease_ahead else tx

    def _die(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)


class _AheadTx:
    """A transaction for which the clock of the leases is ahead."""

    def __init__(self, tx: Tx, ahead_ms: int) -> None:
        self.ids, self.time, self.for_update = tx.ids, tx.time, tx.for_update
        self.one, self.all, self.run = tx.one, tx.all, tx.run
        self._tx = tx
        self._ahead_ms = ahead_ms

    def lease_clock(self) -> int:
        return self._tx.lease_clock() + self._ahead_ms

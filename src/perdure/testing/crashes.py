"""Crashes: a database that dies at the n-th call, before or after it took place.

In process, the database answers nobody from that call on, as if the process had been killed: nothing that the
gateway does afterwards, not even its tidying up, reaches the disk. In a process of its own, it is killed indeed.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from typing import TypeVar

from perdure.errors import Killed, StoreFull
from perdure.store.database import Database, Transaction

T = TypeVar("T")


class Crash(Killed):
    """The gateway was killed here. Not an `Exception`: nothing in the gateway may survive it."""


class CrashingDatabase:
    """Counts every call; dies at the n-th."""

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
        """Die now: whatever the gateway still tries is in vain."""
        self._dead.set()

    async def close(self) -> None:
        """What the kernel does for a dead process: it closes the files and frees the locks."""
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
    """The same for a gateway that has a process to itself: at the n-th call, that is killed with SIGKILL."""

    _full_from: int | None = None  # the call from which on writes are refused
    _refuse = 0  # so many more of them

    def arm(self, at: int, *, after: bool, refuse: int = 0) -> None:
        """Die at the n-th call from now on; or be full from there on for so many writes, and die then or not."""
        self._at, self._after = (self.calls + at, after) if not refuse else (None, after)
        self._full_from, self._refuse = self.calls + at, refuse

    async def write(self, transaction: Transaction[T], *, key: str = "", at: int | None = None) -> T:
        if self._refuse and self._full_from is not None and self.calls >= self._full_from:
            self._refuse -= 1
            if not self._refuse and not self._after:
                self._die()
            raise StoreFull("not written: the disk is full")
        return await super().write(transaction, key=key, at=at)

    def _die(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)


def crashing_wrapper(at: int | None = None, *, after: bool = False) -> Callable[[Database], CrashingDatabase]:
    """A wrapper for `Gateway(wrap=…)`."""
    return lambda database: CrashingDatabase(database, at, after=after)

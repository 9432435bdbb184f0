"""A database that counts its transactions by name and can refuse writes."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from perdure.platforms.api import Adapter
from perdure.store.database import Transaction
from perdure.testing import FaultyDatabase, gateways

MAX_TRANSACTIONS = 10_000  # transactions: a busy loop fails here instead of hanging the test
START_OF_CLOCK_MS = 1_790_000_000_000  # milliseconds

T = TypeVar("T")


class CountingDatabase(FaultyDatabase):
    """Counts every read and write by the store method that made it, such as `Outbox.heads`."""

    def __init__(self, database: Any) -> None:
        super().__init__(database)
        self.counted: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()  # refused writes

    async def write(self, transaction: Transaction[T], *, key: str = "", at: int | None = None) -> T:
        name = self._count(transaction)
        if self.fault is not None:
            self.refused[name] += 1
        return await super().write(transaction, key=key, at=at)

    async def read(self, transaction: Transaction[T], *, at: int | None = None) -> T:
        self._count(transaction)
        return await super().read(transaction, at=at)

    def _count(self, transaction: Callable[..., Any]) -> str:
        name = transaction.__qualname__.partition(".<locals>")[0]
        self.counted[name] += 1
        assert self.counted.total() <= MAX_TRANSACTIONS, f"transactions without end: {self.counted}"
        return name


class CountingWrapper:
    """Wraps the database of each gateway in a counting one, and keeps the newest."""

    def __init__(self) -> None:
        self.database: CountingDatabase

    def wrap(self, database: Any) -> CountingDatabase:
        self.database = CountingDatabase(database)
        return self.database


def fast_forward_gateway(home: Path, adapters: Sequence[Adapter], **options: Any) -> Any:
    """Run a gateway on a fast-forward loop; its clocks are the loop's unless others are given."""
    clocks = {"clock": loop_milliseconds, "steady": loop_milliseconds}
    return gateways.serving(home, adapters, **clocks | options)


def loop_milliseconds() -> int:
    """Return the time of the running loop as milliseconds since the epoch."""
    return START_OF_CLOCK_MS + int(asyncio.get_running_loop().time() * 1000)


async def pass_loop_time(seconds: float) -> None:
    """Let this many seconds of the loop pass; a fast-forward loop skips them."""
    await asyncio.sleep(seconds)

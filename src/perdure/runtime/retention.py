"""The slow loop that finishes what was begun to be erased, and erases what is too old to be kept."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from perdure.logs import Log
from perdure.runtime.eraser import Eraser
from perdure.runtime.tasks import Failures

log = Log("retention")

LOOK = 600.0  # seconds between two looks
BREATH = 1.0  # seconds between two batches, in which others are served


class Retention:
    """Looks at the start, and then every few minutes."""

    def __init__(self, eraser: Eraser, age: float | None, sweep: Callable[[], Awaitable[None]]) -> None:
        """`sweep` removes the files that nobody needs."""
        self._eraser = eraser
        self._sweep = sweep
        self._failures = Failures(log)
        self._age_ms = int((age or 0) * 1000)

    async def work(self) -> None:
        while True:
            for step in (self._eraser.go_on, self._retain, self._eraser.forget, self._sweep):
                await self._failures.contain("not_erased", step())  # the next look tries again
            await asyncio.sleep(LOOK)

    async def _retain(self) -> None:
        more = self._age_ms > 0
        while more:
            more = (await self._eraser.retain(self._age_ms)).more
            await asyncio.sleep(BREATH if more else 0)

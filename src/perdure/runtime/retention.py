"""The slow loop that finishes what was begun to be erased, and erases what is too old to be kept."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from perdure.logs import Log
from perdure.runtime.erasure import Eraser
from perdure.runtime.tasks import FailureLog

log = Log("retention")

CHECK_SECONDS = 600.0  # seconds between two looks
BATCH_PAUSE_SECONDS = 1.0  # seconds between two batches, in which others are served


class RetentionLoop:
    """Looks at the start, and then every few minutes."""

    def __init__(self, eraser: Eraser, age: float | None, sweep_files: Callable[[], Awaitable[None]]) -> None:
        """`sweep` removes the files that nobody needs."""
        self._eraser = eraser
        self._sweep_files = sweep_files
        self._failures = FailureLog(log)
        self._age_ms = int((age or 0) * 1000)

    async def run(self) -> None:
        while True:
            for step in (
                self._eraser.finish_pending,
                self._erase_expired,
                self._eraser.forget_old_tombstones,
                self._sweep_files,
            ):
                await self._failures.contain("not_erased", step())  # the next look tries again
            await asyncio.sleep(CHECK_SECONDS)

    async def _erase_expired(self) -> None:
        more = self._age_ms > 0
        while more:
            more = (await self._eraser.erase_expired(self._age_ms)).more
            await asyncio.sleep(BATCH_PAUSE_SECONDS if more else 0)

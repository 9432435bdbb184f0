"""Retries inside the gateway: delays that grow with every failure in a row, and the wait for the store."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from typing import TypeVar

from perdure.core.backoff import backoff_delay
from perdure.errors import Unavailable
from perdure.logs import Log
from perdure.runtime.clocks import steady_clock
from perdure.runtime.wakeups import STORE_RETRY_SECONDS
from perdure.store.ids import Clock

log = Log("backoff")

T = TypeVar("T")

FIRST_DELAY_SECONDS = 0.5
MAX_DELAY_SECONDS = 60.0


class Backoff:
    """Counts the failures in a row of each name; every failure doubles the delay before the next try."""

    def __init__(
        self,
        steady: Clock = steady_clock,
        *,
        first_seconds: float = FIRST_DELAY_SECONDS,
        max_seconds: float = MAX_DELAY_SECONDS,
    ) -> None:
        self._steady = steady
        self._first_seconds = first_seconds
        self._max_seconds = max_seconds
        self._failures: dict[str, tuple[int, int]] = {}  # by name: failures in a row, and when the delay ends

    def failed(self, name: str = "") -> float:
        """Count one more failure. Returns the seconds to wait before the next try."""
        failures = self.failures(name) + 1
        delay = backoff_delay(failures, first=self._first_seconds, longest=self._max_seconds)
        self._failures[name] = (failures, self._steady() + int(delay * 1000))
        return delay

    def succeeded(self, name: str = "") -> None:
        """Forget the failures of a name."""
        self._failures.pop(name, None)

    def failures(self, name: str = "") -> int:
        """Return how often a name has failed in a row."""
        return self._failures[name][0] if name in self._failures else 0

    def remaining_ms(self, name: str = "") -> int:
        """Return the milliseconds until a name may be tried again."""
        return max(0, self._failures[name][1] - self._steady()) if name in self._failures else 0

    def forget_all_but(self, names: Collection[str]) -> None:
        self._failures = {name: known for name, known in self._failures.items() if name in names}


async def retry_while_unavailable(
    operation: Callable[[], Awaitable[T]], *, on_wait: Callable[[], None] = lambda: None, **fields: str
) -> T:
    """Await the operation, again after every `Unavailable`; `on_wait` is called before each wait."""
    while True:
        try:
            return await operation()
        except Unavailable as error:
            log.warning("waiting_for_store", **fields, error=error.message)
            on_wait()
            await asyncio.sleep(STORE_RETRY_SECONDS)

"""Wake-ups. They are never the truth: whoever waits also looks by itself, every few seconds."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

POLL_SECONDS = 5.0  # what a lost wake-up costs at most, in seconds
STORE_RETRY_SECONDS = 1.0  # seconds between tries while the store takes no writes


class WakeEvent:
    """Rung by whoever changed something, waited on by the loop that acts on it."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def wake(self) -> None:
        self._event.set()

    async def wait(self, timeout_seconds: float = POLL_SECONDS) -> None:
        """Return when the bell has been rung since the last wait, or after `at_most` seconds."""
        try:
            async with asyncio.timeout(timeout_seconds):
                await self._event.wait()
        except TimeoutError:
            return
        self._event.clear()


class Feed:
    """Tells whoever watches a session that something about it has changed."""

    def __init__(self) -> None:
        self._watchers: dict[str, set[WakeEvent]] = {}

    def publish(self, key: str) -> None:
        for bell in self._watchers.get(key, ()):
            bell.wake()

    def publish_all(self) -> None:
        for key in self._watchers:
            self.publish(key)

    @contextmanager
    def subscribe(self, key: str) -> Iterator[WakeEvent]:
        bell = WakeEvent()
        self._watchers.setdefault(key, set()).add(bell)
        try:
            yield bell
        finally:
            self._watchers[key].discard(bell)
            if not self._watchers[key]:
                del self._watchers[key]

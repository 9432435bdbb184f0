"""What people see before the first word of an answer: that somebody writes, again and again until it is there."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from perdure.containment import contain
from perdure.core.address import Address
from perdure.logs import Log
from perdure.platforms.api import Adapter

log = Log("typing")

FIRST_DELAY_SECONDS = 0.5  # seconds before it is shown: what is answered at once needs none
RETRY_SECONDS = 4.0  # seconds until a platform that is not there is looked for again


class TypingIndicator:
    """Shows that one attempt is under way. Nothing waits for it, and nothing comes after `end`."""

    def __init__(self, address: Address, find_adapter: Callable[[], Adapter | None]) -> None:
        self._address = address
        self._find_adapter = find_adapter
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Show it soon. A platform that has nothing to show costs nothing."""
        adapter = self._find_adapter()
        if adapter is not None and adapter.capabilities.typing_every is not None:
            self._timer = asyncio.get_running_loop().call_later(FIRST_DELAY_SECONDS, self._show_and_reschedule)

    def end(self) -> None:
        """Show nothing more, from this moment on."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._task is not None:
            self._task.cancel()
            self._task = None

    def _show_and_reschedule(self) -> None:
        adapter = self._find_adapter()
        if adapter is not None and (self._task is None or self._task.done()):
            self._task = asyncio.create_task(self._show_once(adapter))
        every = adapter.capabilities.typing_every if adapter is not None else None
        self._timer = asyncio.get_running_loop().call_later(every or RETRY_SECONDS, self._show_and_reschedule)

    async def _show_once(self, adapter: Adapter) -> None:
        """Show it once. However an adapter fails to, nobody misses it."""
        showing = adapter.typing(self._address)
        await contain(showing, lambda error: log.debug("typing_not_shown", platform=adapter.name, error=error))

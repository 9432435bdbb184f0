"""Keeps each platform connected, on its own, and hands its events to the intake."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing

from perdure.core import notes
from perdure.errors import NotConnected, StoreBroken
from perdure.logs import Log
from perdure.platforms.api import Adapter, Capabilities, Event

log = Log("connections")

FIRST_PAUSE = 0.5
LONGEST_PAUSE = 60.0

Take = Callable[[Event], Awaitable[None]]


class Connections:
    """Which platforms are connected now, and why the others are not."""

    def __init__(self, adapters: list[Adapter], connected: Callable[[str], Awaitable[None]]) -> None:
        self._adapters = adapters
        self._on_connected = connected
        self.connected: dict[str, Adapter] = {}
        self.problems: dict[str, str] = {adapter.name: "not connected yet" for adapter in adapters}

    def max_length(self, platform: str) -> int | None:
        """How long one message may be there."""
        return self.capabilities(platform).max_length

    def capabilities(self, platform: str) -> Capabilities:
        """What is true of a platform, connected or not; of one that we do not have, nothing is."""
        found = (adapter.capabilities for adapter in self._adapters if adapter.name == platform)
        return next(found, Capabilities())

    async def attend(self, adapter: Adapter, take: Take) -> None:
        """Connect, receive, and connect again after every loss, with growing pauses while it fails."""
        pause = FIRST_PAUSE
        while True:
            try:
                await adapter.connect()
                pause = FIRST_PAUSE
                await self._receive(adapter, take)
                problem = "the platform closed the connection"
            except NotConnected as error:
                problem = error.message
            except StoreBroken:
                raise
            except Exception as error:  # noqa: BLE001 reason: a defect of one platform must not silence the others
                problem = notes.adapter_failed(type(error).__name__)
                log.crash("adapter_failed", error, platform=adapter.name)
            finally:
                self.connected.pop(adapter.name, None)
            self.problems[adapter.name] = problem
            log.warning("disconnected", platform=adapter.name, problem=problem, retry_in=pause)
            await asyncio.sleep(pause)
            pause = min(LONGEST_PAUSE, pause * 2)

    async def _receive(self, adapter: Adapter, take: Take) -> None:
        self.connected[adapter.name] = adapter
        self.problems.pop(adapter.name, None)
        log.info("connected", platform=adapter.name)
        await self._on_connected(adapter.name)
        # Closed here, not whenever the collector comes by: the platform is let go of before we connect again.
        async with aclosing(adapter.receive()) as events:
            async for event in events:
                await take(event)

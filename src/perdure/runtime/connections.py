"""Keeps each platform connected, on its own."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from msgspec import Struct

from perdure.containment import raise_uncontained
from perdure.core import texts
from perdure.core.storable_text import make_storable
from perdure.errors import NotConnected
from perdure.logs import Log
from perdure.platforms.api import Adapter, Capabilities
from perdure.runtime.backoff import MAX_DELAY_SECONDS, Backoff
from perdure.runtime.tasks import defect_location

log = Log("connections")

TRUSTED_AFTER_SECONDS = MAX_DELAY_SECONDS  # an adapter that served for so long before a defect is trusted again

ReceiveEvents = Callable[[], Awaitable[None]]  # returns when the platform has closed the connection
OnConnected = Callable[[str], Awaitable[None]]  # is given the name of the platform


class ConnectionEnd(Struct, frozen=True):
    """How a connection to a platform has ended."""

    problem: str
    healthy: bool = False  # the adapter works: the connection was lost, or has lasted long
    defect: BaseException | None = None


class Connections:
    """Which platforms are connected now, and why the others are not."""

    def __init__(self, adapters: list[Adapter]) -> None:
        self._adapters = adapters
        self.connected: dict[str, Adapter] = {}
        self.standing_by: set[str] = set()  # connected platforms whose events another gateway receives
        self.problems: dict[str, str] = {adapter.name: "not connected yet" for adapter in adapters}

    def max_length(self, platform: str) -> int | None:
        """Return how long one message may be on a platform; None: there is no limit."""
        return self.capabilities(platform).max_length

    def capabilities(self, platform: str) -> Capabilities:
        """Return the capabilities of a platform, connected or not; none for a platform without an adapter."""
        found = (adapter.capabilities for adapter in self._adapters if adapter.name == platform)
        return next(found, Capabilities())

    def serves(self, platform: str) -> bool:
        """Say whether this gateway has an adapter for a platform, connected or not."""
        return any(adapter.name == platform for adapter in self._adapters)

    async def keep_connected(self, adapter: Adapter, receive: ReceiveEvents, on_connected: OnConnected) -> None:
        """Open the platform, receive, and open it again after every loss, with growing delays while it fails.

        A platform counts as connected while it is open: a gateway that stands by can send.
        """
        backoff, known = Backoff(), set[str]()
        while True:
            end = await self._serve(adapter, receive, on_connected)
            if end.healthy:
                backoff.succeeded()
                known.clear()
            if end.defect is not None and (location := defect_location(end.defect)) not in known:
                known.add(location)
                log.crash("adapter_failed", end.defect, platform=adapter.name)
            self.problems[adapter.name] = make_storable(end.problem)
            delay = backoff.failed()
            log.warning("disconnected", platform=adapter.name, problem=end.problem, retry_in=delay)
            await asyncio.sleep(delay)

    async def _serve(self, adapter: Adapter, receive: ReceiveEvents, on_connected: OnConnected) -> ConnectionEnd:
        """Open a platform and receive its events until the connection ends."""
        clock = asyncio.get_running_loop().time
        since: float | None = None
        try:
            await adapter.open()
            since = clock()
            await self._announce(adapter, on_connected)
            await receive()
            problem, defect = "the platform closed the connection", None
        except NotConnected as error:
            return ConnectionEnd(error.message, healthy=since is not None)
        except BaseException as error:  # noqa: BLE001 reason: a defect of one platform must not silence the others
            raise_uncontained(error)
            problem, defect = texts.platforms.adapter_failed(type(error).__name__), error
        finally:
            self.connected.pop(adapter.name, None)
            self.standing_by.discard(adapter.name)
        return ConnectionEnd(problem, since is not None and clock() - since >= TRUSTED_AFTER_SECONDS, defect)

    async def _announce(self, adapter: Adapter, on_connected: OnConnected) -> None:
        self.connected[adapter.name] = adapter
        self.problems.pop(adapter.name, None)
        log.info("connected", platform=adapter.name)
        await on_connected(adapter.name)

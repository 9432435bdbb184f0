"""The base of scenarios in which gateways start, stop and crash on one home, with one platform and one clock."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from perdure.runtime.gateway import Gateway
from perdure.testing import SettableClock, SimulatedPlatform
from support import inprocess, shutdown


class GatewayScenario:
    """What outlives the gateways: a home, a platform, a clock and the settings of all gateways.

    `gateway` is the newest gateway.
    """

    def __init__(self, home: Path, platform: SimulatedPlatform | None = None, **options: Any) -> None:
        self.home = home
        self.platform = platform or SimulatedPlatform()
        self.clock = SettableClock()
        self._options = options  # settings of all gateways
        self.gateway: Gateway

    def options(self, **more: Any) -> dict[str, Any]:
        """Return the options for one gateway; `more` take precedence."""
        return {"clock": self.clock, **self._options, **more}

    @asynccontextmanager
    async def serving(self, *others: SimulatedPlatform, **options: Any) -> AsyncIterator[Gateway]:
        """Run a gateway, and stop it in an orderly way at the end."""
        given = self.options(**options)
        async with inprocess.serving(self.home, self.platform, *others, **given) as self.gateway:
            yield self.gateway

    @asynccontextmanager
    async def crashing(self, *others: SimulatedPlatform, **options: Any) -> AsyncIterator[Gateway]:
        """Run a gateway, and kill it at the end."""
        given = self.options(**options)
        async with inprocess.crashing_at_the_end(self.home, self.platform, *others, **given) as self.gateway:
            yield self.gateway

    @asynccontextmanager
    async def crashing_at_fact(self, fact: str, **options: Any) -> AsyncIterator[Gateway]:
        """Run a gateway that is killed when a query returns a row, and wait for the kill at the end."""
        given = self.options(**options)
        async with shutdown.crashing_at_fact(self.home, self.platform, fact=fact, **given) as self.gateway:
            yield self.gateway

"""A sweep over one scenario: a gateway is killed at its n-th store call, before and after, for every n."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from perdure.runtime.gateway import Gateway
from perdure.store.database import Database
from perdure.testing import Crash, CrashingDatabase, SettableClock, SimulatedPlatform
from support.inprocess import make_gateway
from support.waiting import eventually

Settled = Callable[[SimulatedPlatform], bool]
Check = Callable[[Gateway, SimulatedPlatform], Awaitable[None]]


class Sweep:
    """What people write, when all of it is settled, and what must be true then."""

    def __init__(self, *writes: str, settled: Settled, check: Check, **options: Any) -> None:
        self._writes = writes
        self._settled = settled
        self._check = check
        self._options = options

    async def run(self, folder: Path) -> int:
        """Kill at every point; how many there were."""
        points = 0
        for after in (False, True):
            at = 1
            while not await self._survives(folder / f"{after}-{at}", at, after=after):
                points += 1
                at += 1
        return points

    async def _survives(self, home: Path, at: int, *, after: bool) -> bool:
        """Run until the crash, and then to the end. True: the first run came to its end before the n-th call."""
        platform, clock = SimulatedPlatform(), SettableClock()
        for text in self._writes:
            platform.write(text)
        survived = await self._one(
            home, platform, clock, lambda database: CrashingDatabase(database, at, after=after)
        )
        clock.move(600)  # so that two crashes are no crash loop
        assert await self._one(home, platform, clock, lambda database: database), "nothing kills the second run"
        return survived

    async def _one(
        self,
        home: Path,
        platform: SimulatedPlatform,
        clock: SettableClock,
        wrap: Callable[[Database], Database],
    ) -> bool:
        gateway = make_gateway(home, platform, clock=clock, wrap=wrap, **self._options)
        running = asyncio.create_task(gateway.run())
        settled = asyncio.create_task(eventually("all is settled", lambda: self._is_settled(gateway, platform)))
        await asyncio.wait({running, settled}, return_when=asyncio.FIRST_COMPLETED)
        if not running.done():
            await settled
            if wrap(gateway.store.database) is gateway.store.database:
                await self._check(gateway, platform)
            gateway.stop()
        settled.cancel()
        try:
            await running
        except Crash:
            return False
        return True

    def _is_settled(self, gateway: Gateway, platform: SimulatedPlatform) -> bool:
        return gateway.phase == "ready" and not platform.pending() and self._settled(platform)

"""Kills a gateway at its n-th store call, before and after the call, for every n; the next one recovers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

from perdure.runtime.gateway import Gateway
from perdure.testing import Crash, CrashingDatabase, SettableClock, SimulatedPlatform
from support.inprocess import make_gateway
from support.waiting import eventually

Settled = Callable[[SimulatedPlatform], bool]
Check = Callable[[Gateway, SimulatedPlatform], Awaitable[None]]


class StoreCallSweep:
    """The messages that people write, a predicate that tells when all are settled, and a check to run then."""

    def __init__(self, *writes: str, settled: Settled, check: Check, **options: Any) -> None:
        self._writes = writes
        self._settled = settled
        self._check = check
        self._options = options

    async def run(self, folder: Path) -> int:
        """Crash at every point; return the number of points."""
        points = 0
        for after in (False, True):
            at = 1
            while not await self._survives(folder / f"{after}-{at}", at, after=after):
                points += 1
                at += 1
        return points

    async def _survives(self, home: Path, at: int, *, after: bool) -> bool:
        """Run until the crash, then run a second gateway to the end. True if the first run never crashed."""
        platform, clock = SimulatedPlatform(), SettableClock()
        for text in self._writes:
            platform.write(text)
        options = {"clock": clock, **self._options}
        survived = await self._run(
            make_gateway(home, platform, wrap=partial(CrashingDatabase, at=at, after=after), **options), platform
        )
        clock.move(600)  # so that two crashes are no crash loop
        last = make_gateway(home, platform, wrap=CrashingDatabase, **options)
        assert await self._run(last, platform, self._check), "nobody kills the last gateway"
        return survived

    async def _run(self, gateway: Gateway, platform: SimulatedPlatform, check: Check | None = None) -> bool:
        """Run a gateway until all is settled (True) or until it crashes (False)."""
        running = asyncio.create_task(gateway.run())
        settled = asyncio.create_task(eventually("all is settled", lambda: self._is_settled(gateway, platform)))
        await asyncio.wait({running, settled}, return_when=asyncio.FIRST_COMPLETED)
        if not running.done():
            await self._wait_until_settled(settled, platform)
            if check is not None:
                await check(gateway, platform)
            gateway.stop()
        settled.cancel()
        try:
            await running
        except Crash:
            return False
        return True

    async def _wait_until_settled(self, settled: asyncio.Task[bool], platform: SimulatedPlatform) -> None:
        try:
            await settled
        except AssertionError as error:
            raise AssertionError(f"people see {platform.replies()}") from error

    def _is_settled(self, gateway: Gateway, platform: SimulatedPlatform) -> bool:
        return gateway.phase == "ready" and not platform.pending() and self._settled(platform)

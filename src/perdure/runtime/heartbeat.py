"""The heartbeat of a run: renews its lease, and takes over the turns of runs that have died."""

from __future__ import annotations

import asyncio
import time

from perdure.core.recovery.decision import InterruptionReason
from perdure.errors import RunEnded
from perdure.logs import Log
from perdure.runtime.gateway_run import GatewayRun
from perdure.runtime.recovery import Recoverer
from perdure.runtime.tasks import FailureLog

log = Log("heartbeat")

HEARTBEAT_SECONDS = 5.0  # a lease outlives six of them


class Heartbeat:
    """Records every few seconds that this run is alive; other gateways take over from a run that does not."""

    def __init__(self, run: GatewayRun, recoverer: Recoverer) -> None:
        self._run = run
        self._recoverer = recoverer
        self._failures = FailureLog(log)

    async def run(self) -> None:
        while True:
            await asyncio.sleep(HEARTBEAT_SECONDS)
            if await self._failures.contain("heartbeat_missed", self._record()):
                await self._failures.contain("not_taken_over", self._take_over_dead_runs())

    async def _record(self) -> None:
        asked_at = time.clock_gettime(time.CLOCK_BOOTTIME)
        if not await self._run.store.runs.record_heartbeat(self._run.id):
            raise RunEnded(f"run {self._run.id} was declared dead by another gateway")
        self._run.lease.renew(asked_at)

    async def _take_over_dead_runs(self) -> None:
        """Take over the turns of gateways that have died, and repeat takeovers and decisions that failed."""
        recoverer = self._recoverer
        recoverer.takeover_incomplete |= bool(await self._run.store.runs.reap(self._run.id))
        if recoverer.takeover_incomplete:
            taken = await recoverer.mark_lost(InterruptionReason.LEASE_LOST)
            recoverer.decisions_incomplete |= bool(taken)
        if recoverer.decisions_incomplete:
            await recoverer.recover()

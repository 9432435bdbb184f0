"""The heartbeat of a run: renews its lease, ends runs that have died, and has their turns taken over."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from perdure.core import texts
from perdure.core.recovery.decision import InterruptionReason
from perdure.errors import RunEnded
from perdure.logs import Log
from perdure.runtime.clocks import boot_seconds
from perdure.runtime.gateway_run import GatewayRun
from perdure.runtime.recovery import Recoverer
from perdure.runtime.run_observer import HEARTBEATS_PER_LEASE, RunObserver
from perdure.runtime.tasks import FailureLog
from perdure.runtime.wakeups import STORE_RETRY_SECONDS, WakeEvent

log = Log("heartbeat")


class Heartbeat:
    """Counts every few seconds that this run is alive; other gateways take over from a run that does not."""

    def __init__(
        self, run: GatewayRun, recoverer: Recoverer, lease_seconds: float, drain_gateway: Callable[[], bool]
    ) -> None:
        """`drain_gateway` asks for an orderly stop of this gateway, as an operator did through another one."""
        self._run = run
        self._recoverer = recoverer
        self._drain_gateway = drain_gateway
        self._pause = lease_seconds / HEARTBEATS_PER_LEASE
        self._observer = RunObserver(lease_seconds, boot_seconds())
        self._recorded = WakeEvent()
        self._failures = FailureLog(log)

    async def run(self) -> None:
        """Make heartbeats. Nothing else happens in this loop: a take-over may have to wait for other writes."""
        pause = self._pause
        while True:
            await asyncio.sleep(pause)
            made = await self._failures.contain("heartbeat_missed", self._beat())
            pause = self._pause if made else min(self._pause, STORE_RETRY_SECONDS)

    async def _beat(self) -> None:
        asked_at = boot_seconds()
        silent = self._observer.silent(asked_at)
        # The answer may be lost though the runs were ended: so their turns are looked for in any case.
        self._recoverer.takeover_incomplete |= bool(silent)
        found = await self._run.store.runs.beat(self._run.id, silent)
        if found is None:
            raise RunEnded(f"run {self._run.id} was declared dead by another gateway")
        for run in found.ended:
            log.warning("run_lost", run=run)
        self._observer.record(found.others, boot_seconds())
        self._run.lease.renew(asked_at)
        self._run.wakeups.relay.note_living(each.run for each in found.others)
        self._recorded.wake()
        if found.drain_asked and self._drain_gateway():
            log.info("drain_asked", run=self._run.id)

    async def take_over(self) -> None:
        """After each heartbeat, take over from dead runs."""
        while True:
            if await self._recorded.wait():
                await self._failures.contain("not_taken_over", self._take_over_dead_runs())

    async def _take_over_dead_runs(self) -> None:
        """Take over the turns of gateways that have died, and repeat takeovers and decisions that failed."""
        recoverer = self._recoverer
        if recoverer.takeover_incomplete:
            taken = await recoverer.mark_lost(InterruptionReason.LEASE_LOST)
            recoverer.decisions_incomplete |= bool(taken)
        if recoverer.decisions_incomplete:
            await recoverer.recover()

    @property
    def problem(self) -> str | None:
        """A sentence that says since when no heartbeat was recorded, where other gateways count them; or None."""
        now = boot_seconds()
        if self._run.store.database.exclusive or not self._observer.has_gap(now):
            return None
        return texts.recovery.heartbeats_missed(self._observer.gap(now))

    @property
    def is_steady(self) -> bool:
        """Whether this gateway would notice that another one has died."""
        return self._observer.is_steady(boot_seconds())

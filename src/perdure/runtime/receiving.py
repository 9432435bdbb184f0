"""Receives the events of one platform, and stands by while another gateway receives them.

What is polled, or comes over a socket, is received by one gateway per account at a time: the one that has the
receiving lease. Posts, and everything on a database with one gateway, need no lease. A gateway that cannot renew
the lease of its run stops receiving before anybody else may begin.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing, suppress

from perdure.logs import Log
from perdure.platforms.api import Adapter, Event
from perdure.runtime.gateway_run import GatewayRun
from perdure.runtime.tasks import FailureLog
from perdure.store.receiving_leases import ReceivingLease

log = Log("receiving")

STANDBY_POLL_SECONDS = 1.0  # between two looks whether the account is free
REOPEN_SECONDS = 60.0  # between two looks whether the platform is still there, while another gateway receives
STOP_SECONDS = 3.0  # for an adapter to end what receives, before it is cancelled again

AcceptEvent = Callable[[Event], Awaitable[None]]


class EventReceiver:
    """Hands the events of one adapter to the intake, while this run may receive them."""

    def __init__(self, run: GatewayRun, adapter: Adapter, accept: AcceptEvent) -> None:
        self._run = run
        self._adapter = adapter
        self._accept = accept
        self._leased = adapter.receives_by_lease and not run.store.database.exclusive
        self._lease: ReceivingLease | None = None
        self._reopen_at = 0.0  # when the platform of a gateway that stands by is looked at again
        self._stopping = asyncio.Event()
        self._idle = asyncio.Event()  # nothing receives here, and the lease is free
        self._idle.set()
        self._failures = FailureLog(log)

    async def receive(self) -> None:
        """Receive until the platform closes the connection; stand by whenever another gateway receives."""
        if not self._leased:
            await self._hand_events_over()
            return
        while not self._stopping.is_set():
            if not await self._take_lease():
                continue
            self._idle.clear()
            try:
                if await self._receive_while_held():
                    return
            finally:
                await self._release()
                self._idle.set()
        await asyncio.Event().wait()  # handed over: the platform stays open for what is still to be sent

    async def hand_over(self) -> None:
        """Let another gateway receive, if one stands by; without one, this gateway receives until its end.

        After return: nothing receives here, and the lease is free.
        """
        if self._lease is None or not await self._run.store.receiving_leases.has_successor(self._lease):
            return
        self._stopping.set()
        await self._idle.wait()
        log.info("receiving_handed_over", platform=self._adapter.name)

    # ── the lease ───────────────────────────────────────────────────────────────────────────────────────────

    async def _take_lease(self) -> bool:
        """Take the lease of the account; False after a pause: another gateway has it."""
        await self._run.lease.wait_until_valid()
        await self._failures.contain("receiving_not_taken", self._try_lease(), platform=self._adapter.name)
        if self._lease is not None:
            self._run.connections.standing_by.discard(self._adapter.name)
            log.info("receiving", platform=self._adapter.name, epoch=self._lease.epoch)
            return True
        await self._stand_by(asyncio.get_running_loop().time())
        return False

    async def _stand_by(self, now: float) -> None:
        """Pause, and now and then open the platform again: nothing else would notice that it is lost."""
        standing_by = self._run.connections.standing_by
        if self._adapter.name not in standing_by:
            standing_by.add(self._adapter.name)
            self._reopen_at = now + REOPEN_SECONDS
            log.info("standing_by", platform=self._adapter.name)
        if now >= self._reopen_at:
            self._reopen_at = now + REOPEN_SECONDS
            await self._adapter.open()
        with suppress(TimeoutError):
            async with asyncio.timeout(STANDBY_POLL_SECONDS):
                await self._stopping.wait()

    async def _try_lease(self) -> None:
        leases = self._run.store.receiving_leases
        self._lease = await leases.take(self._adapter.name, self._adapter.account, self._run.id)

    async def _release(self) -> None:
        """Give the lease back. If that cannot be recorded, it is ours until our run has ended."""
        lease, self._lease = self._lease, None
        if lease is not None:
            releasing = self._run.store.receiving_leases.release(lease)
            await self._failures.contain("receiving_not_released", releasing, platform=self._adapter.name)

    async def _is_held(self) -> bool:
        """Say whether the lease is still ours, however long the database is away."""
        await self._run.lease.wait_until_valid()
        held: list[bool] = []

        async def look() -> None:
            if self._lease is not None:
                held.append(await self._run.store.receiving_leases.is_held(self._lease))

        await self._failures.retry("receiving_not_checked", look)
        return bool(held) and held[-1]

    # ── the events ──────────────────────────────────────────────────────────────────────────────────────────

    async def _receive_while_held(self) -> bool:
        """Receive until the connection ends, and return True; False: we must not receive any longer."""
        limits = {
            asyncio.ensure_future(self._run.lease.wait_until_lapsed()),
            asyncio.ensure_future(self._stopping.wait()),
        }
        receiving = asyncio.ensure_future(self._hand_events_over())
        try:
            await asyncio.wait({receiving, *limits}, return_when=asyncio.FIRST_COMPLETED)
            return receiving.done() and receiving.result()
        finally:
            for limit in limits:
                limit.cancel()
            await self._end(receiving)

    async def _hand_events_over(self) -> bool:
        """Hand each event to the intake. True: the platform closed the connection; False: the lease is lost."""
        # Closed here, and not by the garbage collector: nothing receives when the lease is given back.
        async with aclosing(self._adapter.receive()) as events:
            async for each in events:
                if isinstance(each, Event):
                    await self._accept(each)
                elif self._leased and not await self._is_held():
                    log.warning("receiving_lost", platform=self._adapter.name)
                    return False
        return True

    async def _end(self, receiving: asyncio.Future[bool]) -> None:
        """Cancel what receives until it has ended: only then may another gateway begin."""
        if receiving.done():
            return
        while not receiving.done():
            receiving.cancel()
            await asyncio.wait({receiving}, timeout=STOP_SECONDS)
            if not receiving.done():
                log.warning("receiving_not_ended", platform=self._adapter.name)
        if not receiving.cancelled() and (error := receiving.exception()) is not None:
            self._failures.report("receiving_ended_badly", error, platform=self._adapter.name)

"""Drains a gateway: waits for running turns, marks those that do not end in time, and cancels them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping

from perdure.core import texts
from perdure.core.address import Address, parent_session_key
from perdure.core.recovery.decision import InterruptionReason
from perdure.logs import Log
from perdure.platforms.api import Adapter
from perdure.runtime.attempt import Attempt, address_of
from perdure.runtime.delivery import DeliveryLoop
from perdure.runtime.runner import ATTEMPT_STOP_SECONDS, TurnRunner
from perdure.runtime.tasks import FailureLog
from perdure.runtime.wakeups import Relay

log = Log("drain")

NOTICE_SECONDS = 3.0  # for a banner or a notice; nobody waits for it
SEND_SECONDS = 5.0  # for sends under way when everything else has ended
HURRIED_SEND_SECONDS = 1.0  # the same, in a hurry: an interrupted send may have to be repeated
MARK_SECONDS = 5.0  # for storing the marks; without them the next start finds the turns lost


class TransientNotices:
    """Notices that are never owed: sent side by side, with a timeout, and at most one per chat."""

    def __init__(self, connected: Mapping[str, Adapter], silent: Collection[str], relay: Relay) -> None:
        self._connected = connected
        self._relay = relay
        self._silent = silent  # platforms whose banner is switched off
        self._failures = FailureLog(log)
        self._notified: set[Address] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    def notify(self, key: str, text: str) -> None:
        """Begin to send a notice, unless the chat had one already; returns at once."""
        address = address_of(key)
        adapter = self._connected.get(address.platform)
        if adapter is None or address in self._notified or address.platform in self._silent:
            return
        self._notified.add(address)
        task = asyncio.create_task(self._send_notice(adapter, address, text))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        self._relay.show_notice(parent_session_key(key), text)

    async def _send_notice(self, adapter: Adapter, address: Address, text: str) -> None:
        """Send one notice. A failure of the adapter is only logged."""

        async def showing() -> None:
            async with asyncio.timeout(NOTICE_SECONDS):
                await adapter.notice(address, text)

        await self._failures.contain("notice_not_shown", showing(), lane=address.lane)

    def close(self) -> None:
        for task in self._tasks:
            task.cancel()


async def drain(
    runner: TurnRunner,
    delivery: DeliveryLoop,
    notices: TransientNotices,
    reason: InterruptionReason,
    deadline: float,
    hurry: asyncio.Event,
) -> None:
    """Stop claiming, wait for running turns up to the deadline, mark and cancel the rest, let sends end."""
    await runner.stop_claiming()
    running = list(runner.running.values())
    log.info("draining", running=len(running), deadline=deadline)
    for each in running:
        restart = reason is InterruptionReason.RESTART_TIMEOUT
        notices.notify(each.attempt.key, texts.recovery.banner(restart=restart))
    if running:
        await _first_of(asyncio.wait([each.task for each in running]), hurry.wait, deadline)
    await _interrupt_running(runner, reason)
    settling = delivery.flush(HURRIED_SEND_SECONDS if hurry.is_set() else SEND_SECONDS)
    await FailureLog(log).contain("outbox_not_flushed", settling)
    notices.close()


async def _first_of(ended: Awaitable[object], hurried: Callable[[], Awaitable[object]], at_most: float) -> None:
    tasks = {asyncio.ensure_future(ended), asyncio.ensure_future(hurried())}
    try:
        await asyncio.wait(tasks, timeout=at_most, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()


async def _interrupt_running(runner: TurnRunner, reason: InterruptionReason) -> None:
    """Mark and cancel running turns side by side: a store that hangs delays all of them once, not each."""
    running = list(runner.running.values())
    async with asyncio.TaskGroup() as group:
        for each in running:
            group.create_task(_mark_and_cancel(each.attempt, each.task, reason))
    if running:
        await asyncio.wait([each.task for each in running], timeout=ATTEMPT_STOP_SECONDS)


async def _mark_and_cancel(attempt: Attempt, task: asyncio.Task[None], reason: InterruptionReason) -> None:
    """Mark a running turn as interrupted, with the reason on disk, then cancel its attempt."""
    await FailureLog(log).contain("not_marked", _mark(attempt, reason), turn=attempt.turn)
    task.cancel()


async def _mark(attempt: Attempt, reason: InterruptionReason) -> None:
    async with asyncio.timeout(MARK_SECONDS):
        if await attempt.journal.interrupt(reason):
            log.info("interrupted", turn=attempt.turn, reason=reason)

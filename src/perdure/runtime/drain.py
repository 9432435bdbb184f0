"""An orderly stop: tell those whose turn runs, let it end, mark what does not, then cancel it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping

from perdure.core import notes
from perdure.core.address import Address
from perdure.core.recovery import Reason
from perdure.logs import Log
from perdure.platforms.api import Adapter
from perdure.runtime.attempt import Attempt, address_of
from perdure.runtime.runner import PATIENCE, Runner
from perdure.runtime.sender import Sender
from perdure.runtime.tasks import Failures

log = Log("drain")

NOTICE_DEADLINE = 3.0  # for a banner or a notice; nobody waits for it
SEND_DEADLINE = 5.0  # for what is being sent when everything else has ended
HURRIED = 1.0  # the same, in a hurry: a send that is cut off may have to be repeated
MARK_DEADLINE = 5.0  # for saving the marks; without them the turns are found lost at the next start


class Notices:
    """Words of the moment: never owed, sent side by side, bounded, and at most one per chat."""

    def __init__(self, connected: Mapping[str, Adapter], silent: Collection[str]) -> None:
        self._connected = connected
        self._silent = silent  # platforms whose banner is switched off
        self._failures = Failures(log)
        self._told: set[Address] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    def tell(self, address: Address, text: str) -> None:
        """Begin to tell a chat, unless it was told something already; returns at once."""
        adapter = self._connected.get(address.platform)
        if adapter is None or address in self._told or address.platform in self._silent:
            return
        self._told.add(address)
        task = asyncio.create_task(self._tell(adapter, address, text))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _tell(self, adapter: Adapter, address: Address, text: str) -> None:
        """Tell one chat. However an adapter fails to show it, nobody misses it."""

        async def showing() -> None:
            async with asyncio.timeout(NOTICE_DEADLINE):
                await adapter.notice(address, text)

        await self._failures.contain("notice_not_shown", showing(), lane=address.lane)

    def close(self) -> None:
        for task in self._tasks:
            task.cancel()


async def drain(
    runner: Runner, sender: Sender, notices: Notices, reason: Reason, deadline: float, hurry: asyncio.Event
) -> None:
    """Stop claiming, wait to the deadline or until hurried, mark what still runs, cancel it, let sends end."""
    await runner.stop_claiming()
    running = list(runner.attempts.values())
    log.info("draining", running=len(running), deadline=deadline)
    for attempt, _ in running:
        notices.tell(address_of(attempt.key), notes.banner(restart=reason is Reason.RESTART_TIMEOUT))
    if running:
        await _first_of(asyncio.wait([task for _, task in running]), hurry.wait, deadline)
    await _cut_off(runner, reason)
    settling = sender.settle(HURRIED if hurry.is_set() else SEND_DEADLINE)
    await Failures(log).contain("replies_not_awaited", settling)
    notices.close()


async def _first_of(ended: Awaitable[object], hurried: Callable[[], Awaitable[object]], at_most: float) -> None:
    tasks = {asyncio.ensure_future(ended), asyncio.ensure_future(hurried())}
    try:
        await asyncio.wait(tasks, timeout=at_most, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()


async def _cut_off(runner: Runner, reason: Reason) -> None:
    """Mark and cancel what still runs, side by side: a store that hangs delays all of them once, not each."""
    running = list(runner.attempts.values())
    async with asyncio.TaskGroup() as group:
        for attempt, task in running:
            group.create_task(_mark_and_cancel(attempt, task, reason))
    if running:
        await asyncio.wait([task for _, task in running], timeout=PATIENCE)


async def _mark_and_cancel(attempt: Attempt, task: asyncio.Task[None], reason: Reason) -> None:
    """The mark is durable before the turn is cancelled: a turn is never cut off without saying why."""
    await Failures(log).contain("not_marked", _mark(attempt, reason), turn=attempt.turn)
    task.cancel()


async def _mark(attempt: Attempt, reason: Reason) -> None:
    async with asyncio.timeout(MARK_DEADLINE):
        if await attempt.interrupt(reason):
            log.info("interrupted", turn=attempt.turn, reason=reason)

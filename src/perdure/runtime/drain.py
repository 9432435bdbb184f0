"""An orderly stop: let running turns end, mark those that do not, then cancel them."""

from __future__ import annotations

import asyncio

from perdure.core.recovery import Reason
from perdure.errors import Unavailable
from perdure.logs import Log
from perdure.runtime.runner import Runner
from perdure.runtime.sender import Sender

log = Log("drain")

SEND_DEADLINE = 5.0  # for what is being sent when everything else has ended
MARK_DEADLINE = 5.0  # for saving the marks; without them the turns are found lost at the next start


async def drain(runner: Runner, sender: Sender, reason: Reason, deadline: float, hurry: asyncio.Event) -> None:
    """Stop claiming, wait to the deadline or until hurried, mark what still runs, cancel it, let sends end."""
    runner.stop_claiming()
    running = [task for _, task in runner.attempts.values()]
    log.info("draining", running=len(running), deadline=deadline)
    if running:
        hurried = asyncio.create_task(hurry.wait())
        ended = asyncio.create_task(asyncio.wait(running))
        await asyncio.wait({ended, hurried}, timeout=deadline, return_when=asyncio.FIRST_COMPLETED)
        hurried.cancel()
        ended.cancel()
    await _cut_off(runner, reason)
    await sender.settle(0.0 if hurry.is_set() else SEND_DEADLINE)


async def _cut_off(runner: Runner, reason: Reason) -> None:
    """The mark is durable before the turn is cancelled: a turn is never cut off without saying why."""
    for attempt, task in list(runner.attempts.values()):
        try:
            async with asyncio.timeout(MARK_DEADLINE):
                if await attempt.interrupt(reason):
                    log.info("interrupted", turn=attempt.turn, reason=reason)
        except (TimeoutError, Unavailable) as error:
            log.warning("not_marked", turn=attempt.turn, error=error)
        task.cancel()

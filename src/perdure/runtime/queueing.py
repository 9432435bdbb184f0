"""The queue of a conversation: `/queue` and `/steer`, and messages that have waited for too long."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from perdure.core import notes
from perdure.core.queueing import MODES, Mode, Rules
from perdure.logs import Log
from perdure.runtime.bell import Bell
from perdure.runtime.runner import Runner
from perdure.runtime.tasks import Failures
from perdure.store.api import Store
from perdure.store.ids import Clock
from perdure.store.orders import Order
from perdure.store.queueing import Put, put_words, switch

log = Log("queue")

SWEEP_MS = 60_000  # between two looks for messages that have become too old


class QueueCommand:
    """Shows and switches the mode of a chat, and puts words into its queue in a manner of their own."""

    def __init__(self, store: Store, runner: Runner, rules: Rules, clock: Clock) -> None:
        self._store = store
        self._runner = runner
        self._rules = rules
        self._clock = clock

    async def queue(self, order: Order, rest: str) -> None:
        mode = next((mode for mode in MODES if mode == rest.strip().lower()), None)
        if mode is not None:
            await self._switch(order, mode)
        elif rest:
            await self._put(order, rest, "queue", lambda put: notes.queued(busy=put.busy, before=put.before))
        else:
            await self._show(order)

    async def steer(self, order: Order, rest: str) -> None:
        if rest:
            await self._put(order, rest, "steer", lambda put: notes.steered(busy=put.busy))
        else:
            await self._say(order, notes.STEER_WHAT)

    async def lines(self, key: str) -> list[str]:
        """What `/status` tells, where the mode is not the usual one; how many wait is told anyway."""
        mode = await self._store.queue.mode(key, self._rules.mode)
        return [notes.queue_line(mode)] if mode != "queue" else []

    async def _show(self, order: Order) -> None:
        mode = await self._store.queue.mode(order.key, self._rules.mode)
        waiting = await self._store.inbox.waiting(order.key)
        await self._say(order, notes.queue_shown(mode, waiting))

    async def _switch(self, order: Order, mode: Mode) -> None:
        now = self._clock()
        switching = switch(self._store.ids, order.key, mode, order.position, now)
        done = await self._store.orders.obey(order, switching, lambda done: notes.queue_switched(done.mode), now)
        if done is not None and done.ended is not None:
            self._runner.cut_off(done.ended)
        self._runner.wake_later(order.key)

    async def _put(self, order: Order, words: str, manner: Mode, say: Callable[[Put], str]) -> None:
        now, cap = self._clock(), self._rules.cap
        putting = put_words(self._store.ids, order, words, manner, self._rules, now)
        await self._store.orders.obey(
            order, putting, lambda put: say(put) if put.taken else notes.queue_full(cap), now
        )

    async def _say(self, order: Order, text: str) -> None:
        await self._store.orders.obey(order, lambda _: None, lambda _: text, self._clock())


class Expiry:
    """Gives up messages that nobody has begun in time, and tells each chat once of all of them."""

    def __init__(self, store: Store, rules: Rules, clock: Clock, owes: Callable[[str], None]) -> None:
        self._store = store
        self._rules = rules
        self._clock = clock
        self._owes = owes  # something is owed to the chat of a key
        self._failures = Failures(log)
        self._bell = Bell()
        self._swept_at = 0
        self._newest = float("-inf")

    def wake(self) -> None:
        """Say that a message was too old when it came; more of them may follow."""
        self._newest = asyncio.get_running_loop().time()
        self._bell.ring()

    async def sweep(self) -> None:
        """After return: what waits is young enough to be answered."""
        self._swept_at = now = self._clock()
        if self._rules.max_age_ms:
            for key in await self._store.queue.expire(self._rules.too_old_before(now)):
                log.warning("too_old", key=key)

    async def work(self) -> None:
        while True:
            await self._failures.contain("not_expired", self._look())
            await self._bell.wait()
            await self._until_quiet()

    async def _look(self) -> None:
        now = self._clock()
        if not 0 <= now - self._swept_at < SWEEP_MS:
            await self.sweep()
        for key in await self._store.queue.tell(now):
            self._owes(key)

    async def _until_quiet(self) -> None:
        """Old messages come in a row when a platform is connected again."""
        now, quiet = asyncio.get_running_loop().time, self._rules.quiet_ms / 1000
        while (left := self._newest + quiet - now()) > 0:
            await self._bell.wait(left)

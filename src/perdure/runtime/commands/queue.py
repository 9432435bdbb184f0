"""The queue of a conversation: `/queue` and `/steer`, and messages that have waited for too long."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from perdure.core import texts
from perdure.core.queue import QUEUE_MODE_NAMES, QueueMode, QueueRules
from perdure.logs import Log
from perdure.runtime.runner import TurnRunner
from perdure.runtime.tasks import FailureLog
from perdure.runtime.wakeups import WakeEvent
from perdure.store.api import Store
from perdure.store.chat_commands import ChatCommand
from perdure.store.ids import Clock
from perdure.store.queue import QueuedCommand, convert_to_message, switch_mode

log = Log("queue")

SWEEP_MS = 60_000  # between two looks for messages that have become too old


class QueueCommand:
    """Shows and switches the mode of a chat, and puts words into its queue in a manner of their own."""

    def __init__(self, store: Store, runner: TurnRunner, rules: QueueRules, clock: Clock) -> None:
        self._store = store
        self._runner = runner
        self._rules = rules
        self._clock = clock

    async def queue(self, command: ChatCommand, arguments: str) -> None:
        mode = next((mode for mode in QUEUE_MODE_NAMES if mode == arguments.strip().lower()), None)
        if mode is not None:
            await self._switch(command, mode)
        elif arguments:
            await self._queue_text(
                command, arguments, "queue", lambda put: texts.queue.queued(busy=put.busy, before=put.before)
            )
        else:
            await self._show(command)

    async def steer(self, command: ChatCommand, arguments: str) -> None:
        if arguments:
            await self._queue_text(command, arguments, "steer", lambda put: texts.queue.steered(busy=put.busy))
        else:
            await self._reply(command, texts.queue.STEER_TEXT_MISSING)

    async def status_lines(self, key: str) -> list[str]:
        """What `/status` tells, where the mode is not the usual one; how many wait is told anyway."""
        mode = await self._store.queue.mode(key, self._rules.mode)
        return [texts.queue.mode_line(mode)] if mode != "queue" else []

    async def _show(self, command: ChatCommand) -> None:
        mode = await self._store.queue.mode(command.key, self._rules.mode)
        waiting = await self._store.inbox.count_waiting(command.key)
        await self._reply(command, texts.queue.status(mode, waiting))

    async def _switch(self, command: ChatCommand, mode: QueueMode) -> None:
        now = self._clock()
        switching = switch_mode(command.key, mode, command.position)
        done = await self._store.chat_commands.execute(
            command, switching, lambda done: texts.queue.mode_changed(done.mode), now
        )
        if done is not None and done.ended is not None:
            self._runner.stop_attempt(done.ended)
        self._runner.wake_after_quiet(command.key)

    async def _queue_text(
        self, command: ChatCommand, words: str, mode: QueueMode, say: Callable[[QueuedCommand], str]
    ) -> None:
        now, cap = self._clock(), self._rules.cap
        putting = convert_to_message(command, words, mode, self._rules)
        await self._store.chat_commands.execute(
            command, putting, lambda put: say(put) if put.taken else texts.queue.full(cap), now
        )

    async def _reply(self, command: ChatCommand, text: str) -> None:
        await self._store.chat_commands.execute(command, lambda _: None, lambda _: text, self._clock())


class MessageExpiry:
    """Gives up messages that nobody has begun in time, and tells each chat once of all of them."""

    def __init__(
        self, store: Store, rules: QueueRules, clock: Clock, wake_delivery: Callable[[str], None]
    ) -> None:
        self._store = store
        self._rules = rules
        self._clock = clock
        self._wake_delivery = wake_delivery  # something is owed to the chat of a key
        self._failures = FailureLog(log)
        self._wake_event = WakeEvent()
        self._swept_at = 0
        self._newest = float("-inf")

    def wake(self) -> None:
        """Say that a message was too old when it came; more of them may follow."""
        self._newest = asyncio.get_running_loop().time()
        self._wake_event.wake()

    async def sweep(self) -> None:
        """After return: what waits is young enough to be answered."""
        self._swept_at = now = self._clock()
        if self._rules.max_age_ms:
            for key in await self._store.queue.expire_old(self._rules.too_old_before(now)):
                log.warning("too_old", key=key)

    async def run(self) -> None:
        while True:
            await self._failures.contain("not_expired", self._expire_and_notify())
            await self._wake_event.wait()
            await self._wait_until_quiet()

    async def _expire_and_notify(self) -> None:
        now = self._clock()
        if not 0 <= now - self._swept_at < SWEEP_MS:
            await self.sweep()
        for key in await self._store.queue.notify_expired(now):
            self._wake_delivery(key)

    async def _wait_until_quiet(self) -> None:
        """Old messages come in a row when a platform is connected again."""
        now, quiet = asyncio.get_running_loop().time, self._rules.quiet_ms / 1000
        while (left := self._newest + quiet - now()) > 0:
            await self._wake_event.wait(left)

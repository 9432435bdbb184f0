"""`/queue` and `/steer`: show and switch the queue mode of a chat, or queue one text in a mode of its own."""

from __future__ import annotations

from collections.abc import Callable

from perdure.core import texts
from perdure.core.queue import QUEUE_MODE_NAMES, QueueMode, QueueRules
from perdure.runtime.gateway_run import GatewayRun
from perdure.runtime.runner import TurnRunner
from perdure.store.chat_commands import ChatCommand
from perdure.store.queue import QueuedCommand, convert_to_message, switch_mode


class QueueCommand:
    """Shows and switches the queue mode of a chat, and queues a text in a mode of its own."""

    def __init__(self, run: GatewayRun, runner: TurnRunner, rules: QueueRules) -> None:
        self._store = run.store
        self._clock = run.clocks.wall
        self._wakeups = run.wakeups
        self._runner = runner
        self._rules = rules

    async def queue(self, command: ChatCommand, arguments: str) -> None:
        mode = next((mode for mode in QUEUE_MODE_NAMES if mode == arguments.strip().lower()), None)
        if mode is not None:
            await self._switch(command, mode)
        elif arguments:
            await self._queue_text(
                command,
                arguments,
                "queue",
                lambda put: texts.turns.message_queued(busy=put.busy, before=put.before),
            )
        else:
            await self._show(command)

    async def steer(self, command: ChatCommand, arguments: str) -> None:
        if arguments:
            await self._queue_text(
                command, arguments, "steer", lambda put: texts.turns.message_steered(busy=put.busy)
            )
        else:
            await self._answer(command, texts.turns.STEER_TEXT_MISSING)

    async def status_lines(self, key: str) -> list[str]:
        """Return the line of `/status` about a queue mode other than `queue`."""
        mode = await self._store.queue.mode(key, self._rules.mode)
        return [texts.turns.queue_mode_line(mode)] if mode != "queue" else []

    async def _show(self, command: ChatCommand) -> None:
        mode = await self._store.queue.mode(command.key, self._rules.mode)
        waiting = await self._store.inbox.count_waiting(command.key)
        await self._answer(command, texts.turns.queue_status(mode, waiting))

    async def _switch(self, command: ChatCommand, mode: QueueMode) -> None:
        now = self._clock()
        switching = switch_mode(command.key, mode, command.position)
        done = await self._store.chat_commands.execute(
            command, switching, lambda done: texts.turns.queue_mode_changed(done.mode), now
        )
        if done is not None and done.ended is not None:
            self._runner.stop_attempt(done.ended)
        self._wakeups.wake_runner_after_quiet(command.key)

    async def _queue_text(
        self, command: ChatCommand, words: str, mode: QueueMode, say: Callable[[QueuedCommand], str]
    ) -> None:
        now, cap = self._clock(), self._rules.cap
        putting = convert_to_message(command, words, mode, self._rules)
        await self._store.chat_commands.execute(
            command, putting, lambda put: say(put) if put.taken else texts.turns.queue_full(cap), now
        )

    async def _answer(self, command: ChatCommand, text: str) -> None:
        await self._store.chat_commands.answer(command, text, self._clock())

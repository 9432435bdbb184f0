"""The loop that carries out slash commands.

A command works at any time and never reaches the model. It is carried out once, in the same transaction as its
answer, and acts on the turn that was current when it was stored, not on whatever runs by the time it is read.
"""

from __future__ import annotations

from msgspec.structs import replace

from perdure.containment import contain
from perdure.core import texts
from perdure.core.commands import ParsedCommand, nearest_command, read_command
from perdure.core.roles import Right
from perdure.errors import NewerEntry, Unavailable
from perdure.logs import Log
from perdure.runtime.access import Access
from perdure.runtime.commands.registry import CommandLimits, command_registry
from perdure.runtime.commands.spec import GatewayControl
from perdure.runtime.gateway_run import GatewayRun
from perdure.runtime.runner import TurnRunner
from perdure.runtime.tasks import FailureLog
from perdure.store.chat_commands import ChatCommand

log = Log("commands")


class CommandLoop:
    """Carries out the commands that wait in the inbox."""

    def __init__(
        self,
        run: GatewayRun,
        runner: TurnRunner,
        control: GatewayControl,
        access: Access,
        limits: CommandLimits,
    ) -> None:
        self._run = run
        self._commands = run.store.chat_commands
        self._clock = run.clocks.wall
        self._access = access
        self._failures = FailureLog(log)
        self._stored_before_start: set[str] = set()  # ids of commands
        self.registry = command_registry(
            run,
            runner,
            control,
            access,
            limits,
            run_by_name=self._run_by_name,
            stored_before_start=self._stored_before_start,
        )

    async def catch_up(self) -> None:
        """Carry out what was stored before this start: a turn that somebody stopped must not go on first."""
        waiting = await self._commands.waiting(self._run.id)
        self._stored_before_start.update(command.id for command in waiting)
        for command in waiting:
            await self._run_or_report_failure(command)

    async def run(self) -> None:
        while True:
            await self._run.wakeups.commands.wait()
            await self._failures.contain("commands_not_read", self._run_waiting())

    async def _run_waiting(self) -> None:
        for command in await self._commands.waiting(self._run.id):
            await self._run_or_report_failure(command)

    async def _run_or_report_failure(self, command: ChatCommand) -> None:
        """Carry out one command. While the store is away it waits; any other failure is its answer."""
        command = self._with_right(command, "talk")
        defects: list[BaseException] = []

        def report(error: BaseException) -> None:
            self._failures.report("command_failed", error, key=command.key, command=command.id)
            defects.extend([] if isinstance(error, Unavailable) else [error])

        await contain(self._run_command(command), report)
        for error in defects:
            text = texts.turns.NEWER_ENTRY if isinstance(error, NewerEntry) else texts.chat_commands.FAILED
            await self._failures.contain("not_answered", self._answer(command, text), command=command.id)
            self._run.wakeups.wake_delivery(command.key)

    async def _run_command(self, command: ChatCommand) -> None:
        """Carry out a command. Its right is asked for in the transaction that does what it says."""
        command = replace(command, longest=self._run.connections.max_length(command.address.platform))
        words = read_command(command.text) or ParsedCommand("", command.text)
        spec = self.registry.get(words.name)
        log.info("command", name=words.name, key=command.key, command=command.id)
        if spec is None:
            near = nearest_command(words.name, self.registry)
            await self._answer(command, texts.chat_commands.unknown(words.name, near))
        elif words.arguments and not spec.takes_words:
            usage = texts.chat_commands.usage(spec.usage, words.arguments)
            await self._answer(self._with_right(command, spec.right), usage)
        else:
            await spec.run(self._with_right(command, spec.right), words.arguments)
        self._run.wakeups.wake_delivery(command.key)
        self._run.wakeups.wake_runner(command.key)  # messages may wait behind it

    async def _run_by_name(self, command: ChatCommand, name: str, arguments: str) -> None:
        """Carry out the command of a name, to which another command leads."""
        spec = self.registry[name]
        await spec.run(self._with_right(command, spec.right), arguments)

    def _with_right(self, command: ChatCommand, right: Right) -> ChatCommand:
        """Return the command as one that needs a right in its session."""
        refusal = self._access.authorisation.refuse_command(command.key, command.sender, right)
        return replace(command, refusal=refusal)

    async def _answer(self, command: ChatCommand, text: str) -> None:
        await self._commands.answer(command, text, self._clock())

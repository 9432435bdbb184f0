"""Commands that only read: `/help`, `/status`, `/whoami`, `/why` and `/sessions`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from perdure.core import texts
from perdure.core.address import decode_session_key
from perdure.core.texts.explanation import explain_snapshot
from perdure.runtime.access import Access
from perdure.runtime.commands.spec import CommandSpec, GatewayControl
from perdure.runtime.gateway_run import GatewayRun
from perdure.store.chat_commands import ChatCommand
from perdure.store.processes import Process

StatusLines = Callable[[str], Awaitable[list[str]]]  # lines of `/status` about the session of a key


class InspectCommands:
    """Answers questions of people about the chat and the gateway."""

    def __init__(
        self,
        run: GatewayRun,
        control: GatewayControl,
        access: Access,
        status_lines: Sequence[StatusLines],
    ) -> None:
        self._run = run.id
        self._store = run.store
        self._clock = run.clocks.wall
        self._control = control
        self._access = access
        self._status_lines = status_lines
        self.specs: Sequence[CommandSpec] = ()  # that `/help` lists

    async def help(self, command: ChatCommand, _: str) -> None:
        width = max(len(spec.usage) for spec in self.specs)
        lines = [f"{spec.usage:{width}}  {spec.summary}" for spec in self.specs]
        await self._answer(command, "\n".join(lines))

    async def status(self, command: ChatCommand, _: str) -> None:
        lines = [line for lines_of in self._status_lines for line in await lines_of(command.key)]
        lines += await self._processes(command.key)
        await self._answer(
            command, "\n".join([*self._control.describe(), *await self._explanation(command), *lines])
        )

    async def _processes(self, key: str) -> list[str]:
        """Return a line for each live background process of a chat."""
        live = await self._store.processes.live(key)
        return [texts.processes.status_line(one.id, one.command, await self._process_state(one)) for one in live]

    async def _process_state(self, process: Process) -> str:
        seen = await self._store.process_relay.view(process.id)
        if seen is None or seen.run == self._run:
            return texts.processes.state_words(process.state, None, None)
        return texts.processes.runs_elsewhere(seen.gateway, gateway_runs=seen.gateway_runs).rstrip(".")

    async def whoami(self, command: ChatCommand, _: str) -> None:
        person, role = command.sender, await self._access.role(command.address, command.sender)
        there = {"shared": decode_session_key(command.key).shared, "alone": command.address.kind == "dm"}
        text = texts.people.who_you_are(person.id, person.name, role, **there) if role else ""
        await self._answer(command, text)

    async def why(self, command: ChatCommand, _: str) -> None:
        await self._answer(command, "\n".join(await self._explanation(command)))

    async def _explanation(self, command: ChatCommand) -> list[str]:
        session = await self._store.sessions.current(command.key)
        if session is None:
            return [texts.chat_commands.NOTHING_HAPPENED]
        return explain_snapshot(await self._store.snapshots.of_session(session), self._clock())

    async def sessions(self, command: ChatCommand, _: str) -> None:
        now, found = self._clock(), await self._store.sessions.newest_of_key(command.key)
        shown = [(each.id, each.state.value, now - each.updated_at, words) for each, words in found]
        await self._answer(command, texts.chat_commands.session_list(shown))

    async def _answer(self, command: ChatCommand, text: str) -> None:
        await self._store.chat_commands.answer(command, text, self._clock())

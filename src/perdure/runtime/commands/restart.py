"""`/restart`: a person asks for a restart of the gateway."""

from __future__ import annotations

from collections.abc import Container

from perdure.core import texts
from perdure.runtime.commands.spec import GatewayControl
from perdure.runtime.gateway_run import GatewayRun
from perdure.store.chat_commands import ChatCommand
from perdure.store.ids import is_before
from perdure.store.runs import request_restart


class RestartCommand:
    """Restarts the gateway, once per request."""

    def __init__(self, run: GatewayRun, control: GatewayControl, stored_before_start: Container[str]) -> None:
        """`stored_before_start` are the ids of the commands that waited when this run began."""
        self._run = run.id
        self._commands = run.store.chat_commands
        self._clock = run.clocks.wall
        self._control = control
        self._stored_before_start = stored_before_start

    async def restart(self, command: ChatCommand, _: str) -> None:
        """Restart the gateway; a request from before this start has been fulfilled by it, whatever caused it."""
        if command.id in self._stored_before_start or is_before(command.id, self._run):
            await self._commands.answer(command, texts.recovery.RESTARTED_SINCE, self._clock())
        elif self._control.stopping is not None:
            await self._commands.answer(command, texts.recovery.RESTART_UNDER_WAY, self._clock())
        else:
            request = request_restart(self._run, command.key)
            done = await self._commands.execute(
                command, request, lambda _: texts.recovery.RESTARTING, self._clock()
            )
            if done is not None:
                self._control.restart()

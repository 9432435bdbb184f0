"""Lets tools of one's own run commands, in the sandbox and under the keepers that `shell` has."""

from __future__ import annotations

import asyncio
import hashlib
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from perdure.core import texts
from perdure.core.tools import Tool, ToolCommandResult, Use
from perdure.errors import OutcomeUnknown, ToolFailed
from perdure.tools import keeper
from perdure.tools.blocking_jobs import run_in_thread
from perdure.tools.keeper import CommandEnded, CommandLost, CommandUnreadable
from perdure.tools.shell import (
    CommandEnvironment,
    attach,
    call_directory,
    exit_cause,
    follow_command,
    output_excerpt,
)


def give_commands(tool: Tool, environment: CommandEnvironment) -> Tool:
    """The tool, with a `Use` that runs commands in this environment."""

    async def run(use: Use) -> str:
        commands = ToolCommands(environment, use)
        try:
            result = await tool.run(replace(use, run_command=commands.run_command))
        except Exception:  # not when it is cancelled: a later gateway may repeat the call
            await commands.stop_unfinished()
            raise
        await commands.stop_unfinished()
        return result

    return replace(tool, run=run)


class ToolCommands:
    """The commands of one call of a tool, counted.

    Each has a directory named by its call, its number and its line. So a call that is repeated after an
    interruption finds the commands that it has begun before, and `runtime/command_cleanup` knows whose they are.
    """

    def __init__(self, environment: CommandEnvironment, use: Use) -> None:
        self._environment, self._use = environment, use
        self._count = 0
        self._unfinished: set[Path] = set()

    async def run_command(self, command: str, *, timeout: float | None = None) -> ToolCommandResult:
        """Run a command to its end; `ToolFailed` if it was not started, `OutcomeUnknown` if its end is unknown."""
        work = self._environment
        self._count += 1
        directory = self._directory(command)
        folders = await work.folders(self._use.session_key)
        limit = work.timeout if timeout is None else max(0.1, timeout)
        spec = work.launch_spec(folders, command, limit, readable=False)
        try:
            await run_in_thread(partial(keeper.make_directory, directory))
        except OSError as error:
            raise ToolFailed(texts.processes.command_not_started(str(error))) from error
        self._unfinished.add(directory)
        await attach(directory, spec, work.status_timeouts)
        status = await follow_command(directory, spec.cap, self._use.alive, work.status_timeouts)
        self._unfinished.discard(directory)
        match status:
            case CommandEnded():
                output = await run_in_thread(partial(output_excerpt, directory))
                return ToolCommandResult(status.exit_code, output, exit_cause(status))
            case CommandLost(problem) | CommandUnreadable(problem):
                raise OutcomeUnknown(problem)
            case _:
                raise OutcomeUnknown(texts.processes.COMMAND_FILES_GONE)

    async def stop_unfinished(self) -> None:
        """Stop what the tool did not wait for."""
        await asyncio.gather(*(keeper.stop(directory) for directory in self._unfinished))

    def _directory(self, command: str) -> Path:
        first = call_directory(self._environment.keepers, self._use.key)
        mark = hashlib.sha256(command.encode(errors="surrogateescape")).hexdigest()[:8]
        return first.with_name(f"{first.name}#{self._count}-{mark}")

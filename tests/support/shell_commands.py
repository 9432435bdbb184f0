"""Foreground commands for tests: commands that wait for us, and gateways that are killed with their group."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from perdure.agents.api import Reply, TurnContext
from perdure.config import load_settings
from perdure.errors import ModelError
from perdure.runtime.agent_factory import AgentFactory
from perdure.tools import keeper
from perdure.tools.keeper import CommandRunning
from perdure.tools.keeper.directory import session_processes
from support.chat_folders import chat_workspace, workspaces
from support.gateway import GatewayProcess
from support.keepers import end_all_commands
from support.waiting import eventually, wait_for

# Leaves a line for each time it runs, says something, waits for us, says more, and ends with a code of its own.
HELD_COMMAND = "echo ran >> runs; echo one; until [ -e go ]; do sleep 0.02; done; echo two; exit 3"
HELD_RESULT = "exit code 3\none\ntwo"


class GatewayProcessGroup(GatewayProcess):
    """A gateway in a session of its own: a kill hits its whole process group."""

    def start(self, *prefix: str) -> GatewayProcess:
        return super().start("setsid", *prefix)

    def kill(self) -> None:
        assert self.process is not None
        os.killpg(self.process.pid, signal.SIGKILL)
        assert self.wait() == -signal.SIGKILL


@contextmanager
def gateway_process_group(home: Path, **settings: str) -> Iterator[GatewayProcess]:
    """A started gateway that is killed by its group, gone at the end whatever happens."""
    process = GatewayProcessGroup(home, **settings)
    try:
        yield process.start()
    finally:
        process.close()


def home_without_commands(folder: Path) -> Iterator[Path]:
    """A home in which no command runs any more after the test."""
    for _ in end_all_commands(folder / "home" / "keepers"):
        yield folder / "home"


class ShellCommands:
    """The foreground commands of a home, seen from outside."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.root = home / "keepers"

    @property
    def workspace(self) -> Path:
        """Where the commands of the only conversation run."""
        [workspace] = workspaces(self.home)
        return workspace

    def runs(self) -> int:
        """How often the held command ran."""
        files = [place / "runs" for place in workspaces(self.home)]
        return sum(len(file.read_text().splitlines()) for file in files if file.exists())

    def release(self) -> None:
        """Let the held command come to its end; the one of a `Person` may not have a workspace yet."""
        for place in workspaces(self.home) or [chat_workspace(self.home)]:
            (place / "go").touch()

    def directories(self) -> list[Path]:
        return sorted(place for place in self.root.iterdir()) if self.root.is_dir() else []

    def running(self) -> CommandRunning | None:
        """The command that runs now, and has been started."""
        seen = [keeper.read_status(place) for place in self.directories()]
        return next((each for each in seen if isinstance(each, CommandRunning) and each.pid), None)

    def output(self) -> str:
        return "".join(keeper.read_output_text(place, 0, 1 << 20)[0] for place in self.directories())

    def is_claimed(self) -> bool:
        return any((place / "claim").exists() for place in self.directories())

    def has_result(self) -> bool:
        return any((place / "result.json").exists() for place in self.directories())

    def has_output(self) -> bool:
        return self.running() is not None and "one" in self.output()

    def wait_for_output(self) -> CommandRunning:
        """The held command, after waiting until it has said its first word."""
        wait_for("the command has said something", self.has_output)
        found = self.running()
        assert found is not None
        return found


def is_gone(command: CommandRunning) -> bool:
    """Whether nothing is left of a command's session."""
    return not session_processes(command.pid)


class FailingAgent:
    """The built-in agent of a home, whose turn fails as soon as a fact holds."""

    def __init__(self, home: Path, platform: str, fact: Callable[[], bool]) -> None:
        factory = AgentFactory(load_settings(home, {}), [platform])
        factory.tools.prepare()
        self._agent = factory.agent_for(platform)
        self._fact = fact

    async def run(self, context: TurnContext) -> Reply:
        running = asyncio.ensure_future(self._agent.run(context))
        try:
            await eventually("it is time to fail", self._fact)
            raise ModelError("the credit is used up")
        finally:
            running.cancel()
            await asyncio.wait({running})

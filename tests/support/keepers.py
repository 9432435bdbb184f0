"""Kept commands for tests: what starts them, what is left of them, and the end of them all after the test."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from perdure.tools import keeper
from perdure.tools.keeper import KEEPER_PROGRAM, CommandEnded, CommandRunning, CommandStatus, LaunchSpec
from support.process_state import is_alive
from support.waiting import wait_for

STARTER = Path(__file__).with_name("starter.py")
PATH_ENV = {"PATH": os.environ.get("PATH", os.defpath)}


def launch_spec(command: str, **more: Any) -> LaunchSpec:
    """An order with a path, so that programs are found."""
    return LaunchSpec(command, **{"directory": "/", "env": PATH_ENV, **more})


class CommandStarter:
    """A process that starts commands, and can be killed; in a process group of its own."""

    def __init__(self, root: Path, orders: dict[str, dict[str, Any]], *flags: str, **env: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(STARTER), *flags],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONPATH": str(STARTER.parents[1])} | env,
            start_new_session=True,
        )
        full = {name: {"directory": "/", "env": PATH_ENV, **each} for name, each in orders.items()}
        self._input.write(json.dumps([str(root), full]) + "\n")
        self._input.flush()
        self.said: list[str] = []
        for line in self._output:
            self.said.append(line.strip())
            if line == "begun\n":
                break

    @property
    def _input(self) -> Any:
        return self._process.stdin

    @property
    def _output(self) -> Any:
        return self._process.stdout

    def kill(self) -> None:
        self._process.kill()
        self._close()

    def kill_group(self) -> None:
        os.killpg(self._process.pid, signal.SIGKILL)
        self._close()

    def finish(self) -> list[str]:
        """Let it end by itself; what it said at last."""
        self._input.close()
        said: list[str] = [line.strip() for line in self._output]
        self._close()
        return said

    def _close(self) -> None:
        self._process.wait()
        self._input.close()
        self._output.close()


def run_keeper_program(directory: Path, program: Path = KEEPER_PROGRAM) -> subprocess.Popen[bytes]:
    """Start a keeper as `start_command` does, and do not wait for it."""
    return subprocess.Popen(
        [sys.executable, "-I", "-S", str(program), str(directory)], stderr=subprocess.PIPE, env={}, cwd="/"
    )


def write_launch_spec(keeper_directory: Path, **fields: Any) -> None:
    """Write an order into a place, for a keeper that is started by hand."""
    keeper_directory.mkdir(parents=True, exist_ok=True)
    (keeper_directory / "order.json").write_text(
        json.dumps({"version": 1, "directory": "/", "env": PATH_ENV, **fields})
    )


def file_names(folder: Path | str) -> list[str]:
    return sorted(each.name for each in Path(folder).iterdir())


def find_processes(text: str) -> list[int]:
    """The living processes with a text in their command line or environment."""
    found = []
    for entry in Path("/proc").iterdir():
        with suppress(OSError, ValueError):
            pid = int(entry.name)
            words = (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes()
            if text.encode() in words and pid != os.getpid() and is_alive(pid):
                found.append(pid)
    return found


def running_status(directory: Path) -> CommandRunning:
    """How a command is doing that runs."""
    status = keeper.read_status(directory)
    assert isinstance(status, CommandRunning), status
    return status


def wait_until_ended(directory: Path) -> CommandEnded:
    """How a command ended, after waiting for that."""
    over: CommandEnded = wait_for(f"{directory.name} has ended", lambda: status_of_kind(directory, CommandEnded))
    return over


def status_of_kind(directory: Path, kind: type[CommandStatus]) -> Any:
    """What is to be seen, if it is of that kind."""
    status = keeper.read_status(directory)
    return status if isinstance(status, kind) else None


def rewrite_record(directory: Path, name: str, change: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """Forge a record."""
    (directory / name).write_text(json.dumps(change(json.loads((directory / name).read_text()))))


def kill_all_processes(root: Path) -> None:
    """Kill every keeper and command whose command line names a folder."""
    for pid in find_processes(str(root)):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def end_all_commands(root: Path) -> Iterator[Path]:
    """A folder for the directories of keepers, in which nothing runs any more after the test."""
    try:
        yield root
    finally:
        for name in keeper.read_all_statuses(root):
            asyncio.run(keeper.stop(root / name, 0))
        kill_all_processes(root)

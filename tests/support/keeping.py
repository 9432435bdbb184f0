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

from perdure.tools import kept
from perdure.tools.beginning import KEEPER
from perdure.tools.kept import Ended, Order, Running, Sighting
from perdure.tools.place import process
from support.waiting import wait_for

STARTER = Path(__file__).with_name("starter.py")
PATH = {"PATH": os.environ.get("PATH", os.defpath)}


def order(command: str, **more: Any) -> Order:
    """An order with a path, so that programs are found."""
    return Order(command, **{"directory": "/", "env": PATH, **more})


class Starter:
    """A process that starts commands, and can be killed; in a process group of its own."""

    def __init__(self, root: Path, orders: dict[str, dict[str, Any]], *flags: str, **env: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(STARTER), *flags],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | env,
            start_new_session=True,
        )
        full = {name: {"directory": "/", "env": PATH, **each} for name, each in orders.items()}
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

    def end(self) -> list[str]:
        """Let it end by itself; what it said at last."""
        self._input.close()
        said: list[str] = [line.strip() for line in self._output]
        self._close()
        return said

    def _close(self) -> None:
        self._process.wait()
        self._input.close()
        self._output.close()


def run_keeper(place: Path) -> subprocess.Popen[bytes]:
    """Start a keeper as `begin` does, and do not wait for it."""
    return subprocess.Popen(
        [sys.executable, "-I", "-S", str(KEEPER), str(place)], stderr=subprocess.PIPE, env={}, cwd="/"
    )


def write_order(place: Path, **fields: Any) -> None:
    """Write an order into a place, for a keeper that is started by hand."""
    place.mkdir(parents=True, exist_ok=True)
    (place / "order.json").write_text(json.dumps({"version": 1, "directory": "/", "env": PATH, **fields}))


def names(folder: Path | str) -> list[str]:
    return sorted(each.name for each in Path(folder).iterdir())


def processes(named: str) -> list[int]:
    """The living processes with a text in their command line or environment."""
    found = []
    for entry in Path("/proc").iterdir():
        with suppress(OSError, ValueError):
            pid = int(entry.name)
            words = (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes()
            if named.encode() in words and pid != os.getpid() and is_alive(pid):
                found.append(pid)
    return found


def is_alive(pid: int) -> bool:
    found = process(pid)
    return found is not None and found[0] not in "ZX"


def running(place: Path) -> Running:
    """How a command is doing that runs."""
    sighting = kept.look(place)
    assert isinstance(sighting, Running), sighting
    return sighting


def ended(place: Path) -> Ended:
    """How a command ended, after waiting for that."""
    over: Ended = wait_for(f"{place.name} has ended", lambda: seen(place, Ended))
    return over


def seen(place: Path, kind: type[Sighting]) -> Any:
    """What is to be seen, if it is of that kind."""
    sighting = kept.look(place)
    return sighting if isinstance(sighting, kind) else None


def rewrite(place: Path, name: str, change: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """Forge a record."""
    (place / name).write_text(json.dumps(change(json.loads((place / name).read_text()))))


def end_all(root: Path) -> Iterator[Path]:
    """A folder for places, in which nothing runs any more after the test."""
    yield root
    for name in kept.survey(root):
        asyncio.run(kept.stop(root / name, 0))
    for pid in processes(str(root)):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)

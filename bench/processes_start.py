"""How long a command takes until its first own act: `python -m bench.processes_start ROUNDS`.

In the sandbox under a keeper, as the gateway begins it, under a keeper alone, and bare, as asyncio does; the three
take turns. The act is a word into a pipe that we read, by the shell itself, so that all do the same and nothing
else is started.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import NamedTuple

from perdure.tools import keeper
from perdure.tools.keeper import CommandRunning, LaunchSpec
from perdure.tools.sandbox import Confinement, SandboxLimits, SandboxRequest, choose_sandbox

ENV = {"PATH": os.environ.get("PATH", os.defpath)}
PATIENCE = 30.0


class Start(NamedTuple):
    act: float  # seconds until the command did something
    cpu: float  # CPU seconds of everything but the command itself
    whole: float  # seconds until its end was known


class Pipe:
    """Where commands say that they have begun."""

    def __init__(self, path: Path) -> None:
        os.mkfifo(path)
        self._handle = os.open(path, os.O_RDWR | os.O_NONBLOCK)
        self.word = f"echo x > {path}"

    async def measure(self, begin: Callable[[], Awaitable[None]]) -> float:
        """Seconds from the wish to the word."""
        loop = asyncio.get_running_loop()
        heard: asyncio.Future[float] = loop.create_future()
        loop.add_reader(self._handle, _set_now, heard)
        began = time.perf_counter()
        beginning = asyncio.ensure_future(begin())
        try:
            return await asyncio.wait_for(heard, PATIENCE) - began
        finally:
            loop.remove_reader(self._handle)
            os.read(self._handle, 100)
            await beginning


def _set_now(heard: asyncio.Future[float]) -> None:
    if not heard.done():
        heard.set_result(time.perf_counter())


async def bare(pipe: Pipe, folder: Path) -> Start:
    running: list[asyncio.subprocess.Process] = []

    async def begin() -> None:
        piped = asyncio.subprocess.PIPE
        command = f"{pipe.word}; read line"
        running.append(
            await asyncio.create_subprocess_shell(command, stdin=piped, stdout=piped, cwd=folder, env=ENV)
        )

    before, began = time.process_time(), time.perf_counter()
    act = await pipe.measure(begin)
    used = time.process_time() - before
    await running[0].communicate(b"\n")
    return Start(act, used, time.perf_counter() - began)


async def under_a_keeper(pipe: Pipe, folder: Path, place: Path, sandbox: Confinement | None = None) -> Start:
    before, began = _used(), time.perf_counter()
    spec = LaunchSpec(f"{pipe.word}; read line", str(folder), ENV, sandbox=sandbox)
    act = await pipe.measure(lambda: keeper.start_command(place, spec))
    seen = keeper.read_status(place)
    assert isinstance(seen, CommandRunning), seen
    used = _used() - before + on_cpu(seen.keeper)
    await keeper.write_input(place, b"\n")
    await keeper.wait_for_end(place)
    return Start(act, used, time.perf_counter() - began)


def _used() -> float:
    """The CPU seconds that we have used, and the processes that we started and that have ended."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def on_cpu(pid: int) -> float:
    """The seconds that a process of one thread was on a CPU, to the microsecond."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9


async def measure(rounds: int) -> None:
    with tempfile.TemporaryDirectory(prefix="perdure-bench-") as name:
        folder = Path(name)
        pipe, sandbox = Pipe(folder / "pipe"), _confinement(folder)
        for number in range(rounds + 1):
            places = [folder / "keepers" / f"{number}-{kind}" for kind in ("kept", "sandboxed")]
            kept = await under_a_keeper(pipe, folder, places[0])
            starts = await bare(pipe, folder), kept, await under_a_keeper(pipe, folder, places[1], sandbox)
            if number:  # the first of each kind finds nothing warm
                print(json.dumps(starts), flush=True)


def _confinement(folder: Path) -> Confinement | None:
    """The best sandbox, with the folder as workspace."""
    for name in ("gateway", "home"):
        (folder / name).mkdir()
    request = SandboxRequest("bwrap", "web", SandboxLimits(4000, 512, 10_000), folder / "gateway")
    return choose_sandbox(request, folder, folder / "home").confinement(folder, folder / "home")


if __name__ == "__main__":
    asyncio.run(measure(int(sys.argv[1])))

"""What many processes in the background cost while nothing happens, and how soon the end of one is told.

`python -m bench.processes_idle PROCESSES WATCHED SECONDS ENDINGS`: a real `perdure run`, to which people talk over
HTTP. Each process is a shell's child that sleeps; a watched one has its output looked at for a text.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import sqlite3
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from bench.processes_start import on_cpu
from bench.startup import cpu_of
from bench.turns_web import WebChat, running
from perdure.tools import keeper
from perdure.tools.keeper import CommandRunning

OF_A_CHAT = 10
AT_ONCE = 5  # chats that begin theirs at the same moment
SLEEP = 1_000_000  # seconds, and some more for each, since nobody wishes for the very same ten times in a row
QUIET = 0.02  # CPU seconds in a second: less than that, and the beginning has come to its end
LONGEST_REST = 30.0
LOOK = 0.001  # seconds between two looks at the database
PATIENCE = 60.0


class Idle(NamedTuple):
    """What a gateway and its processes need."""

    begun: float  # seconds until all had been begun
    seconds: float  # of the window in which nothing happened
    gateway_cpu: float  # CPU seconds in it
    keepers_cpu: float
    gateway: int  # bytes, those that are shared divided among those who share them
    keepers: int
    stored: list[float]  # seconds from the end of a process until it was on record that somebody is to be told
    told: list[float]  # seconds until the chat had it


class Ground:
    """A gateway, its home, and the chats in which processes were begun."""

    def __init__(self, home: Path, pid: int) -> None:
        self.home = home
        self.pid = pid
        self.chats: list[WebChat] = []

    async def begin(self, chats: Sequence[WebChat], words: str) -> None:
        """Begin the processes of some chats at once."""
        self.chats += chats
        script = "".join(f"{words} exec sleep {SLEEP + number}\n" for number in range(OF_A_CHAT)) + "say: begun"
        said = await asyncio.wait_for(asyncio.gather(*(chat.say(script) for chat in chats)), PATIENCE)
        assert set(said) <= {"begun"}, said

    def running(self) -> list[CommandRunning]:
        places = (self.home / "keepers").glob("*")
        return [seen for place in sorted(places) if isinstance(seen := keeper.read_status(place), CommandRunning)]

    async def rest(self) -> None:
        """Wait until what the beginning has left to do is done."""
        for _ in range(int(LONGEST_REST)):
            before = cpu_of(self.pid)
            await asyncio.sleep(1)
            if cpu_of(self.pid) - before <= QUIET:
                return

    async def window(self, seconds: float, keepers: Sequence[int]) -> tuple[float, float, float]:
        """How long a window really was, and the CPU seconds of the gateway and of the keepers in it."""
        began, ours, theirs = time.perf_counter(), cpu_of(self.pid), sum(map(on_cpu, keepers))
        await asyncio.sleep(seconds)
        used = cpu_of(self.pid) - ours, sum(map(on_cpu, keepers)) - theirs
        return time.perf_counter() - began, *used

    async def end_one(self, number: int) -> tuple[float, float]:
        """End the newest process of a chat; how long it took until that was stored, and until it was told."""
        database = sqlite3.connect(f"file:{self.home / 'perdure.db'}?mode=ro", uri=True)
        [row] = database.execute(
            "SELECT id, directory FROM processes WHERE key LIKE ? ORDER BY id DESC LIMIT 1", (f"%:c{number}",)
        ).fetchall()
        seen = keeper.read_status(self.home / "keepers" / row[1])
        assert isinstance(seen, CommandRunning), seen
        began = time.perf_counter()
        os.kill(seen.pid, signal.SIGKILL)
        stored = asyncio.create_task(_stored(database, row[0]))
        said = await asyncio.wait_for(self.chats[number].hear(), PATIENCE)
        told = time.perf_counter()
        assert row[0] in said, said
        found = await stored - began, told - began
        database.close()
        return found


async def _stored(database: sqlite3.Connection, process: str) -> float:
    """When it was on record that somebody is to be told of an end."""
    while True:
        if database.execute("SELECT 1 FROM processes WHERE id = ? AND told = 'report'", (process,)).fetchone():
            return time.perf_counter()
        await asyncio.sleep(LOOK)


def memory(pid: int) -> int:
    """The bytes of a process, those that are shared divided among those who share them."""
    found = re.search(r"^Pss:\s+(\d+) kB", Path(f"/proc/{pid}/smaps_rollup").read_text(), re.MULTILINE)
    assert found is not None
    return int(found[1]) * 1024


async def measure(processes: int, words: str, seconds: float, endings: int) -> None:
    with tempfile.TemporaryDirectory(prefix="perdure-bench-") as name:
        home = Path(name)
        try:
            with running(home) as contender:
                ground = Ground(home, contender.pid)
                began = time.perf_counter()
                for first in range(0, processes // OF_A_CHAT, AT_ONCE):
                    numbers = range(first, min(first + AT_ONCE, processes // OF_A_CHAT))
                    # A person's chat in full, so that the key of a process ends with its name.
                    await ground.begin([chat_of(contender.begin(f"c{number}")) for number in numbers], words)
                begun = time.perf_counter() - began
                keepers = [each.keeper for each in ground.running()]
                assert len(keepers) == processes, len(keepers)
                await ground.rest()
                window = await ground.window(seconds, keepers)
                sizes = memory(contender.pid), sum(map(memory, keepers))
                ends = [await ground.end_one(number) for number in range(endings)]
                print(json.dumps(Idle(begun, *window, *sizes, [e[0] for e in ends], [e[1] for e in ends])))
                for chat in ground.chats:
                    await chat.leave()
        finally:
            await asyncio.gather(*(keeper.stop(place, 0) for place in (home / "keepers").glob("*")))


def chat_of(talk: object) -> WebChat:
    assert isinstance(talk, WebChat)
    return talk


if __name__ == "__main__":
    count, watched, window, ended = sys.argv[1:]
    line = "watch: never-said" if watched == "watched" else "background:"
    asyncio.run(measure(int(count), line, float(window), int(ended)))

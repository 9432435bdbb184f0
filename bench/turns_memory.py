"""What turns and sessions cost in memory: `python -m bench.turns_memory WHAT COUNT [MODEL]`.

Memory is counted twice: as the process holds it, and after SQLite has given its page caches back and malloc what
it kept for later. The caches belong to no session: they grow to their limit, whoever reads and writes.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import NamedTuple

from bench.turns_crowd import SETTLED, resident
from bench.turns_gateway import CountingDatabase, Street, of_model, serving
from perdure import logs
from perdure.store.backends.sqlite import READER_COUNT
from perdure.store.database import Row, Tx
from support.waiting import eventually

AT_ONCE = 500  # sessions that begin at the same moment; the first so many, which warm it up, are not counted
HOLDING = 0.05  # seconds that a reader is held, so that the next one must be another
PATIENCE = 120.0


class Kept(NamedTuple):
    """What so many turns or sessions have left in a process."""

    number: int
    resident: int  # bytes, as they are
    own: int  # bytes, without caches
    objects: int  # blocks that Python's allocator has given out
    tasks: int


class Look(NamedTuple):
    resident: int
    own: int
    objects: int
    tasks: int


class Ground:
    """A gateway, and what happens on it."""

    def __init__(self, home: Path, street: Street, database: CountingDatabase) -> None:
        self.home = home
        self.street = street
        self._database = database

    async def held(self, places: range) -> None:
        """Turns inside a step that takes long."""
        for place in places:
            self.street.write(f"{place}", "step x 600s")
        trace = self.home / "rehearsal.log"  # has a line for every step that began
        await eventually(
            "all are in their step",
            lambda: trace.exists() and trace.read_bytes().count(b"\n") == places.stop,
            PATIENCE,
        )

    async def streams(self, places: range) -> None:
        """Turns whose answer has begun to come, and pauses."""
        for place in places:
            self.street.write(f"{place}", "How is it?")
        await eventually("all hear their answer", lambda: len(self.street.glimpsed) == places.stop, PATIENCE)

    async def waiting(self, places: range) -> None:
        """Turns that have asked a person, and wait for the answer."""
        await asyncio.gather(*(self.street.write(f"{place}", "ask: Shall I? | yes | no") for place in places))

    async def idle(self, places: range) -> None:
        """Sessions that have finished a turn."""
        await asyncio.gather(*(self.street.write(f"{place}", "say: hi") for place in places))

    async def look(self) -> Look:
        """Look when nothing is under way any more."""
        before = None
        while before != self._database.tally:
            before = self._database.tally
            await asyncio.sleep(SETTLED)
        gc.collect()
        now, objects, tasks = resident(), sys.getallocatedblocks(), len(asyncio.all_tasks())
        await self._database.write(_shrink)
        await asyncio.gather(*(self._database.read(_shrink_held) for _ in range(READER_COUNT)))
        ctypes.CDLL(None).malloc_trim(0)
        return Look(now, resident(), objects, tasks)


Fill = Callable[[Ground, range], Awaitable[None]]
WAYS: dict[str, Fill] = {
    "held": Ground.held,
    "streams": Ground.streams,
    "waiting": Ground.waiting,
    "idle": Ground.idle,
}


async def measure(what: str, count: int, model: str = "") -> None:
    """Print what so many of them, a multiple of `AT_ONCE`, cost. Then ends at once: nobody waits for the held."""
    with tempfile.TemporaryDirectory(prefix="perdure-bench-") as name:
        street, settings = Street(streamed=bool(model)), of_model(model) if model else {}
        async with serving(Path(name), street, **settings) as database:
            ground = Ground(Path(name), street, database)
            await WAYS[what](ground, range(AT_ONCE))
            before = await ground.look()
            for start in range(AT_ONCE, AT_ONCE + count, AT_ONCE):
                await WAYS[what](ground, range(start, start + AT_ONCE))
            after = await ground.look()
            kept = Kept(count, *(late - early for early, late in zip(before, after, strict=True)))
            print(json.dumps(kept), flush=True)
            shutil.rmtree(name)
            os._exit(0)


def _shrink(tx: Tx) -> list[Row]:
    return tx.all("PRAGMA shrink_memory")


def _shrink_held(tx: Tx) -> list[Row]:
    time.sleep(HOLDING)
    return _shrink(tx)


if __name__ == "__main__":
    logs.to_stderr()
    asyncio.run(measure(sys.argv[1], int(sys.argv[2]), *sys.argv[3:]))

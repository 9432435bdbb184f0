"""Waiting for outputs to grow: one look at all of them every half second, so that many cost little."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from msgspec import Struct

from perdure.runtime.bell import Bell
from perdure.store.ids import Clock

GLANCE = 0.5  # seconds
NONE = 3600.0  # seconds to wait for somebody who waits


class Waiting(Struct, frozen=True, eq=False):
    output: str
    size: int
    due: int | None
    over: asyncio.Event


class Glances:
    """The outputs that somebody waits for."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._waiting: set[Waiting] = set()
        self._bell = Bell()

    async def change(self, place: Path, size: int, due: int | None) -> None:
        """Wait until the output in a place has another size than this, or that time has come."""
        waiting = Waiting(str(place / "output"), size, due, asyncio.Event())
        self._waiting.add(waiting)
        self._bell.ring()
        try:
            await waiting.over.wait()
        finally:
            self._waiting.discard(waiting)

    async def work(self) -> None:
        while True:
            await self._bell.wait(GLANCE if self._waiting else NONE)
            now = self._clock()
            for waiting in self._waiting:
                if _size(waiting.output) != waiting.size or (waiting.due is not None and now >= waiting.due):
                    waiting.over.set()


def _size(output: str) -> int:
    try:
        return os.stat(output).st_size  # noqa: PTH116 reason: a path object costs more than the look
    except FileNotFoundError:
        return 0

"""Waiting for outputs to grow: the kernel tells of them. Where it does not, we look every half second."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from msgspec import Struct

from perdure.logs import Log
from perdure.runtime.bell import Bell
from perdure.store.ids import Clock
from perdure.tools import kept
from perdure.tools.changes import Changes

log = Log("glances")

GLANCE = 0.5  # seconds: so often we look, or hear of what has grown
NONE = 3600.0  # seconds to wait for somebody who waits


class Waiting(Struct, frozen=True, eq=False):
    place: str
    files: int  # when a file was last added to the place, or removed
    output: str  # the file that grows
    size: int  # that it has, as far as is known
    since: int  # when it began to wait
    due: int | None
    number: int | None  # under which the kernel tells of the place, if it does
    over: asyncio.Event

    def has_changed(self) -> bool:
        # Paths that are texts, and these looks alone: there may be many of them, twice in every second.
        try:
            grown = os.stat(self.output).st_size != self.size  # noqa: PTH116 reason: see above
            return grown or os.stat(self.place).st_mtime_ns != self.files  # noqa: PTH116 reason: see above
        except FileNotFoundError:
            return self.size != 0


def _waiting(place: Path, size: int, since: int, due: int | None, number: int | None) -> Waiting:
    files = place.stat().st_mtime_ns  # before we look which they are
    output, start = kept.newest(place)
    return Waiting(str(place), files, str(output), size - start, since, due, number, asyncio.Event())


class Glances:
    """The outputs that somebody waits for."""

    def __init__(self, clock: Clock, *, listening: bool = True) -> None:
        """`listening` says whether the kernel is to tell us, where it can."""
        self._clock = clock
        self._waiting: set[Waiting] = set()
        self._bell = Bell()
        self._changes: Changes | None = None
        self._listening = listening

    async def change(self, place: Path, size: int, due: int | None) -> None:
        """Wait until the output in a place has another size than this, or that time has come."""
        number = self._listen(place)  # before we look, so that nothing is missed
        waiting = _waiting(place, size, self._clock(), due, number)
        self._waiting.add(waiting)
        try:
            if waiting.has_changed():
                return
            if number is None or due is not None:
                self._bell.ring()
            await waiting.over.wait()
        finally:
            self._waiting.discard(waiting)
            if number is not None and self._changes is not None:
                self._changes.forget(number)

    async def work(self) -> None:
        try:
            while True:
                seen = [each for each in self._waiting if each.number is None or each.due is not None]
                await self._bell.wait(GLANCE if seen else NONE)
                self._look()
        finally:
            self._stop_listening()

    def _look(self) -> None:
        """Look at those of which the kernel does not tell, and at the clock."""
        now = self._clock()
        for waiting in self._waiting:
            # Due is also what has begun to wait later than now: the clock was set back.
            is_due = waiting.due is not None and not waiting.since <= now < waiting.due
            if is_due or (waiting.number is None and waiting.has_changed()):
                waiting.over.set()

    # ── what the kernel tells ───────────────────────────────────────────────────────────────────────────────

    def _listen(self, place: Path) -> int | None:
        if not self._listening:
            return None
        try:
            if self._changes is None:
                self._changes = Changes()
                self._hear_again()
            return self._changes.watch(str(place))
        except OSError as error:  # an odd system, or more places than it tells of; then we look
            log.info("looking_instead", place=place.name, error=error)
            return None

    def _hear_again(self) -> None:
        if self._changes is not None:
            asyncio.get_running_loop().add_reader(self._changes.handle, self._hear, self._changes)

    def _hear(self, changes: Changes) -> None:
        """Wake whoever waits for what has changed; then hear nothing for a while: some commands never stop."""
        changed = changes.read()
        for waiting in self._waiting:
            if waiting.number is not None and (changed is None or waiting.number in changed):
                waiting.over.set()
        loop = asyncio.get_running_loop()
        loop.remove_reader(changes.handle)
        loop.call_later(GLANCE, self._hear_again)

    def _stop_listening(self) -> None:
        self._listening = False
        if self._changes is not None:
            asyncio.get_running_loop().remove_reader(self._changes.handle)
            self._changes.close()
            self._changes = None

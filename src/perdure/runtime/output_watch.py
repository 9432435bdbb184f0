"""Waits for the output of processes to grow: by inotify, or by a check every half second."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from msgspec import Struct

from perdure.logs import Log
from perdure.runtime.wakeups import WakeEvent
from perdure.store.ids import Clock
from perdure.tools import keeper
from perdure.tools.inotify import InotifyWatcher

log = Log("output_watch")

CHECK_SECONDS = 0.5  # between two checks, or two reads of inotify
IDLE_WAIT_SECONDS = 3600.0  # between two looks while nobody waits


class OutputWaiter(Struct, frozen=True, eq=False):
    directory: str
    directory_mtime_ns: int  # when a file was last added to the directory, or removed
    output_file: str  # the file that grows
    size: int  # of the output file, as far as is known
    since: int  # when it began to wait
    due_at: int | None
    watch_id: int | None  # of inotify, if it watches the directory
    changed: asyncio.Event

    def has_changed(self) -> bool:
        # Paths that are texts, and these looks alone: there may be many of them, twice in every second.
        try:
            grown = os.stat(self.output_file).st_size != self.size  # noqa: PTH116 reason: see above
            return grown or os.stat(self.directory).st_mtime_ns != self.directory_mtime_ns  # noqa: PTH116 reason: see above
        except FileNotFoundError:
            return self.size != 0


def _make_waiter(directory: Path, size: int, since: int, due_at: int | None, watch_id: int | None) -> OutputWaiter:
    files = directory.stat().st_mtime_ns  # before we look which files there are
    output, start = keeper.current_output_file(directory)
    return OutputWaiter(str(directory), files, str(output), size - start, since, due_at, watch_id, asyncio.Event())


class OutputWatch:
    """Wakes the watchers of processes whose output grows."""

    def __init__(self, clock: Clock, *, use_inotify: bool = True) -> None:
        """`use_inotify`: let the kernel report changes, where it can."""
        self._clock = clock
        self._waiters: set[OutputWaiter] = set()
        self._wake_event = WakeEvent()
        self._inotify: InotifyWatcher | None = None
        self._use_inotify = use_inotify

    async def wait_for_change(self, directory: Path, size: int, due_at: int | None) -> None:
        """Wait until the output in a directory has another size, or `due_at` has come."""
        number = self._watch_directory(directory)  # before we look, so that nothing is missed
        waiting = _make_waiter(directory, size, self._clock(), due_at, number)
        self._waiters.add(waiting)
        try:
            if waiting.has_changed():
                return
            if number is None or due_at is not None:
                self._wake_event.wake()
            await waiting.changed.wait()
        finally:
            self._waiters.discard(waiting)
            if number is not None and self._inotify is not None:
                self._inotify.remove_watch(number)

    async def run(self) -> None:
        try:
            while True:
                seen = [each for each in self._waiters if each.watch_id is None or each.due_at is not None]
                await self._wake_event.wait(CHECK_SECONDS if seen else IDLE_WAIT_SECONDS)
                self._check_waiters()
        finally:
            self._close_inotify()

    def _check_waiters(self) -> None:
        """Check the outputs that inotify does not watch, and the due times."""
        now = self._clock()
        for waiting in self._waiters:
            # Due is also what has begun to wait later than now: the clock was set back.
            is_due = waiting.due_at is not None and not waiting.since <= now < waiting.due_at
            if is_due or (waiting.watch_id is None and waiting.has_changed()):
                waiting.changed.set()

    # ── inotify ───────────────────────────────────────────────────────────────────────────────

    def _watch_directory(self, directory: Path) -> int | None:
        if not self._use_inotify:
            return None
        try:
            if self._inotify is None:
                self._inotify = InotifyWatcher()
                self._start_reading()
            return self._inotify.add_watch(str(directory))
        except OSError as error:  # no inotify here, or too many watches: then we check
            log.info("inotify_unavailable", place=directory.name, error=error)
            return None

    def _start_reading(self) -> None:
        if self._inotify is not None:
            asyncio.get_running_loop().add_reader(self._inotify.handle, self._read_changes, self._inotify)

    def _read_changes(self, changes: InotifyWatcher) -> None:
        """Wake the watchers of changed outputs, then stop reading for a while: some commands write without end."""
        changed = changes.read_changed_watches()
        for waiting in self._waiters:
            if waiting.watch_id is not None and (changed is None or waiting.watch_id in changed):
                waiting.changed.set()
        loop = asyncio.get_running_loop()
        loop.remove_reader(changes.handle)
        loop.call_later(CHECK_SECONDS, self._start_reading)

    def _close_inotify(self) -> None:
        self._use_inotify = False
        if self._inotify is not None:
            asyncio.get_running_loop().remove_reader(self._inotify.handle)
            self._inotify.close()
            self._inotify = None

"""The clocks of a gateway, and due times, which a wall clock that is set does not move.

A due time on record is a time of the wall clock, which may be set while we wait, and may have been set while no
gateway ran. So whoever waits for one also says how long its own delay is.
"""

from __future__ import annotations

import time
from collections.abc import Collection

from msgspec import Struct

from perdure.store.ids import Clock, wall_clock


def steady_clock() -> int:
    """Return the milliseconds of a clock that nobody sets, and that stands still while the machine sleeps."""
    return time.monotonic_ns() // 1_000_000


def boot_seconds() -> float:
    """Seconds of a clock that nobody sets, and that goes on while the machine sleeps or we are stopped."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Clocks(Struct, frozen=True):
    """The clocks of a gateway, both in milliseconds."""

    wall: Clock = wall_clock
    steady: Clock = steady_clock


class Deadline(Struct, frozen=True):
    due_at: int  # by the wall clock, as it is on record
    until: int  # by the steady clock


class DueTimes:
    """Due times by name. A name waits no longer than its own delay, however the wall clock is set."""

    def __init__(self, clocks: Clocks) -> None:
        self._clock = clocks.wall
        self._steady = clocks.steady
        self._deadlines: dict[str, Deadline] = {}  # by name

    def remaining_ms(self, name: str, due_at: int, delay: int) -> int:
        """Return the milliseconds until `name` is due by either clock. The delay counts from the first look."""
        left = due_at - self._clock()
        if left <= 0:
            return 0
        known = self._deadlines.get(name)
        if known is None or known.due_at != due_at:
            known = Deadline(due_at, self._steady() + min(left, max(0, delay)))
            self._deadlines[name] = known
        return max(0, min(left, known.until - self._steady()))

    def forget_all_but(self, names: Collection[str]) -> None:
        self._deadlines = {name: known for name, known in self._deadlines.items() if name in names}

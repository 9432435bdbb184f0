"""The two clocks of a gateway: one tells the time of day, the other how much time has passed."""

from __future__ import annotations

import time

from msgspec import Struct

from perdure.store.ids import Clock, wall_clock


def steady_clock() -> int:
    """Milliseconds of a clock that nobody sets, and that stands still while the machine sleeps."""
    return time.monotonic_ns() // 1_000_000


class Clocks(Struct, frozen=True):
    """Both clocks, in milliseconds."""

    wall: Clock = wall_clock
    steady: Clock = steady_clock

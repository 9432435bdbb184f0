"""The two clocks of a gateway: one tells the time of day, the other how much time has passed."""

from __future__ import annotations

import time


def steady_clock() -> int:
    """Milliseconds of a clock that nobody sets, and that stands still while the machine sleeps."""
    return time.monotonic_ns() // 1_000_000

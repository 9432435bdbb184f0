"""A stretch of time in which a contender's durable appends and its CPU are counted."""

from __future__ import annotations

import threading
import time
from typing import NamedTuple

from perdure.core.journal import ToolEnded

WARM_UP = 0.3  # seconds before the count begins: caches fill, statements are prepared
TEXT = "The tool read the file and found 42 lines that match. " * 3


class Measured(NamedTuple):
    """What one contender did in one window."""

    appends: int
    seconds: float
    cpu: float  # seconds, of all threads of the contender's process

    @property
    def rate(self) -> float:
        return self.appends / self.seconds

    @property
    def cpu_per_append(self) -> float:
        return self.cpu / max(self.appends, 1)


class Window:
    """Counts from outside, so that counting costs the contender next to nothing.

    The contender adds one to its session's place in `counts` after each append that is durable, and stops
    when `over` is set.
    """

    def __init__(self, sessions: int, seconds: float) -> None:
        self.counts = [0] * sessions
        self.over = False
        self._seconds = seconds
        self._samples: list[tuple[int, float, float]] = []
        self._watch = threading.Thread(target=self._keep_time, name="bench-watch")

    def open(self) -> None:
        self._watch.start()

    def close(self) -> Measured:
        """Wait for the end, and say what was done between the two samples."""
        self._watch.join()
        before, after = self._samples
        return Measured(*(late - early for early, late in zip(before, after, strict=True)))  # type: ignore[arg-type]

    def _keep_time(self) -> None:
        time.sleep(WARM_UP)
        self._sample()
        time.sleep(self._seconds)
        self._sample()
        self.over = True

    def _sample(self) -> None:
        self._samples.append((sum(self.counts), time.perf_counter(), time.process_time()))


def tool_result(number: int) -> ToolEnded:
    """The entry that everybody appends: a tool's result, some 200 bytes as JSON."""
    return ToolEnded(f"call_{number:08d}", "ok", TEXT)

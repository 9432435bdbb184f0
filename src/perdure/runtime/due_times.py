"""How long something still waits, measured by a clock that nobody can set.

A due time on record is a time of the wall clock, which may be set while we wait, and may have been set while no
gateway ran. So whoever waits for one also says how long its own delay is.
"""

from __future__ import annotations

from collections.abc import Collection

from msgspec import Struct

from perdure.runtime.wakeups import POLL_SECONDS, STORE_RETRY_SECONDS
from perdure.store.ids import Clock


class Deadline(Struct, frozen=True):
    due_at: int  # by the wall clock, as it is on record
    until: int  # by the steady clock


class DueTimes:
    """What waits for a due time. Nothing waits longer than its own delay, however the wall clock is set."""

    def __init__(self, clock: Clock, steady: Clock) -> None:
        self._clock = clock
        self._steady = steady
        self._deadlines: dict[str, Deadline] = {}  # by name

    def remaining_ms(self, name: str, due_at: int, delay: int) -> int:
        """Milliseconds until `name` is due, when either clock says so. The delay counts from the first look."""
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


class ProgressBackoff:
    """Pauses of whatever makes no progress: each is longer than the one before, up to the time of a poll."""

    def __init__(self, steady: Clock) -> None:
        self._steady = steady
        self._pauses: dict[str, tuple[int, int]] = {}  # by name: tries without progress, and when the pause ends

    def record_result(self, name: str, *, progress: bool) -> None:
        """Take down how a try has ended: progress ends the pauses."""
        tries = self._pauses.pop(name, (0, 0))[0] + 1
        if not progress:
            pause = min(POLL_SECONDS, STORE_RETRY_SECONDS * 2 ** (tries - 1))
            self._pauses[name] = (tries, self._steady() + int(pause * 1000))

    def remaining_ms(self, name: str) -> int:
        """Milliseconds until `name` may be tried again."""
        return max(0, self._pauses[name][1] - self._steady()) if name in self._pauses else 0

    def forget_all_but(self, names: Collection[str]) -> None:
        self._pauses = {name: pause for name, pause in self._pauses.items() if name in names}

"""Watches the heartbeats of other runs, and says which of those runs are dead, by the observer's own clock alone.

A run is dead when its count of heartbeats stood still for its lease while the observer itself made heartbeats
without a gap. So an outage or a stall of the database, however long, declares nobody dead: it interrupts the
observer too, which then begins to watch anew. Nor does a clock that is set.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from perdure.store.runs import RunBeats

HEARTBEATS_PER_LEASE = 6
MAX_GAP_HEARTBEATS = 2  # a longer gap between two heartbeats of the observer, and it begins to watch anew


class _SeenCount(Struct, frozen=True):
    """A count of another run, and since when the observer has seen it there."""

    beats: int
    since: float
    lease: float


class RunObserver:
    """Times are seconds of a clock that goes on while the machine sleeps."""

    def __init__(self, lease_seconds: float, now: float) -> None:
        self._lease = lease_seconds
        self._max_gap = MAX_GAP_HEARTBEATS * lease_seconds / HEARTBEATS_PER_LEASE
        self._last = now  # when our own last heartbeat was recorded
        self._steady_since = now
        self._counts: dict[str, _SeenCount] = {}  # by run

    def silent(self, now: float) -> dict[str, int]:
        """Return the runs that a heartbeat which begins now may end, with the counts at which they stand."""
        if self.has_gap(now):
            return {}
        return {run: seen.beats for run, seen in self._counts.items() if now - seen.since >= seen.lease}

    def record(self, others: Sequence[RunBeats], now: float) -> None:
        """Note what our heartbeat, which is recorded now, has seen of the other living runs."""
        if self.has_gap(now):
            self._counts.clear()
            self._steady_since = now
        self._last = now
        self._counts = {other.run: self._seen_count(other, now) for other in others}

    def _seen_count(self, other: RunBeats, now: float) -> _SeenCount:
        known = self._counts.get(other.run)
        if known is not None and known.beats == other.beats:
            return known
        return _SeenCount(other.beats, now, other.lease_ms / 1000)

    def gap(self, now: float) -> float:
        """Return the seconds since our own last heartbeat."""
        return now - self._last

    def has_gap(self, now: float) -> bool:
        """Say whether our heartbeats have stopped for so long that we watch nobody."""
        return self.gap(now) > self._max_gap

    def is_steady(self, now: float) -> bool:
        """Say whether we have made heartbeats without a gap for a lease, and would notice a dead run."""
        return not self.has_gap(now) and now - self._steady_since >= self._lease

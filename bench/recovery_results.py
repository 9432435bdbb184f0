"""What was measured of recovery, and the goals it is held against."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from statistics import median
from typing import NamedTuple

from bench.recovery_decisions import Pure, Taken
from bench.recovery_peer import Loaded
from bench.recovery_start import Start
from bench.results import Goal

SMALL, MIDDLE, LARGE = 100, 10_000, 1_000_000
FEW, MANY = 10, 1_000
STEADY = 1.2
ENOUGH = 5_000


class Cell(NamedTuple):
    """One line of the table of starts."""

    place: str
    known: int
    cut_off: int


class Results:
    """Every measurement by its cell, in the order of the rounds."""

    def __init__(self) -> None:
        self.starts: dict[Cell, list[Start]] = defaultdict(list)
        self.taken: dict[Cell, Taken] = {}
        self.pure: list[Pure] = []
        self.peer: dict[int, Loaded | None] = {}
        self.no_peer: str | None = None
        self.syncs: list[float] = []
        self.bystanders = 0.0

    @property
    def quiet(self) -> bool:
        return self.bystanders < 0.15

    def ratio(self, cut_off: int, time: Callable[[Start], float]) -> float:
        """A time at the largest number of sessions, in multiples of that at the smallest, within the rounds."""
        large, small = (self.starts[Cell("SQLite", known, cut_off)] for known in (LARGE, SMALL))
        return median(time(ours) / time(base) for ours, base in zip(large, small, strict=True))

    @property
    def decided(self) -> float:
        return median(pure.decided for pure in self.pure)

    def goals(self) -> list[Goal]:
        compared = f"at {LARGE:,} known sessions compared with {SMALL:,}"
        times = {"until it is ready": ready, "until all turns are a step further": past}
        steady = [
            _at_most(f"SQLite, {cut_off:,} cut off, {until}, {compared}", self.ratio(cut_off, time))
            for cut_off in (FEW, MANY)
            for until, time in times.items()
        ]
        enough = Goal(
            "decisions, on one thread",
            f"at least {ENOUGH:,} a second",
            f"{self.decided:,.0f} a second",
            self.decided >= ENOUGH,
        )
        return [*steady, enough]


def ready(start: Start) -> float:
    return start.ready


def past(start: Start) -> float:
    return start.past


def _at_most(what: str, ratio: float) -> Goal:
    return Goal(what, f"at most {STEADY:g} times", f"{ratio:.3g} times", ratio <= STEADY)

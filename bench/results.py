"""What was measured, and the goals it is held against."""

from __future__ import annotations

from collections import defaultdict
from statistics import median
from typing import NamedTuple

from bench.window import Measured

SHORT, LONG = 1_000, 1_000_000
ALONE, MANY = 1, 100


class Cell(NamedTuple):
    """One line of the tables."""

    place: str
    contender: str
    rows: int  # in the journal at the beginning; 0 for peers, who begin with an empty database
    sessions: int


class Goal(NamedTuple):
    what: str
    wanted: str
    got: str
    met: bool | None  # None: it could not be measured

    @property
    def verdict(self) -> str:
        return {True: "met", False: "MISSED", None: "NOT MEASURED"}[self.met]


class Results:
    """Every measurement by its cell, in the order of the repetitions."""

    def __init__(self) -> None:
        self.cells: dict[Cell, list[Measured]] = defaultdict(list)
        self.syncs: list[float] = []  # syncs per second, by repetition
        self.starts: list[float | str] = []  # CPU seconds until ready, or why there was no start
        self.bystanders = 0.0  # cores that programs of others took during the run, on average

    @property
    def quiet(self) -> bool:
        """Whether the machine was ours alone, but for the usual murmur of a system."""
        return self.bystanders < 0.15

    def rates(self, cell: Cell) -> list[float]:
        return [measured.rate for measured in self.cells[cell]]

    def cpu(self, cell: Cell) -> float:
        return median(measured.cpu_per_append for measured in self.cells[cell])

    def ratio(self, cell: Cell, other: Cell) -> float:
        """How many times as fast: the median over the repetitions, since the disk's mood is shared in each."""
        return median(ours / theirs for ours, theirs in zip(self.rates(cell), self.rates(other), strict=True))

    def goals(self) -> list[Goal]:
        return [*self._near_the_limit(), *self._ahead_of_dbos(), *self._steady_with_length(), self._quick_start()]

    def _near_the_limit(self) -> list[Goal]:
        return [
            _at_least(
                f"{_place(cell)}, compared with the limit",
                self.ratio(cell, cell._replace(contender="limit")),
                0.3,
            )
            for cell in self._ours()
        ]

    def _ahead_of_dbos(self) -> list[Goal]:
        ours = Cell("SQLite", "ours", SHORT, MANY)
        ratio = self.ratio(ours, Cell("SQLite", "dbos", 0, MANY))
        return [_at_least(f"{_place(ours)}, compared with steps of DBOS", ratio, 100)]

    def _steady_with_length(self) -> list[Goal]:
        return [
            _at_least(
                f"{cell.place}, {sessions_of(cell)}, at {LONG:,} rows compared with {SHORT:,}",
                self.ratio(cell, cell._replace(rows=SHORT)),
                0.8,
            )
            for cell in self._ours()
            if cell.rows == LONG
        ]

    def _quick_start(self) -> Goal:
        what, wanted = "CPU of `perdure run` until it is ready", "under 1 s"
        if why := next((start for start in self.starts if isinstance(start, str)), None):
            return Goal(what, wanted, f"not measured: {why}", None)
        used = median(start for start in self.starts if not isinstance(start, str))
        return Goal(what, wanted, f"{used:.2f} s", used < 1)

    def _ours(self) -> list[Cell]:
        return [cell for cell in self.cells if cell.contender == "ours"]


def _at_least(what: str, ratio: float, wanted: float) -> Goal:
    return Goal(what, f"at least {wanted:g} times", f"{ratio:.3g} times", ratio >= wanted)


def _place(cell: Cell) -> str:
    return f"{cell.place}, {sessions_of(cell)}, {cell.rows:,} rows"


def sessions_of(cell: Cell) -> str:
    return "1 session" if cell.sessions == 1 else f"{cell.sessions} sessions"

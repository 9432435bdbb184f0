"""What was measured of turns, and the goals it is held against."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from statistics import median
from typing import NamedTuple

from bench.results import Goal
from bench.turns_crowd import Spent
from bench.turns_memory import Kept

ALONE, MANY, CROWDED = 1, 50, 1_000
VARIANTS = [(tool, streamed) for tool in (False, True) for streamed in (False, True)]
BARE, LIMIT, OURS, POSTGRES, WEB, OFFLINE = "bare", "limit", "sqlite", "postgres", "web", "offline"
HELD, STREAMS, WAITING, IDLE = "held", "streams", "waiting", "idle"
COUNTS = {HELD: 10_000, STREAMS: 1_000, WAITING: 1_000, IDLE: 10_000}
KILOBYTE = 1024

NEAR = 0.6  # of the turns that the bare loop makes
MOST_JOBS = 6
MOST_CPU = 0.0015
MOST_KEPT = {HELD: 30, STREAMS: 120, IDLE: 1}  # kilobytes each


class Cell(NamedTuple):
    """One line of the tables."""

    contender: str
    sessions: int
    tool: bool = False
    streamed: bool = False
    think: float = 0.0  # seconds that the model takes for each answer

    @property
    def own_time(self) -> float:
        """What the model itself takes for the answers of one turn."""
        return self.think * (2 if self.tool else 1)


class Results:
    """Every measurement by its cell, in the order of the rounds."""

    def __init__(self) -> None:
        self.cells: dict[Cell, list[Spent]] = defaultdict(list)
        self.kept: dict[str, Kept] = {}
        self.syncs: list[float] = []
        self.bystanders = 0.0

    @property
    def quiet(self) -> bool:
        return self.bystanders < 0.15

    def middle(self, cell: Cell, what: Callable[[Spent], float]) -> float:
        """The median over the rounds."""
        return median(map(what, self.cells[cell]))

    def ratio(self, cell: Cell) -> float:
        """How many times the turns of the bare loop: the median within the rounds, whose mood both share."""
        pairs = zip(self.cells[cell], self.cells[cell._replace(contender=BARE)], strict=False)
        return median(ours.rate / bare.rate for ours, bare in pairs)

    def each(self, what: str) -> float:
        """Kilobytes that one of them keeps, and no cache."""
        kept = self.kept[what]
        return (kept.own if what == IDLE else kept.resident) / kept.number / KILOBYTE

    def goals(self) -> list[Goal]:
        return [*self._near_the_limit(), *self._light(), *self._small()]

    def _near_the_limit(self) -> list[Goal]:
        return [_at_least(cell, self.ratio(cell)) for cell in (Cell(OURS, MANY, *kind) for kind in VARIANTS)]

    def _light(self) -> list[Goal]:
        cell = Cell(OFFLINE, MANY)
        jobs, cpu = self.middle(cell, jobs_of), self.middle(cell, cpu_of)
        what = f"in-process model, {MANY} sessions, without tool"
        return [
            Goal(f"{what}: transactions of a turn", f"at most {MOST_JOBS}", f"{jobs:.2f}", jobs <= MOST_JOBS),
            Goal(
                f"{what}: CPU of a turn",
                f"at most {MOST_CPU * 1000:g} ms",
                f"{cpu * 1000:.2f} ms",
                cpu <= MOST_CPU,
            ),
        ]

    def _small(self) -> list[Goal]:
        more = self.kept[WAITING].tasks
        return [
            self._at_most(HELD, "memory of a turn inside a step"),
            self._at_most(STREAMS, "memory of a turn whose answer is coming in"),
            Goal(f"{COUNTS[WAITING]:,} turns that wait for a person: tasks", "none", f"{more:,}", more <= 0),
            self._at_most(IDLE, "memory of an idle session, without caches"),
        ]

    def _at_most(self, what: str, words: str) -> Goal:
        each, most = self.each(what), MOST_KEPT[what]
        return Goal(f"{words}, of {COUNTS[what]:,}", f"at most {most} KB", f"{each:.1f} KB", each <= most)


def rate_of(spent: Spent) -> float:
    return spent.rate


def cpu_of(spent: Spent) -> float:
    return spent.cpu_per_turn


def jobs_of(spent: Spent) -> float:
    return spent.jobs


def kind(cell: Cell) -> str:
    """What its turns are like, in words."""
    return f"{'one tool call' if cell.tool else 'no tool'}, {'streamed' if cell.streamed else 'not streamed'}"


def _at_least(cell: Cell, ratio: float) -> Goal:
    what = f"SQLite, {cell.sessions} sessions, {kind(cell)}: turns compared with the bare loop"
    return Goal(what, f"at least {NEAR:g} times", f"{ratio:.3g} times", ratio >= NEAR)

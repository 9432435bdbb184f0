"""What was measured of processes, and the goals they are held against."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from bench.processes_idle import Idle
from bench.processes_start import Start
from bench.results import Goal

NONE, SILENT, WATCHED = "none", "silent", "watched"
COUNTS = {NONE: 0, SILENT: 500, WATCHED: 500}
ADDED = 0.030  # seconds
SANDBOX_RATIO = 1.35
BUSY = 0.01  # of one core
PROMPT = 0.5  # seconds


class Results:
    """The starts, in the order of the rounds, and what each kind of gateway needs."""

    def __init__(self) -> None:
        self.bare: list[Start] = []
        self.kept: list[Start] = []
        self.sandboxed: list[Start] = []
        self.idle: dict[str, Idle] = {}
        self.syncs: list[float] = []
        self.bystanders = 0.0

    @property
    def quiet(self) -> bool:
        return self.bystanders < 0.15

    @property
    def added(self) -> float:
        """What a keeper adds to the time until the first act: the median over the rounds."""
        return median(ours.act - bare.act for ours, bare in zip(self.kept, self.bare, strict=True))

    @property
    def sandbox_ratio(self) -> float:
        """How much longer a command takes in the sandbox than under a keeper alone, by their medians."""
        return median(start.whole for start in self.sandboxed) / median(start.whole for start in self.kept)

    def busy(self, kind: str) -> float:
        """The share of a core that a gateway and its keepers take together."""
        idle = self.idle[kind]
        return (idle.gateway_cpu + idle.keepers_cpu) / idle.seconds

    def goals(self) -> list[Goal]:
        told = median(self.idle[SILENT].told)
        return [
            Goal(
                "until a command's first act, added by its keeper",
                f"at most {ADDED * 1000:.0f} ms",
                f"{self.added * 1000:.1f} ms",
                self.added <= ADDED,
            ),
            Goal(
                "a sandboxed command from its start to its end, against one under a keeper alone",
                f"at most {SANDBOX_RATIO:.2f} times",
                f"{self.sandbox_ratio:.2f} times",
                self.sandbox_ratio <= SANDBOX_RATIO,
            ),
            *(self._idle_goal(kind) for kind in (SILENT, WATCHED)),
            Goal(
                "from the end of a process until its chat is told",
                f"at most {PROMPT * 1000:.0f} ms",
                f"{told * 1000:.1f} ms",
                told <= PROMPT,
            ),
        ]

    def _idle_goal(self, kind: str) -> Goal:
        busy = self.busy(kind)
        what = f"{COUNTS[kind]} {kind} processes: CPU of the gateway and all keepers"
        return Goal(what, f"under {BUSY:.0%} of a core", f"{busy:.2%}", busy < BUSY)


def acts(starts: Sequence[Start]) -> list[float]:
    return [start.act for start in starts]


def cpus(starts: Sequence[Start]) -> list[float]:
    return [start.cpu for start in starts]

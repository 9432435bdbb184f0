"""Where and what a drill kills: points of a gateway's work, keepers and commands."""

from __future__ import annotations

import random
import signal
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Literal

from msgspec import Struct

from perdure.tools import keeper
from perdure.tools.keeper import CommandEnded, CommandLost, CommandNeverStarted, CommandRunning
from perdure.tools.keeper.directory import process_stat, session_processes, signal_process, signal_processes

PointKind = Literal["store", "start", "send", "ack", "step", "rest", "keeper", "command", "full"]

REFUSED_WRITES = 8  # writes that the store refuses, one after the other, when its disk is full

# The weight of each kind, and its largest n. One round makes about that many; a point that is not reached
# becomes a kill at rest.
WEIGHTS: dict[PointKind, tuple[int, int]] = {
    "store": (9, 170),
    "start": (3, 110),
    "send": (3, 14),
    "ack": (2, 12),
    "step": (4, 10),
    "rest": (1, 1),
    "keeper": (2, 4),
    "command": (1, 4),
    "full": (2, 100),
}

_DESCRIPTIONS: dict[PointKind, str] = {
    "store": "store call {nth}",
    "start": "store call {nth} of the next start",
    "send": "the record of send {nth}",
    "ack": "the record of acknowledgement {nth}",
}


class Point(Struct, frozen=True):
    """The n-th store call, send, acknowledgement, step or command, before or after it took place."""

    place: PointKind
    nth: int = 1
    after: bool = False

    def __str__(self) -> str:
        match self.place:
            case "rest":
                return "at rest"
            case "step":
                return f"in the middle of step or command {self.nth}"
            case "keeper" | "command":
                return f"together with the {self.place}s that run, when {self.nth} of them had begun"
            case "full":
                when = "when there is room again" if self.after else "before there is room again"
                return f"{when}, after the disk was full from store call {self.nth} on"
            case place:
                return f"{'after' if self.after else 'before'} {_DESCRIPTIONS[place].format(nth=self.nth)}"


def random_points(seed: int, kills: int) -> list[Point]:
    """Return this many points. The same seed gives the same points; a longer list begins with the shorter."""
    return list(islice(_endless_points(random.Random(seed)), kills))  # noqa: S311 reason: nothing is secret about it


def _endless_points(chance: random.Random) -> Iterator[Point]:
    places, weights = list(WEIGHTS), [weight for weight, _ in WEIGHTS.values()]
    last: PointKind = "start"  # a start needs something to recover: none is killed first, nor twice in a row
    while True:
        [place] = chance.choices(places, weights)
        if place == last == "start":
            continue
        last = place
        nth, after = chance.randint(1, WEIGHTS[place][1]), chance.random() < 0.5
        yield Point(place, nth, after and place not in ("step", "rest", "keeper", "command"))


def sweep_points(kills: int) -> list[Point]:
    """Return points before and after store call 1, 2, 3 and so on."""
    return [Point("store", 1 + number // 2, bool(number % 2)) for number in range(kills)]


def group_into_rounds(points: Sequence[Point]) -> list[list[Point]]:
    """Group points into rounds: a point that kills a start belongs to the round of the kill before it."""
    rounds: list[list[Point]] = []
    for point in points:
        if point.place == "start" and rounds:
            rounds[-1].append(point)
        else:
            rounds.append([point])
    return rounds


class CommandKiller:
    def __init__(self, home: Path) -> None:
        self._root = home / "keepers"
        self._finished: set[str] = set()  # names of places that nobody needs to look at again

    def running(self) -> list[CommandRunning]:
        """The commands that run now, and have been started."""
        seen = keeper.read_all_statuses(self._root, self._finished)
        self._finished |= {
            name
            for name, each in seen.items()
            if isinstance(each, CommandEnded | CommandLost | CommandNeverStarted)
        }
        return [each for each in seen.values() if isinstance(each, CommandRunning) and each.pid]

    def kill_keepers(self) -> None:
        """Kill the keepers of all commands that run; the commands live on."""
        for each in self.running():
            if found := process_stat(each.keeper):
                signal_process(each.keeper, found[2], signal.SIGKILL)

    def kill_commands(self) -> None:
        """Kill all commands that run, with whatever they have started; their keepers live on."""
        for each in self.running():
            signal_processes(session_processes(each.pid), signal.SIGKILL)

"""The report of a drill: its counts, times and findings."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from msgspec import Struct

# The counts that must be zero, each with its meaning; any other value fails the drill.
FAULTS = {
    "lost": "messages that were never answered",
    "repeated": "finished steps, effects or commands that ran again",
    "duplicates": "answers seen twice, without a mark that says so",
    "phantoms": "turns and messages that nobody asked for",
    "stuck": "turns that never came to an end",
    "notes": "notes on a crash that the agent missed, or had in vain",
    "epochs": "turns that were taken over without a new epoch",
}
UNKNOWN = "unknown"


class Waits(Struct, frozen=True):
    """The median and the longest of some durations, in seconds."""

    median: float
    longest: float

    @classmethod
    def of(cls, seconds: Sequence[float]) -> Waits:
        return cls(round(statistics.median(seconds), 3), round(max(seconds), 3)) if seconds else cls(0.0, 0.0)


class Report(Struct, frozen=True, kw_only=True):
    kills: int
    turns: int
    lost: int
    repeated: int
    duplicates: int
    phantoms: int
    stuck: int
    notes: int
    epochs: int
    unknown: int
    at_rest: int  # kills of an idle gateway, also because a point was not reached
    given_up: int  # messages whose turn was given up, as configured, with a notice
    by_hand: int  # how often people had to say /resume, as configured
    seed: int | None  # None for a sweep
    seconds: float  # duration of the drill
    ready: Waits  # from a start after a kill until the gateway is ready
    answered: Waits  # from then until the gateway is idle
    points: list[str]
    findings: dict[str, list[str]]  # by the name of a count: its findings in words
    home: str | None = None  # the directory of a failed drill

    @property
    def failed(self) -> bool:
        return any(getattr(self, name) for name in FAULTS)

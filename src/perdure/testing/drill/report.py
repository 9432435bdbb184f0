"""What came of a drill, in numbers and in words."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from msgspec import Struct

# What must not happen, and what each of them means. Anything else than zero fails the drill.
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
    """How long something took, in seconds."""

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
    at_rest: int  # how many kills came when all was done, also because their point was not reached before
    given_up: int  # messages whose work was given up, as configured, and told so
    by_hand: int  # how often a person had to say that something go on, because the configuration wants it so
    seed: int | None  # None: a sweep
    seconds: float  # that the drill took
    ready: Waits  # from a start after a kill until the gateway was ready
    answered: Waits  # from there on until nothing was left to be done
    points: list[str]
    findings: dict[str, list[str]]  # each of what was counted, in words
    home: str | None = None  # where a failed drill can be looked at

    @property
    def failed(self) -> bool:
        return any(getattr(self, name) for name in FAULTS)

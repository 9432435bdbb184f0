"""Ids are made by us: unique, and sorted by the time they were made."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"  # sorts like its values; no letters that look like digits
_RANDOM_BITS = 62
_LENGTH = 22  # of five bits each: 48 of time, 62 of chance
ID_GAP = 1024  # numbers that stay free behind each id, for what must stand right behind it

Clock = Callable[[], int]


def wall_clock() -> int:
    """UTC in milliseconds."""
    return time.time_ns() // 1_000_000


class Ids:
    """Makes ids that never go back, even when the clock does."""

    def __init__(self, clock: Clock = wall_clock) -> None:
        self._clock = clock
        self._last = 0
        self._lock = threading.Lock()

    def new(self, prefix: str, *, after: str | None = None) -> str:
        """A new id, behind `after` too, which a clock may have made that ran ahead of ours."""
        fresh = (self._clock() << _RANDOM_BITS) | secrets.randbits(_RANDOM_BITS - 1)
        if after is not None and (last := _decode(after)) >= fresh:
            fresh = last + 1 + secrets.randbits(_RANDOM_BITS - 1)
        with self._lock:
            self._last = number = max(fresh, self._last + ID_GAP)
        return f"{prefix}_{_encode(number)}"


def id_after(identity: str, steps: int) -> str:
    """An id so close behind another that no third is between them, but for those of fewer steps.

    `steps` are less than `ROOM`.
    """
    prefix = identity.rpartition("_")[0]
    return f"{prefix}_{_encode(_decode(identity) + steps)}"


def is_before(one: str, other: str) -> bool:
    """Whether an id was made before another: within a process that holds whatever happens to the clock."""
    return _decode(one) < _decode(other)


def _decode(identity: str) -> int:
    number = 0
    for letter in identity.rpartition("_")[2]:
        number = number << 5 | _ALPHABET.index(letter)
    return number


def _encode(number: int) -> str:
    return "".join(_ALPHABET[(number >> shift) & 31] for shift in range(5 * (_LENGTH - 1), -1, -5))

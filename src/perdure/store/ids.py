"""Ids: unique, and sorted by the time at which they were made."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"  # sorts like its values; no letters that look like digits
_RANDOM_BITS = 62
_LENGTH = 22  # characters of five bits each: 48 bits of time, 62 random bits
ID_GAP = 1024  # numbers that stay free behind each id, for rows that must sort right behind it

Clock = Callable[[], int]


def wall_clock() -> int:
    """Return the time, UTC in milliseconds."""
    return time.time_ns() // 1_000_000


class Ids:
    """Makes ids that never go back, even when the clock does."""

    def __init__(self, clock: Clock = wall_clock) -> None:
        self._clock = clock
        self._last = 0
        self._lock = threading.Lock()

    def new(self, prefix: str, *, after: str | None = None) -> str:
        """Return a new id, greater than `after`, too, which may come from a clock that was ahead of ours."""
        fresh = (self._clock() << _RANDOM_BITS) | secrets.randbits(_RANDOM_BITS - 1)
        if after is not None and (last := _decode(after)) >= fresh:
            fresh = last + 1 + secrets.randbits(_RANDOM_BITS - 1)
        with self._lock:
            self._last = number = max(fresh, self._last + ID_GAP)
        return f"{prefix}_{_encode(number)}"


def id_after(identity: str, steps: int) -> str:
    """Return an id right behind another: only those of fewer steps are between them.

    `steps` is less than `ID_GAP`.
    """
    prefix = identity.rpartition("_")[0]
    return f"{prefix}_{_encode(_decode(identity) + steps)}"


def is_before(one: str, other: str) -> bool:
    """Say whether an id was made before another; within a process this holds even if the clock is set back."""
    return _decode(one) < _decode(other)


def _decode(identity: str) -> int:
    number = 0
    for letter in identity.rpartition("_")[2]:
        number = number << 5 | _ALPHABET.index(letter)
    return number


def _encode(number: int) -> str:
    return "".join(_ALPHABET[(number >> shift) & 31] for shift in range(5 * (_LENGTH - 1), -1, -5))

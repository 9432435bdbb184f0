"""The delay before something that has failed is tried again: it doubles with every failure in a row."""

from __future__ import annotations

MAX_DOUBLINGS = 60  # a larger exponent would overflow a float, and every limit is reached long before


def backoff_delay(failures: int, *, first: float, longest: float) -> float:
    """The delay after so many failures in a row, in the unit of `first` and `longest`."""
    return min(longest, first * 2.0 ** min(failures - 1, MAX_DOUBLINGS))

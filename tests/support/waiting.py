"""Waiting for facts in tests: `wait_for` blocks, `eventually` runs inside an event loop. Tests never sleep."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from perdure.testing.waiting import DEADLINE_FACTOR, POLL_SECONDS, eventually

T = TypeVar("T")

__all__ = ["DEADLINE_FACTOR", "eventually", "wait_for"]


def wait_for(fact: str, probe: Callable[[], T | None], timeout: float = 30.0) -> T:
    """Return the probe's first truthy value; fail with the name of the fact at the deadline."""
    timeout *= DEADLINE_FACTOR
    deadline = time.monotonic() + timeout
    while True:
        seen = probe()
        if seen:
            return seen
        if time.monotonic() > deadline:
            raise AssertionError(f"never came true within {timeout:g} s: {fact} (last seen: {seen!r})")
        time.sleep(POLL_SECONDS)

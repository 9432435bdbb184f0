"""`python -m bench.hurried perdure-arguments…`: Perdure in an event loop whose clock runs ten times as fast.

So ten minutes of whatever it does every few seconds are over within one. The wall clock stays as it is. SQLite
gets a small page cache, or what the pages of a growing database take, up to its limit, would look like a leak.
"""

from __future__ import annotations

import asyncio
import selectors
import sys
import time

from perdure.cli import main
from perdure.store.backends import sqlite

FACTOR = 10
CACHE = "cache_size = -512"  # in KB


class Impatient(selectors.DefaultSelector):
    """Waits for a tenth of the time it is told."""

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        return super().select(timeout / FACTOR if timeout else timeout)


if __name__ == "__main__":
    selectors.DefaultSelector = Impatient  # type: ignore[misc]
    asyncio.SelectorEventLoop.time = lambda _: time.monotonic() * FACTOR  # type: ignore[method-assign, assignment]
    sqlite.PRAGMAS = (*sqlite.PRAGMAS, CACHE)  # type: ignore[assignment]
    sys.argv = ["perdure", *sys.argv[1:]]
    main()

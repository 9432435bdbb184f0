"""One contender in a process of its own: `python -m bench.slice CONTENDER URL SECONDS SESSIONS…`."""

from __future__ import annotations

import gc
import json
import sys
from collections.abc import Callable

from bench.window import Measured

Measure = Callable[[str, int, float], Measured]


def contender(name: str, url: str) -> Measure:
    """The way to measure a contender; only the one that is asked for is imported."""
    if name == "ours":
        from bench import ours

        return ours.measure
    if name == "limit":
        from bench import limit

        return limit.measure_sqlite if url.startswith("sqlite:") else limit.measure_postgres
    if name in ("dbos", "dbos-wal"):
        from bench import dbos_peer

        return dbos_peer.measure if name == "dbos" else dbos_peer.measure_with_wal
    from bench import langgraph_peer

    return langgraph_peer.measure


def main(name: str, url: str, seconds: str, *sessions: str) -> None:
    """Print what was measured, one JSON line for each number of sessions."""
    measure = contender(name, url)
    for number in sessions:
        gc.collect()
        print(json.dumps(measure(url, int(number), float(seconds))), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])

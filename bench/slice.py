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
        from bench.ours import measure
    elif name == "limit":
        from bench import limit

        return limit.measure_sqlite if url.startswith("sqlite:") else limit.measure_postgres
    elif name == "dbos":
        from bench.dbos_peer import measure
    elif name == "langgraph":
        from bench.langgraph_peer import measure
    else:
        raise SystemExit(f"no contender is called {name!r}")
    return measure


def main(name: str, url: str, seconds: str, *sessions: str) -> None:
    """Print what was measured, one JSON line for each number of sessions."""
    measure = contender(name, url)
    for number in sessions:
        gc.collect()
        print(json.dumps(measure(url, int(number), float(seconds))), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])

"""DBOS: each session is a workflow, each append a step of it that returns the same text.

Plain functions, as in its own introduction: DBOS runs every workflow in a thread of its own.
"""

from __future__ import annotations

import sqlite3
from typing import Any

from bench.window import TEXT, Measured, Window


def measure(url: str, sessions: int, seconds: float) -> Measured:
    from dbos import DBOS  # type: ignore[import-not-found, unused-ignore]

    DBOS(config={"name": "bench", "system_database_url": url, "log_level": "ERROR"})
    workflow = _declare(DBOS, window := Window(sessions, seconds))
    DBOS.launch()
    window.open()
    handles = [DBOS.start_workflow(workflow, place) for place in range(sessions)]
    for handle in handles:
        handle.get_result()
    DBOS.destroy()
    return window.close()


def measure_with_wal(url: str, sessions: int, seconds: float) -> Measured:
    """The same on a file that somebody switched to a write-ahead log; DBOS itself leaves that as it is."""
    connection = sqlite3.connect(url.removeprefix("sqlite:///"))
    connection.execute("PRAGMA journal_mode = WAL")
    connection.close()
    return measure(url, sessions, seconds)


def _declare(dbos: Any, window: Window) -> Any:
    @dbos.step()  # type: ignore[untyped-decorator, unused-ignore]
    def step(number: int) -> str:
        return f"call_{number:08d} ok {TEXT}"

    @dbos.workflow()  # type: ignore[untyped-decorator, unused-ignore]
    def workflow(place: int) -> None:
        while not window.over:
            step(window.counts[place])
            window.counts[place] += 1

    return workflow

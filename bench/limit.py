"""The limit: what the bare driver does with the same statements, values and syncs, and nothing else.

A writer thread gets the next append of each of its sessions as one list, makes them in one transaction, and
says so. No event loop, no futures, no results per append: nobody who keeps this journal can be faster.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Protocol

from bench.ours import RUNNING
from bench.window import Measured, Window, tool_result
from perdure.core.journal import encode
from perdure.store import journal, turns
from perdure.store.ids import wall_clock

Places = Sequence[tuple[int, str, str, int]]  # of one writer: place in the window, turn, session, epoch
Values = dict[str, Any]


class Link(Protocol):
    """A bare connection."""

    def transact(self, appends: Iterator[tuple[Values, Values]]) -> None:
        """Make the appends, each given by the values of its guard and of its row, in one transaction."""

    def running(self, limit: int) -> Sequence[tuple[Any, ...]]: ...

    def close(self) -> None: ...


class SqliteLink:
    def __init__(self, path: Path) -> None:
        from perdure.store.sqlite import _connect  # the same pragmas as ours

        connection = _connect(path)
        self._execute, self.close = connection.execute, connection.close

    def transact(self, appends: Iterator[tuple[Values, Values]]) -> None:
        execute, guard, insert = self._execute, turns._LATE, journal._INSERT
        execute("BEGIN IMMEDIATE")
        for turn, row in appends:
            assert execute(guard, turn).rowcount == 1, "the guard refused an append"
            execute(insert, row).fetchall()
        execute("COMMIT")

    def running(self, limit: int) -> Sequence[tuple[Any, ...]]:
        return self._execute(RUNNING, {"limit": limit}).fetchall()


class PostgresLink:
    """In pipeline mode: the statements of a transaction go out together, and the answers are read after."""

    def __init__(self, url: str) -> None:
        from perdure.store.postgres import _connect, _spell

        self._connection = connection = _connect(url)
        self._execute, self.close = connection.execute, connection.close
        self._guard, self._insert = _spell(turns._LATE).encode(), _spell(journal._INSERT).encode()
        self._running = _spell(RUNNING).encode()

    def transact(self, appends: Iterator[tuple[Values, Values]]) -> None:
        execute, guard, insert = self._execute, self._guard, self._insert
        with self._connection.pipeline():
            execute("BEGIN")
            answers = [(execute(guard, turn), execute(insert, row)) for turn, row in appends]
            execute("COMMIT")
        for guarded, inserted in answers:
            assert guarded.rowcount == 1, "the guard refused an append"
            inserted.fetchall()

    def running(self, limit: int) -> Sequence[tuple[Any, ...]]:
        return self._execute(self._running, {"limit": limit}).fetchall()


def measure_sqlite(url: str, sessions: int, seconds: float) -> Measured:
    return _measure([SqliteLink(Path(url.removeprefix("sqlite:///")))], sessions, seconds)


def measure_postgres(url: str, sessions: int, seconds: float) -> Measured:
    import os
    W=int(os.environ.get("W","3"))

    return _measure([PostgresLink(url) for _ in range(min(W, sessions))], sessions, seconds)


def _measure(links: Sequence[Link], sessions: int, seconds: float) -> Measured:
    window = Window(sessions, seconds)
    places = [(place, row[0], row[1], row[5]) for place, row in enumerate(links[0].running(sessions))]
    feeders = [
        threading.Thread(target=_feed, args=(window, link, places[first :: len(links)]))
        for first, link in enumerate(links)
    ]
    window.open()
    for feeder in feeders:
        feeder.start()
    for feeder in feeders:
        feeder.join()
    for link in links:
        link.close()
    return window.close()


def _feed(window: Window, link: Link, places: Places) -> None:
    """Hand the writer the next append of each session as soon as it has made the last ones durable."""
    due: queue.SimpleQueue[Places] = queue.SimpleQueue()
    done: queue.SimpleQueue[bool] = queue.SimpleQueue()
    writer = threading.Thread(target=_write, args=(window, link, due, done))
    writer.start()
    while not window.over:
        due.put(places)
        if not done.get():
            break
    due.put(())
    writer.join()


def _write(
    window: Window, link: Link, due: queue.SimpleQueue[Places], done: queue.SimpleQueue[bool]
) -> None:
    going_well = False
    try:
        while places := due.get():
            going_well = False
            link.transact(_values(place, window.counts[place[0]]) for place in places)
            for place, *_ in places:
                window.counts[place] += 1
            going_well = True
            done.put(going_well)
    finally:
        done.put(going_well)  # an error of ours must not leave the feeder waiting


def _values(to: tuple[int, str, str, int], number: int) -> tuple[Values, Values]:
    _, turn, session, epoch = to
    now, entry = wall_clock(), tool_result(number)
    row = {
        "session": session,
        "turn": turn,
        "kind": entry.kind,
        "version": entry.version,
        "body": encode(entry),
        "at": now,
    }
    return {"now": now, "turn": turn, "epoch": epoch}, row

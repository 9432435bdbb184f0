"""The limit: what the bare driver does with the same statements, values and syncs, and nothing else.

Each writer thread makes the next append of each of its sessions in one transaction, over and over. It waits for
nobody and tells nobody: no event loop, no queue, no futures. Nobody who keeps this journal can be faster.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from bench.ours import RUNNING
from bench.statements import Statements, statements_of
from bench.window import Measured, Window, tool_result
from perdure.core.journal import encode_entry
from perdure.store.backends.sqlite import SqliteTx
from perdure.store.database import Row
from perdure.store.ids import wall_clock

Places = Sequence[tuple[int, Statements]]  # of one writer: each place in the window, and what an append does


class Link(Protocol):
    """A bare connection."""

    for_update: str

    def transact(self, appends: Iterable[Statements]) -> None:
        """Make the appends durable in one transaction."""

    def running(self, limit: int) -> list[Row]:
        """The turns to append to."""

    def close(self) -> None: ...


class SqliteLink:
    for_update = SqliteTx.for_update

    def __init__(self, url: str) -> None:
        from perdure.store.backends.sqlite import _connect  # the same pragmas as ours

        connection = _connect(Path(url.removeprefix("sqlite:///")))
        self._execute, self.close = connection.execute, connection.close

    def transact(self, appends: Iterable[Statements]) -> None:
        execute = self._execute
        execute("BEGIN IMMEDIATE")
        for statements in appends:
            for sql, values in statements:
                _check(execute(sql, values))
        execute("COMMIT")

    def running(self, limit: int) -> list[Row]:
        return self._execute(RUNNING, {"limit": limit}).fetchall()


class PostgresLink:
    """In pipeline mode: the statements of a transaction go out together, and the answers are read after."""

    def __init__(self, url: str) -> None:
        from perdure.store.backends.postgres import PostgresTx, _psycopg_sql
        from perdure.store.backends.postgres_connect import connect

        self.for_update = PostgresTx.for_update
        self._connection, self._spell = connect(url), _psycopg_sql
        self._execute, self.close = self._connection.execute, self._connection.close

    def transact(self, appends: Iterable[Statements]) -> None:
        execute, spell = self._execute, self._spell
        with self._connection.pipeline():
            execute("BEGIN")
            answers = [execute(spell(sql).encode(), values) for made in appends for sql, values in made]
            execute("COMMIT")
        for answer in answers:
            _check(answer)

    def running(self, limit: int) -> list[Row]:
        return self._execute(self._spell(RUNNING).encode(), {"limit": limit}).fetchall()


def measure_sqlite(url: str, sessions: int, seconds: float) -> Measured:
    return _measure([SqliteLink(url)], sessions, seconds)


def measure_postgres(url: str, sessions: int, seconds: float) -> Measured:
    from perdure.store.backends.postgres import WRITER_COUNT  # as many connections as ours

    return _measure([PostgresLink(url) for _ in range(min(WRITER_COUNT, sessions))], sessions, seconds)


def _measure(links: Sequence[Link], sessions: int, seconds: float) -> Measured:
    window = Window(sessions, seconds)
    places = [
        (place, statements_of(row, links[0].for_update)) for place, row in enumerate(links[0].running(sessions))
    ]
    window.open()
    with ThreadPoolExecutor(len(links)) as writers:
        shares = [places[first :: len(links)] for first in range(len(links))]
        list(writers.map(partial(_write, window), links, shares))  # raises what a writer raised
    for link in links:
        link.close()
    return window.close()


def _write(window: Window, link: Link, places: Places) -> None:
    while not window.over:
        link.transact([_next(statements, window.counts[place]) for place, statements in places])
        for place, _ in places:
            window.counts[place] += 1


def _next(statements: Statements, number: int) -> Statements:
    """The statements of the next append: all that changes from one to the next is the time and the entry."""
    now = wall_clock()
    fresh = {"now": now, "at": now, "body": encode_entry(tool_result(number))}
    return [(sql, values | fresh) for sql, values in statements]


def _check(cursor: Any) -> None:
    """Each statement of an append must do something, or it is not an append."""
    done = cursor.fetchall() if cursor.description else cursor.rowcount
    assert done, "a statement of an append did nothing"

"""Databases with as many known sessions as one likes, each a copy of a real one, made inside the database."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Protocol

from bench.filled import _make
from bench.recovery_template import DIGITS, MARK, Pattern, Template
from perdure.runtime.instance import load_instance
from perdure.store.ids import wall_clock

GAP = 1_000  # between the numbers of two known sessions: those that are cut off later find a place there


class Link(Protocol):
    """A bare connection: everything in one transaction, and no references looked up."""

    def run(self, sql: str) -> None: ...

    def put(self, table: str, rows: Iterable[Sequence[Any]]) -> None: ...

    def found(self, sql: str) -> bool: ...


class SqliteLink:
    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def run(self, sql: str) -> None:
        self._connection.execute(sql)

    def put(self, table: str, rows: Iterable[Sequence[Any]]) -> None:
        rows = list(rows)
        marks = ", ".join("?" * len(rows[0]))
        self._connection.executemany(f"INSERT INTO {table} VALUES ({marks})", rows)

    def found(self, sql: str) -> bool:
        return self._connection.execute(sql).fetchone() is not None


class PostgresLink:
    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def run(self, sql: str) -> None:
        self._connection.execute(sql)

    def put(self, table: str, rows: Iterable[Sequence[Any]]) -> None:
        with self._connection.cursor().copy(f"COPY {table} FROM STDIN") as copy:
            for row in rows:
                copy.write_row(row)

    def found(self, sql: str) -> bool:
        return self._connection.execute(sql).fetchone() is not None


class Ground:
    """A database with known sessions, and the home of the gateway that uses it."""

    def __init__(self, name: str, url: str, home: Path, known: int) -> None:
        self.name, self.url, self.home, self.known = name, url, home, known
        self._cuts = 0

    def fill(self, template: Template) -> None:
        """Make the known sessions: all are answered, and the run that answered them has ended."""
        self.home.mkdir()
        _make(self.url)
        with self.link(filling=True) as link:
            link.run("BEGIN")
            link.put("runs", template.runs.rows)
            _copy(link, template.finished, (number * GAP for number in range(self.known)))
            link.run("COMMIT")
        self.settle(filling=True)

    def cut_off(self, template: Template, count: int) -> list[str]:
        """Add sessions, evenly spread among the known ones, whose turn is running in a run that is dead."""
        self._cuts += 1
        numbers = [place * self.known * GAP // count + self._cuts for place in range(count)]
        (self.home / "lock").touch()
        instance = load_instance(self.home)
        with self.link() as link:
            link.run("BEGIN")
            link.run(
                f"UPDATE runs SET ended_at = NULL, ending = NULL, heartbeat_at = {wall_clock()}, "
                f"instance = '{instance.id}', lock_id = '{instance.lock_id}' WHERE id = '{template.run}'"
            )
            _copy(link, template.cut_off, numbers)
            link.run("COMMIT")
        self.settle()
        return [template.session[:-DIGITS] + _spell(number) for number in numbers]

    @contextmanager
    def link(self, *, filling: bool = False) -> Iterator[Link]:
        if self.url.startswith("sqlite"):
            path = self.url.removeprefix("sqlite:///")
            with closing(sqlite3.connect(path, isolation_level=None, timeout=10)) as connection:
                connection.execute(f"PRAGMA journal_mode = {'OFF' if filling else 'WAL'}")
                connection.execute(f"PRAGMA synchronous = {'OFF' if filling else 'FULL'}")
                yield SqliteLink(connection)
        else:
            import psycopg

            with psycopg.connect(self.url, autocommit=True) as connected:
                connected.execute("SET session_replication_role = replica")
                yield PostgresLink(connected)

    def settle(self, *, filling: bool = False) -> None:
        """What was written is in its place on the disk: the gateway does not have to pay for it."""
        with self.link() as link:
            if self.url.startswith("sqlite"):
                link.run("PRAGMA wal_checkpoint(TRUNCATE)")
            else:
                if filling:
                    link.run("VACUUM ANALYZE")
                link.run("CHECKPOINT")


def _copy(link: Link, patterns: Iterable[Pattern], numbers: Iterable[int]) -> None:
    """Write the rows of one session for every number. The database itself does the copying."""
    link.run("CREATE TEMP TABLE numbers (digits TEXT)")
    link.put("numbers", ([_spell(number)] for number in numbers))
    for table, columns, rows in patterns:
        if not rows:
            continue
        link.run(f"CREATE TEMP TABLE pattern AS SELECT * FROM {table} WHERE 1 = 0")
        link.put("pattern", rows)
        differing = {place for row in rows for place, value in enumerate(row) if MARK in str(value)}
        values = (
            f"replace(p.{column}, '{MARK}', n.digits)" if place in differing else f"p.{column}"
            for place, column in enumerate(columns)
        )
        link.run(
            f"INSERT INTO {table} ({', '.join(columns)}) SELECT {', '.join(values)} "
            "FROM numbers n CROSS JOIN pattern p"
        )
        link.run("DROP TABLE pattern")
    link.run("DROP TABLE numbers")


def _spell(number: int) -> str:
    return f"{number:0{DIGITS}d}"

"""Databases that already have a journal of a given length, filled past our store for the sake of speed."""

from __future__ import annotations

import asyncio
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from bench.window import tool_result
from perdure.core.journal import encode_entry
from perdure.store.api import open_database
from perdure.store.ids import Ids

RUNNING = 100  # sessions that the contenders append to, evenly spread among all
ROWS_OF_A_SESSION = 100
BEGAN = 1_700_000_000_000

Table = tuple[str, Iterator[tuple[Any, ...]]]


def fill_sqlite(path: Path, rows: int) -> str:
    """Make a SQLite file with so many journal rows, and return its URL."""
    url = f"sqlite:///{path}"
    _make(url)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute("BEGIN")
        for table, lines in _tables(rows):
            marks = ", ".join("?" * (table.count(",") + 1))
            connection.executemany(f"INSERT INTO {table} VALUES ({marks})", lines)
        connection.execute("COMMIT")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return url


def fill_postgres(url: str, rows: int) -> None:
    """Make our tables in an empty PostgreSQL database, with so many journal rows."""
    import psycopg

    _make(url)
    with psycopg.connect(url, autocommit=True) as connection:
        # The rows are known to be sound: without this, every reference would be looked up.
        connection.execute("SET session_replication_role = replica")
        for table, lines in _tables(rows):
            with connection.cursor().copy(f"COPY {table} FROM STDIN".encode()) as copy:
                for line in lines:
                    copy.write_row(line)
        connection.execute("VACUUM ANALYZE")
        connection.execute("CHECKPOINT")


def _make(url: str) -> None:
    async def make(home: Path) -> None:
        await (await open_database(url, home=home)).close()

    with tempfile.TemporaryDirectory() as home:
        asyncio.run(make(Path(home)))


def _tables(rows: int) -> list[Table]:
    """The rows of every table that has some, parents first."""
    ids = Ids()
    count = max(RUNNING, rows // ROWS_OF_A_SESSION)
    names = [(ids.new("s"), ids.new("t"), f"agent:main:web:dm:chat{number}") for number in range(count)]
    body = encode_entry(tool_result(0))
    per_session = rows // count
    return [
        (
            "sessions (id, key, state, created_at, updated_at)",
            ((session, key, "open", BEGAN, BEGAN) for session, _, key in names),
        ),
        (
            "leases (key, epoch, generation, position)",
            ((key, 1, 1, 0) for _, _, key in names),
        ),
        (
            "turns (id, session, key, generation, state, epoch, attempt, first_seq, began_at, updated_at)",
            (
                (turn, session, key, 1, _state(number, count), 1, 1, 1, BEGAN, BEGAN)
                for number, (session, turn, key) in enumerate(names)
            ),
        ),
        (
            "journal (session, seq, turn, kind, version, body, at)",
            (
                (session, seq, turn, "tool_ended", 1, body, BEGAN)
                for seq in range(1, per_session + 1)
                for session, turn, _ in names
            ),
        ),
    ]


def _state(number: int, count: int) -> str:
    return "running" if number % (count // RUNNING) == 0 else "done"

"""Where the contenders write: fresh databases, and the long journals that are made once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from bench.filled import fill_postgres, fill_sqlite
from support import postgres

LONG = 1_000_000  # from here on a journal is made once and shared: what is added is little beside it


class Place(Protocol):
    """A kind of database."""

    name: str

    def journal(self, rows: int) -> str:
        """The URL of a database of ours with at least so many journal rows, and hardly more."""

    def empty(self) -> str:
        """The URL of a new, empty database for a peer."""


class SqlitePlace:
    name = "SQLite"

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._made = 0

    def journal(self, rows: int) -> str:
        path = self._folder / f"{rows}.db" if rows >= LONG else self._new_path()
        return f"sqlite:///{path}" if path.exists() else fill_sqlite(path, rows)

    def empty(self) -> str:
        return f"sqlite:///{self._new_path()}"

    def _new_path(self) -> Path:
        self._made += 1
        return self._folder / f"fresh{self._made}.db"


class PostgresPlace:
    name = "PostgreSQL"

    def __init__(self, server: postgres.PostgresServer) -> None:
        self._server = server
        self._made = 0
        self._long: dict[int, str] = {}

    def journal(self, rows: int) -> str:
        if rows in self._long:
            return self._long[rows]
        fill_postgres(url := self.empty(), rows)
        if rows >= LONG:
            self._long[rows] = url
        return url

    def empty(self) -> str:
        self._made += 1
        return self._server.create_database(f"fresh{self._made}")


# The tests' server, with the memory and the vacuum that PostgreSQL has when nobody configures it.
USUAL = {"shared_buffers": "128MB", "autovacuum": "on", "wal_level": "replica", "max_wal_senders": "10"}


@contextmanager
def postgres_place() -> Iterator[PostgresPlace]:
    postgres.SETTINGS.update(USUAL)
    with postgres.PostgresServer() as server:
        yield PostgresPlace(server)

"""A database opened without a lock, while a gateway may be using it: to be read, or for a single small write."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Protocol, TypeVar

from perdure.errors import DatabaseRefused, StoreError
from perdure.store import migrate
from perdure.store.database import Database, Transaction, Tx, unknown_url
from perdure.store.ids import Ids, wall_clock

T = TypeVar("T")

_ABSENT_HINT = "Start the gateway once, or correct store.url."
_OLDER_HINT = "Start the gateway once with this version: it brings the database up to date."


class _DriverConnection(Protocol):
    def execute(self, sql: Any, /) -> Any: ...

    def close(self) -> None: ...


class ReadOnlyDatabase:
    """Runs reading transactions, one at a time; refuses to write."""

    exclusive = False

    def __init__(
        self,
        connection: _DriverConnection,
        make_tx: Callable[[Ids, int], Tx],
        begin: str,
        driver_error: type[Exception],
    ) -> None:
        self.ids = Ids()
        self._connection = connection
        self._make_tx = make_tx  # from ids and the transaction's time
        self._begin = begin
        self._driver_error = driver_error  # what the driver raises
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="perdure-reader")

    async def write(self, transaction: Transaction[T], *, key: str = "", at: int | None = None) -> T:
        raise StoreError("not written: the database was opened only to be read")

    async def read(self, transaction: Transaction[T], *, at: int | None = None) -> T:
        time = wall_clock() if at is None else at
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._read, transaction, time)

    def _read(self, transaction: Transaction[T], time: int) -> T:
        try:
            self._connection.execute(self._begin)
            try:
                return transaction(self._make_tx(self.ids, time))
            finally:
                self._connection.execute("ROLLBACK")
        except self._driver_error as error:
            raise StoreError(f"the database cannot be read: {error}") from error

    @property
    def problem(self) -> str | None:
        return None

    async def close(self) -> None:
        await asyncio.to_thread(self._thread.shutdown)
        self._connection.close()


class SharedDatabase(ReadOnlyDatabase):
    """Also writes, beside the gateway that holds the locks: rows of which the gateway keeps no copy in memory."""

    async def write(self, transaction: Transaction[T], *, key: str = "", at: int | None = None) -> T:
        time = wall_clock() if at is None else at
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._write, transaction, time)

    def _write(self, transaction: Transaction[T], time: int) -> T:
        try:
            self._connection.execute(self._begin)
            try:
                result = transaction(self._make_tx(self.ids, time))
            except BaseException:
                self._connection.execute("ROLLBACK")
                raise
            self._connection.execute("COMMIT")
        except self._driver_error as error:
            raise StoreError(f"not written: {error}") from error
        return result


async def open_read_only(url: str) -> Database:
    """Open the database at a URL, which may be in use; refuse a missing, foreign or outdated one."""
    return await _open(url, ReadOnlyDatabase)


async def open_beside_gateway(url: str) -> Database:
    """Open the database that a running gateway uses, for a single small write."""
    return await _open(url, SharedDatabase)


async def _open(url: str, made: type[ReadOnlyDatabase]) -> ReadOnlyDatabase:
    opens: dict[str, Callable[[str, type[ReadOnlyDatabase]], ReadOnlyDatabase]] = {
        "sqlite:///": _open_sqlite,
        "postgresql://": _open_postgres,
    }
    for form, opened in opens.items():
        if url.startswith(form):
            return await asyncio.to_thread(opened, url, made)
    raise unknown_url(url)


def _open_sqlite(url: str, made: type[ReadOnlyDatabase]) -> ReadOnlyDatabase:
    from perdure.store.backends.sqlite import (  # only the database in use is loaded
        BUSY_TIMEOUT_MS,
        PRAGMAS,
        SqliteTx,
        add_functions,
    )

    path = Path(url.removeprefix("sqlite:///"))
    if not path.exists():
        raise DatabaseRefused(f"there is no database at {path}", hint=_ABSENT_HINT)
    if not migrate.is_current_sqlite(path):
        raise DatabaseRefused(f"{path} was written by an older Perdure", hint=_OLDER_HINT)
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode={'ro' if made is ReadOnlyDatabase else 'rw'}",
        uri=True,
        isolation_level=None,
        check_same_thread=False,
        timeout=BUSY_TIMEOUT_MS / 1000,
    )
    add_functions(connection)

    def make_tx(ids: Ids, time: int) -> Tx:
        return SqliteTx(connection, ids, wall_clock, time)

    if made is ReadOnlyDatabase:
        return made(connection, make_tx, "BEGIN", sqlite3.Error)
    for pragma in PRAGMAS:
        connection.execute(f"PRAGMA {pragma}")
    return made(connection, make_tx, "BEGIN IMMEDIATE", sqlite3.Error)


def _open_postgres(url: str, made: type[ReadOnlyDatabase]) -> ReadOnlyDatabase:
    import psycopg

    from perdure.store.backends.postgres import PostgresTx
    from perdure.store.backends.postgres_connect import connect_options

    try:
        connection = psycopg.connect(url, autocommit=True, **connect_options(url))
    except (psycopg.OperationalError, psycopg.ProgrammingError) as error:
        raise DatabaseRefused(
            f"the PostgreSQL server of store.url cannot be reached: {error}",
            hint="Start the server, or correct store.url.",
        ) from error
    try:
        _check_postgres(connection)
    except BaseException:
        connection.close()
        raise
    begin = "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY" if made is ReadOnlyDatabase else "BEGIN"
    return made(connection, lambda ids, time: PostgresTx(connection, ids, time), begin, psycopg.Error)


def _check_postgres(connection: _DriverConnection) -> None:
    name = "the database of store.url"
    rows = connection.execute(
        "SELECT 1 FROM pg_tables WHERE schemaname = current_schema() AND tablename = 'alembic_version'"
    ).fetchall()
    if not rows:
        raise DatabaseRefused(f"{name} holds nothing of Perdure", hint=_ABSENT_HINT)
    row = connection.execute("SELECT version_num FROM alembic_version").fetchone()
    if not migrate.check_revision(row[0] if row else None, name):
        raise DatabaseRefused(f"{name} was written by an older Perdure", hint=_OLDER_HINT)

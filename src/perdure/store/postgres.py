"""The store on PostgreSQL: the same transaction functions, a few writer threads, each for its share of the keys.

What differs from SQLite: several gateways share the database, leases are judged by the server's clock, and a
connection may be cut at the very moment of a commit. Each writer has a row that counts its transactions, and
every transaction first counts up by one from where it must be. After a lost acknowledgement the transaction is
simply made again: an unfinished twin on the server holds that row and so makes us wait; a finished one has
counted already, and then the results we hold are the truth.
"""

from __future__ import annotations

import asyncio
import re
import threading
import time
import zlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

import psycopg
from psycopg import errors as pg
from psycopg.conninfo import conninfo_to_dict

from perdure.core.text import storable, storable_values
from perdure.errors import DatabaseRefused, StoreBroken, StoreFull, StoreUnreachable
from perdure.store import migrate
from perdure.store.database import Row, Tx, Work
from perdure.store.ids import Ids
from perdure.store.locks import FileLock
from perdure.store.writer import Readers, Writer

T = TypeVar("T")

WRITERS = 3
READERS = 3
PATIENCE = 10.0  # seconds for which an unreachable server is asked again before a write is reported as not done
_PAUSE = 0.2
_NAMED = re.compile(r"(?<!:):([a-z_]+)")
# A dead connection is noticed, and an abandoned transaction ends, even when nothing announces it. Without the last
# one, a connection on which something was just said would be waited for until TCP gives up: a quarter of an hour.
_CONNECT = {
    "connect_timeout": 5,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 11_000,
}
_SESSION = "SET idle_in_transaction_session_timeout = '30s'; SET lock_timeout = '60s'"
_NOW = "SELECT CAST(extract(epoch FROM clock_timestamp()) * 1000 AS BIGINT)"
_COUNT = "UPDATE writers SET transactions = :next WHERE id = :id AND transactions = :done"
_IN_DOUBT = "The server was gone when the gateway stopped. The next start reads what was really written."
# Errors after which the same transaction may be made again at once: nothing of it was kept.
_AGAIN = (pg.SerializationFailure, pg.DeadlockDetected, pg.LockNotAvailable, pg.IdleInTransactionSessionTimeout)


@lru_cache(maxsize=512)
def _spell(sql: str) -> str:
    """Our `:name` as psycopg's `%(name)s`."""
    return _NAMED.sub(r"%(\1)s", sql.replace("%", "%%"))


class PostgresTx:
    """A transaction on a psycopg connection."""

    hold = " FOR NO KEY UPDATE"

    def __init__(self, connection: psycopg.Connection[Row]) -> None:
        self._execute = connection.execute

    def one(self, sql: str, **values: Any) -> Row | None:
        return self._execute(_spell(sql).encode(), storable_values(values)).fetchone()

    def all(self, sql: str, **values: Any) -> list[Row]:
        return self._execute(_spell(sql).encode(), storable_values(values)).fetchall()

    def run(self, sql: str, **values: Any) -> int:
        return self._execute(_spell(sql).encode(), storable_values(values)).rowcount

    def now(self) -> int:
        row = self.one(_NOW)
        assert row is not None
        return int(row[0])


class PostgresLink:
    """The connection of one writer thread; it reconnects, and resolves commits whose outcome was lost."""

    def __init__(self, url: str, name: str) -> None:
        self._url = url
        self._name = name
        self._done = 0
        self._connection: psycopg.Connection[Row] | None = None
        self._closing = False
        self.problem: str | None = None

    def transact(self, works: Sequence[Callable[[Tx], Any]]) -> list[Any]:
        results: list[Any] | None = None  # of a transaction whose commit may have reached the server
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                made = self._attempt(works)
                return self._settled(results if made is None else made)
            except _Doubt as doubt:
                results = doubt.results
            except _AGAIN:
                self._abandon()
            except pg.DiskFull as error:
                self._abandon()
                self.problem = f"not written: {error}"
                raise StoreFull(self.problem) from error
            except psycopg.OperationalError as error:
                self._abandon()
                self.problem = f"the database server does not answer: {error}"
                if results is not None:
                    # While a commit is in doubt there is nothing to report yet: only the server knows.
                    if self._closing:
                        raise StoreBroken(
                            f"nobody knows whether it was written: {error}", hint=_IN_DOUBT
                        ) from error
                elif self._closing or time.monotonic() > deadline:
                    raise StoreUnreachable(self.problem) from error
                time.sleep(_PAUSE)

    def _settled(self, results: list[Any] | None) -> list[Any]:
        assert results is not None, f"somebody else counts the transactions of {self._name}"
        self._done += 1
        self.problem = None
        return results

    def _attempt(self, works: Sequence[Callable[[Tx], Any]]) -> list[Any] | None:
        """Make the transaction; None if it turns out to have been made before."""
        connection = self._connected()
        tx = PostgresTx(connection)
        try:
            connection.execute("BEGIN")
            if not tx.run(_COUNT, id=self._name, next=self._done + 1, done=self._done):
                connection.execute("ROLLBACK")
                return None
            results = [work(tx) for work in works]
        except (psycopg.OperationalError, *_AGAIN):
            raise
        except BaseException:
            connection.execute("ROLLBACK")
            raise
        try:
            connection.execute("COMMIT")
        except psycopg.OperationalError as error:
            self._abandon()
            raise _Doubt(results) from error
        return results

    def _connected(self) -> psycopg.Connection[Row]:
        if self._connection is None:
            connection = _connect(self._url)
            connection.execute(
                "INSERT INTO writers (id, transactions) VALUES (%s, 0) ON CONFLICT DO NOTHING", [self._name]
            )
            self._connection = connection
        return self._connection

    def _abandon(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def give_up(self) -> None:
        """Stop waiting for a server that does not answer."""
        self._closing = True

    def close(self) -> None:
        if self._connection is not None:
            with suppress(psycopg.OperationalError):  # the server has gone: a row that counts stays behind
                self._connection.execute("DELETE FROM writers WHERE id = %s", [self._name])
        self._abandon()


class _Doubt(Exception):
    """The connection broke while the commit was on its way."""

    def __init__(self, results: list[Any]) -> None:
        super().__init__()
        self.results = results


class PostgresDatabase:
    """One database, any number of gateways."""

    sole = False

    def __init__(self, url: str, lock: FileLock) -> None:
        self._url = url
        self._lock = lock
        name = Ids().new("writer")
        self._links = [PostgresLink(url, f"{name}.{index}") for index in range(WRITERS)]
        self._writers = [Writer(f"perdure-writer-{n}", link) for n, link in enumerate(self._links)]
        self._readers = Readers(READERS)
        self._local = threading.local()
        self._opened: list[psycopg.Connection[Row]] = []

    async def write(self, work: Work[T], *, key: str = "") -> T:
        writer = self._writers[zlib.crc32(storable(key).encode()) % WRITERS]
        result: T = await writer.submit(work)
        return result

    async def read(self, work: Work[T]) -> T:
        return await self._readers.submit(lambda: self._read(work))

    def _read(self, work: Work[T]) -> T:
        """Reading has no effect, so a connection that broke is simply replaced, once."""
        try:
            return self._read_once(work)
        except psycopg.OperationalError:
            self._local.connection = None
        try:
            return self._read_once(work)
        except psycopg.OperationalError as error:
            self._local.connection = None
            raise StoreUnreachable(f"the database server does not answer: {error}") from error

    def _read_once(self, work: Work[T]) -> T:
        connection: psycopg.Connection[Row] | None = getattr(self._local, "connection", None)
        if connection is None:
            connection = self._local.connection = _connect(self._url)
            self._opened.append(connection)
        connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        try:
            return work(PostgresTx(connection))
        finally:
            if not connection.broken:
                connection.execute("ROLLBACK")

    @property
    def problem(self) -> str | None:
        return next((link.problem for link in self._links if link.problem), None)

    async def close(self) -> None:
        for link in self._links:
            link.give_up()
        for writer in self._writers:
            await writer.close()
        await self._readers.close()
        for connection in self._opened:
            connection.close()
        self._lock.release()


async def open_postgres(url: str, *, home: Path) -> PostgresDatabase:
    """Lock the home, make or migrate the tables, and open. A database that is refused was not written to."""
    lock = FileLock(home / "lock")
    lock.take()
    try:
        await asyncio.to_thread(_prepare, url)
        return PostgresDatabase(url, lock)
    except BaseException:
        lock.release()
        raise


def _prepare(url: str) -> None:
    try:
        connection = _connect(url)
    except psycopg.OperationalError as error:
        raise DatabaseRefused(
            f"the PostgreSQL server of store.url cannot be reached: {error}",
            hint="Start the server, or correct store.url.",
        ) from error
    name = str(conninfo_to_dict(url).get("dbname") or "the database of store.url")

    def execute(sql: str) -> list[Row]:
        cursor = connection.execute(sql.encode())
        return cursor.fetchall() if cursor.description else []

    with connection, connection.transaction():
        migrate.prepare_postgres(execute, url, name)


def _connect(url: str) -> psycopg.Connection[Row]:
    connection = psycopg.connect(url, autocommit=True, **_CONNECT)  # type: ignore[arg-type]
    connection.execute(_SESSION)
    return connection

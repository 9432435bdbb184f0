"""The PostgreSQL backend: a few writer threads, each for its share of the keys, and a few threads that read.

What differs from SQLite: several gateways share the database, leases expire by the server's clock, and a
connection may break during a commit. Each writer has a row that counts its database transactions, and every
transaction first raises that count by one from its expected value. After a lost acknowledgement the transaction is
run again: if the first one is unfinished on the server, it holds the row, and we wait. If the count is one higher,
the first one was committed, and its results are valid. At any other count the server has lost acknowledged writes.
"""

from __future__ import annotations

import asyncio
import re
import threading
import time
import zlib
from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

import psycopg
from psycopg import errors as pg
from psycopg.conninfo import conninfo_to_dict

from perdure.core.storable_text import make_storable, make_values_storable
from perdure.errors import StoreBroken, StoreFull, StoreUnreachable
from perdure.store import migrate
from perdure.store.backends.jobs import Job, ReaderPool
from perdure.store.backends.postgres_connect import (
    AWAY_ERRORS,
    PATIENT_SETTINGS,
    away_sentence,
    connect,
    start_error,
)
from perdure.store.backends.postgres_side_connection import HEARTBEAT_SETTINGS, SideConnection
from perdure.store.backends.postgres_writer import WriterThread
from perdure.store.database import FILES, HEARTBEAT, Row, Transaction, Tx
from perdure.store.ids import Clock, Ids, wall_clock
from perdure.store.locks import FileLock

T = TypeVar("T")

WRITER_COUNT = 3
READER_COUNT = 3
UNREACHABLE_SECONDS = 10.0  # of reconnecting, after which a write is reported as not done
_RECONNECT_SECONDS = 0.2
_NAMED_VALUE = re.compile(r"(?<!:):([a-z_]+)")
_SERVER_CLOCK = "SELECT CAST(extract(epoch FROM clock_timestamp()) * 1000 AS BIGINT)"
_COUNT_TRANSACTION = "UPDATE writers SET transactions = :next WHERE id = :id AND transactions = :done"
# An update, whose own commit waits until the count is as safe as any other acknowledged write.
_LOOK_UP_COUNT = "UPDATE writers SET transactions = transactions WHERE id = :id RETURNING transactions"
_LOST_HINT = (
    "The server was put back to an earlier state, or a replica that was behind took over. The gateway stops; the "
    "next start goes on from what is there. Messages and answers of that time may be missing or come again."
)
_IN_DOUBT_HINT = "The server was gone when the gateway stopped. The next start reads what was really written."
# Errors after which the same transaction can be run again at once: nothing of it was written.
_RETRYABLE_ERRORS = (
    pg.SerializationFailure,
    pg.DeadlockDetected,
    pg.LockNotAvailable,
    pg.IdleInTransactionSessionTimeout,
)


@lru_cache(maxsize=512)
def _psycopg_sql(sql: str) -> str:
    """Return the SQL with psycopg's `%(name)s` instead of our `:name`."""
    return _NAMED_VALUE.sub(r"%(\1)s", sql.replace("%", "%%"))


class PostgresTx:
    """A transaction on a psycopg connection."""

    for_update = " FOR NO KEY UPDATE"

    def __init__(self, connection: psycopg.Connection[Row], ids: Ids, time: int) -> None:
        self.ids = ids
        self.time = time
        self._execute = connection.execute

    def one(self, sql: str, **values: Any) -> Row | None:
        return self._execute(_psycopg_sql(sql).encode(), make_values_storable(values)).fetchone()

    def all(self, sql: str, **values: Any) -> list[Row]:
        return self._execute(_psycopg_sql(sql).encode(), make_values_storable(values)).fetchall()

    def run(self, sql: str, **values: Any) -> int:
        return self._execute(_psycopg_sql(sql).encode(), make_values_storable(values)).rowcount

    def lease_clock(self) -> int:
        row = self.one(_SERVER_CLOCK)
        assert row is not None
        return int(row[0])


class PostgresConnection:
    """The connection of one writer thread; it reconnects, and resolves commits of unknown outcome."""

    def __init__(self, url: str, name: str, ids: Ids) -> None:
        self._url = url
        self._name = name
        self._ids = ids
        self._transactions_done: int | None = None  # None before the first connection
        self._connection: psycopg.Connection[Row] | None = None
        self._closing = False
        self.problem: str | None = None

    def commit_batch(self, jobs: Sequence[Job]) -> list[Any]:
        results: list[Any] | None = None  # of a batch whose commit may have reached the server
        deadline = time.monotonic() + UNREACHABLE_SECONDS
        while True:
            try:
                made = self._run_transaction(jobs)
                return self._confirm(self._kept(results) if made is None else made)
            except _CommitInDoubt as doubt:
                results = doubt.results
            except _RETRYABLE_ERRORS:
                self._disconnect()
            except pg.DiskFull as error:
                self._disconnect()
                self.problem = f"not written: {error}"
                raise StoreFull(self.problem) from error
            except AWAY_ERRORS as error:
                self._disconnect()
                self.problem = away_sentence(error)
                if results is not None:
                    # While a commit is in doubt, only the server knows its outcome, so nothing is reported.
                    if self._closing:
                        raise StoreBroken(
                            f"nobody knows whether it was written: {error}", hint=_IN_DOUBT_HINT
                        ) from error
                elif self._closing or time.monotonic() > deadline:
                    raise StoreUnreachable(self.problem) from error
                time.sleep(_RECONNECT_SECONDS)

    def _confirm(self, results: list[Any]) -> list[Any]:
        self._transactions_done = self._done() + 1
        self.problem = None
        return results

    def _done(self) -> int:
        return self._transactions_done or 0

    def _kept(self, results: list[Any] | None) -> list[Any]:
        """Return the results of the commit in doubt, if the server's count says that it was kept."""
        row = PostgresTx(self._ensure_connection(), self._ids, 0).one(_LOOK_UP_COUNT, id=self._name)
        if results is not None and row is not None and row[0] == self._done() + 1:
            return results
        self.problem = (
            f"the database server has lost acknowledged writes: {self._done()} transactions of {self._name} were "
            f"acknowledged, and it knows of {row[0] if row else 'none'}"
        )
        raise StoreBroken(self.problem, hint=_LOST_HINT)

    def _run_transaction(self, jobs: Sequence[Job]) -> list[Any] | None:
        """Run the jobs in one database transaction; None: the server's count of transactions is another."""
        connection = self._ensure_connection()
        counting = PostgresTx(connection, self._ids, 0)
        try:
            connection.execute("BEGIN")
            if not counting.run(_COUNT_TRANSACTION, id=self._name, next=self._done() + 1, done=self._done()):
                connection.execute("ROLLBACK")
                return None
            results = [job.transaction(PostgresTx(connection, self._ids, job.time)) for job in jobs]
        except (*AWAY_ERRORS, *_RETRYABLE_ERRORS):
            raise
        except BaseException:
            connection.execute("ROLLBACK")
            raise
        try:
            connection.execute("COMMIT")
        except psycopg.OperationalError as error:
            self._disconnect()
            raise _CommitInDoubt(results) from error
        return results

    def _ensure_connection(self) -> psycopg.Connection[Row]:
        if self._connection is None:
            self._connection = connect(self._url)
        if self._transactions_done is None:
            self._connection.execute(
                "INSERT INTO writers (id, transactions) VALUES (%s, 0) ON CONFLICT DO NOTHING", [self._name]
            )
            self._transactions_done = 0
        return self._connection

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def stop_waiting(self) -> None:
        """Give up a server that does not answer, because the database is being closed."""
        self._closing = True

    def close(self) -> None:
        if self._connection is not None:
            with suppress(*AWAY_ERRORS):  # the server is gone: the writer's row stays behind
                self._connection.execute("DELETE FROM writers WHERE id = %s", [self._name])
        self._disconnect()


class _CommitInDoubt(Exception):
    """The connection broke during the commit."""

    def __init__(self, results: list[Any]) -> None:
        super().__init__()
        self.results = results


class PostgresDatabase:
    """One database, any number of gateways."""

    exclusive = False

    def __init__(self, url: str, lock: FileLock, clock: Clock) -> None:
        self._url = url
        self._lock = lock
        self._clock = clock
        self.ids = Ids(clock)
        name = Ids().new("writer")  # by the real clock, so that the name is unique
        self._connections = [PostgresConnection(url, f"{name}.{n}", self.ids) for n in range(WRITER_COUNT)]
        self._writers = [WriterThread(f"perdure-writer-{n}", link) for n, link in enumerate(self._connections)]
        self._side = {
            HEARTBEAT: SideConnection(url, self._make_tx, "heartbeat", HEARTBEAT_SETTINGS),
            FILES: SideConnection(url, self._make_tx, "files"),
        }
        self._readers = ReaderPool(READER_COUNT)
        self._local = threading.local()
        self._read_connections: list[psycopg.Connection[Row]] = []

    def _make_tx(self, connection: psycopg.Connection[Row], time: int) -> Tx:
        return PostgresTx(connection, self.ids, time)

    async def write(self, transaction: Transaction[T], *, key: str = "", at: int | None = None) -> T:
        time = self._clock() if at is None else at
        if key in self._side:
            return await self._side[key].submit(transaction, time)
        writer = self._writers[zlib.crc32(make_storable(key).encode()) % WRITER_COUNT]
        result: T = await writer.submit(transaction, time)
        return result

    async def read(self, transaction: Transaction[T], *, at: int | None = None) -> T:
        time = self._clock() if at is None else at
        return await self._readers.submit(lambda: self._read(transaction, time))

    def _read(self, transaction: Transaction[T], time: int) -> T:
        """Run a reading transaction. It has no effect, so a connection that broke is replaced, once."""
        try:
            return self._read_once(transaction, time)
        except AWAY_ERRORS:
            self._close_read_connection()
        try:
            return self._read_once(transaction, time)
        except AWAY_ERRORS as error:
            self._close_read_connection()
            raise StoreUnreachable(away_sentence(error)) from error

    def _close_read_connection(self) -> None:
        """Close this thread's connection, if there is one; the next read makes another."""
        connection: psycopg.Connection[Row] | None = getattr(self._local, "connection", None)
        if connection is not None:
            self._local.connection = None
            self._read_connections.remove(connection)
            connection.close()

    def _read_once(self, transaction: Transaction[T], time: int) -> T:
        connection: psycopg.Connection[Row] | None = getattr(self._local, "connection", None)
        if connection is None:
            connection = self._local.connection = connect(self._url)
            self._read_connections.append(connection)
        connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        try:
            return transaction(PostgresTx(connection, self.ids, time))
        finally:
            if not connection.broken:
                connection.execute("ROLLBACK")

    @property
    def problem(self) -> str | None:
        return next((link.problem for link in self._connections if link.problem), None)

    async def close(self) -> None:
        for link in self._connections:
            link.stop_waiting()
        for writer in self._writers:
            await writer.close()
        for side in self._side.values():
            await side.close()
        await self._readers.close()
        for connection in self._read_connections:
            connection.close()
        self._lock.release()


async def open_postgres(url: str, *, home: Path, clock: Clock = wall_clock) -> PostgresDatabase:
    """Lock the home, make or migrate the tables, and open the database; a refused one is not written to."""
    lock = FileLock(home / "lock")
    lock.take()
    try:
        await asyncio.to_thread(_prepare, url)
        return PostgresDatabase(url, lock, clock)
    except BaseException:  # also a cancellation: the next try must find the lock free
        lock.release()
        raise


def _prepare(url: str) -> None:
    try:
        connection = connect(url, PATIENT_SETTINGS)
    except (psycopg.OperationalError, psycopg.ProgrammingError) as error:
        raise start_error(error) from error
    name = str(conninfo_to_dict(url).get("dbname") or "the database of store.url")

    def execute(sql: str) -> list[Row]:
        cursor = connection.execute(sql.encode())
        return cursor.fetchall() if cursor.description else []

    try:
        with connection, connection.transaction():
            migrate.prepare_postgres(execute, url, name)
    except AWAY_ERRORS as error:
        raise StoreUnreachable(away_sentence(error)) from error

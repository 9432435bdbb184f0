"""The SQLite backend: one file in WAL mode, a sync at every commit, one writer, a few threads that read."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

from perdure.core.storable_text import make_values_storable
from perdure.errors import StoreBroken, StoreError, StoreFull, Unavailable
from perdure.store import migrate
from perdure.store.backends.jobs import Job, ReaderPool
from perdure.store.backends.sqlite_commit import DatabaseLocked, GroupCommitter
from perdure.store.database import Row, Transaction
from perdure.store.ids import Clock, Ids, wall_clock
from perdure.store.locks import FileLock

T = TypeVar("T")

PRAGMAS = (
    "journal_mode = WAL",
    "synchronous = FULL",
    "foreign_keys = ON",
    "temp_store = MEMORY",
    "secure_delete = ON",  # deleted rows are overwritten, not only unlinked
    # Commits of many sessions touch many pages: a larger log and cache make checkpoints and disk reads rare.
    "wal_autocheckpoint = 8000",
    "cache_size = -65536",
)
READER_COUNT = 2
BUSY_TIMEOUT_MS = 10_000
_PRIMARY_CODE_MASK = 0xFF  # SQLite's extended error codes carry the primary code in their lowest byte


# Errors of a single statement, and errors that mean that the file is damaged or no database.
STATEMENT_ERRORS = frozenset((sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CONSTRAINT))
DAMAGE_ERRORS = frozenset((sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB))


def primary_code(error: sqlite3.Error) -> int:
    """Return SQLite's primary code; an error of Python's module has none, and is a fault of the statement."""
    return getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & _PRIMARY_CODE_MASK


def add_functions(connection: sqlite3.Connection) -> None:
    """Add the functions of PostgreSQL that our SQL uses and SQLite lacks."""
    connection.create_function("split_part", 3, _split_part, deterministic=True)


def _split_part(text: str, delimiter: str, number: int) -> str:
    """Return the part of a text of that number, counted from one; an empty text if there are fewer parts."""
    parts = text.split(delimiter, number)
    return parts[number - 1] if len(parts) >= number else ""


class SqliteTx:
    """A transaction on a `sqlite3` connection."""

    for_update = ""  # there is only one writer

    def __init__(self, connection: sqlite3.Connection, ids: Ids, clock: Clock, time: int) -> None:
        self.ids = ids
        self.time = time
        self.lease_clock = clock
        self._execute = connection.execute

    def one(self, sql: str, **values: Any) -> Row | None:
        rows = self._execute(sql, make_values_storable(values)).fetchall()
        return rows[0] if rows else None

    def all(self, sql: str, **values: Any) -> list[Row]:
        return self._execute(sql, make_values_storable(values)).fetchall()

    def run(self, sql: str, **values: Any) -> int:
        return self._execute(sql, make_values_storable(values)).rowcount


class SqliteConnection:
    """The writing connection. After a failed sync, the content of the disk is unknown, and it writes no more."""

    def __init__(self, connection: sqlite3.Connection, ids: Ids, clock: Clock) -> None:
        self._connection = connection
        self._ids = ids
        self._clock = clock
        self._changes_before = 0  # the connection's `total_changes` when the batch began
        self._broken: StoreBroken | None = None
        self.problem: str | None = None
        connection.execute("PRAGMA busy_timeout = 0")  # the event loop does not wait for other programs

    def run_batch(self, jobs: Sequence[Job]) -> list[Any]:
        if self._broken is not None:
            raise self._broken
        self._changes_before = self._connection.total_changes
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            return [job.transaction(SqliteTx(self._connection, self._ids, self._clock, job.time)) for job in jobs]
        except sqlite3.Error as error:
            raise self._store_error(error) from error
        except BaseException:
            self._rollback()
            raise

    @property
    def has_changes(self) -> bool:
        return self._connection.total_changes != self._changes_before

    def commit(self) -> None:
        try:
            self._connection.execute("COMMIT")
        except sqlite3.Error as error:
            raise self._store_error(error) from error
        except BaseException as error:
            raise self._commit_error(error) from error
        self.problem = None

    def _commit_error(self, error: BaseException) -> StoreError:
        """Roll back after a commit that failed outside SQLite, for lack of memory; or say that it is in doubt."""
        if self._connection.in_transaction:
            self._rollback()
            return Unavailable(f"not written: {type(error).__name__}: {error}")
        self._broken = StoreBroken(f"nobody knows whether it was written: {type(error).__name__}: {error}")
        return self._broken

    def _rollback(self) -> None:
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")

    def _store_error(self, error: sqlite3.Error) -> Exception:
        """Return the error that says whether nothing was written, or whether that is unknown."""
        code = primary_code(error)
        explained: StoreError
        if code == sqlite3.SQLITE_FULL:
            explained = StoreFull("not written: the disk is full")
        elif code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            explained = DatabaseLocked("not written: another program keeps the database locked")
        elif code not in DAMAGE_ERRORS and (
            code in STATEMENT_ERRORS or not isinstance(error, sqlite3.OperationalError)
        ):
            self._rollback()
            return error  # a fault of the statement, not of the disk
        else:
            explained = self._broken = StoreBroken(f"the database cannot be written: {error}")
        self.problem = explained.message
        if self._broken is None:
            self._rollback()
        return explained

    def close(self) -> None:
        self._connection.close()


class SqliteDatabase:
    """A SQLite file, used by one gateway."""

    exclusive = True

    def __init__(self, path: Path, *, clock: Clock, locks: Sequence[FileLock], max_pages: int | None) -> None:
        self._path = path
        self._clock = clock
        self._locks = locks
        self.ids = Ids(clock)
        self._connection = SqliteConnection(_connect(path, max_pages), self.ids, clock)
        self._writer = GroupCommitter("perdure-writer", self._connection)
        self._readers = ReaderPool(READER_COUNT)
        self._local = threading.local()
        self._read_connections: list[sqlite3.Connection] = []

    async def write(self, transaction: Transaction[T], *, key: str = "", at: int | None = None) -> T:
        result: T = await self._writer.submit(transaction, self._clock() if at is None else at)
        return result

    async def read(self, transaction: Transaction[T], *, at: int | None = None) -> T:
        time = self._clock() if at is None else at
        return await self._readers.submit(lambda: self._read(transaction, time))

    def _read(self, transaction: Transaction[T], time: int) -> T:
        """Run a reading transaction. It has no effect, so it may be tried again, unless the file is damaged."""
        try:
            return self._read_once(transaction, time)
        except sqlite3.Error as error:
            code = primary_code(error)
            if code in DAMAGE_ERRORS:
                raise StoreBroken(f"the database cannot be read: {error}") from error
            if code in STATEMENT_ERRORS or not isinstance(error, sqlite3.OperationalError):
                raise  # a fault of the statement, not of the disk
            raise Unavailable(f"not read: {error}") from error

    def _read_once(self, transaction: Transaction[T], time: int) -> T:
        connection = getattr(self._local, "connection", None)
        if connection is None:
            connection = self._local.connection = _connect(self._path)
            connection.execute("PRAGMA query_only = ON")
            self._read_connections.append(connection)
        connection.execute("BEGIN")
        try:
            return transaction(SqliteTx(connection, self.ids, self._clock, time))
        finally:
            connection.execute("COMMIT")

    @property
    def problem(self) -> str | None:
        return self._connection.problem

    async def close(self) -> None:
        await self._readers.close()
        for connection in self._read_connections:
            connection.close()
        await self._writer.close()
        for lock in self._locks:
            lock.release()


def open_sqlite(
    path: Path, *, home: Path, clock: Clock = wall_clock, max_pages: int | None = None
) -> SqliteDatabase:
    """Lock, check, make or migrate the file, and open it; a refused file is not written to."""
    locks = [FileLock(home / "lock")]
    if path.parent.resolve() != home.resolve():
        locks.append(FileLock(path.with_name(path.name + ".lock")))
    taken = []
    try:
        for lock in locks:
            lock.take()
            taken.append(lock)
        migrate.prepare_sqlite(path)
        return SqliteDatabase(path, clock=clock, locks=taken, max_pages=max_pages)
    except BaseException:
        for lock in taken:
            lock.release()
        raise


def _connect(path: Path, max_pages: int | None = None) -> sqlite3.Connection:
    connection = sqlite3.connect(
        path, isolation_level=None, check_same_thread=False, cached_statements=256, timeout=BUSY_TIMEOUT_MS / 1000
    )
    add_functions(connection)
    for pragma in PRAGMAS:
        connection.execute(f"PRAGMA {pragma}")
    if max_pages is not None:
        connection.execute(f"PRAGMA max_page_count = {max_pages:d}")
    return connection

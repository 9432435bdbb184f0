"""Two transactions on two real connections to PostgreSQL, stepped through statement by statement in a given order.

Each runs in a thread of its own and waits before every statement until the scheduler lets it go on. Whether a
statement waits for a lock of the other one is known from the server's own list of who blocks whom; then the other
one goes on, as it would in life.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any, TypeVar

import psycopg
from msgspec import Struct
from psycopg import errors as pg

from perdure.store.api import Store
from perdure.store.backends.postgres import PostgresTx
from perdure.store.database import Row, Transaction
from perdure.store.ids import Ids

T = TypeVar("T")
Operation = Callable[[Store], Awaitable[Any]]

LOOK_SECONDS = 0.002  # between two looks at a statement that is under way
MAX_SECONDS = 30.0  # for one statement


class Switches(Struct, frozen=True):
    """When the scheduler turns to the other one: after so many statements of each, alternately; then no more."""

    first: int  # 0 or 1: who begins
    after: tuple[int, ...] = ()

    def order(self) -> Iterator[int]:
        """Say, without end, whose statement is next."""
        who = self.first
        for count in self.after:
            yield from [who] * count
            who = 1 - who
        while True:
            yield who


class Interleaved(Struct, frozen=True):
    """What came of two operations: their results, and how many statements each made."""

    results: tuple[Any, Any]
    statements: tuple[int, int]
    deadlocks: int


class Stepper:
    """One operation in a thread; it makes a statement each time that it is told to."""

    def __init__(self, connection: psycopg.Connection[Row], operation: Operation) -> None:
        self._connection = connection
        self._operation = operation
        self._go, self._paused = threading.Semaphore(0), threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.pid = connection.info.backend_pid
        self.statements = 0
        self.deadlocks = 0
        self.is_over = False
        self.result: Any = None

    def start(self) -> None:
        """Run up to the first statement."""
        self._thread.start()
        assert self._paused.wait(MAX_SECONDS)

    def let_go(self) -> None:
        """Let the next statement begin."""
        self._paused.clear()
        self._go.release()

    def is_paused(self, seconds: float = 0.0) -> bool:
        """Whether the statement has ended, and the next one waits, or the operation is over."""
        return self._paused.wait(seconds)

    def join(self) -> None:
        self._thread.join(MAX_SECONDS)
        if self._error is not None:
            raise self._error

    def execute(self, sql: Any, values: Any = None) -> psycopg.Cursor[Row]:
        """Run one statement when it is time to."""
        self._paused.set()
        self._go.acquire()
        self.statements += 1
        return self._connection.execute(sql, values)

    def _run(self) -> None:
        try:
            self.result = asyncio.run(self._as_coroutine())
        except BaseException as error:  # noqa: BLE001 reason: it is raised by join()
            self._error = error
        self.is_over = True
        self._paused.set()

    async def _as_coroutine(self) -> Any:
        return await self._operation(Store(SteppedDatabase(self)))


class SteppedDatabase:
    """A database whose transactions make each statement, BEGIN and COMMIT too, when the scheduler says so."""

    exclusive = False
    problem = None

    def __init__(self, stepper: Stepper) -> None:
        self._stepper = stepper
        self.ids = Ids()

    async def write(self, transaction: Transaction[T], *, key: str = "", at: int | None = None) -> T:
        while True:
            try:
                return self._run("BEGIN", transaction, at)
            except pg.DeadlockDetected:  # the real database runs the transaction again, too
                self._stepper.deadlocks += 1
                self._stepper.execute("ROLLBACK")

    async def read(self, transaction: Transaction[T], *, at: int | None = None) -> T:
        return self._run("BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY", transaction, at)

    def _run(self, begin: str, transaction: Transaction[T], at: int | None) -> T:
        self._stepper.execute(begin)
        result = transaction(PostgresTx(self._stepper, self.ids, at or 0))  # type: ignore[arg-type]
        self._stepper.execute("COMMIT")
        return result

    async def close(self) -> None: ...


class Interleaver:
    """Two connections for the operations, and a third one that sees who waits for whom."""

    def __init__(self, url: str) -> None:
        self._connections = [psycopg.connect(url, autocommit=True) for _ in range(2)]
        self._observer = psycopg.connect(url, autocommit=True)
        for connection in self._connections:
            connection.execute("SET deadlock_timeout = '20ms'")

    def __enter__(self) -> Interleaver:
        return self

    def __exit__(self, *_: object) -> None:
        for connection in (*self._connections, self._observer):
            connection.close()

    def run(self, operations: Sequence[Operation], switches: Switches) -> Interleaved:
        """Run both operations in this order of their statements."""
        steppers = [
            Stepper(connection, each) for connection, each in zip(self._connections, operations, strict=True)
        ]
        for stepper in steppers:
            stepper.start()
        for who in switches.order():
            if all(stepper.is_over for stepper in steppers):
                break
            self._step(steppers, who)
        for stepper in steppers:
            stepper.join()
        one, two = steppers
        return Interleaved(
            (one.result, two.result), (one.statements, two.statements), one.deadlocks + two.deadlocks
        )

    def _step(self, steppers: Sequence[Stepper], who: int) -> None:
        """Make one statement of the one whose turn it is, or of the other, if that one is over or waits for it."""
        mine = steppers[who]
        if mine.is_over or not mine.is_paused():
            mine = steppers[1 - who]
        if mine.is_over or not mine.is_paused():
            self._wait_for_any(steppers)
            return
        mine.let_go()
        deadline = time.monotonic() + MAX_SECONDS
        while not mine.is_paused(LOOK_SECONDS):
            if self._is_blocked(mine):
                return
            assert time.monotonic() < deadline, "a statement neither ends nor waits for the other one"

    def _wait_for_any(self, steppers: Sequence[Stepper]) -> None:
        """Both are under way: the server ends a deadlock, or a statement ends now that the other has committed."""
        deadline = time.monotonic() + MAX_SECONDS
        while not any(stepper.is_paused(LOOK_SECONDS) and not stepper.is_over for stepper in steppers):
            if all(stepper.is_over for stepper in steppers):
                return
            assert time.monotonic() < deadline, "both wait for each other for ever"

    def _is_blocked(self, stepper: Stepper) -> bool:
        rows = self._observer.execute("SELECT cardinality(pg_blocking_pids(%s))", [stepper.pid]).fetchall()
        return bool(rows[0][0])

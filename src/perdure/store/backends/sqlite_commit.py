"""Group commit from the event loop: works run on it, and only the sync is waited for in a thread.

A statement of SQLite takes microseconds and hardly ever touches the disk; only a commit does. In a thread, each
statement would let go of the interpreter's lock and then fight the busy event loop for it, which costs more than
the statement. While a commit is under way, further works pile up; the next transaction takes all of them. No
savepoints: a work that raises undoes the whole transaction, and each work of it is then tried alone, so that only
the faulty one fails.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

from perdure.errors import StoreError, Unavailable
from perdure.store.backends.postgres_writer import Job, resolve_futures
from perdure.store.database import Tx

MAX_JOBS_PER_COMMIT = 128  # works in one transaction: the event loop is held up for some milliseconds at most
LOCK_RETRY_SECONDS = 0.02  # seconds until somebody else's lock is tried again
MAX_LOCK_RETRIES = 500  # times


class DatabaseLocked(Unavailable):
    """Another program keeps the database locked."""


class GroupCommitConnection(Protocol):
    """One connection, used by one transaction at a time."""

    def run_batch(self, transactions: Sequence[Callable[[Tx], Any]]) -> list[Any]:
        """Run the works in a transaction and return their results; nothing is kept before `commit`.

        `Locked` and any error of a work: nothing was done. A `StoreError`: the same, or that nobody can know.
        """

    @property
    def has_changes(self) -> bool:
        """Whether there is anything to commit."""

    def commit(self) -> None:
        """After return: what was performed is durable. A `StoreError` as above."""

    def close(self) -> None: ...


class GroupCommitter:
    """Takes works in order, and commits as many at once as have come together."""

    def __init__(self, name: str, connection: GroupCommitConnection) -> None:
        self._loop = asyncio.get_running_loop()
        self._connection = connection
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=name)
        self._jobs: deque[Job] = deque()
        self._single_jobs_left = 0  # so many of those that wait are tried one by one
        self._lock_retries = 0
        self._busy = False  # a transaction is under way, or about to be
        self._closed = False
        self._idle = asyncio.Event()
        self._idle.set()

    def submit(self, transaction: Callable[[Tx], Any]) -> asyncio.Future[Any]:
        if self._closed:
            raise Unavailable("not written: the store is closed")
        future = self._loop.create_future()
        self._jobs.append(Job(transaction, future))
        if not self._busy:
            self._schedule()
        return future

    async def close(self) -> None:
        """Finish what waits, then let go of the connection."""
        self._closed = True
        await self._idle.wait()
        await asyncio.to_thread(self._thread.shutdown)
        self._connection.close()

    def _schedule(self) -> None:
        self._busy = bool(self._jobs)
        if self._busy:
            self._idle.clear()
            self._loop.call_soon(self._run_batch)  # whoever is about to write in this very moment comes along
        else:
            self._idle.set()

    def _run_batch(self) -> None:
        jobs = self._next_batch()
        try:
            results = self._connection.run_batch([job.work for job in jobs])
        except DatabaseLocked as error:
            self._wait_for_lock(jobs, error)
        except StoreError as error:
            self._finish(jobs, error)
        except BaseException as error:  # noqa: BLE001 reason: whatever a work raises goes to whoever awaits it
            self._retry_singly(jobs, error)
        else:
            self._commit(jobs, results)

    def _next_batch(self) -> list[Job]:
        if self._single_jobs_left:
            self._single_jobs_left -= 1
            return [self._jobs.popleft()]
        return [self._jobs.popleft() for _ in range(min(len(self._jobs), MAX_JOBS_PER_COMMIT))]

    def _put_back(self, jobs: list[Job]) -> None:
        self._jobs.extendleft(reversed(jobs))

    def _wait_for_lock(self, jobs: list[Job], error: DatabaseLocked) -> None:
        self._lock_retries += 1
        if self._lock_retries > MAX_LOCK_RETRIES:
            self._lock_retries = 0
            self._finish(jobs, error)
            return
        self._single_jobs_left += len(jobs) == 1
        self._put_back(jobs)
        self._loop.call_later(LOCK_RETRY_SECONDS, self._run_batch)

    def _retry_singly(self, jobs: list[Job], error: BaseException) -> None:
        if len(jobs) == 1:
            self._finish(jobs, error)
        else:
            self._single_jobs_left = len(jobs)
            self._put_back(jobs)
            self._run_batch()

    def _commit(self, jobs: list[Job], results: list[Any]) -> None:
        self._lock_retries = 0
        for job, result in zip(jobs, results, strict=True):
            job.result = result
        if self._connection.has_changes:
            commit = self._loop.run_in_executor(self._thread, self._connection.commit)
            commit.add_done_callback(lambda done: self._finish(jobs, done.exception()))
        else:
            self._finish(jobs, self._commit_unchanged())

    def _commit_unchanged(self) -> BaseException | None:
        """Commit what has changed nothing; what it raised, for whoever awaits it."""
        try:
            self._connection.commit()
        except BaseException as error:  # noqa: BLE001 reason: whatever it raises goes to whoever awaits it
            return error
        return None

    def _finish(self, jobs: list[Job], error: BaseException | None) -> None:
        for job in jobs:
            job.error = error
        resolve_futures(jobs)
        self._schedule()

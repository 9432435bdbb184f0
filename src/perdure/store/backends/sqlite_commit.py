"""Group commit for SQLite: jobs run on the event loop, and only the commit's sync runs in a thread.

A statement of SQLite takes microseconds and hardly ever touches the disk; only a commit does. In a thread, each
statement would release the interpreter's lock and then compete with the busy event loop for it, which costs more
than the statement. While a commit is under way, further jobs queue up; the next database transaction takes all of
them. There are no savepoints: a job that raises rolls back the whole batch, and each job of the batch is then run
alone, so that only the faulty one fails.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

from perdure.errors import StoreError, Unavailable
from perdure.store.backends.jobs import Job, resolve_futures
from perdure.store.database import Tx

MAX_JOBS_PER_COMMIT = 128  # a batch blocks the event loop for some milliseconds at most
LOCK_RETRY_SECONDS = 0.02  # pause before a batch is run again that met another program's lock
MAX_LOCK_RETRIES = 500


class DatabaseLocked(Unavailable):
    """Another program keeps the database locked."""


class GroupCommitConnection(Protocol):
    """One connection, used by one database transaction at a time."""

    def run_batch(self, jobs: Sequence[Job]) -> list[Any]:
        """Run the jobs in one database transaction and return their results; nothing is kept before `commit`.

        `DatabaseLocked` and any error of a job mean that nothing was written. A `StoreError` means the same, or
        that nobody can know.
        """

    @property
    def has_changes(self) -> bool:
        """Whether there is anything to commit."""

    def commit(self) -> None:
        """After return: what the batch wrote is durable. A `StoreError` as above."""

    def close(self) -> None: ...


class GroupCommitter:
    """Runs jobs in the order of their submission, and commits all that wait in one batch."""

    def __init__(self, name: str, connection: GroupCommitConnection) -> None:
        self._loop = asyncio.get_running_loop()
        self._connection = connection
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=name)
        self._jobs: deque[Job] = deque()
        self._single_jobs_left = 0  # jobs at the head of the queue that are run one by one, after a failed batch
        self._lock_retries = 0
        self._busy = False  # a batch is under way, or scheduled
        self._closed = False
        self._idle = asyncio.Event()
        self._idle.set()

    def submit(self, transaction: Callable[[Tx], Any], time: int) -> asyncio.Future[Any]:
        if self._closed:
            raise Unavailable("not written: the store is closed")
        future = self._loop.create_future()
        self._jobs.append(Job(transaction, time, future))
        if not self._busy:
            self._schedule()
        return future

    async def close(self) -> None:
        """Run the jobs that are queued, then close the connection."""
        self._closed = True
        await self._idle.wait()
        await asyncio.to_thread(self._thread.shutdown)
        self._connection.close()

    def _schedule(self) -> None:
        self._busy = bool(self._jobs)
        if self._busy:
            self._idle.clear()
            self._loop.call_soon(self._run_batch)  # jobs that are submitted in this tick join the batch
        else:
            self._idle.set()

    def _run_batch(self) -> None:
        jobs = self._next_batch()
        try:
            results = self._connection.run_batch(jobs)
        except DatabaseLocked as error:
            self._wait_for_lock(jobs, error)
        except StoreError as error:
            self._finish(jobs, error)
        except BaseException as error:  # noqa: BLE001 reason: what a job raises goes to whoever awaits it
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
        """Commit a batch that changed nothing; return what the commit raised, for whoever awaits it."""
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

"""Group commit for PostgreSQL: a writer thread commits many submitted jobs in one database transaction.

The event loop only puts a job in a queue and awaits its future. While the thread waits for the disk, further jobs
queue up; the next database transaction takes all of them. There are no savepoints: a job that raises rolls back
the whole batch, and each job of the batch is then run alone, so that only the faulty one fails.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from perdure.errors import StoreError, Unavailable
from perdure.store.backends.jobs import Job, resolve_futures
from perdure.store.database import Tx

MAX_JOBS_PER_COMMIT = 1024


class WriterConnection(Protocol):
    """One connection, used by the writer's thread alone."""

    def commit_batch(self, jobs: Sequence[Job]) -> list[Any]:
        """Run the jobs in one durable database transaction and return their results.

        A `StoreError` means that nothing was written, or that nobody can know. Any other error was raised by
        a job, and nothing was written.
        """

    def close(self) -> None: ...


class WriterThread:
    """Runs jobs in the order of their submission, and commits all that wait in one batch."""

    def __init__(self, name: str, connection: WriterConnection) -> None:
        self._loop = asyncio.get_running_loop()
        self._queue: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._connection = connection
        self._closed = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def submit(self, transaction: Callable[[Tx], Any], time: int) -> asyncio.Future[Any]:
        if self._closed:
            raise Unavailable("not written: the store is closed")
        future = self._loop.create_future()
        self._queue.put(Job(transaction, time, future))
        return future

    async def close(self) -> None:
        """Run the jobs that are queued, then end the thread."""
        self._closed = True
        self._queue.put(None)
        await asyncio.to_thread(self._thread.join)

    def _run(self) -> None:
        try:
            while jobs := self._next_jobs():
                _commit_jobs(self._connection, jobs)
                self._loop.call_soon_threadsafe(resolve_futures, jobs)
        finally:
            self._connection.close()

    def _next_jobs(self) -> list[Job]:
        """Wait for a job, then take all that are queued behind it. An empty list ends the thread."""
        jobs: list[Job] = []
        job = self._queue.get()
        while job is not None:
            jobs.append(job)
            if len(jobs) == MAX_JOBS_PER_COMMIT or self._queue.empty():
                return jobs
            job = self._queue.get()
        if jobs:
            self._queue.put(None)
        return jobs


def _commit_jobs(connection: WriterConnection, jobs: list[Job]) -> None:
    try:
        results = connection.commit_batch(jobs)
    except StoreError as error:
        for job in jobs:
            job.error = error
    except BaseException as error:  # noqa: BLE001 reason: what a job raises goes to whoever awaits it
        if len(jobs) == 1:
            jobs[0].error = error
        else:
            for job in jobs:
                _commit_jobs(connection, [job])
    else:
        for job, result in zip(jobs, results, strict=True):
            job.result = result

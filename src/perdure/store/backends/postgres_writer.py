"""A writer thread with group commit: many small transactions, one sync.

The event loop only puts work in a queue and awaits a future. While the thread waits for the disk, further work
piles up; the next transaction takes all of it. No savepoints: a work that raises undoes the whole transaction,
and each work of it is then tried alone, so that only the faulty one fails.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol, TypeVar

from perdure.errors import StoreError, Unavailable
from perdure.store.database import Tx

T = TypeVar("T")

MAX_JOBS_PER_COMMIT = 1024


class WriterConnection(Protocol):
    """One connection, used by the writer's thread alone."""

    def commit_batch(self, transactions: Sequence[Callable[[Tx], Any]]) -> list[Any]:
        """Run the works in one durable transaction and return their results.

        A `StoreError` means that none of them was done, or that nobody can know. Any other error is that
        of a work, and nothing was done.
        """

    def close(self) -> None: ...


class Job:
    """A work, who awaits it, and what came of it."""

    __slots__ = ("error", "future", "result", "work")

    def __init__(self, transaction: Callable[[Tx], Any], future: asyncio.Future[Any]) -> None:
        self.work = transaction
        self.future = future
        self.result: Any = None
        self.error: BaseException | None = None


class ReaderPool:
    """A few threads that read, each with a connection of its own."""

    def __init__(self, count: int) -> None:
        self._threads = ThreadPoolExecutor(count, thread_name_prefix="perdure-reader")
        self._closed = False

    async def submit(self, read: Callable[[], T]) -> T:
        if self._closed:
            raise Unavailable("not read: the store is closed")
        return await asyncio.get_running_loop().run_in_executor(self._threads, read)

    async def close(self) -> None:
        self._closed = True
        await asyncio.to_thread(self._threads.shutdown)


class WriterThread:
    """Takes works in order, and commits as many at once as have come together."""

    def __init__(self, name: str, connection: WriterConnection) -> None:
        self._loop = asyncio.get_running_loop()
        self._queue: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._connection = connection
        self._closed = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def submit(self, transaction: Callable[[Tx], Any]) -> asyncio.Future[Any]:
        if self._closed:
            raise Unavailable("not written: the store is closed")
        future = self._loop.create_future()
        self._queue.put(Job(transaction, future))
        return future

    async def close(self) -> None:
        """Finish what is queued, then end the thread."""
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
        """Wait for a job, then take all that wait behind it. Empty means: the end."""
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
        results = connection.commit_batch([job.work for job in jobs])
    except StoreError as error:
        for job in jobs:
            job.error = error
    except BaseException as error:  # noqa: BLE001 reason: whatever a work raises goes to whoever awaits it
        if len(jobs) == 1:
            jobs[0].error = error
        else:
            for job in jobs:
                _commit_jobs(connection, [job])
    else:
        for job, result in zip(jobs, results, strict=True):
            job.result = result


def resolve_futures(jobs: list[Job]) -> None:
    """Tell those who wait."""
    for job in jobs:
        if job.future.done():
            continue  # its caller was cancelled meanwhile
        if job.error is None:
            job.future.set_result(job.result)
        elif isinstance(job.error, StopIteration):  # no future takes one
            job.future.set_exception(RuntimeError(f"StopIteration: {job.error}"))
        else:
            job.future.set_exception(job.error)

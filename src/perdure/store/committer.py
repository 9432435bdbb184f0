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
from perdure.store.database import Tx
from perdure.store.writer import Job, settle

MOST_AT_ONCE = 128  # works in one transaction: the event loop is held up for some milliseconds at most
RETRY = 0.02  # seconds until somebody else's lock is tried again
PATIENCE = 500  # times


class Locked(Unavailable):
    """Another program keeps the database locked."""


class Link(Protocol):
    """One connection, used by one transaction at a time."""

    def perform(self, works: Sequence[Callable[[Tx], Any]]) -> list[Any]:
        """Run the works in a transaction and return their results; nothing is kept before `commit`.

        `Locked` and any error of a work: nothing was done. A `StoreError`: the same, or that nobody can know.
        """

    @property
    def changed(self) -> bool:
        """Whether there is anything to commit."""

    def commit(self) -> None:
        """After return: what was performed is durable. A `StoreError` as above."""

    def close(self) -> None: ...


class Committer:
    """Takes works in order, and commits as many at once as have come together."""

    def __init__(self, name: str, link: Link) -> None:
        self._loop = asyncio.get_running_loop()
        self._link = link
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=name)
        self._waiting: deque[Job] = deque()
        self._alone = 0  # so many of those that wait are tried one by one
        self._tries = 0
        self._busy = False  # a transaction is under way, or about to be
        self._closed = False
        self._idle = asyncio.Event()
        self._idle.set()

    def submit(self, work: Callable[[Tx], Any]) -> asyncio.Future[Any]:
        if self._closed:
            raise Unavailable("not written: the store is closed")
        future = self._loop.create_future()
        self._waiting.append(Job(work, future))
        if not self._busy:
            self._go_on()
        return future

    async def close(self) -> None:
        """Finish what waits, then let go of the connection."""
        self._closed = True
        await self._idle.wait()
        await asyncio.to_thread(self._thread.shutdown)
        self._link.close()

    def _go_on(self) -> None:
        self._busy = bool(self._waiting)
        if self._busy:
            self._idle.clear()
            self._loop.call_soon(self._begin)  # whoever is about to write in this very moment comes along
        else:
            self._idle.set()

    def _begin(self) -> None:
        jobs = self._take()
        try:
            results = self._link.perform([job.work for job in jobs])
        except Locked as error:
            self._wait_for_lock(jobs, error)
        except StoreError as error:
            self._end(jobs, error)
        except BaseException as error:  # noqa: BLE001 reason: whatever a work raises goes to whoever awaits it
            self._separate(jobs, error)
        else:
            self._commit(jobs, results)

    def _take(self) -> list[Job]:
        if self._alone:
            self._alone -= 1
            return [self._waiting.popleft()]
        return [self._waiting.popleft() for _ in range(min(len(self._waiting), MOST_AT_ONCE))]

    def _put_back(self, jobs: list[Job]) -> None:
        self._waiting.extendleft(reversed(jobs))

    def _wait_for_lock(self, jobs: list[Job], error: Locked) -> None:
        self._tries += 1
        if self._tries > PATIENCE:
            self._tries = 0
            self._end(jobs, error)
            return
        self._alone += len(jobs) == 1
        self._put_back(jobs)
        self._loop.call_later(RETRY, self._begin)

    def _separate(self, jobs: list[Job], error: BaseException) -> None:
        if len(jobs) == 1:
            self._end(jobs, error)
        else:
            self._alone = len(jobs)
            self._put_back(jobs)
            self._begin()

    def _commit(self, jobs: list[Job], results: list[Any]) -> None:
        self._tries = 0
        for job, result in zip(jobs, results, strict=True):
            job.result = result
        if self._link.changed:
            commit = self._loop.run_in_executor(self._thread, self._link.commit)
            commit.add_done_callback(lambda done: self._end(jobs, done.exception()))
        else:
            self._end(jobs, self._committed())

    def _committed(self) -> BaseException | None:
        """Commit what has changed nothing; what it raised, for whoever awaits it."""
        try:
            self._link.commit()
        except BaseException as error:  # noqa: BLE001 reason: whatever it raises goes to whoever awaits it
            return error
        return None

    def _end(self, jobs: list[Job], error: BaseException | None) -> None:
        for job in jobs:
            job.error = error
        settle(jobs)
        self._go_on()

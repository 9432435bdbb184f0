"""Jobs: submitted transactions with the futures of their callers, and the threads that read."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from perdure.errors import Unavailable
from perdure.store.database import Tx

T = TypeVar("T")


class Job:
    """A submitted transaction, its time, the future that its caller awaits, and its result or error."""

    __slots__ = ("error", "future", "result", "time", "transaction")

    def __init__(self, transaction: Callable[[Tx], Any], time: int, future: asyncio.Future[Any]) -> None:
        self.transaction = transaction
        self.time = time
        self.future = future
        self.result: Any = None
        self.error: BaseException | None = None


def resolve_futures(jobs: list[Job]) -> None:
    """Give each job's result or error to its caller."""
    for job in jobs:
        if job.future.done():
            continue  # its caller was cancelled meanwhile
        if job.error is None:
            job.future.set_result(job.result)
        elif isinstance(job.error, StopIteration):  # no future takes one
            job.future.set_exception(RuntimeError(f"StopIteration: {job.error}"))
        else:
            job.future.set_exception(job.error)


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

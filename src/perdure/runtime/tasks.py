"""Tasks of a running gateway: whatever one of them raises is logged, and ends that task alone."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from traceback import extract_tb
from typing import Any

from perdure.containment import contain
from perdure.errors import Unavailable
from perdure.logs import Log
from perdure.runtime.backoff import MAX_DELAY_SECONDS, Backoff
from perdure.runtime.wakeups import STORE_RETRY_SECONDS

log = Log("tasks")

MAX_DEFECTS = 3  # of an operation that fails though the store is available


class FailureLog:
    """Logs contained failures: an outage in one line, a defect with its traceback, once per location."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._known: set[str] = set()

    def report(self, event: str, error: BaseException, **fields: Any) -> None:
        if isinstance(error, Unavailable):
            self._log.warning(event, **fields, error=error.message)
        elif (location := defect_location(error)) in self._known:
            self._log.warning(event, **fields, error=repr(error))
        else:
            self._known.add(location)
            self._log.crash(event, error, **fields)

    async def contain(self, event: str, operation: Awaitable[object], **fields: Any) -> bool:
        """Await the operation; whatever it raises is logged as this event. Returns whether it raised nothing."""
        return await contain(operation, lambda error: self.report(event, error, **fields))

    async def delay_after(
        self, event: str, operation: Awaitable[object], backoff: Backoff, name: str = "", **fields: Any
    ) -> float:
        """Await the operation. Returns the seconds until the next try, or 0.0 if it raised nothing.

        Only defects make the delay grow: nobody waits longer than needed for a store that was unavailable.
        """
        raised: list[BaseException] = []

        def report(error: BaseException) -> None:
            self.report(event, error, **fields)
            raised.append(error)

        if await contain(operation, report):
            backoff.succeeded(name)
            return 0.0
        return STORE_RETRY_SECONDS if isinstance(raised[0], Unavailable) else backoff.failed(name)

    async def retry(self, event: str, operation: Callable[[], Awaitable[object]]) -> bool:
        """Repeat the operation until it succeeds. Outages are waited out; after three defects it is given up."""
        backoff = Backoff()
        while backoff.failures() < MAX_DEFECTS:
            delay = await self.delay_after(event, operation(), backoff)
            if not delay:
                return True
            await asyncio.sleep(delay)
        return False


def defect_location(error: BaseException) -> str:
    """Identifies a defect by its type and where it was raised; its text may differ each time."""
    frames = extract_tb(error.__traceback__)
    return f"{type(error).__name__} {frames[-1].filename}:{frames[-1].lineno}" if frames else repr(error)


class GatewayTasks:
    """Makes the tasks of a gateway in its task group, each behind a boundary of its own."""

    def __init__(self, group: asyncio.TaskGroup) -> None:
        self._group = group
        self._failures = FailureLog(log)

    def create_task(self, coroutine: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Start a task. Whatever it raises is logged, and ends this task alone.

        `RuntimeError`: the gateway is ending, and no task begins any more.
        """
        task = self._start(self._run_contained(coroutine), coroutine)
        task.add_done_callback(lambda _: coroutine.close())  # it may have been cancelled before it could begin
        return task

    def run_loop(self, loop: Callable[[], Coroutine[Any, Any, None]]) -> asyncio.Task[None]:
        """Start a loop that runs as long as the gateway; after a failure and a delay it is started again."""
        return self._start(self._repeat_loop(loop))

    def _start(self, *coroutines: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Start a task for the first coroutine, which awaits the others."""
        try:
            return self._group.create_task(coroutines[0])
        except RuntimeError:
            for coroutine in coroutines:
                coroutine.close()
            raise

    async def _run_contained(self, coroutine: Coroutine[Any, Any, None]) -> None:
        await self._failures.contain("task_failed", coroutine, task=_coroutine_name(coroutine))

    async def _repeat_loop(self, loop: Callable[[], Coroutine[Any, Any, None]]) -> None:
        backoff, clock = Backoff(), asyncio.get_running_loop().time
        while True:
            since, begun = clock(), loop()
            if await self._failures.contain("loop_failed", begun, loop=_coroutine_name(begun)):
                return
            if clock() - since > MAX_DELAY_SECONDS:
                backoff.succeeded()
            await asyncio.sleep(backoff.failed())


def _coroutine_name(coroutine: Coroutine[Any, Any, None]) -> str:
    return str(getattr(coroutine, "__qualname__", coroutine))


class TaskSet:
    """Tasks and loops of a gateway that are cancelled together."""

    def __init__(self, tasks: GatewayTasks) -> None:
        self._tasks = tasks
        self._started: list[asyncio.Task[None]] = []

    def create_task(self, coroutine: Coroutine[Any, Any, None]) -> None:
        self._started.append(self._tasks.create_task(coroutine))

    def run_loop(self, loop: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._started.append(self._tasks.run_loop(loop))

    def cancel_all(self) -> None:
        for task in self._started:
            task.cancel()

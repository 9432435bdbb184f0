"""The tasks of a running gateway. Whatever one of them raises is logged and ends that task alone."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from traceback import extract_tb
from typing import Any

from perdure.boundary import contain
from perdure.errors import Unavailable
from perdure.logs import Log
from perdure.runtime.bell import STORE_PAUSE

log = Log("tasks")

FIRST_PAUSE = 0.5  # seconds until what failed is tried again
LONGEST_PAUSE = 60.0
TRIES = 3  # of what fails though the store is there


class Pauses:
    """How long to wait before each thing is tried again: twice as long with every failure in a row."""

    def __init__(self) -> None:
        self._failures: dict[str, int] = {}

    def after_failure(self, name: str = "") -> float:
        """Seconds to wait, now that this has failed once more."""
        count = self._failures[name] = self._failures.get(name, 0) + 1
        return min(LONGEST_PAUSE, FIRST_PAUSE * float(2 ** min(count - 1, 10)))

    def failures(self, name: str = "") -> int:
        """How often this has failed in a row."""
        return self._failures.get(name, 0)

    def clear(self, name: str = "") -> None:
        """This went well."""
        self._failures.pop(name, None)


class Failures:
    """Logs what boundaries have contained: an outage in one line, a defect with its traceback, once per place."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._known: set[str] = set()

    def report(self, event: str, error: BaseException, **fields: Any) -> None:
        if isinstance(error, Unavailable):
            self._log.warning(event, **fields, error=error.message)
        elif (place := place_of(error)) in self._known:
            self._log.warning(event, **fields, error=repr(error))
        else:
            self._known.add(place)
            self._log.crash(event, error, **fields)

    async def contain(self, event: str, work: Awaitable[object], **fields: Any) -> bool:
        """Await the work; whatever it raises is logged as this event. Returns whether it raised nothing."""
        return await contain(work, lambda error: self.report(event, error, **fields))

    async def pause_after(
        self, event: str, work: Awaitable[object], pauses: Pauses, name: str = "", **fields: Any
    ) -> float:
        """Await the work; seconds to wait before it is tried again, or 0.0 if it raised nothing.

        The pauses grow with defects alone: when a store that was away is back, nobody waits for longer.
        """
        raised: list[BaseException] = []

        def report(error: BaseException) -> None:
            self.report(event, error, **fields)
            raised.append(error)

        if await contain(work, report):
            pauses.clear(name)
            return 0.0
        return STORE_PAUSE if isinstance(raised[0], Unavailable) else pauses.after_failure(name)

    async def retry(self, event: str, work: Callable[[], Awaitable[object]]) -> bool:
        """Do the work, again after each failure. An outage is waited out; after three defects it is left out."""
        pauses = Pauses()
        while pauses.failures() < TRIES:
            pause = await self.pause_after(event, work(), pauses)
            if not pause:
                return True
            await asyncio.sleep(pause)
        return False


def place_of(error: BaseException) -> str:
    """What tells one defect from another: its kind, and where it was raised; its words may differ each time."""
    frames = extract_tb(error.__traceback__)
    return f"{type(error).__name__} {frames[-1].filename}:{frames[-1].lineno}" if frames else repr(error)


class Tasks:
    """Makes the tasks of a gateway in its task group, each behind a boundary of its own."""

    def __init__(self, group: asyncio.TaskGroup) -> None:
        self._group = group
        self._failures = Failures(log)

    def create_task(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Begin the work. Whatever it raises ends it alone, and is logged."""
        return self._begin(work, self._run(work))

    def repeat(self, work: Callable[[], Coroutine[Any, Any, None]]) -> asyncio.Task[None]:
        """Begin work that goes on while the gateway runs: after a failure and a pause, it begins anew."""
        return self._group.create_task(self._repeat(work))

    def _begin(self, work: Coroutine[Any, Any, None], contained: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = self._group.create_task(contained)
        task.add_done_callback(lambda _: work.close())  # it may have been cancelled before it could begin
        return task

    async def _run(self, work: Coroutine[Any, Any, None]) -> None:
        await self._failures.contain("task_failed", work, task=_name(work))

    async def _repeat(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        pauses, clock = Pauses(), asyncio.get_running_loop().time
        while True:
            since, begun = clock(), work()
            if await self._failures.contain("loop_failed", begun, loop=_name(begun)):
                return
            if clock() - since > LONGEST_PAUSE:
                pauses.clear()
            await asyncio.sleep(pauses.after_failure())


def _name(work: Coroutine[Any, Any, None]) -> str:
    return str(getattr(work, "__qualname__", work))

"""Boundaries: whatever a piece of work raises ends that piece of work, and nothing else.

A piece of work is a turn, an event, a reply, a command, a platform, a round of a loop. Some exceptions go further
than that: `asyncio` hands `SystemExit` and `KeyboardInterrupt` on to the event loop, and a task group ends
all its tasks with the first that fails. Without a boundary, one tool that calls `sys.exit()` would end the gateway
for everybody. Only what `ENDS_GATEWAY` names may do that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Generator
from typing import Any, TypeVar

from perdure.errors import ExitRefused, Killed, RunEnded, StoreBroken

E = TypeVar("E", bound=BaseException)

FATAL_ERRORS = (StoreBroken, RunEnded, Killed)

ReportError = Callable[[BaseException], None]


async def contain(awaitable: Awaitable[object], report: ReportError) -> bool:
    """Await the work; hand whatever it raises to `report`. Returns whether it raised nothing.

    A broken store still ends the gateway, and who cancels the current task still cancels it.
    """
    task = asyncio.current_task()
    try:
        await awaitable
    except BaseException as error:  # noqa: BLE001 reason: this is the boundary for every class of exception
        raise_uncontained(error, task)
        report(error)
        return False
    return True


def raise_uncontained(error: BaseException, task: asyncio.Task[Any] | None = None) -> None:
    """Raise what no boundary holds: the end of the gateway, and the cancellation of the task that we are in.

    `task` is the one that began the work, if the work may outlive it: then the error is no error of the work, but
    says that its coroutine is being closed.
    """
    end = find_error(error, *FATAL_ERRORS)
    if end is not None:
        raise end
    if isinstance(error, GeneratorExit) and task is not None and task is not _current_task():
        raise error
    if isinstance(error, asyncio.CancelledError) and _is_cancelled():
        raise error


def _is_cancelled() -> bool:
    """Whether somebody has cancelled the current task. Work that raises `CancelledError` by itself has not.

    Asked of a `CancelledError` alone: a task group that failed inside leaves its mark on the task as well.
    """
    task = _current_task()
    return task is not None and task.cancelling() > 0


def find_error(error: BaseException, *kinds: type[E]) -> E | None:
    """The first error of these kinds: the error itself, or one of those that a group bundles."""
    if isinstance(error, kinds):
        return error
    if isinstance(error, BaseExceptionGroup):
        return next(
            (found for inner in error.exceptions if (found := find_error(inner, *kinds)) is not None), None
        )
    return None


def _current_task() -> asyncio.Task[Any] | None:
    try:
        return asyncio.current_task()
    except RuntimeError:  # no event loop runs
        return None


# ── tasks that others make ──────────────────────────────────────────────────────────────────────────────────


def refuse_task_exits(loop: asyncio.AbstractEventLoop) -> Callable[[], None]:
    """From now on no task of the loop ends the process: who awaits it gets `ExitRefused`. Returns the undoing.

    That holds for the tasks of agents, tools, adapters and libraries, too.
    """
    before: Any = loop.get_task_factory()

    def make(loop: asyncio.AbstractEventLoop, work: Any, **options: Any) -> asyncio.Future[Any]:
        kept = _ExitGuard(work) if asyncio.iscoroutine(work) else work
        if before is None:
            return asyncio.Task(kept, loop=loop, **options)
        made: asyncio.Future[Any] = before(loop, kept, **options)
        return made

    loop.set_task_factory(make)
    return lambda: loop.set_task_factory(before)


class _ExitGuard(Coroutine[Any, Any, Any]):
    """A coroutine that says otherwise what would make its task end the event loop."""

    def __init__(self, coroutine: Coroutine[Any, Any, Any]) -> None:
        self._coroutine = coroutine

    def send(self, value: Any) -> Any:
        try:
            return self._coroutine.send(value)
        except (SystemExit, KeyboardInterrupt) as error:
            raise _exit_refused(error) from error

    def throw(self, *error: Any) -> Any:
        try:
            return self._coroutine.throw(*error)
        except (SystemExit, KeyboardInterrupt) as raised:
            raise _exit_refused(raised) from raised

    def close(self) -> None:
        self._coroutine.close()

    def __await__(self) -> Generator[Any, Any, Any]:
        return self._coroutine.__await__()

    def __getattr__(self, name: str) -> Any:  # what debuggers and libraries ask of a coroutine
        return getattr(self._coroutine, name)


def _exit_refused(error: BaseException) -> ExitRefused:
    return ExitRefused(f"a task wanted to end the process with {type(error).__name__}: {error}")

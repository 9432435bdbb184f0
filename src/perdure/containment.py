"""Boundaries for exceptions: an error ends the turn, event, reply or command that raised it, and nothing else.

Some exceptions reach further: `asyncio` passes `SystemExit` and `KeyboardInterrupt` on to the event loop, and a
task group ends all its tasks with the first that fails. Without a boundary, one tool that calls `sys.exit()` would
end the gateway for everybody. Only the errors in `FATAL_ERRORS` may do that.
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
    """Await something; pass any exception to `report`. Returns whether it raised nothing.

    A fatal error still ends the gateway, and a cancellation of the current task still cancels it.
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
    """Raise an error that no boundary holds: a fatal one, or the cancellation of the current task.

    `task` is the task that began to await. A `GeneratorExit` in another task means that the coroutine is being
    closed, and is raised too.
    """
    end = find_error(error, *FATAL_ERRORS)
    if end is not None:
        raise end
    if isinstance(error, GeneratorExit) and task is not None and task is not _current_task():
        raise error
    if isinstance(error, asyncio.CancelledError) and _is_cancelled():
        raise error


def _is_cancelled() -> bool:
    """Whether somebody has cancelled the current task, rather than code that raises `CancelledError` itself.

    Only meaningful for a `CancelledError`: a task group that failed inside also counts as a cancellation.
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


# ── tasks of agents, tools and libraries ────────────────────────────────────────────────────────────────────


def refuse_task_exits(loop: asyncio.AbstractEventLoop) -> Callable[[], None]:
    """Let no task of the loop end the process: its `SystemExit` becomes `ExitRefused`. Returns the undo.

    This covers the tasks of agents, tools, adapters and libraries, too. Several gateways in one loop share one
    factory: the last undo restores the factory of before.
    """
    found = loop.get_task_factory()
    factory = found if isinstance(found, _GuardingFactory) else _GuardingFactory(found)
    factory.users += 1
    loop.set_task_factory(factory)

    def undo() -> None:
        factory.users -= 1
        if factory.users == 0 and loop.get_task_factory() is factory:
            loop.set_task_factory(factory.before)

    return undo


class _GuardingFactory:
    """A task factory that guards each coroutine, and leaves the rest to the factory of before."""

    def __init__(self, before: Any) -> None:
        self.before = before
        self.users = 0

    def __call__(self, loop: asyncio.AbstractEventLoop, work: Any, **options: Any) -> asyncio.Future[Any]:
        guarded = _ExitGuard(work) if asyncio.iscoroutine(work) else work
        if self.before is None:
            return asyncio.Task(guarded, loop=loop, **options)
        made: asyncio.Future[Any] = self.before(loop, guarded, **options)
        return made


class _ExitGuard(Coroutine[Any, Any, Any]):
    """A coroutine whose `SystemExit` and `KeyboardInterrupt` become `ExitRefused`."""

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

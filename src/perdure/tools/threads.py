"""Runs a blocking function in a thread of its own."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

T = TypeVar("T")


async def run_in_thread(function: Callable[[], T]) -> T:
    """Run a blocking function in a thread of its own, and return its result.

    `asyncio.to_thread` shares a few threads, so that a few tools that hang would stop all others, and the end of
    the process waits for them. A thread cannot be ended: if the caller is cancelled, the function runs to its end,
    and its result is dropped.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()
    context = contextvars.copy_context()

    def run() -> None:
        try:
            result = context.run(function)
        except BaseException as error:  # noqa: BLE001 reason: it is raised in the caller
            settle = _error_setter(done, error)
        else:
            settle = _result_setter(done, result)
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(settle)

    threading.Thread(target=run, name="perdure-tool", daemon=True).start()
    return await done


def _result_setter(done: asyncio.Future[T], result: T) -> Callable[[], None]:
    return lambda: None if done.done() else done.set_result(result)


def _error_setter(done: asyncio.Future[T], error: BaseException) -> Callable[[], None]:
    if isinstance(error, StopIteration):  # a future refuses it
        error = RuntimeError(f"StopIteration: {error}")
    return lambda: None if done.done() else done.set_exception(error)

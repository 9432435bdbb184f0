"""Runs functions that block in a thread, and jobs that might never end in a process, which the kernel ends."""

from __future__ import annotations

import asyncio
import contextvars
import signal
import sys
import threading
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from msgspec import Struct


class JobResult(Struct, frozen=True):
    """The output of a program, and whether it ended by itself."""

    output: bytes
    error: str = ""  # the last line of its standard error, if it failed
    timed_out: bool = False  # ended by the kernel after its time


async def run_job(program: str, input_bytes: bytes, *arguments: str, pass_fds: Sequence[int] = ()) -> JobResult:
    """Run a program beside this module to its end; it is killed when the caller is cancelled.

    It inherits the descriptors in `pass_fds`, under the same numbers.
    """
    path = Path(__file__).with_name(program)
    command = (sys.executable, "-ISWignore", str(path), *arguments)
    process = await asyncio.create_subprocess_exec(
        *command, stdin=PIPE, stdout=PIPE, stderr=PIPE, pass_fds=pass_fds
    )
    try:
        output, errors = await process.communicate(input_bytes)
    finally:
        await _end(process)
    lines = errors.decode(errors="replace").strip().splitlines()
    failed = process.returncode not in (0, -signal.SIGALRM)
    error = (lines[-1] if lines else f"exit code {process.returncode}") if failed else ""
    return JobResult(output, error, process.returncode == -signal.SIGALRM)


async def _end(process: Process) -> None:
    if process.returncode is None:
        process.kill()
        await process.wait()


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

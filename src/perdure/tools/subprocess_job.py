"""Runs a job that might never end in a process of its own, which the kernel ends in time.

A hostile regular expression or page of HTML can take hours, and a thread cannot be stopped. The programs for such
jobs are the files beside this module. They import nothing but the standard library, so that they start at once,
and call `signal.setitimer` first, so that they end in time even when the gateway is killed.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Sequence
from pathlib import Path

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

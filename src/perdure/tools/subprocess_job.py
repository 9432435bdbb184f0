"""Work that might never end, in a process of its own that the kernel ends.

A regular expression or a page of HTML can be made to take hours, and a thread cannot be stopped. The programs
for such work stand beside this file. They import nothing but the standard library, so that they start at once,
and begin with `signal.setitimer`, so that they end in time even when the gateway is killed.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from asyncio.subprocess import PIPE, Process
from pathlib import Path

from msgspec import Struct


class JobResult(Struct, frozen=True):
    """What a program wrote, and whether it came to its end."""

    output: bytes
    error: str = ""  # the end of what it said on standard error, if it failed
    timed_out: bool = False  # ended by the kernel, because its time was up


async def run_job(program: str, input_bytes: bytes, *arguments: str) -> JobResult:
    """Run one of our programs to its end; it is killed when nobody waits for it any more."""
    place = Path(__file__).with_name(program)
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-ISWignore", str(place), *arguments, stdin=PIPE, stdout=PIPE, stderr=PIPE
    )
    try:
        output, said = await process.communicate(input_bytes)
    finally:
        await _end(process)
    lines = said.decode(errors="replace").strip().splitlines()
    failed = process.returncode not in (0, -signal.SIGALRM)
    error = (lines[-1] if lines else f"exit code {process.returncode}") if failed else ""
    return JobResult(output, error, process.returncode == -signal.SIGALRM)


async def _end(process: Process) -> None:
    if process.returncode is None:
        process.kill()
        await process.wait()

"""A program that starts commands as a gateway would, and then waits to be killed or for the end of its input.

Standard input has one line of JSON: the root folder, and the launch specs by name. It answers `begun`, or for
each command that was not started a line with its name and the reason; at the end of its input it looks at each
once more, tells how many dead processes were left to it, and ends.
"""

from __future__ import annotations

import argparse
import asyncio
import ctypes
import json
import os
import resource
import signal
import sys
from pathlib import Path
from typing import Any

from perdure.errors import ToolFailed
from perdure.tools import keeper
from support.process_state import child_pids, state_and_parent

_PR_SET_CHILD_SUBREAPER = 36


async def start_all(root: Path, orders: dict[str, dict[str, Any]]) -> None:
    begun = (keeper.start_command(root / name, keeper.LaunchSpec(**order)) for name, order in orders.items())
    for name, problem in zip(orders, await asyncio.gather(*begun, return_exceptions=True), strict=True):
        if isinstance(problem, ToolFailed):
            print(name, problem, flush=True)
        elif problem is not None:
            raise problem
    print("begun", flush=True)


def dead_children() -> list[int]:
    """Return the children of this process that have ended and were not reaped."""
    return [pid for pid in child_pids(os.getpid()) if state_and_parent(pid) == ("Z", os.getpid())]


def apply_options(asked: argparse.Namespace) -> None:
    """Apply the options: limits, signals and the interpreter of keepers."""
    if asked.python:
        sys.executable = asked.python
    if asked.file_size is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (asked.file_size, asked.file_size))
    if asked.subreaper:
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    if asked.untidy:
        os.set_inheritable(os.open("/dev/zero", os.O_RDONLY), True)
        signal.signal(signal.SIGUSR2, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1, signal.SIGTERM})
        os.umask(0o027)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--python")
    parser.add_argument("--file-size", type=int)
    parser.add_argument("--subreaper", action="store_true")
    parser.add_argument("--untidy", action="store_true")
    apply_options(parser.parse_args())
    root, orders = json.loads(sys.stdin.readline())
    asyncio.run(start_all(Path(root), orders))
    sys.stdin.read()
    for name in orders:
        print(name, type(asyncio.run(keeper.wait_for_end(Path(root) / name, 0))).__name__)
    print("dead", len(dead_children()))


if __name__ == "__main__":
    main()

"""Raises the limit of open files for the gateway, and restores it for the programs that the gateway starts.

Programs that wait with `select()` cannot use a descriptor beyond 1023, which is why the usual limit is low.
"""

from __future__ import annotations

import ctypes
import resource
import sys
from collections.abc import Sequence
from contextlib import suppress

INHERITED_LIMIT = resource.getrlimit(resource.RLIMIT_NOFILE)[0]  # the soft limit at the start of this process


def raise_limit() -> None:
    """Raise the soft limit of open files to the hard limit, for this process and its children."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(OSError, ValueError):  # a sandbox that forbids it: then the limit stays as it was
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


# Python ignores two signals, and an ignored signal stays ignored after exec.
_RESTORE_PROGRAM = """
import os, resource, signal, sys
for number in (signal.SIGPIPE, signal.SIGXFSZ):
    signal.signal(number, signal.SIG_DFL)
soft, hard = int(sys.argv[1]), resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
os.execv(sys.argv[2], sys.argv[2:])
"""


def with_inherited_limit(program: str, *arguments: str) -> Sequence[str]:
    """A command that runs a program, by its path, with the limit of open files that the gateway inherited."""
    return (sys.executable, "-I", "-S", "-c", _RESTORE_PROGRAM, str(INHERITED_LIMIT), program, *arguments)


_PR_SET_DUMPABLE = 4


def hide_memory() -> None:
    """Refuse `/proc/PID/environ`, `/proc/PID/fd` and debuggers to everybody but root, and core dumps to all.

    Programs that this process starts are not affected: `exec` sets it back.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)

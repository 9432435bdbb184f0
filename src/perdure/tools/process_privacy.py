"""Keeps other programs of the same user out of this process: its environment, its files, its memory."""

from __future__ import annotations

import ctypes
import sys

_PR_SET_DUMPABLE = 4


def hide_memory() -> None:
    """Refuse `/proc/PID/environ`, `/proc/PID/fd` and debuggers to everybody but root, and core dumps to all.

    Programs that this process starts are not affected: `exec` sets it back.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)

"""Reads the state and the parent of processes from `/proc`."""

from __future__ import annotations

from pathlib import Path


def state_and_parent(pid: int) -> tuple[str, int]:
    """Return the state letter and the parent of a process, both from one read; `("X", 0)` if it does not exist."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return "X", 0
    state, parent, *_ = stat.rpartition(")")[2].split()
    return state, int(parent)


def is_alive(pid: int) -> bool:
    """Tell whether a process exists and is not a zombie."""
    return state_and_parent(pid)[0] not in "ZX"


def child_pids(parent: int) -> list[int]:
    """Return the processes with that parent, zombies included."""
    pids = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdecimal()]
    return [pid for pid in pids if state_and_parent(pid)[1] == parent]

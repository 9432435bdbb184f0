"""Finds a control group of the kernel, version 2, below which each command can have one of its own with limits.

Two writers must not change the same part of the tree. So only a group that systemd has delegated is used, and only
if the gateway itself runs in a group below it, because a group with limits below it holds no processes of its own:
`Delegate=yes` and `DelegateSubgroup=` in the unit.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

from perdure.core import texts

COMMAND_GROUP_PREFIX = "command-"  # of the names of the groups of commands, which `keeper/confinement.py` makes
_CONTROLLERS = ("pids", "memory")
_DELEGATED = "user.delegate"  # the attribute by which systemd says that a group is another's


def find_control_group(
    proc: Path = Path("/proc/self"), is_delegated: Callable[[Path], bool] | None = None
) -> tuple[Path | None, str]:
    """The group below which commands get their own, after a trial; or None, and why there is none."""
    parent = _parent_of_our_group(proc)
    if parent is None:
        return None, texts.sandbox.NO_CONTROL_GROUPS
    if not (is_delegated or _is_delegated)(parent):
        return None, texts.sandbox.not_delegated(str(parent))
    try:
        _prepare(parent)
    except OSError as error:
        return None, texts.sandbox.control_group_unusable(str(parent), error.strerror or str(error))
    return parent, ""


def _parent_of_our_group(proc: Path) -> Path | None:
    """The group around ours, in the tree of version 2; None without one."""
    if sys.platform != "linux":
        return None
    try:
        mounts = [line.split() for line in (proc / "mounts").read_text().splitlines()]
        groups = (proc / "cgroup").read_text().splitlines()
    except OSError:
        return None
    roots = [fields[1] for fields in mounts if fields[2] == "cgroup2"]
    ours = [line.removeprefix("0::/") for line in groups if line.startswith("0::/")]
    return (Path(roots[0]) / ours[0]).parent if roots and ours and ours[0] else None


def _is_delegated(group: Path) -> bool:
    try:
        return os.getxattr(group, _DELEGATED) == b"1"
    except OSError:  # it has no such attribute
        return False


def _prepare(parent: Path) -> None:
    """Hand the controllers on to the groups below, and try one; `OSError` if that cannot be."""
    wanted = set(_CONTROLLERS)
    if not wanted <= set((parent / "cgroup.controllers").read_text().split()):
        raise OSError(0, texts.sandbox.NO_CONTROLLERS)
    if (parent / "cgroup.procs").read_text().split():
        raise OSError(0, texts.sandbox.GROUP_HAS_PROCESSES)
    if not wanted <= set((parent / "cgroup.subtree_control").read_text().split()):
        (parent / "cgroup.subtree_control").write_text(" ".join(f"+{each}" for each in _CONTROLLERS))
    trial = parent / f"{COMMAND_GROUP_PREFIX}trial"
    trial.mkdir(exist_ok=True)
    for name in ("pids.max", "memory.max"):
        (trial / name).write_text("max")
    _remove_empty_groups(parent)


def _remove_empty_groups(parent: Path) -> None:
    """Remove the groups of commands in which no process is left; the kernel keeps the others."""
    for group in parent.glob(f"{COMMAND_GROUP_PREFIX}*"):
        try:
            group.rmdir()
        except OSError:  # something runs in it
            continue

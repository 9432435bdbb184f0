"""Lists the directories of commands, and removes those whose command has ended long ago."""

from __future__ import annotations

import shutil
from collections.abc import Collection, Container
from pathlib import Path

from perdure.tools.keeper.status import (
    CommandEnded,
    CommandLost,
    CommandNeverStarted,
    CommandStatus,
    CommandUnclaimed,
    path_exists,
    prevent_start,
    read_status,
)

_REMOVAL_PREFIX = ".gone-"  # begins the name of a directory that is being removed


def read_all_statuses(root: Path, skipped: Container[str] = ()) -> dict[str, CommandStatus]:
    """Read the status of every command below `root`, by the name of its directory, without the skipped names."""
    return {directory.name: read_status(directory) for directory in _command_directories(root, skipped)}


def remove_ended(root: Path, older_than_ms: int, now_ms: int, skipped: Container[str] = ()) -> list[str]:
    """Remove the directory of every command that ended more than `older_than_ms` ago; return their names.

    A command that runs keeps its directory, also one that lives without its keeper, and so does every skipped
    name: a missing directory looks as if no command was ever started in it.
    If we die inside: each directory is there completely or not at all.
    """
    due = now_ms - older_than_ms
    removed = [
        directory
        for directory in _command_directories(root, skipped)
        if _over_since_ms(directory) <= due and _is_removable(directory)
    ]
    for directory in removed:
        directory.rename(directory.with_name(f"{_REMOVAL_PREFIX}{directory.name}"))
    for rest in root.glob(f"{_REMOVAL_PREFIX}*"):
        shutil.rmtree(rest, ignore_errors=True)  # the next call tries the rest again
    return sorted(directory.name for directory in removed)


class AllBut:
    """Every name except a few. To skip `AllBut(due)` also skips directories that were made since the listing."""

    def __init__(self, few: Collection[str]) -> None:
        self._few = few

    def __contains__(self, one: object) -> bool:
        return one not in self._few


def _command_directories(root: Path, skipped: Container[str] = ()) -> list[Path]:
    """The directories of commands below `root`, without the skipped names."""
    found = sorted(each for each in root.iterdir() if each.name not in skipped) if root.is_dir() else []
    return [each for each in found if not each.name.startswith(".") and _is_command_directory(each)]


def _is_command_directory(folder: Path) -> bool:
    """Whether a folder belongs to a command; a folder that cannot be read counts as one.

    It holds a launch spec or a claim. The folder of a call that never started is empty, and is known by the `~`
    in its name.
    """
    if folder.is_symlink():
        return False
    try:
        return "~" in folder.name or any(path_exists(folder / name) for name in ("order.json", "claim"))
    except OSError:
        return True


def _over_since_ms(directory: Path) -> float:
    """When a command ended, in milliseconds; infinity for a command that has not ended."""
    match read_status(directory):
        case CommandEnded(ended_at=ended_at):
            return ended_at
        case CommandLost(alive=False) | CommandNeverStarted() | CommandUnclaimed():
            return max(each.lstat().st_mtime for each in (directory, *directory.iterdir())) * 1000
        case _:
            return float("inf")


def _is_removable(directory: Path) -> bool:
    """Whether no keeper can claim this directory any more."""
    return not isinstance(read_status(directory), CommandUnclaimed) or prevent_start(directory)

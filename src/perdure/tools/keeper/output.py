"""What kept commands leave behind: their output, and their places, until they are swept away."""

from __future__ import annotations

import codecs
import os
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

FIRST_FILE = "output"  # the file with how it began; those with its end are named after it, with their place behind
_REMOVAL_PREFIX = ".gone-"  # begins the name of a place that is being removed


def output_size(directory: Path) -> int:
    """How many bytes a command has said, as far as they were kept: where what it says next begins."""
    file, start = current_output_file(directory)
    try:
        return start + file.stat().st_size
    except FileNotFoundError:
        return output_size(directory) if file.name != FIRST_FILE else 0  # the end has rolled on meanwhile


def current_output_file(directory: Path) -> tuple[Path, int]:
    """The file that what a command says goes to, and the place of its beginning in the whole."""
    start, name = _files(directory)[-1]
    return directory / name, start


def _files(directory: Path) -> list[tuple[int, str]]:
    """The files with what a command has said, by their place in the whole: its beginning, then its end."""
    try:
        names = os.listdir(directory)  # noqa: PTH208 reason: it is asked for often
    except (FileNotFoundError, NotADirectoryError):
        names = []
    rolling = (name.removeprefix(f"{FIRST_FILE}.") for name in names if name.startswith(f"{FIRST_FILE}."))
    return [
        (0, FIRST_FILE),
        *sorted((int(start), f"{FIRST_FILE}.{start}") for start in rolling if start.isdecimal()),
    ]


def next_stored_offset(directory: Path, offset: int) -> int:
    """The offset itself, or, if what was said there was not kept, the next one of which it was."""
    for start, name in _files(directory):
        if offset < start or offset < start + _length(directory / name):
            return max(offset, start)
    return offset


def _length(file: Path) -> int:
    try:
        return file.stat().st_size
    except FileNotFoundError:
        return 0


def read_output(directory: Path, offset: int, limit: int) -> tuple[bytes, int]:
    """Some output from an offset on, and the offset after it.

    Where the middle was not kept, what is read ends; from an offset in there, the reading goes on behind it.
    """
    read, at = b"", next_stored_offset(directory, offset)
    for start, name in _files(directory):
        if start <= at < start + _length(directory / name) and len(read) < limit:
            piece = _piece(directory / name, at - start, limit - len(read))
            read, at = read + piece, at + len(piece)
    return read, at


def _piece(file: Path, offset: int, limit: int) -> bytes:
    try:
        with file.open("rb") as output:
            output.seek(offset)
            return output.read(limit)
    except FileNotFoundError:
        return b""


def read_output_text(directory: Path, offset: int, limit: int, *, final: bool = False) -> tuple[str, int]:
    """Some output as text, and the offset after it; what is no text is replaced by a sign for that.

    A character that is cut in two is left for the next time, unless this is the final one.
    """
    piece, after = read_output(directory, offset, limit)
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    text = decoder.decode(piece, final)
    left = len(decoder.getstate()[0])
    if not text and left == limit:  # else a reader with a tiny limit would never come any farther
        text, left = decoder.decode(b"", final=True), 0
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}"), after - left


def read_all_statuses(root: Path, skipped: Container[str] = ()) -> dict[str, CommandStatus]:
    """What is to be seen in every place below a folder, by its name; but for those that are known."""
    return {place.name: read_status(place) for place in _command_directories(root, skipped)}


def remove_ended(root: Path, older_than_ms: int, now_ms: int, skipped: Container[str] = ()) -> list[str]:
    """Remove every place whose command was over for longer than that; return their names.

    What runs is never touched, nor a command that has lost its keeper and lives, nor what is spared by name:
    a place that is gone looks as if nothing had ever been begun in it. If we die inside, a place is there as a
    whole or not at all.
    """
    due = now_ms - older_than_ms
    swept = [
        place
        for place in _command_directories(root, skipped)
        if _over_since_ms(place) <= due and _is_removable(place)
    ]
    for place in swept:
        place.rename(place.with_name(f"{_REMOVAL_PREFIX}{place.name}"))
    for rest in root.glob(f"{_REMOVAL_PREFIX}*"):
        shutil.rmtree(rest, ignore_errors=True)  # what cannot be removed now is tried again the next time
    return sorted(place.name for place in swept)


class AllBut:
    """Everything but a few: what is not known to be due is spared, also what came since we looked."""

    def __init__(self, few: Collection[str]) -> None:
        self._few = few

    def __contains__(self, one: object) -> bool:
        return one not in self._few


def _command_directories(root: Path, skipped: Container[str] = ()) -> list[Path]:
    """The places below a folder, without some of them: folders with an order or a claim."""
    names = sorted(each for each in root.iterdir() if each.name not in skipped) if root.is_dir() else []
    return [each for each in names if not each.name.startswith(".") and _is_command_directory(each)]


def _is_command_directory(folder: Path) -> bool:
    """Whether a folder is the place of a command; a folder that cannot be looked at counts as one.

    A place that was made for a call that never began holds nothing, and is known by its name.
    """
    if folder.is_symlink():
        return False
    try:
        return "~" in folder.name or any(path_exists(folder / name) for name in ("order.json", "claim"))
    except OSError:
        return True


def _over_since_ms(directory: Path) -> float:
    """When a command was over, in milliseconds; of one that is not, never."""
    match read_status(directory):
        case CommandEnded(ended_at=ended_at):
            return ended_at
        case CommandLost(alive=False) | CommandNeverStarted() | CommandUnclaimed():
            return max(each.lstat().st_mtime for each in (directory, *directory.iterdir())) * 1000
        case _:
            return float("inf")


def _is_removable(directory: Path) -> bool:
    """Whether no keeper can come to a place any more."""
    return not isinstance(read_status(directory), CommandUnclaimed) or prevent_start(directory)

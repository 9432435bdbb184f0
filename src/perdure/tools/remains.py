"""What kept commands leave behind: their output, and their places, until they are swept away."""

from __future__ import annotations

import codecs
import os
import shutil
from collections.abc import Collection, Container
from pathlib import Path

from perdure.tools.sightings import Ended, Lost, Refused, Sighting, Unclaimed, forestall, is_there, look

FIRST = "output"  # the file with how it began; those with its end are named after it, with their place behind
_GONE = ".gone-"  # begins the name of a place that is being removed


def size(place: Path) -> int:
    """How many bytes a command has said, as far as they were kept: where what it says next begins."""
    file, start = newest(place)
    try:
        return start + file.stat().st_size
    except FileNotFoundError:
        return size(place) if file.name != FIRST else 0  # the end has rolled on meanwhile


def newest(place: Path) -> tuple[Path, int]:
    """The file that what a command says goes to, and the place of its beginning in the whole."""
    start, name = _files(place)[-1]
    return place / name, start


def _files(place: Path) -> list[tuple[int, str]]:
    """The files with what a command has said, by their place in the whole: its beginning, then its end."""
    try:
        names = os.listdir(place)  # noqa: PTH208 reason: it is asked for often
    except (FileNotFoundError, NotADirectoryError):
        names = []
    rolling = (name.removeprefix(f"{FIRST}.") for name in names if name.startswith(f"{FIRST}."))
    return [(0, FIRST), *sorted((int(start), f"{FIRST}.{start}") for start in rolling if start.isdecimal())]


def kept_from(place: Path, offset: int) -> int:
    """The offset itself, or, if what was said there was not kept, the next one of which it was."""
    for start, name in _files(place):
        if offset < start or offset < start + _length(place / name):
            return max(offset, start)
    return offset


def _length(file: Path) -> int:
    try:
        return file.stat().st_size
    except FileNotFoundError:
        return 0


def read(place: Path, offset: int, limit: int) -> tuple[bytes, int]:
    """Some output from an offset on, and the offset after it.

    Where the middle was not kept, what is read ends; from an offset in there, the reading goes on behind it.
    """
    read, at = b"", kept_from(place, offset)
    for start, name in _files(place):
        if start <= at < start + _length(place / name) and len(read) < limit:
            piece = _piece(place / name, at - start, limit - len(read))
            read, at = read + piece, at + len(piece)
    return read, at


def _piece(file: Path, offset: int, limit: int) -> bytes:
    try:
        with file.open("rb") as output:
            output.seek(offset)
            return output.read(limit)
    except FileNotFoundError:
        return b""


def read_text(place: Path, offset: int, limit: int, *, final: bool = False) -> tuple[str, int]:
    """Some output as text, and the offset after it; what is no text is replaced by a sign for that.

    A character that is cut in two is left for the next time, unless this is the final one.
    """
    piece, after = read(place, offset, limit)
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    text = decoder.decode(piece, final)
    left = len(decoder.getstate()[0])
    if not text and left == limit:  # else a reader with a tiny limit would never come any farther
        text, left = decoder.decode(b"", final=True), 0
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}"), after - left


def survey(root: Path, known: Container[str] = ()) -> dict[str, Sighting]:
    """What is to be seen in every place below a folder, by its name; but for those that are known."""
    return {place.name: look(place) for place in _places(root, known)}


def sweep(root: Path, older_than_ms: int, now_ms: int, spared: Container[str] = ()) -> list[str]:
    """Remove every place whose command was over for longer than that; return their names.

    What runs is never touched, nor a command that has lost its keeper and lives, nor what is spared by name:
    a place that is gone looks as if nothing had ever been begun in it. If we die inside, a place is there as a
    whole or not at all.
    """
    due = now_ms - older_than_ms
    swept = [place for place in _places(root, spared) if _over_since(place) <= due and _stays_over(place)]
    for place in swept:
        place.rename(place.with_name(f"{_GONE}{place.name}"))
    for rest in root.glob(f"{_GONE}*"):
        shutil.rmtree(rest, ignore_errors=True)  # what cannot be removed now is tried again the next time
    return sorted(place.name for place in swept)


class AllBut:
    """Everything but a few: what is not known to be due is spared, also what came since we looked."""

    def __init__(self, few: Collection[str]) -> None:
        self._few = few

    def __contains__(self, one: object) -> bool:
        return one not in self._few


def _places(root: Path, without: Container[str] = ()) -> list[Path]:
    """The places below a folder, without some of them: folders with an order or a claim."""
    names = sorted(each for each in root.iterdir() if each.name not in without) if root.is_dir() else []
    return [each for each in names if not each.name.startswith(".") and _is_place(each)]


def _is_place(folder: Path) -> bool:
    """Whether a folder is the place of a command; a folder that cannot be looked at counts as one.

    A place that was made for a call that never began holds nothing, and is known by its name.
    """
    if folder.is_symlink():
        return False
    try:
        return "~" in folder.name or any(is_there(folder / name) for name in ("order.json", "claim"))
    except OSError:
        return True


def _over_since(place: Path) -> float:
    """When a command was over, in milliseconds; of one that is not, never."""
    match look(place):
        case Ended(ended_at=ended_at):
            return ended_at
        case Lost(alive=False) | Refused() | Unclaimed():
            return max(each.lstat().st_mtime for each in (place, *place.iterdir())) * 1000
        case _:
            return float("inf")


def _stays_over(place: Path) -> bool:
    """Whether no keeper can come to a place any more."""
    return not isinstance(look(place), Unclaimed) or forestall(place)

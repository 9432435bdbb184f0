"""What kept commands leave behind: their output, and their places, until they are swept away."""

from __future__ import annotations

import codecs
import shutil
from collections.abc import Container
from pathlib import Path

from perdure.tools.sightings import Ended, Lost, Refused, Sighting, Unclaimed, forestall, look

_GONE = ".gone-"  # begins the name of a place that is being removed


def size(place: Path) -> int:
    """How many bytes of output can be read."""
    try:
        return (place / "output").stat().st_size
    except FileNotFoundError:
        return 0


def read(place: Path, offset: int, limit: int) -> tuple[bytes, int]:
    """Some output from an offset on, and the offset after it."""
    try:
        with (place / "output").open("rb") as output:
            output.seek(offset)
            piece = output.read(limit)
    except FileNotFoundError:
        piece = b""
    return piece, offset + len(piece)


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


def _places(root: Path, without: Container[str] = ()) -> list[Path]:
    """The places below a folder, without some of them: folders with an order or a claim."""
    names = sorted(each for each in root.iterdir() if each.name not in without) if root.is_dir() else []
    return [each for each in names if not each.name.startswith(".") and _is_place(each)]


def _is_place(folder: Path) -> bool:
    return not folder.is_symlink() and any((folder / name).exists() for name in ("order.json", "claim"))


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

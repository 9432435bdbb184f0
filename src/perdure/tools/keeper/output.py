"""Reads the stored output of a command from the files in its directory."""

from __future__ import annotations

import codecs
import os
from pathlib import Path

FIRST_FILE = "output"  # the file with how it began; those with its end are named after it, with their place behind


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

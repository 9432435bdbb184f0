"""Reads the stored output of a command from the files in its directory."""

from __future__ import annotations

import codecs
import os
from pathlib import Path

FIRST_FILE = "output"  # holds the beginning of the output; `output.<offset>` holds a later piece


def output_size(directory: Path) -> int:
    """The offset at which the next output of a command begins."""
    file, start = current_output_file(directory)
    try:
        return start + file.stat().st_size
    except FileNotFoundError:
        return output_size(directory) if file.name != FIRST_FILE else 0  # a newer file has replaced it meanwhile


def current_output_file(directory: Path) -> tuple[Path, int]:
    """The file that a keeper writes output to now, and the offset of its first byte in the whole output."""
    start, name = _files(directory)[-1]
    return directory / name, start


def _files(directory: Path) -> list[tuple[int, str]]:
    """The output files of a command with the offset of their first byte, in order."""
    try:
        names = os.listdir(directory)  # noqa: PTH208 reason: called often, and pathlib is slower
    except (FileNotFoundError, NotADirectoryError):
        names = []
    rolling = (name.removeprefix(f"{FIRST_FILE}.") for name in names if name.startswith(f"{FIRST_FILE}."))
    return [
        (0, FIRST_FILE),
        *sorted((int(start), f"{FIRST_FILE}.{start}") for start in rolling if start.isdecimal()),
    ]


def next_stored_offset(directory: Path, offset: int) -> int:
    """The offset itself, or, if the output there was not stored, the next offset whose output was."""
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
    """Up to `limit` bytes of output from an offset on, and the offset after them.

    Reading stops where the middle of the output was not stored, and from an offset in there starts behind it.
    """
    content, position = b"", next_stored_offset(directory, offset)
    for start, name in _files(directory):
        if start <= position < start + _length(directory / name) and len(content) < limit:
            piece = _piece(directory / name, position - start, limit - len(content))
            content, position = content + piece, position + len(piece)
    return content, position


def _piece(file: Path, offset: int, limit: int) -> bytes:
    try:
        with file.open("rb") as output:
            output.seek(offset)
            return output.read(limit)
    except FileNotFoundError:
        return b""


def read_output_text(directory: Path, offset: int, limit: int, *, final: bool = False) -> tuple[str, int]:
    """Up to `limit` bytes of output as text, and the offset after them; bad bytes become U+FFFD.

    A character that is incomplete at the end is left for the next call, unless this is the final one.
    """
    piece, after = read_output(directory, offset, limit)
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    text = decoder.decode(piece, final)
    left = len(decoder.getstate()[0])
    if not text and left == limit:  # otherwise a reader with a tiny limit would never advance
        text, left = decoder.decode(b"", final=True), 0
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}"), after - left

"""Reads lines of a file of any size, lists folders, and replaces files atomically."""

from __future__ import annotations

import codecs
import errno
import os
import secrets
import stat
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from msgspec import Struct

from perdure.core import texts
from perdure.errors import ToolFailed
from perdure.tools.workspace import FileLocation, refuse_forbidden

MAX_SHOWN_BYTES = 25_000  # of a file in one answer
MAX_LINE_BYTES = 4_000  # of one line that are shown
MAX_SCANNED_BYTES = 32 << 20  # of a file that is searched for its lines
MAX_EDITED_BYTES = 8 << 20  # of a file that can be edited
MAX_ENTRIES = 500  # of a folder in one answer
_PIECE_BYTES = 1 << 20
_SNIFFED_BYTES = 8192  # show whether a file is text


class Excerpt(Struct, frozen=True):
    """Some lines of a file, and their numbers."""

    text: str
    first: int
    last: int
    total: int  # lines that were counted
    whole: bool  # whether every line of the file was counted


def open_file(location: FileLocation) -> BinaryIO:
    """Open a regular file for reading; a pipe or a device, which might never end, is refused."""
    refuse_forbidden(location, location.stat())
    file = os.fdopen(location.open(os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY), "rb")
    try:
        refuse_forbidden(location, os.fstat(file.fileno()))  # it may be another one by now
    except BaseException:
        file.close()
        raise
    return file


def read_lines(location: FileLocation, first: int, limit: int) -> Excerpt:
    """Up to `limit` complete lines from the line `first` on, as many as can be shown."""
    name = location.name
    with open_file(location) as file:
        _refuse_binary(file, name)
        scan, room = _Scan(file), MAX_SHOWN_BYTES
        lines: list[str] = []
        scan.skip_to(first)
        while len(lines) < limit and (line := scan.next_line()):
            if lines and len(line) > room:
                break
            truncated = scan.length > len(line)
            mark = texts.files.LINE_TRUNCATED if truncated else ""
            lines.append(_decode(line, name, whole=not truncated) + mark)
            room -= len(line)
        scan.count_rest()
    return Excerpt("".join(lines), first, first + len(lines) - 1, scan.number, scan.at_end)


class _Scan:
    """Reads a file line by line, with little of it in memory, up to `MAX_SCANNED_BYTES`."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._left = MAX_SCANNED_BYTES
        self._open = False  # whether a line has begun and is not counted yet
        self.number = 0  # of the line read last
        self.length = 0  # of that line
        self.at_end = False

    def skip_to(self, line: int) -> None:
        """Go to the beginning of a line, or to the end of the file."""
        while (wanted := line - 1 - self.number) > 0 and (piece := self._file.read(min(_PIECE_BYTES, self._left))):
            if piece.count(b"\n") >= wanted:
                after = len(piece.split(b"\n", wanted)[-1])
                self._file.seek(-after, os.SEEK_CUR)
                piece = piece[: len(piece) - after]
            self._pass(piece)

    def next_line(self) -> bytes:
        """The beginning of the next line; empty at the end of the file."""
        head = piece = self._file.readline(min(MAX_LINE_BYTES, self._left))
        self.length = 0
        while piece:
            self._pass(piece)
            self.length += len(piece)
            piece = self._file.readline(min(MAX_LINE_BYTES, self._left)) if self._open else b""
        self._end_line()
        return head

    def count_rest(self) -> None:
        """Count the remaining lines."""
        while piece := self._file.read(min(_PIECE_BYTES, self._left)):
            self._pass(piece)
        self._end_line()
        self.at_end = not self._file.read(1)

    def _pass(self, piece: bytes) -> None:
        self._left -= len(piece)
        self.number += piece.count(b"\n")
        self._open = not piece.endswith(b"\n")

    def _end_line(self) -> None:
        """Count a last line that does not end in a newline."""
        self.number += self._open
        self._open = False


def read_whole_file(location: FileLocation) -> str:
    """The text of a file that is small enough to be edited, its line ends untouched."""
    with open_file(location) as file:
        content = file.read(MAX_EDITED_BYTES + 1)
    if len(content) > MAX_EDITED_BYTES:
        raise ToolFailed(texts.files.too_large(location.name, MAX_EDITED_BYTES))
    return _decode(content, location.name)


def _refuse_binary(file: BinaryIO, name: str) -> None:
    if b"\0" in file.read(_SNIFFED_BYTES):
        raise ToolFailed(texts.files.binary_file(name))
    file.seek(0)


def _decode(content: bytes, name: str, *, whole: bool = True) -> str:
    """Decode UTF-8; if the text is not whole, an incomplete last character is left out."""
    if b"\0" in content:
        raise ToolFailed(texts.files.binary_file(name))
    try:
        return codecs.utf_8_decode(content, "strict", whole)[0]
    except UnicodeDecodeError as error:
        raise ToolFailed(texts.files.not_utf8(name)) from error


def list_folder(location: FileLocation) -> tuple[list[str], bool]:
    """The names in a folder, those of folders with a slash, and whether these are all.

    A link has no slash, wherever it leads: that would tell what there is outside.
    """
    descriptor = location.open(os.O_RDONLY | os.O_DIRECTORY)
    try:
        with os.scandir(descriptor) as entries:
            some = list(islice(entries, MAX_ENTRIES + 1))
        shown = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in some[:MAX_ENTRIES]]
    finally:
        os.close(descriptor)
    return sorted(f"{name}/" if is_folder else name for name, is_folder in shown), len(some) <= MAX_ENTRIES


# ── replacing ───────────────────────────────────────────────────────────────────────────────────────────────


def replace_file(location: FileLocation, content: bytes) -> None:
    """Replace a file atomically: readers see the old content or the new one, also after a power cut.

    After return: the new content is on disk. If we die inside: a file `.perdure-….tmp` may be left beside it.
    """
    if not location.parts:
        raise ToolFailed(texts.files.not_a_file(location.name))
    fresh, name = f".perdure-{secrets.token_hex(8)}.tmp", location.parts[-1]
    with location.opened_parent() as folder:
        old = _status(folder, name)
        if old is not None:
            refuse_forbidden(location, old)
            _refuse_read_only(folder, name)
        try:
            _write(folder, fresh, content, old)
            os.rename(fresh, name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            with suppress(FileNotFoundError):
                os.unlink(fresh, dir_fd=folder)
            raise
        os.fsync(folder)


def _status(folder: int, name: str) -> os.stat_result | None:
    with suppress(FileNotFoundError):
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    return None


def _refuse_read_only(folder: int, name: str) -> None:
    """Refuse a read-only file: replacing it would need no permission for the file itself."""
    if not os.access(name, os.W_OK, dir_fd=folder, follow_symlinks=False):
        raise PermissionError(errno.EACCES, "it is read-only", name)


def _write(folder: int, name: str, content: bytes, old: os.stat_result | None) -> None:
    descriptor = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666, dir_fd=folder)
    with os.fdopen(descriptor, "wb") as file:
        if old is not None:
            _keep_owner_and_mode(descriptor, old)
        file.write(content)
        file.flush()
        os.fsync(descriptor)


def _keep_owner_and_mode(descriptor: int, old: os.stat_result) -> None:
    with suppress(PermissionError):  # only root may give files away
        os.fchown(descriptor, old.st_uid, old.st_gid)
    os.fchmod(descriptor, stat.S_IMODE(old.st_mode))


def sync_directory(directory: Path) -> None:
    """Write the names in a directory to disk, so that they are there after a power cut."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

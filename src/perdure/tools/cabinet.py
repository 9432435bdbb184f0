"""Where files are kept that come and go: one folder for each, named by its id, below `attachments` in the home.

A file appears in its folder whole, on disk and under its name, or not at all. What a crash leaves is nobody's
until somebody writes there again, or the sweep removes it.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from msgspec import Struct

from perdure.core import notes
from perdure.core.files import safe_name
from perdure.errors import FileTooLarge
from perdure.tools.threads import in_thread

FOLDER = "attachments"
PART = ".part"
PIECE = 1 << 20  # bytes that go to the disk at once


class Kept(Struct, frozen=True):
    """A file that is there: its path in the home, and its size."""

    path: str
    size: int


class Cabinet:
    """The files of one home."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._root = home / FOLDER

    def find(self, path: str | None) -> Path | None:
        """The place of a file that is there; whatever else a path may name is none of ours."""
        if path is None:
            return None
        place = (self._home / path).absolute()
        inside = place.is_relative_to(self._root.absolute()) and ".." not in place.parts
        return place if inside and place.is_file() and not place.is_symlink() else None

    async def keep(self, file: str, name: str, pieces: AsyncIterator[bytes], most: int) -> Kept:
        """Write a file as its bytes come; never more than one piece of it is in memory.

        After return: it is on disk, under its name. If we die inside: no more than a part is left, which the next
        try writes over. `FileTooLarge`: it has more bytes than wanted, and nothing is left.
        """
        part = self._open(file)  # not in a thread, which would leave it open if nobody waited any more
        try:
            with part:
                size, waiting = 0, bytearray()
                async for piece in pieces:
                    size = _grown(size, piece, most)
                    waiting += piece
                    if len(waiting) >= PIECE:
                        await in_thread(_writing(part, bytes(waiting)))
                        waiting.clear()
                await in_thread(_writing(part, bytes(waiting)))
                return await in_thread(lambda: self._settle(file, name, part, size))
        except BaseException:
            self.remove(file)
            raise

    def copy(self, file: str, name: str, source: BinaryIO, most: int) -> Kept:
        """The same for a file of this machine, as it is now."""
        try:
            with self._open(file) as part:
                size = 0
                for piece in _pieces(source):
                    size = _grown(size, piece, most)
                    part.write(piece)
                return self._settle(file, name, part, size)
        except BaseException:
            self.remove(file)
            raise

    def link(self, file: str, name: str, path: str) -> Kept | None:
        """Keep a file that is here already once more, under another id. None: it is not here."""
        found = self.find(path)
        if found is None:
            return None
        self._make(file)
        place = self._root / file / safe_name(name)
        place.unlink(missing_ok=True)
        os.link(found, place)
        self._sync(file)
        return Kept(f"{FOLDER}/{file}/{place.name}", place.stat().st_size)

    def remove(self, *files: str) -> None:
        """Remove files, or what there is of them."""
        for file in files:
            shutil.rmtree(self._root / file, ignore_errors=True)

    def names(self, before: float) -> list[str]:
        """The ids of files that were last written before a moment, in seconds."""
        with suppress(FileNotFoundError):
            return [each.name for each in self._root.iterdir() if _is_older(each, before)]
        return []

    def _open(self, file: str) -> BinaryIO:
        self._make(file)
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
        return os.fdopen(os.open(self._root / file / PART, flags, 0o600), "wb")

    def _make(self, file: str) -> None:
        self._root.mkdir(mode=0o700, exist_ok=True)
        (self._root / file).mkdir(mode=0o700, exist_ok=True)

    def _settle(self, file: str, name: str, part: BinaryIO, size: int) -> Kept:
        part.flush()
        os.fsync(part.fileno())
        place = self._root / file / safe_name(name)
        (self._root / file / PART).replace(place)
        self._sync(file)
        return Kept(f"{FOLDER}/{file}/{place.name}", size)

    def _sync(self, file: str) -> None:
        for folder in (self._root / file, self._root, self._home):
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)


def _writing(part: BinaryIO, piece: bytes) -> Callable[[], int]:
    return lambda: part.write(piece)


def _grown(size: int, piece: bytes, most: int) -> int:
    if size + len(piece) > most:
        raise FileTooLarge(notes.file_too_large(most))
    return size + len(piece)


def _pieces(source: BinaryIO) -> Iterator[bytes]:
    while piece := source.read(PIECE):
        yield piece


def _is_older(folder: Path, before: float) -> bool:
    try:
        seen = folder.stat()
    except FileNotFoundError:
        return False
    return stat.S_ISDIR(seen.st_mode) and seen.st_mtime < before

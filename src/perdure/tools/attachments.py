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

from perdure.core import texts
from perdure.core.file_names import safe_file_name
from perdure.errors import FileTooLarge
from perdure.tools.file_contents import sync_directory
from perdure.tools.threads import run_in_thread

ATTACHMENTS_FOLDER = "attachments"
PART_FILE = ".part"
PIECE_BYTES = 1 << 20  # bytes that go to the disk at once


class SavedAttachment(Struct, frozen=True):
    """A file that is there: its path in the home, and its size."""

    path: str
    size: int


class AttachmentFiles:
    """The files of one home."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._root = home / ATTACHMENTS_FOLDER

    def find(self, path: str | None) -> Path | None:
        """The place of a file that is there; whatever else a path may name is none of ours."""
        if path is None:
            return None
        place = (self._home / path).absolute()
        inside = place.is_relative_to(self._root.absolute()) and ".." not in place.parts
        return place if inside and place.is_file() and not place.is_symlink() else None

    async def save(
        self, attachment_id: str, name: str, pieces: AsyncIterator[bytes], max_bytes: int
    ) -> SavedAttachment:
        """Write a file as its bytes come; never more than one piece of it is in memory.

        After return: it is on disk, under its name. If we die inside: no more than a part is left, which the next
        try writes over. `FileTooLarge`: it has more bytes than wanted, and nothing is left.
        """
        part = self._open(attachment_id)  # not in a thread, which would leave it open if nobody waited any more
        try:
            with part:
                size, waiting = 0, bytearray()
                async for piece in pieces:
                    size = _checked_size(size, piece, max_bytes)
                    waiting += piece
                    if len(waiting) >= PIECE_BYTES:
                        await run_in_thread(_deferred_write(part, bytes(waiting)))
                        waiting.clear()
                await run_in_thread(_deferred_write(part, bytes(waiting)))
                return await run_in_thread(lambda: self._settle(attachment_id, name, part, size))
        except BaseException:
            self.remove(attachment_id)
            raise

    def copy(self, attachment_id: str, name: str, source: BinaryIO, max_bytes: int) -> SavedAttachment:
        """The same for a file of this machine, as it is now."""
        try:
            with self._open(attachment_id) as part:
                size = 0
                for piece in _pieces(source):
                    size = _checked_size(size, piece, max_bytes)
                    part.write(piece)
                return self._settle(attachment_id, name, part, size)
        except BaseException:
            self.remove(attachment_id)
            raise

    def link(self, attachment_id: str, name: str, path: str) -> SavedAttachment | None:
        """Keep a file that is here already once more, under another id. None: it is not here."""
        found = self.find(path)
        if found is None:
            return None
        self._make(attachment_id)
        place = self._root / attachment_id / safe_file_name(name)
        place.unlink(missing_ok=True)
        os.link(found, place)
        self._sync(attachment_id)
        return SavedAttachment(f"{ATTACHMENTS_FOLDER}/{attachment_id}/{place.name}", place.stat().st_size)

    def remove(self, *files: str) -> None:
        """Remove files, or what there is of them."""
        for file in files:
            shutil.rmtree(self._root / file, ignore_errors=True)

    def ids_before(self, before_seconds: float) -> list[str]:
        """The ids of files that were last written before a moment, in seconds."""
        with suppress(FileNotFoundError):
            return [each.name for each in self._root.iterdir() if _is_older(each, before_seconds)]
        return []

    def _open(self, attachment_id: str) -> BinaryIO:
        self._make(attachment_id)
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
        return os.fdopen(os.open(self._root / attachment_id / PART_FILE, flags, 0o600), "wb")

    def _make(self, attachment_id: str) -> None:
        self._root.mkdir(mode=0o700, exist_ok=True)
        (self._root / attachment_id).mkdir(mode=0o700, exist_ok=True)

    def _settle(self, attachment_id: str, name: str, part: BinaryIO, size: int) -> SavedAttachment:
        part.flush()
        os.fsync(part.fileno())
        place = self._root / attachment_id / safe_file_name(name)
        (self._root / attachment_id / PART_FILE).replace(place)
        self._sync(attachment_id)
        return SavedAttachment(f"{ATTACHMENTS_FOLDER}/{attachment_id}/{place.name}", size)

    def _sync(self, attachment_id: str) -> None:
        for folder in (self._root / attachment_id, self._root, self._home):
            sync_directory(folder)


def _deferred_write(part: BinaryIO, piece: bytes) -> Callable[[], int]:
    return lambda: part.write(piece)


def _checked_size(size: int, piece: bytes, max_bytes: int) -> int:
    if size + len(piece) > max_bytes:
        raise FileTooLarge(texts.attachments.too_large(max_bytes))
    return size + len(piece)


def _pieces(source: BinaryIO) -> Iterator[bytes]:
    while piece := source.read(PIECE_BYTES):
        yield piece


def _is_older(folder: Path, before: float) -> bool:
    try:
        seen = folder.stat()
    except FileNotFoundError:
        return False
    return stat.S_ISDIR(seen.st_mode) and seen.st_mtime < before

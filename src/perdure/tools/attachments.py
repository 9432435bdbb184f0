"""Stores attachments: each in a directory that is named by its id, below `attachments` in the home.

A file appears in its directory completely, on disk and under its name, or not at all. A part that a crash leaves
is overwritten by the next attempt, or removed by the cleanup. All files together have a limit.
"""

from __future__ import annotations

import os
import shutil
import stat
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import BinaryIO

from msgspec import Struct

from perdure.core import texts
from perdure.core.file_names import safe_file_name
from perdure.errors import AttachmentQuotaReached, FileTooLarge
from perdure.tools.blocking_jobs import run_in_thread
from perdure.tools.file_contents import sync_directory

ATTACHMENTS_FOLDER = "attachments"
PART_FILE = ".part"
PIECE_BYTES = 1 << 20  # written at once
RECOUNT_SECONDS = 600.0  # after which the files are counted again: others may have removed some


class SavedAttachment(Struct, frozen=True):
    """A stored file: its path relative to the home, and its size."""

    path: str
    size: int


class DiskUsage:
    """How many bytes the attachments of one home take, counted once and then kept up to date."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._lock = threading.Lock()
        self._bytes = 0
        self._counted_at = -RECOUNT_SECONDS

    def add(self, size: int, limit: int | None) -> None:
        """Count bytes that are about to be written. `AttachmentQuotaReached`: there is no room for them."""
        with self._lock:
            old = time.monotonic() - self._counted_at >= RECOUNT_SECONDS
            if limit is not None and (old or self._bytes + size > limit):
                self._bytes, self._counted_at = self._count(), time.monotonic()
            if limit is not None and self._bytes + size > limit:
                raise AttachmentQuotaReached(
                    texts.files.no_room_for_attachments(limit), hint=texts.files.MAKE_ROOM_HINT
                )
            self._bytes += size

    def _count(self) -> int:
        """The bytes on disk; a file that has several names is counted once."""
        found = 0
        for folder, _, names in os.walk(self._root):
            for name in names:
                with suppress(FileNotFoundError):
                    file = Path(folder, name).lstat()
                    found += file.st_size // file.st_nlink
        return found


@cache
def _disk_usage(root: Path) -> DiskUsage:
    """One for each home: the tools and the gateway write into the same directory."""
    return DiskUsage(root)


class AttachmentFiles:
    """The stored attachments of one home."""

    def __init__(self, home: Path, max_total_bytes: int | None = None) -> None:
        """`max_total_bytes` is for all attachments together; None: they have no limit."""
        self._home = home
        self._root = home / ATTACHMENTS_FOLDER
        self._max_total_bytes = max_total_bytes

    def find(self, path: str | None) -> Path | None:
        """The absolute path of a stored attachment; None for a path that names anything else."""
        if path is None:
            return None
        file = (self._home / path).absolute()
        inside = file.is_relative_to(self._root.absolute()) and ".." not in file.parts
        return file if inside and file.is_file() and not file.is_symlink() else None

    async def save(
        self, attachment_id: str, name: str, pieces: AsyncIterator[bytes], max_bytes: int
    ) -> SavedAttachment:
        """Write a file as its bytes come, with no more than one piece of it in memory.

        After return: it is on disk, under its name. If we die inside: at most a part is left, which the next
        attempt overwrites. `FileTooLarge`: it has more than `max_bytes`; `AttachmentQuotaReached`: there is no
        room for it. Nothing is left of it then.
        """
        part = self._open(attachment_id)  # not in a thread: a cancelled wait would leave it open
        try:
            with part:
                size, waiting = 0, bytearray()
                async for piece in pieces:
                    size = _checked_size(size, piece, max_bytes)
                    waiting += piece
                    if len(waiting) >= PIECE_BYTES:
                        await run_in_thread(self._deferred_write(part, bytes(waiting)))
                        waiting.clear()
                await run_in_thread(self._deferred_write(part, bytes(waiting)))
                return await run_in_thread(lambda: self._settle(attachment_id, name, part, size))
        except BaseException:
            self.remove(attachment_id)
            raise

    def copy(self, attachment_id: str, name: str, source: BinaryIO, max_bytes: int) -> SavedAttachment:
        """Store a copy of a file of this machine, as `save` does."""
        try:
            with self._open(attachment_id) as part:
                size = 0
                for piece in _pieces(source):
                    size = _checked_size(size, piece, max_bytes)
                    self._write(part, piece)
                return self._settle(attachment_id, name, part, size)
        except BaseException:
            self.remove(attachment_id)
            raise

    def link(self, attachment_id: str, name: str, path: str) -> SavedAttachment | None:
        """Store an attachment once more, under another id. None: there is no such attachment."""
        found = self.find(path)
        if found is None:
            return None
        self._make(attachment_id)
        file = self._root / attachment_id / safe_file_name(name)
        file.unlink(missing_ok=True)
        os.link(found, file)
        self._sync(attachment_id)
        return SavedAttachment(f"{ATTACHMENTS_FOLDER}/{attachment_id}/{file.name}", file.stat().st_size)

    def remove(self, *files: str) -> None:
        """Remove attachments by their ids, also incomplete ones."""
        for file in files:
            shutil.rmtree(self._root / file, ignore_errors=True)

    def ids_before(self, before_seconds: float) -> list[str]:
        """The ids of attachments that were last written before a time, in seconds."""
        with suppress(FileNotFoundError):
            return [each.name for each in self._root.iterdir() if _is_older(each, before_seconds)]
        return []

    def _open(self, attachment_id: str) -> BinaryIO:
        self._make(attachment_id)
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
        return os.fdopen(os.open(self._root / attachment_id / PART_FILE, flags, 0o600), "wb")

    def _deferred_write(self, part: BinaryIO, piece: bytes) -> Callable[[], None]:
        return lambda: self._write(part, piece)

    def _write(self, part: BinaryIO, piece: bytes) -> None:
        _disk_usage(self._root.absolute()).add(len(piece), self._max_total_bytes)
        part.write(piece)

    def _make(self, attachment_id: str) -> None:
        self._root.mkdir(mode=0o700, exist_ok=True)
        (self._root / attachment_id).mkdir(mode=0o700, exist_ok=True)

    def _settle(self, attachment_id: str, name: str, part: BinaryIO, size: int) -> SavedAttachment:
        part.flush()
        os.fsync(part.fileno())
        file = self._root / attachment_id / safe_file_name(name)
        (self._root / attachment_id / PART_FILE).replace(file)
        self._sync(attachment_id)
        return SavedAttachment(f"{ATTACHMENTS_FOLDER}/{attachment_id}/{file.name}", size)

    def _sync(self, attachment_id: str) -> None:
        for folder in (self._root / attachment_id, self._root, self._home):
            sync_directory(folder)


def _checked_size(size: int, piece: bytes, max_bytes: int) -> int:
    if size + len(piece) > max_bytes:
        raise FileTooLarge(texts.files.attachment_too_large(max_bytes))
    return size + len(piece)


def _pieces(source: BinaryIO) -> Iterator[bytes]:
    while piece := source.read(PIECE_BYTES):
        yield piece


def _is_older(folder: Path, before: float) -> bool:
    try:
        found = folder.stat()
    except FileNotFoundError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_mtime < before

"""The attachments of a gateway: in its home, and where several gateways share a database, there too.

A file is written into the home first, then into the database in chunks, and recorded last. A gateway whose home
lacks a recorded file reads it from the database. On SQLite the home is the only place.
"""

from __future__ import annotations

import asyncio
import hashlib
import zlib
from collections.abc import AsyncIterator, Iterable
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from perdure.core import texts
from perdure.errors import AttachmentQuotaReached, StoreError, Unavailable
from perdure.logs import Log
from perdure.settings import Settings
from perdure.store.api import Store
from perdure.store.file_contents import CHUNK_BYTES
from perdure.tools.attachments import AttachmentFiles, SavedAttachment
from perdure.tools.blocking_jobs import run_in_thread

log = Log("attachment_cache")

FETCHES_AT_ONCE = 8  # from the database into the home
FILES_PER_LOOK = 100  # of the home, for which the database is asked at once whether it has them


class AttachmentCache:
    """Stores attachments for all gateways of a database, and finds those of all."""

    def __init__(self, store: Store, settings: Settings, run: str, instance: str) -> None:
        self._store = store
        self._contents = store.file_contents
        self._run = run
        self._instance = instance
        self._max_total_bytes = settings.max_attachment_bytes
        self.files = AttachmentFiles(settings.home, settings.max_home_attachment_bytes)
        self._fetching = [asyncio.Lock() for _ in range(FETCHES_AT_ONCE)]  # an attachment has one of them
        self._in_database: set[str] = set()  # attachments of the home of which this is known

    @property
    def id_salt(self) -> str:
        """What distinguishes copies that this gateway makes for a call from those of other gateways."""
        return self._instance if self._contents.shared else ""

    def find(self, path: str | None) -> Path | None:
        """The absolute path of an attachment that is in the home."""
        return self.files.find(path)

    async def fetch(self, path: str | None) -> Path | None:
        """The absolute path of an attachment, read from the database if the home lacks it; None: nobody has it."""
        found = self.files.find(path)
        if found is not None or path is None or not self._contents.shared:
            return found
        attachment = _attachment_of(path)
        async with self._fetching[zlib.crc32(attachment.encode()) % FETCHES_AT_ONCE]:
            return self.files.find(path) or await self._read_from_database(attachment, path)

    async def fetch_all(self, paths: Iterable[str]) -> None:
        """Bring these attachments into the home, as far as the database has them."""
        for path in paths if self._contents.shared else ():
            try:
                await self.fetch(path)
            except OSError as error:  # the next use tries again; until then the file counts as missing
                log.warning("file_not_cached", path=path, error=error)

    async def of_conversation(self, key: str) -> list[str]:
        """The paths of the newest files of a conversation, which are in the home after return."""
        paths = await self._store.attachments.of_conversation(key)
        await self.fetch_all(paths)
        return paths

    async def _read_from_database(self, attachment: str, path: str) -> Path | None:
        content = await self._contents.find(attachment)
        if content is None:
            return None
        try:
            await self.files.save(attachment, Path(path).name, self._contents.chunks(content), content.size)
        except Unavailable:
            raise
        except StoreError as error:  # erased meanwhile, or damaged
            log.warning("file_not_read", file=attachment, error=error.message)
            return None
        log.info("file_cached", file=attachment, size=content.size)
        return self.files.find(path)

    # ── storing ─────────────────────────────────────────────────────────────────────────────────────────────

    async def save(
        self, attachment: str, name: str, pieces: AsyncIterator[bytes], max_bytes: int
    ) -> SavedAttachment:
        """Write a file as its bytes come, into the home and the database.

        After return: it counts as soon as its attachment is recorded. If we die inside: what is left of it counts
        for nothing, and is removed later. `FileTooLarge`, `AttachmentQuotaReached`: nothing is left of it.
        """
        saved = await self.files.save(attachment, name, pieces, max_bytes)
        return await self._published(saved)

    async def link(self, attachment: str, name: str, path: str) -> SavedAttachment | None:
        """Store an attachment once more, under another id. None: nobody has it."""
        if await self.fetch(path) is None:
            return None
        saved = await run_in_thread(lambda: self.files.link(attachment, name, path))
        return None if saved is None else await self._published(saved)

    async def _published(self, saved: SavedAttachment) -> SavedAttachment:
        try:
            await self.publish(saved)
        except BaseException:  # also when cancelled: a file that no row will name must not stay in the home
            self.files.remove(_attachment_of(saved.path))
            raise
        return saved

    async def publish(self, saved: SavedAttachment) -> None:
        """Copy a file of the home into the database, where gateways share one, with one chunk in memory."""
        place = self.files.find(saved.path) if self._contents.shared else None
        if place is None:
            return
        await self._require_room(saved.size)
        attachment = _attachment_of(saved.path)
        content = await self._contents.begin(attachment, self._run)
        try:
            with place.open("rb") as file:
                await self._write_chunks(content, file)
            await self._require_room(0)  # others may have written meanwhile
        except BaseException:  # also when cancelled: chunks that no row will name must not stay in the database
            with suppress(Unavailable):  # what is left counts for nothing, and goes when this run has ended
                await self._contents.discard(content)
            raise
        self._in_database.add(attachment)

    async def _write_chunks(self, content: str, file: BinaryIO) -> None:
        digest, number = hashlib.sha256(), 0
        while piece := await run_in_thread(lambda: file.read(CHUNK_BYTES)):
            digest.update(piece)
            if not await self._contents.append(content, number, piece):
                raise Unavailable("not written: the run of this gateway was declared dead")
            number += 1
        await self._contents.complete(content, digest.hexdigest())

    async def _require_room(self, size: int) -> None:
        if await self._contents.total_bytes() + size > self._max_total_bytes:
            raise AttachmentQuotaReached(
                texts.files.no_room_for_attachments(self._max_total_bytes), hint=texts.files.MAKE_ROOM_HINT
            )

    # ── upkeep ──────────────────────────────────────────────────────────────────────────────────────────────

    async def copy_older(self) -> None:
        """Copy files of the home that were recorded before files were in the database, one after the other.

        If we die inside: the next look copies the rest.
        """
        if not self._contents.shared:
            return
        ids = [each for each in await run_in_thread(self.files.ids) if each not in self._in_database]
        for start in range(0, len(ids), FILES_PER_LOOK):
            some = ids[start : start + FILES_PER_LOOK]
            missing = await self._contents.missing(some)
            self._in_database.update(set(some) - {attachment for attachment, _ in missing})
            try:
                for attachment, path in missing:
                    await self._copy(attachment, path)
            except AttachmentQuotaReached as error:  # the next look tries again: there may be room then
                log.warning("files_not_copied", error=error.message, hint=texts.files.MAKE_ROOM_HINT)
                return

    async def _copy(self, attachment: str, path: str) -> None:
        place = self.files.find(path)
        if place is not None:
            await self.publish(SavedAttachment(path, place.stat().st_size))
            await self._contents.settle_older(attachment)
            log.info("file_copied", file=attachment)


def _attachment_of(path: str) -> str:
    """The id in the path of an attachment, `attachments/ID/NAME`."""
    return path.split("/")[1]

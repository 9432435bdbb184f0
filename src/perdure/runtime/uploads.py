"""Stores files that people upload before the message that names them, and removes unused ones."""

from __future__ import annotations

from collections.abc import AsyncIterator

from perdure.logs import Log
from perdure.store.api import Store
from perdure.store.attachments import StoredAttachment
from perdure.store.ids import Clock
from perdure.tools.attachments import AttachmentFiles
from perdure.tools.threads import run_in_thread

log = Log("uploads")

UNUSED_UPLOAD_MS = 86_400_000  # how long an upload waits for its message
LEFTOVER_AGE_SECONDS = (
    86_400.0  # seconds after which what a crash has left is removed: far longer than anything is under way
)


class Uploads:
    def __init__(self, store: Store, attachments: AttachmentFiles, clock: Clock, max_bytes: int) -> None:
        self._store = store
        self._attachments = attachments
        self._clock = clock
        self._max_bytes = max_bytes

    async def receive(self, name: str, media_type: str, pieces: AsyncIterator[bytes]) -> StoredAttachment:
        """Take a file in as it comes. `FileTooLarge`: nothing of it is kept.

        After return: a message may name it, for a day. If we die inside: it is not here, and what there is of it
        is removed.
        """
        file = self._store.attachments.new_id()
        saved = await self._attachments.save(file, name, pieces, self._max_bytes)
        stored = await self._store.attachments.record_upload(
            name, media_type, saved.path, saved.size, self._clock(), id=file
        )
        log.info("uploaded", file=file, size=saved.size)
        return stored

    async def sweep(self) -> None:
        """Remove what was uploaded and named by no message in time, and files of which nobody knows."""
        now = self._clock()
        unused = await self._store.attachments.delete_unused(now - UNUSED_UPLOAD_MS)
        old = await run_in_thread(lambda: self._attachments.ids_before(now / 1000 - LEFTOVER_AGE_SECONDS))
        orphans = await self._store.attachments.ids_without_row(old)
        await run_in_thread(lambda: self._attachments.remove(*unused, *orphans))
        if unused or orphans:
            log.info("files_removed", unused=len(unused), orphans=len(orphans))

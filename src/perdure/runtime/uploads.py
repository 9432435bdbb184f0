"""Files that people send ahead of the messages that name them, and the end of those that nobody names."""

from __future__ import annotations

from collections.abc import AsyncIterator

from perdure.logs import Log
from perdure.store.api import Store
from perdure.store.attachments import StoredFile
from perdure.store.ids import Clock
from perdure.tools.cabinet import Cabinet
from perdure.tools.threads import in_thread

log = Log("uploads")

KEPT_MS = 86_400_000  # how long an upload waits for its message
LEFT = 86_400.0  # seconds after which what a crash has left is removed: far longer than anything is under way


class Uploads:
    def __init__(self, store: Store, cabinet: Cabinet, clock: Clock, most: int) -> None:
        self._store = store
        self._cabinet = cabinet
        self._clock = clock
        self._most = most

    async def take(self, name: str, media_type: str, pieces: AsyncIterator[bytes]) -> StoredFile:
        """Take a file in as it comes. `FileTooLarge`: nothing of it is kept.

        After return: a message may name it, for a day. If we die inside: it is not here, and what there is of it
        is removed.
        """
        file = self._store.attachments.new_id()
        kept = await self._cabinet.keep(file, name, pieces, self._most)
        stored = await self._store.attachments.uploaded(
            name, media_type, kept.path, kept.size, self._clock(), id=file
        )
        log.info("uploaded", file=file, size=kept.size)
        return stored

    async def sweep(self) -> None:
        """Remove what was uploaded and named by no message in time, and files of which nobody knows."""
        now = self._clock()
        unused = await self._store.attachments.unused(now - KEPT_MS)
        old = await in_thread(lambda: self._cabinet.names(now / 1000 - LEFT))
        strangers = await self._store.attachments.strangers(old)
        await in_thread(lambda: self._cabinet.remove(*unused, *strangers))
        if unused or strangers:
            log.info("files_removed", unused=len(unused), strangers=len(strangers))

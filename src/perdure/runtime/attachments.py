"""Stores files in the home: uploads of people, and files that platforms keep for us.

Chats do not wait for each other's files. Which files are awaited is read from the store each time: a fetch that a
crash interrupted is made again, and the tries that failed before count.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from itertools import groupby

from msgspec import Struct

from perdure.containment import raise_uncontained
from perdure.core import texts
from perdure.core.address import split_session_key
from perdure.core.delivery import retry_delay_ms
from perdure.errors import (
    AttachmentQuotaReached,
    FetchRefused,
    FileTooLarge,
    NotConnected,
    PerdureError,
    Unavailable,
)
from perdure.logs import Log
from perdure.platforms.api import Adapter
from perdure.runtime.backoff import Backoff, retry_while_unavailable
from perdure.runtime.clocks import DueTimes
from perdure.runtime.gateway_run import GatewayRun
from perdure.runtime.tasks import FailureLog
from perdure.runtime.wakeups import POLL_SECONDS, STORE_RETRY_SECONDS
from perdure.store.api import Store
from perdure.store.attachments import PendingAttachment, StoredAttachment
from perdure.store.ids import Clock
from perdure.tools.attachments import AttachmentFiles, SavedAttachment
from perdure.tools.blocking_jobs import run_in_thread

log = Log("uploads")


UNUSED_UPLOAD_MS = 86_400_000  # how long an upload waits for its message
# The age at which files that a crash has left are removed: no transfer takes nearly as long.
LEFTOVER_AGE_SECONDS = 86_400.0


class Uploads:
    def __init__(self, store: Store, attachments: AttachmentFiles, clock: Clock, max_bytes: int) -> None:
        self._store = store
        self._attachments = attachments
        self._clock = clock
        self._max_bytes = max_bytes

    async def receive(self, name: str, media_type: str, pieces: AsyncIterator[bytes]) -> StoredAttachment:
        """Store an upload piece by piece as it arrives. `FileTooLarge`: nothing of the file is kept.

        After return: a message may name the file, for a day. If we die inside: the file is not on record, and the
        pieces on disk are removed later.
        """
        file = self._store.attachments.new_id()
        saved = await self._attachments.save(file, name, pieces, self._max_bytes)
        stored = await self._store.attachments.record_upload(
            name, media_type, saved.path, saved.size, self._clock(), id=file
        )
        log.info("uploaded", file=file, size=saved.size)
        return stored

    async def sweep(self) -> None:
        """Remove uploads that no message has named in time, and files that no row of the store names."""
        now = self._clock()
        unused = await self._store.attachments.delete_unused(now - UNUSED_UPLOAD_MS)
        old = await run_in_thread(lambda: self._attachments.ids_before(now / 1000 - LEFTOVER_AGE_SECONDS))
        orphans = await self._store.attachments.ids_without_row(old)
        await run_in_thread(lambda: self._attachments.remove(*unused, *orphans))
        if unused or orphans:
            log.info("files_removed", unused=len(unused), orphans=len(orphans))


MAX_FAILED_FETCHES = 5  # after which a file is given up
DISCONNECTED_RETRY_MS = 5_000  # between tries while the platform cannot be reached
MAX_SILENCE_SECONDS = 30.0  # without a byte, after which a try has failed


class FileLimits(Struct, frozen=True):
    """How many bytes one file may have, and all files of one chat together."""

    file: int
    chat: int


class AttachmentFetcher:
    """Fetches the files of each chat in a task of its own, one after the other."""

    def __init__(self, run: GatewayRun, attachments: AttachmentFiles, limits: FileLimits) -> None:
        self._run = run
        self._store = run.store
        self._clock = run.clocks.wall
        self._attachments = attachments
        self._limits = limits
        self._failures = FailureLog(log)
        self._due_times = DueTimes(run.clocks)
        self._backoff = Backoff(run.clocks.steady, first_seconds=STORE_RETRY_SECONDS, max_seconds=POLL_SECONDS)
        self._fetching: dict[str, asyncio.Task[None]] = {}  # by key
        self._stopping = False

    def stop(self) -> None:
        """Fetch no more files; the next start fetches those that are under way."""
        self._stopping = True
        for task in self._fetching.values():
            task.cancel()

    async def run(self) -> None:
        """Fetch every awaited file as soon as it is due."""
        while True:
            await self._run.wakeups.attachments.wait(await self._fetch_due())

    async def _fetch_due(self) -> float:
        """Begin to fetch every file that is due. Returns the seconds until the next look."""
        try:
            awaited = await self._store.attachments.pending(self._run.id)
        except Unavailable as error:
            log.warning("attachments_not_read", error=error.message)
            return POLL_SECONDS
        names = {each.file.id for each in awaited}
        self._due_times.forget_all_but(names)
        self._backoff.forget_all_but(names)
        wait = POLL_SECONDS
        for key, files in groupby(awaited, lambda each: each.key):
            left = [(self._remaining_ms(file), file) for file in files]
            due = [file for pause, file in left if not pause]
            if not due:
                wait = min(wait, min(pause for pause, _ in left) / 1000)
            elif key not in self._fetching and self._adapter_for(key) is not None and not self._stopping:
                self._fetching[key] = self._run.tasks.create_task(self._serve(key, due))
        return wait

    def _remaining_ms(self, awaited: PendingAttachment) -> int:
        """Return the milliseconds until the fetch of a file may be tried again."""
        name, delay = awaited.file.id, max(retry_delay_ms(max(1, awaited.file.attempts)), DISCONNECTED_RETRY_MS)
        return max(self._due_times.remaining_ms(name, awaited.due_at, delay), self._backoff.remaining_ms(name))

    def _adapter_for(self, key: str) -> Adapter | None:
        return self._run.connections.connected.get(split_session_key(key)[1].platform)

    async def _serve(self, key: str, files: list[PendingAttachment]) -> None:
        try:
            for file in files:
                await self._failures.contain("not_fetched", self._fetch_with_backoff(file), key=key)
        except asyncio.CancelledError:
            if not self._stopping:
                raise
        finally:
            del self._fetching[key]
            self._run.wakeups.attachments.wake()

    async def _fetch_with_backoff(self, awaited: PendingAttachment) -> None:
        progress = False
        try:
            progress = await self._fetch(awaited)
        finally:
            (self._backoff.succeeded if progress else self._backoff.failed)(awaited.file.id)

    async def _fetch(self, awaited: PendingAttachment) -> bool:
        """Fetch one file, or record the failure of the fetch. False: nothing has changed in the store."""
        adapter = self._adapter_for(awaited.key)
        if adapter is None or not await self._store.attachments.hold_lease(awaited, self._run.id):
            return False
        try:
            saved = await self._link_known_copy(awaited) or await self._download(awaited, adapter)
        except FetchRefused as refused:
            await self._give_up(awaited, refused.message)
        except Unavailable:
            raise
        except NotConnected as error:
            await self._retry_later(awaited, error.message, counts=False)
        except BaseException as error:  # noqa: BLE001 reason: whatever an adapter raises, only this file is concerned
            raise_uncontained(error)
            await self._retry_later(awaited, _error_text(error), counts=True)
        else:
            await self._record_fetched(awaited, saved)
        return True

    async def _link_known_copy(self, awaited: PendingAttachment) -> SavedAttachment | None:
        """Link to the copy of the same file that was fetched before: the platform may no longer have the file."""
        path = await self._store.attachments.fetched_path(awaited)
        if path is None:
            return None
        return await run_in_thread(lambda: self._attachments.link(awaited.file.id, awaited.file.name, path))

    async def _download(self, awaited: PendingAttachment, adapter: Adapter) -> SavedAttachment:
        file = awaited.file
        if file.size is not None and file.size > self._limits.file:
            raise FileTooLarge(texts.files.attachment_too_large(self._limits.file))
        room = self._limits.chat - await self._store.attachments.fetched_bytes(awaited.key)
        if room < (file.size or 1):
            raise AttachmentQuotaReached(texts.files.no_room_in_chat(self._limits.chat))
        most = min(self._limits.file, room)
        async with aclosing(adapter.fetch(file.reference)) as pieces:
            return await self._attachments.save(file.id, file.name, _with_silence_limit(pieces), most)

    async def _record_fetched(self, awaited: PendingAttachment, stored: SavedAttachment) -> None:
        if await retry_while_unavailable(
            lambda: self._store.attachments.record_fetched(awaited, stored.path, stored.size)
        ):
            log.info("fetched", file=awaited.file.id, key=awaited.key, size=stored.size)
            self._run.wakeups.wake_runner_and_delivery(awaited.key)
        else:
            self._attachments.remove(awaited.file.id)

    async def _retry_later(self, awaited: PendingAttachment, problem: str, *, counts: bool) -> None:
        tried = awaited.file.attempts + counts
        if tried >= MAX_FAILED_FETCHES:
            await self._give_up(awaited, problem)
            return
        log.warning("fetch_failed", file=awaited.file.id, tries=tried, error=problem)
        due = self._clock() + (retry_delay_ms(tried) if counts else DISCONNECTED_RETRY_MS)
        await retry_while_unavailable(lambda: self._store.attachments.retry_later(awaited, due, counts=counts))

    async def _give_up(self, awaited: PendingAttachment, problem: str) -> None:
        log.warning("file_given_up", file=awaited.file.id, key=awaited.key, problem=problem)
        await retry_while_unavailable(
            lambda: self._store.attachments.record_failed(awaited, problem, self._clock())
        )
        self._run.wakeups.wake_runner_and_delivery(awaited.key)


async def _with_silence_limit(pieces: AsyncGenerator[bytes]) -> AsyncGenerator[bytes]:
    """Yield the same pieces; raise `TimeoutError` if none comes for too long."""
    while True:
        async with asyncio.timeout(MAX_SILENCE_SECONDS):
            piece = await anext(pieces, None)
        if piece is None:
            return
        yield piece


def _error_text(error: BaseException) -> str:
    match error:
        case PerdureError():
            return error.message
        case TimeoutError():
            return texts.files.ATTACHMENT_TOO_SLOW
        case OSError(strerror=str(words)):
            return words
        case _:
            return str(error) or type(error).__name__

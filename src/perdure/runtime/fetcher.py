"""Fetches the files that messages came with, before their turn begins; chats do not wait for each other.

Which files are awaited is read from the store, each time: so a fetch that a crash cut off is simply made again,
and the tries that failed before count.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from itertools import groupby

from perdure.boundary import raise_uncontained
from perdure.core import notes
from perdure.core.address import parse_session_key
from perdure.core.delivery import retry_in
from perdure.errors import FetchRefused, FileTooLarge, NotConnected, PerdureError, Unavailable
from perdure.logs import Log
from perdure.platforms.api import Adapter
from perdure.runtime.bell import POLL, Bell
from perdure.runtime.tasks import Failures, Pauses, Tasks
from perdure.store.api import Store
from perdure.store.attachments import Awaited
from perdure.store.ids import Clock
from perdure.tools.cabinet import Cabinet, Kept
from perdure.tools.threads import in_thread

log = Log("fetcher")

TRIES = 5  # that failed, and then the file is given up
AWAY_MS = 5_000  # between tries while the platform cannot be reached
SILENCE = 30.0  # seconds without a byte after which a try has failed


class Fetcher:
    """One task for each chat that waits for files; in it, one file after the other."""

    def __init__(
        self,
        store: Store,
        run: str,
        connected: Mapping[str, Adapter],
        cabinet: Cabinet,
        *,
        most: int,
        clock: Clock,
        settled: Callable[[str], None],
        group: Tasks,
    ) -> None:
        """`settled` is told the key of a conversation that waits for one file less."""
        self._store = store
        self._run = run
        self._connected = connected
        self._cabinet = cabinet
        self._most = most
        self._clock = clock
        self._settled = settled
        self._group = group
        self._failures = Failures(log)
        self._pauses = Pauses()  # by key
        self._bell = Bell()
        self._fetching: dict[str, asyncio.Task[None]] = {}  # by key
        self._stopping = False

    def wake(self) -> None:
        self._bell.ring()

    def stop(self) -> None:
        """Fetch nothing more; what is under way is fetched at the next start."""
        self._stopping = True
        for task in self._fetching.values():
            task.cancel()

    async def work(self) -> None:
        """Fetch what is awaited, as soon as it is due."""
        while True:
            await self._bell.wait(await self._fetch_due())

    async def _fetch_due(self) -> float:
        """Begin what is due; return in how many seconds to look again."""
        try:
            awaited = await self._store.attachments.awaited(self._run)
        except Unavailable as error:
            log.warning("cannot_look_for_files", error=error.message)
            return POLL
        wait = POLL
        for key, files in groupby(awaited, lambda each: each.key):
            due = min(file.due_at for file in files) - self._clock()
            if due > 0:
                wait = min(wait, due / 1000)
            elif key not in self._fetching and self._adapter(key) is not None and not self._stopping:
                self._fetching[key] = self._group.create_task(self._serve(key, awaited))
        return wait

    def _adapter(self, key: str) -> Adapter | None:
        return self._connected.get(parse_session_key(key)[1].platform)

    async def _serve(self, key: str, awaited: list[Awaited]) -> None:
        try:
            fetching = self._fetch_all(key, awaited)
            await asyncio.sleep(
                await self._failures.pause_after("not_fetched", fetching, self._pauses, key, key=key)
            )
        except asyncio.CancelledError:
            if not self._stopping:
                raise
        finally:
            del self._fetching[key]
            self._bell.ring()

    async def _fetch_all(self, key: str, awaited: list[Awaited]) -> None:
        for file in awaited:
            if file.key == key and file.due_at <= self._clock():
                await self._fetch(file)

    async def _fetch(self, awaited: Awaited) -> None:
        """Bring one file here, or put on record that it did not come."""
        adapter = self._adapter(awaited.key)
        if adapter is None or not await self._store.attachments.hold(awaited, self._run):
            return
        try:
            kept = await self._linked(awaited) or await self._downloaded(awaited, adapter)
        except FetchRefused as refused:
            await self._give_up(awaited, refused.message)
        except Unavailable:
            raise
        except NotConnected as error:
            await self._try_later(awaited, error.message, counts=False)
        except BaseException as error:  # noqa: BLE001 reason: whatever an adapter raises, only this file is concerned
            raise_uncontained(error)
            await self._try_later(awaited, _reason(error), counts=True)
        else:
            await self._record(awaited, kept)

    async def _linked(self, awaited: Awaited) -> Kept | None:
        """The same file, if it came before: it may be gone from where it came from."""
        path = await self._store.attachments.known(awaited)
        if path is None:
            return None
        return await in_thread(lambda: self._cabinet.link(awaited.file.id, awaited.file.name, path))

    async def _downloaded(self, awaited: Awaited, adapter: Adapter) -> Kept:
        file = awaited.file
        if file.size is not None and file.size > self._most:
            raise FileTooLarge(notes.file_too_large(self._most))
        async with aclosing(adapter.fetch(file.reference)) as pieces:
            return await self._cabinet.keep(file.id, file.name, _lively(pieces), self._most)

    async def _record(self, awaited: Awaited, kept: Kept) -> None:
        if await self._store.attachments.fetched(awaited, kept.path, kept.size):
            log.info("fetched", file=awaited.file.id, key=awaited.key, size=kept.size)
            self._settled(awaited.key)
        else:
            self._cabinet.remove(awaited.file.id)

    async def _try_later(self, awaited: Awaited, problem: str, *, counts: bool) -> None:
        tried = awaited.file.attempts + counts
        if tried >= TRIES:
            await self._give_up(awaited, problem)
            return
        log.warning("fetch_failed", file=awaited.file.id, tries=tried, error=problem)
        due = self._clock() + (retry_in(tried) if counts else AWAY_MS)
        await self._store.attachments.retry(awaited, due, counts=counts)

    async def _give_up(self, awaited: Awaited, problem: str) -> None:
        log.warning("file_given_up", file=awaited.file.id, key=awaited.key, problem=problem)
        await self._store.attachments.fail(awaited, problem, self._clock())
        self._settled(awaited.key)


async def _lively(pieces: AsyncGenerator[bytes]) -> AsyncGenerator[bytes]:
    """The same pieces, and an error if none comes for long."""
    while True:
        async with asyncio.timeout(SILENCE):
            piece = await anext(pieces, None)
        if piece is None:
            return
        yield piece


def _reason(error: BaseException) -> str:
    match error:
        case PerdureError():
            return error.message
        case TimeoutError():
            return notes.TOO_SLOW
        case OSError(strerror=str(words)):
            return words
        case _:
            return str(error) or type(error).__name__

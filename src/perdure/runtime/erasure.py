"""Erases sessions with all that belongs to them, in an order that survives a crash at any point.

The intent is stored first. Then running turns and commands are ended, the rows are deleted, and the files last:
after a crash, the next start or the next look finishes the erasure, on every machine that has files of it.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Awaitable, Callable, Collection, Iterable
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from perdure.core import texts
from perdure.core.file_names import CHATS_FOLDER, chat_folder
from perdure.errors import NotFound, StillRuns
from perdure.logs import Log
from perdure.runtime.tasks import FailureLog
from perdure.settings import Settings
from perdure.store.api import Store, open_database
from perdure.store.erasure import ErasedSession
from perdure.store.ids import Clock, wall_clock
from perdure.tools import keeper
from perdure.tools.blocking_jobs import run_in_thread
from perdure.tools.shell import call_key

log = Log("erasure")

SESSIONS_PER_BATCH = 20  # old sessions that are erased before others are served
EVENTS_PER_BATCH = 100  # old rejected events, likewise
RETENTION_CHECK_SECONDS = 600.0  # between two looks for sessions that are too old
BATCH_PAUSE_SECONDS = 1.0  # between two batches, in which others are served
STOP_GRACE_SECONDS = 5.0  # for a command to end by itself
ERASED_PREFIX = ".erased-"  # of a chat's folder that is being removed
_FAR_FUTURE_MS = 1 << 62


class RetentionBatch(Struct, frozen=True):
    """What one batch of retention has removed."""

    sessions: int = 0
    events: int = 0
    more: bool = False  # there may be more that is due


async def _no_attempt_to_stop(turn: str) -> None: ...


class Eraser:
    """Erases sessions, and removes their files in one home."""

    def __init__(
        self,
        store: Store,
        home: Path,
        clock: Clock = wall_clock,
        stop_attempt: Callable[[str], Awaitable[None]] = _no_attempt_to_stop,
    ) -> None:
        """`stop_attempt` stops the attempt at a turn, if one runs here, and waits until it has ended."""
        self._store = store
        self._home = home
        self._keepers = home / "keepers"
        self._clock = clock
        self._stop_attempt = stop_attempt
        self._failures = FailureLog(log)
        self._one_at_a_time = asyncio.Lock()

    async def erase(self, name: str) -> list[ErasedSession]:
        """Erase the session of that id, or all that a key ever had.

        After return: nothing of them is left but names without words. If we die inside: whatever was begun is
        finished at the next start.
        """
        found = await self._store.sessions.find_by_name(name)
        if not found:
            raise NotFound(f"no session is named {name!r}", hint=texts.phrases.SESSION_NAMES_HINT)
        return [done for session in found if (done := await self._erase(session.id)) is not None]

    async def finish_pending(self) -> None:
        """Finish erasures that were begun, and remove the files of sessions that were erased here or elsewhere."""
        for session in await self._store.erasure.unfinished():
            # The next look tries again, and no other session waits for it.
            await self._failures.contain("not_erased", self._erase(session), session=session)
        await self._remove_files(*await self._store.erasure.files_to_remove())

    async def erase_expired(self, age_ms: int) -> RetentionBatch:
        """Erase a batch of older sessions in which nothing is under way or owed, and of rejected events."""
        now = self._clock()
        idle = await self._store.erasure.idle_sessions(now - age_ms, SESSIONS_PER_BATCH)
        gone = [await self._erase(session, idle_since=now - age_ms) for session in idle]
        sessions = sum(erased is not None for erased in gone)
        events = await self._store.erasure.delete_old_events(now - age_ms, now, EVENTS_PER_BATCH)
        if sessions or events:
            log.info("expired_sessions_erased", sessions=sessions, events=events)
        return RetentionBatch(sessions, events, more=sessions == SESSIONS_PER_BATCH or events == EVENTS_PER_BATCH)

    async def forget_old_tombstones(self) -> None:
        """Delete the tombstones of sessions that were erased long ago."""
        await self._store.erasure.delete_expired_tombstones(self._clock())

    async def _erase(self, session: str, *, idle_since: int | None = None) -> ErasedSession | None:
        async with self._one_at_a_time:
            return await self._erase_locked(session, idle_since)

    async def _erase_locked(self, session: str, idle_since: int | None) -> ErasedSession | None:
        begun = await self._store.erasure.begin(session, self._clock(), idle_since=idle_since)
        if begun is None:
            return None
        for turn in begun.ended:
            await self._stop_attempt(turn)
        _, stubborn = await self._stop_commands(begun.turns)
        if stubborn:
            raise StillRuns(
                f"a command of {session} does not end: {', '.join(stubborn)}",
                hint="Nothing new begins in that session, and it is erased once its commands have ended.",
            )
        erased = await self._store.erasure.finish(session, self._clock())
        await self._remove_files(begun.turns, (*begun.files, chat_folder(begun.key)))
        if erased is not None:
            log.info("erased", session=session, key=erased.key, turns=erased.turns, messages=erased.messages)
        return erased

    # ── files ───────────────────────────────────────────────────────────────────────────────────────────────

    async def _stop_commands(self, turns: Collection[str]) -> tuple[list[str], list[str]]:
        """Stop the commands of these turns. Returns all their directories, and those whose command still runs."""
        names = await run_in_thread(lambda: _keeper_directories(self._keepers, set(turns)))
        seen = await asyncio.gather(*(keeper.stop(self._keepers / name, STOP_GRACE_SECONDS) for name in names))
        return names, [name for name, each in zip(names, seen, strict=True) if _still_runs(each)]

    async def _remove_files(self, turns: Collection[str], files: Iterable[str]) -> None:
        """Remove the files of these turns, and these files."""
        names, _ = await self._stop_commands(turns)
        try:
            await run_in_thread(
                lambda: keeper.remove_ended(self._keepers, 0, _FAR_FUTURE_MS, keeper.AllBut(names))
            )
            await run_in_thread(lambda: _remove_home_files(self._home, files))
            await self._remove_chat_folders(files)
        except OSError as error:  # the store knows what is left, and the next look tries again
            log.warning("files_not_removed", error=error)

    async def _remove_chat_folders(self, files: Iterable[str]) -> None:
        """Remove the folders of chats that are among these files, unless such a chat has a session."""
        folders = {name for name in files if name.startswith(f"{CHATS_FOLDER}/") and (self._home / name).is_dir()}
        used = {chat_folder(key) for key in await self._store.sessions.keys()} if folders else set()
        unused = sorted(folders - used)
        await run_in_thread(lambda: _remove_folders(self._home, unused))
        if unused:
            log.info("chat_folders_erased", folders=unused)


def _keeper_directories(root: Path, turns: Collection[str]) -> list[str]:
    places = sorted(root.iterdir()) if turns and root.is_dir() else []
    return [place.name for place in places if call_key(place).partition(":")[0] in turns]


def _still_runs(status: keeper.CommandStatus) -> bool:
    return isinstance(status, keeper.CommandRunning | keeper.CommandUnreadable) or (
        isinstance(status, keeper.CommandLost) and status.alive
    )


def _remove_home_files(home: Path, files: Iterable[str]) -> None:
    """Remove files inside the home; a path outside it is ignored."""
    for path in ((home / file).resolve() for file in files):
        if path.is_relative_to(home.resolve()) and path.is_file():
            path.unlink(missing_ok=True)
            with suppress(OSError):  # the directory holds a file of somebody else, and stays
                path.parent.rmdir()


def _remove_folders(home: Path, names: Iterable[str]) -> None:
    """Remove these folders of chats, and what is left of those whose removal was interrupted."""
    for folder in (home / name for name in names):
        # At once out of the way: whoever writes meanwhile begins with a folder of their own.
        folder.rename(folder.with_name(f"{ERASED_PREFIX}{folder.name}"))
    for folder in (home / CHATS_FOLDER).glob(f"{ERASED_PREFIX}*"):
        for parent, below, _ in os.walk(folder):
            for path in (Path(parent, name) for name in below):
                if not path.is_symlink():
                    path.chmod(0o700)  # some installers leave folders in which nothing can be deleted
        shutil.rmtree(folder)


class RetentionLoop:
    """Finishes erasures that were begun and erases old sessions, at the start and then every few minutes."""

    def __init__(self, eraser: Eraser, age: float | None, sweep_files: Callable[[], Awaitable[None]]) -> None:
        """`sweep_files` removes uploaded files that no message names."""
        self._eraser = eraser
        self._sweep_files = sweep_files
        self._failures = FailureLog(log)
        self._age_ms = int((age or 0) * 1000)

    async def run(self) -> None:
        while True:
            for step in (
                self._eraser.finish_pending,
                self._erase_expired,
                self._eraser.forget_old_tombstones,
                self._sweep_files,
            ):
                await self._failures.contain("not_erased", step())  # the next look tries again
            await asyncio.sleep(RETENTION_CHECK_SECONDS)

    async def _erase_expired(self) -> None:
        more = self._age_ms > 0
        while more:
            more = (await self._eraser.erase_expired(self._age_ms)).more
            await asyncio.sleep(BATCH_PAUSE_SECONDS if more else 0)


async def erase_without_gateway(settings: Settings, name: str) -> list[ErasedSession]:
    """Erase from the database of these settings, while no gateway of this home uses it."""
    store = Store(await open_database(settings.store_url, home=settings.home))
    try:
        return await Eraser(store, settings.home).erase(name)
    finally:
        await store.close()

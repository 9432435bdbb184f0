"""Erasing: a session with all that belongs to it, in an order that survives a crash at any point.

The intent is on disk first. Then what runs is ended, the rows go, and the files last: whoever dies on the way, the
next start or the next look finds what is left to do, also a gateway that has files of a session of another's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from perdure.core import notes
from perdure.errors import NotFound, StillRuns
from perdure.logs import Log
from perdure.runtime.tasks import Failures
from perdure.settings import Settings
from perdure.store.api import Store, open_database
from perdure.store.erasing import Erased
from perdure.store.ids import Clock, wall_clock
from perdure.tools import kept
from perdure.tools.shell import key_of
from perdure.tools.threads import in_thread

log = Log("erasing")

BATCH = 20  # sessions that are erased for their age before others get their turn
EVENTS = 100  # and events that came to nothing
GRACE = 5.0  # seconds that a command gets to end by itself
_EVER = 1 << 62


class Retained(Struct, frozen=True):
    """What one batch of retention has removed."""

    sessions: int = 0
    events: int = 0
    more: bool = False  # there may be more that is due


async def _nothing_runs(turn: str) -> None: ...


class Eraser:
    """Erases sessions, and removes their files in one home."""

    def __init__(
        self,
        store: Store,
        home: Path,
        clock: Clock = wall_clock,
        cut_off: Callable[[str], Awaitable[None]] = _nothing_runs,
    ) -> None:
        """`cut_off` ends the attempt at a turn, if one runs here, and waits until it has ended."""
        self._store = store
        self._home = home
        self._keepers = home / "keepers"
        self._clock = clock
        self._cut_off = cut_off
        self._failures = Failures(log)
        self._one_at_a_time = asyncio.Lock()

    async def erase(self, name: str) -> list[Erased]:
        """Erase the session of that id, or all that a key ever had.

        After return: nothing of them is left but names without words. If we die inside: whatever was begun is
        finished at the next start.
        """
        found = await self._store.sessions.named(name)
        if not found:
            raise NotFound(f"no session is named {name!r}", hint=notes.SESSION_NAMES)
        return [done for session in found if (done := await self._erase(session.id)) is not None]

    async def go_on(self) -> None:
        """Finish what was begun, and remove the files of whatever was erased here or elsewhere."""
        for session in await self._store.erasing.open():
            # The next look tries again, and nobody else waits for it.
            await self._failures.contain("not_erased", self._erase(session), session=session)
        await self._clear(*await self._store.erasing.remains())

    async def retain(self, age_ms: int) -> Retained:
        """Erase a batch of what is older: sessions in which nothing is under way or owed, and dead events."""
        now = self._clock()
        idle = await self._store.erasing.idle(now - age_ms, BATCH)
        gone = [await self._erase(session, idle_since=now - age_ms) for session in idle]
        sessions = sum(erased is not None for erased in gone)
        events = await self._store.erasing.leftovers(now - age_ms, now, EVENTS)
        if sessions or events:
            log.info("erased_for_age", sessions=sessions, events=events)
        return Retained(sessions, events, more=sessions == BATCH or events == EVENTS)

    async def forget(self) -> None:
        """Let go of what is left of what was erased long ago."""
        await self._store.erasing.forget(self._clock())

    async def _erase(self, session: str, *, idle_since: int | None = None) -> Erased | None:
        async with self._one_at_a_time:
            return await self._erase_alone(session, idle_since)

    async def _erase_alone(self, session: str, idle_since: int | None) -> Erased | None:
        begun = await self._store.erasing.begin(session, self._clock(), idle_since=idle_since)
        if begun is None:
            return None
        for turn in begun.ended:
            await self._cut_off(turn)
        _, stubborn = await self._end_commands(begun.turns)
        if stubborn:
            raise StillRuns(
                f"a command of {session} does not end: {', '.join(stubborn)}",
                hint="Nothing new begins in that session, and it is erased once its commands have ended.",
            )
        erased = await self._store.erasing.finish(session, self._clock())
        await self._clear(begun.turns, begun.files)
        if erased is not None:
            log.info("erased", session=session, key=erased.key, turns=erased.turns, messages=erased.messages)
        return erased

    # ── files ───────────────────────────────────────────────────────────────────────────────────────────────

    async def _end_commands(self, turns: Collection[str]) -> tuple[list[str], list[str]]:
        """End the commands of these turns that are here; the names of their places, and of those still running."""
        names = await in_thread(lambda: _places_of(self._keepers, set(turns)))
        seen = await asyncio.gather(*(kept.stop(self._keepers / name, GRACE) for name in names))
        return names, [name for name, each in zip(names, seen, strict=True) if _runs(each)]

    async def _clear(self, turns: Collection[str], files: Iterable[str]) -> None:
        """Remove the files of these turns, and these files; and whatever somebody began to remove."""
        names, _ = await self._end_commands(turns)
        try:
            await in_thread(lambda: kept.sweep(self._keepers, 0, _EVER, kept.AllBut(names)))
            await in_thread(lambda: _remove(self._home, files))
        except OSError as error:  # what is left is on record, and the next look tries again
            log.warning("files_not_removed", error=error)


def _places_of(root: Path, turns: Collection[str]) -> list[str]:
    places = sorted(root.iterdir()) if turns and root.is_dir() else []
    return [place.name for place in places if key_of(place).partition(":")[0] in turns]


def _runs(seen: kept.Sighting) -> bool:
    return isinstance(seen, kept.Running) or (isinstance(seen, kept.Lost) and seen.alive)


def _remove(home: Path, files: Iterable[str]) -> None:
    """Remove files of ours; whatever else a database may name is none of our business."""
    for path in ((home / file).resolve() for file in files):
        if path.is_relative_to(home.resolve()) and path.is_file():
            path.unlink(missing_ok=True)
            with suppress(OSError):  # somebody else has put something there, and it stays
                path.parent.rmdir()


async def erase_from(settings: Settings, name: str) -> list[Erased]:
    """Erase from the database of these settings, while no gateway of this home uses it."""
    store = Store(await open_database(settings.store_url, home=settings.home))
    try:
        return await Eraser(store, settings.home).erase(name)
    finally:
        await store.close()

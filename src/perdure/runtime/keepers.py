"""Commands that outlive the gateway: those whose turn is over are ended, and old ones are cleared away.

A foreground command belongs to its call. Whatever ended the turn, a person or a failure, and whoever died on the
way, the journal says that the call has its result; then nobody waits for the command, and it is stopped.
"""

from __future__ import annotations

import asyncio
from collections.abc import Container
from functools import partial
from pathlib import Path

from perdure.core.effects import Effect
from perdure.core.journal import Call, Cancelled, Failed, TurnView, fold
from perdure.core.turn import FINAL
from perdure.logs import Log
from perdure.runtime.bell import Bell
from perdure.runtime.tasks import Failures
from perdure.store.api import Store
from perdure.store.ids import Clock
from perdure.tools import kept
from perdure.tools.shell import key_of, place_of, places_of
from perdure.tools.threads import in_thread

log = Log("keepers")

LOOK = 60.0  # seconds between two looks that nobody asked for
KEEP_MS = 7 * 86_400_000  # how long the files of a command stay after its end
GRACE = 5.0  # seconds that a command gets to end by itself


class Keepers:
    def __init__(self, store: Store, root: Path, clock: Clock) -> None:
        self._store = store
        self._root = root
        self._clock = clock
        self._failures = Failures(log)
        self._bell = Bell()
        self._over: dict[str, int] = {}  # places that are not looked at any more, and since when they are over

    def wake(self) -> None:
        """Say that a turn may have ended in the middle of a command."""
        self._bell.ring()

    def alive(self, view: TurnView) -> bool:
        """Whether a command that the turn waits for runs still."""
        return any(self._runs(call) for call in view.open_calls)

    async def work(self) -> None:
        while True:
            await self._failures.contain("commands_not_looked_at", self._look())
            await self._bell.wait(LOOK)

    async def _look(self) -> None:
        known = Known(self._over, await self._store.processes.live_directories())
        seen = await in_thread(partial(kept.survey, self._root, known))
        self._remember(seen)
        await self._end_forgotten(seen)
        await self._clear(seen)

    def _remember(self, seen: dict[str, kept.Sighting]) -> None:
        """What is over stays over: with a week of commands, to look at each of them again would take long."""
        self._over |= {name: each.ended_at for name, each in seen.items() if isinstance(each, kept.Ended)}
        self._over |= {name: 0 for name, each in seen.items() if isinstance(each, kept.Refused)}

    # ── ending ──────────────────────────────────────────────────────────────────────────────────────────────

    async def _end_forgotten(self, seen: dict[str, kept.Sighting]) -> None:
        places = [self._root / name for name, each in seen.items() if await self._may_end(name, each)]
        await asyncio.gather(*(self._end(place) for place in places))  # one that is stubborn keeps no other

    async def _end(self, place: Path) -> None:
        log.info("command_stopped", place=place.name)
        await self._failures.contain("command_not_stopped", kept.stop(place, GRACE), place=place.name)

    async def _may_end(self, name: str, seen: kept.Sighting) -> bool:
        """Whether to end a command. One whose turn cannot be read is left alone, and the others are not."""
        found: list[bool] = []

        async def look() -> None:
            found.append(await self._is_forgotten(name, seen))

        await self._failures.contain("command_not_looked_at", look(), place=name)
        return any(found)

    async def _is_forgotten(self, name: str, seen: kept.Sighting) -> bool:
        """Whether a command runs, or may yet be started, and nobody waits for it any more."""
        if not isinstance(seen, kept.Running | kept.Unclaimed | kept.Lost):
            return False
        turn = await self._turn_of(name)
        if turn is None or await self._store.processes.at(name.split("#", 1)[0]):
            return False  # it is not of this database, or was begun to go on by itself
        if isinstance(seen, kept.Lost):  # its call has got all that there will be: its turn alone can end it
            return seen.alive and isinstance(turn.ended, Cancelled | Failed)
        return not _waits(turn, name)

    async def _turn_of(self, name: str) -> TurnView | None:
        """The turn of a command; None if it is not of this database: whoever put it there knows why."""
        turn = await self._store.turns.get(_call_of(name)[0])
        return fold(await self._store.journal.of_turn(turn.session, turn.id)) if turn is not None else None

    def _runs(self, call: Call) -> bool:
        if call.started is None or call.started.effect is not Effect.ATTACHED:
            return False
        places = places_of(place_of(self._root, call.started.key))
        return any(isinstance(kept.look(place), kept.Running) for place in places)

    # ── clearing ────────────────────────────────────────────────────────────────────────────────────────────

    async def _clear(self, seen: dict[str, kept.Sighting]) -> None:
        """Remove old files, but never the result of a call that has not taken it yet: it would run again."""
        now = self._clock()
        old = [name for name, at in self._over.items() if at <= now - KEEP_MS]
        old += [name for name, each in seen.items() if isinstance(each, kept.Lost | kept.Unclaimed)]
        due: set[str] = set()
        for name in old:
            await self._failures.contain("command_not_looked_at", self._note_due(name, due), place=name)
        if not due:
            return
        for name in await in_thread(lambda: kept.sweep(self._root, KEEP_MS, now, kept.AllBut(due))):
            self._over.pop(name, None)
            log.info("command_cleared", place=name)

    async def _note_due(self, name: str, due: set[str]) -> None:
        turn = await self._turn_of(name)
        if turn is None or not _waits(turn, name):
            due.add(name)


class Known:
    """The places that nobody needs to look at: they are over, or their process is attended to by itself."""

    def __init__(self, over: Container[str], attended: Container[str]) -> None:
        self._over = over
        self._attended = attended

    def __contains__(self, one: object) -> bool:
        return one in self._over or str(one).split("#", 1)[0] in self._attended


def _call_of(name: str) -> tuple[str, str]:
    """The turn and the call that a place belongs to."""
    turn, _, call = key_of(Path(name)).partition(":")
    return turn, call


def _waits(turn: TurnView, name: str) -> bool:
    """Whether the call that a command belongs to has no result yet."""
    call = turn.calls.get(_call_of(name)[1])
    return turn.state not in FINAL and (call is None or call.ended is None)

"""Commands that outlive the gateway: those whose turn is over are ended, and old ones are cleared away.

A foreground command belongs to its call. Whatever ended the turn, a person or a failure, and whoever died on the
way, the journal says that the call has its result; then nobody waits for the command, and it is stopped.
"""

from __future__ import annotations

from pathlib import Path

from perdure.core.effects import Effect
from perdure.core.journal import Call, TurnView, fold
from perdure.core.turn import FINAL
from perdure.errors import Unavailable
from perdure.logs import Log
from perdure.runtime.bell import Bell
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
        self._bell = Bell()

    def wake(self) -> None:
        """Say that a turn may have ended in the middle of a command."""
        self._bell.ring()

    def alive(self, view: TurnView) -> bool:
        """Whether a command that the turn waits for runs still."""
        return any(self._runs(call) for call in view.open_calls)

    async def work(self) -> None:
        while True:
            try:
                await self._end_forgotten()
                for name in await in_thread(lambda: kept.sweep(self._root, KEEP_MS, self._clock())):
                    log.info("command_cleared", place=name)
            except Unavailable as error:
                log.warning("commands_not_looked_at", error=error.message)
            await self._bell.wait(LOOK)

    async def _end_forgotten(self) -> None:
        for name, seen in (await in_thread(lambda: kept.survey(self._root))).items():
            if isinstance(seen, kept.Running) and await self._is_forgotten(self._root / name):
                log.info("command_stopped", place=name)
                await kept.stop(self._root / name, GRACE)

    async def _is_forgotten(self, place: Path) -> bool:
        """Whether nobody waits for the command any more."""
        turn_id, _, call_id = key_of(place).partition(":")
        turn = await self._store.turns.get(turn_id)
        if turn is None:
            return False  # it is not of this database: whoever put it there knows why
        if turn.state in FINAL:
            return True
        call = fold(await self._store.journal.of_turn(turn.session, turn.id)).calls.get(call_id)
        return call is not None and call.ended is not None

    def _runs(self, call: Call) -> bool:
        if call.started is None or call.started.effect is not Effect.ATTACHED:
            return False
        places = places_of(place_of(self._root, call.started.key))
        return any(isinstance(kept.look(place), kept.Running) for place in places)

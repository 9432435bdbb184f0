"""Derives the moment of a crash from the store; `docs/recovery.md` lists the moments."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path

from perdure.core.journal import TurnView, fold
from perdure.core.states import FINAL_STATES, TurnState
from perdure.errors import ConfigurationError, DatabaseRefused
from perdure.store.api import Store
from support.shutdown import read_only_store

WAITING_SQL = "SELECT 1 FROM inbox WHERE state = 'waiting'"


class CrashMoment(StrEnum):
    """The moments of a crash, in the order of a message's way."""

    NOTHING = "nothing is stored yet"
    STORED = "a message is stored, its turn has not begun"
    BETWEEN = "a turn runs, and none of its steps"
    STEP = "a step runs"
    ASKED = "a turn waits for a person"
    OWED = "an answer is stored, and not being sent"
    SENDING = "an answer is being sent"
    OVER = "everything is done"


async def crash_moment_of(home: Path) -> CrashMoment:
    """Return the moment at which a gateway crashed; of several, the one that is hardest to recover from."""
    if not (home / "perdure.db").exists():
        return CrashMoment.NOTHING
    try:
        async with read_only_store(home) as store:
            return await _read_moment(store)
    except (ConfigurationError, DatabaseRefused):
        return CrashMoment.NOTHING  # it crashed before it had made its tables


async def _read_moment(store: Store) -> CrashMoment:
    views = [
        fold(await store.journal.of_turn(turn.session, turn.id))
        for session in await store.sessions.page()
        for turn in await store.turns.of_session(session.id)
    ]
    going = [view for view in views if view.state not in FINAL_STATES]
    owed = {row.state for row in await store.outbox.open_deliveries()}
    if any(_is_in_step(view) for view in going):
        return CrashMoment.STEP
    if owed:
        return CrashMoment.SENDING if owed - {"owed"} else CrashMoment.OWED
    if any(view.state is not TurnState.WAITING for view in going):
        return CrashMoment.BETWEEN
    if going:
        return CrashMoment.ASKED
    if await store.database.read(lambda tx: tx.all(WAITING_SQL)):
        return CrashMoment.STORED
    return CrashMoment.OVER if views else CrashMoment.NOTHING


def _is_in_step(view: TurnView) -> bool:
    return any(call.started is not None and call.ended is None for call in view.calls.values())

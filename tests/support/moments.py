"""The moment of a crash, told by what it left in the store: the moments are those of `docs/recovery.md`."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path

from perdure.core.journal import TurnView, fold
from perdure.core.turn import FINAL, State
from perdure.errors import ConfigurationError, DatabaseRefused
from perdure.store.api import Store
from support.stopping import looking_at

WAITING = "SELECT 1 FROM inbox WHERE state = 'waiting'"


class Moment(StrEnum):
    """In the order of a message's life."""

    NOTHING = "nothing is stored yet"
    STORED = "a message is stored, its turn has not begun"
    BETWEEN = "a turn runs, and none of its steps"
    STEP = "a step runs"
    ASKED = "a turn waits for a person"
    OWED = "an answer is stored, and not being sent"
    SENDING = "an answer is being sent"
    OVER = "everything is done"


async def moment_of(home: Path) -> Moment:
    """What a gateway that is gone was doing; of several things, the one that is hardest to go on with."""
    if not (home / "perdure.db").exists():
        return Moment.NOTHING
    try:
        async with looking_at(home) as store:
            return await _look(store)
    except (ConfigurationError, DatabaseRefused):
        return Moment.NOTHING  # it had no time to make its tables


async def _look(store: Store) -> Moment:
    views = [
        fold(await store.journal.of_turn(turn.session, turn.id))
        for session in await store.sessions.page()
        for turn in await store.turns.of_session(session.id)
    ]
    going = [view for view in views if view.state not in FINAL]
    owed = {row.state for row in await store.outbox.open()}
    if any(_in_a_step(view) for view in going):
        return Moment.STEP
    if owed:
        return Moment.SENDING if owed - {"owed"} else Moment.OWED
    if any(view.state is not State.WAITING for view in going):
        return Moment.BETWEEN
    if going:
        return Moment.ASKED
    if await store.database.read(lambda tx: tx.all(WAITING)):
        return Moment.STORED
    return Moment.OVER if views else Moment.NOTHING


def _in_a_step(view: TurnView) -> bool:
    return any(call.started is not None and call.ended is None for call in view.calls.values())

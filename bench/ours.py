"""Our store, through its own door: each session awaits one append after another."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

from bench.window import Measured, Window, tool_result
from perdure.store import transitions
from perdure.store.api import Store, open_database
from perdure.store.database import Tx
from perdure.store.ids import wall_clock
from perdure.store.transitions import Turn

RUNNING = f"SELECT {transitions.TURN_COLUMNS} FROM turns WHERE state = 'running' ORDER BY id LIMIT :limit"


def measure(url: str, sessions: int, seconds: float) -> Measured:
    with tempfile.TemporaryDirectory() as home:
        return asyncio.run(_measure(url, Path(home), sessions, seconds))


def running_turns(tx: Tx, limit: int) -> list[Turn]:
    """The turns to which the bench appends."""
    return [transitions.as_turn(row) for row in tx.all(RUNNING, limit=limit)]


async def _measure(url: str, home: Path, sessions: int, seconds: float) -> Measured:
    store = Store(await open_database(url, home=home))
    found = await store.database.read(lambda tx: running_turns(tx, sessions))
    assert len(found) == sessions, f"{len(found)} of {sessions} sessions are there"
    window = Window(sessions, seconds)
    window.open()
    async with asyncio.TaskGroup() as group:
        for place, turn in enumerate(found):
            group.create_task(_session(store, turn, window, place))
    await store.close()
    return window.close()


async def _session(store: Store, turn: Turn, window: Window, place: int) -> None:
    while not window.over:
        number = window.counts[place]
        appended = await store.turns.append(turn, [tool_result(number)], wall_clock())
        assert appended is not None, f"the append to turn {turn.id} was refused"
        window.counts[place] = number + 1

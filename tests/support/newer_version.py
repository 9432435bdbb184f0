"""Writes a journal entry of a newer version of Perdure."""

from __future__ import annotations

from pathlib import Path

from perdure.core.entries import Entry
from perdure.core.states import TurnState
from perdure.store.journal import append
from perdure.testing import SimulatedPlatform
from support.inprocess import crashing_at_the_end
from support.waiting import eventually


class Pondered(Entry, frozen=True):
    """An entry of an unknown kind: it is declared after the table of kinds was made."""

    kind = "pondered"
    text: str


async def write_newer_entry(home: Path, platform: SimulatedPlatform, state: str) -> None:
    """Crash a gateway with a turn of chat 1 that is done or running and has such an entry."""
    running = state == TurnState.RUNNING
    async with crashing_at_the_end(home, platform) as gateway:
        platform.write("step long 600s\nsay: first" if running else "say: first")
        database = gateway.store.database

        async def reached() -> list[tuple[str, str]]:
            sql = "SELECT session, id FROM turns WHERE state = :state"
            return await database.read(lambda tx: tx.all(sql, state=state))

        [(session, turn)] = await eventually(f"the turn is {state}", reached)
        if not running:
            await eventually("it is answered", lambda: platform.replies() == ["first"])
        await database.write(lambda tx: append(tx, session, turn, [Pondered("deeply")]), at=1)

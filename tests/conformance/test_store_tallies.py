"""Tallies: everything is counted once, however it came to its end, on every database."""

from __future__ import annotations

from collections import Counter

import pytest

from perdure.core.journal import Decided
from perdure.store.tallies import Tallies
from support.stores import PLATFORM, Gateway

pytestmark = pytest.mark.anyio


async def counted(gateway: Gateway, tallies: Tallies) -> None:
    """The tallies say what counting by hand says."""
    turns = await gateway.rows("SELECT state FROM turns")
    assert await tallies.turns() == Counter(("", state) for [state] in turns if state in ("done", "failed"))
    replies = [state for [state] in await gateway.rows("SELECT state FROM outbox")]
    assert await tallies.replies() == Counter((PLATFORM, state) for state in replies if state == "sent")
    owed = {(PLATFORM, state): count for state, count in Counter(replies).items() if state != "sent"}
    assert await tallies.open_replies() == owed


async def test_rows_are_counted_once_when_they_end_out_of_order(gateway: Gateway) -> None:
    tallies = Tallies(gateway.store.database, together=2, newest=1)
    await counted(gateway, tallies)
    early = await gateway.begins("early", chat_name="early")
    for number in range(7):
        turn = await gateway.begins(f"ask {number}", chat_name=f"c{number}")
        await gateway.finishes(turn, f"reply {number}", chat_name=f"c{number}")
        await counted(gateway, tallies)
    await gateway.finishes(early, "at last", chat_name="early")
    await counted(gateway, tallies)
    for row in await gateway.heads():
        await gateway.starts(row)
        await gateway.store.outbox.sent(row, "r", gateway.now())
        await counted(gateway, tallies)
    await counted(gateway, Tallies(gateway.store.database))


async def test_interruptions_are_counted_with_what_was_decided(gateway: Gateway) -> None:
    for number in range(5):
        turn = await gateway.begins(f"ask {number}", chat_name=f"c{number}")
        await gateway.reopen()
        mine = await gateway.interrupts(turn)
        assert mine is not None
        await gateway.appends(mine, Decided("skip", "it is off", rule="policy"))
    for together in (2, 5, 1000):
        found = await Tallies(gateway.store.database, together=together).recoveries()
        assert (found.interruptions, found.decisions) == (5, Counter({("skip", "policy"): 5}))
        assert found.runs == {"lost": 5}

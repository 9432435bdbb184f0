"""Tallies: everything is counted once, however it came to its end, on every database.

Drives `store/metrics`.
"""

from __future__ import annotations

from collections import Counter

import pytest

from perdure.core.journal import RecoveryDecided
from perdure.store.metrics import Counters
from support.store_gateway import PLATFORM, StoreGateway

pytestmark = pytest.mark.anyio


async def counted(gateway: StoreGateway, counters: Counters) -> None:
    """The tallies say what counting by hand says."""
    turns = await gateway.query("SELECT state FROM turns")
    assert await counters.ended_turns() == Counter(("", state) for [state] in turns if state in ("done", "failed"))
    replies = [state for [state] in await gateway.query("SELECT state FROM outbox")]
    assert await counters.ended_replies() == Counter((PLATFORM, state) for state in replies if state == "sent")
    owed = {(PLATFORM, state): count for state, count in Counter(replies).items() if state != "sent"}
    assert await counters.open_replies() == owed


async def test_rows_are_counted_once_when_they_end_out_of_order(gateway: StoreGateway) -> None:
    counters = Counters(gateway.store.database, slice_rows=2, recounted_rows=1)
    await counted(gateway, counters)
    early = await gateway.begins_turn("early", chat_name="early")
    for number in range(7):
        turn = await gateway.begins_turn(f"ask {number}", chat_name=f"c{number}")
        await gateway.finishes_turn(turn, f"reply {number}", chat_name=f"c{number}")
        await counted(gateway, counters)
    await gateway.finishes_turn(early, "at last", chat_name="early")
    await counted(gateway, counters)
    for row in await gateway.outbox_heads():
        await gateway.starts_delivery(row)
        await gateway.store.outbox.record_sent(row, "r", gateway.now())
        await counted(gateway, counters)
    await counted(gateway, Counters(gateway.store.database))


async def test_interruptions_are_counted_with_what_was_decided(gateway: StoreGateway) -> None:
    for number in range(5):
        turn = await gateway.begins_turn(f"ask {number}", chat_name=f"c{number}")
        await gateway.reopen()
        mine = await gateway.interrupts_turn(turn)
        assert mine is not None
        await gateway.appends(mine, RecoveryDecided("skip", "it is off", rule="policy"))
    for together in (2, 5, 1000):
        found = await Counters(gateway.store.database, slice_rows=together).recoveries()
        assert (found.interruptions, found.decisions) == (5, Counter({("skip", "policy"): 5}))
        assert found.runs == {"lost": 5}

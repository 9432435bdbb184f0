"""Dead runs are forgotten when nothing open names them any more.

Drives `store/runs` and `store/leases`.
"""

from __future__ import annotations

import pytest

from perdure.core.journal import QuestionAsked
from perdure.store.outbox import OutboxReply
from perdure.store.run_services import RunCapabilities, RunService
from support.store_gateway import PLATFORM, DatabaseLocation, StoreGateway, chat_address, key_of

pytestmark = pytest.mark.anyio

CAPABILITIES = RunCapabilities((RunService(PLATFORM, "main"),))
KEPT = 1


async def run_that_ends(gateway: StoreGateway, *, clean: bool = True) -> str:
    """End the gateway's run, and begin another one; return the one that has ended."""
    ended = gateway.run
    await (gateway.stop() if clean else gateway.crash())
    await gateway.open(capabilities=CAPABILITIES)
    return ended


async def prune(gateway: StoreGateway) -> list[str]:
    """Forget all that can be forgotten; return the runs that are left."""
    while await gateway.store.runs.prune(KEPT):
        pass
    return [row[0] for row in await gateway.query("SELECT id FROM runs ORDER BY id")]


async def test_dead_runs_are_forgotten_with_their_capabilities_and_their_idle_chats_stay(
    gateway: StoreGateway,
) -> None:
    await gateway.finishes_turn(await gateway.begins_turn("hello"), "hi")
    await gateway.delivers()
    for clean in (True, False, True):
        await run_that_ends(gateway, clean=clean)
    assert await prune(gateway) == [gateway.run]
    assert await gateway.query("SELECT DISTINCT run FROM run_services") == [(gateway.run,)]
    again = await gateway.begins_turn("and now")
    assert again.generation == 2, "the chat goes on where it was"


async def test_newest_runs_are_kept(gateway: StoreGateway) -> None:
    runs = [await run_that_ends(gateway) for _ in range(4)]
    assert await gateway.store.runs.prune(3) == 2
    left = [row[0] for row in await gateway.query("SELECT id FROM runs ORDER BY id")]
    assert left == [*runs[2:], gateway.run]


async def test_run_is_kept_while_its_turn_is_open(gateway: StoreGateway) -> None:
    """Also one that had the turn before it was taken over: its end decides about the turn."""
    turn = await gateway.begins_turn("hello")
    await gateway.appends(turn, QuestionAsked("q", "Which way?"))
    first = await run_that_ends(gateway, clean=False)
    assert await prune(gateway) == [first, gateway.run]
    assert await gateway.interrupts_turn(turn)
    assert await prune(gateway) == [first, gateway.run]
    taken = await gateway.turn_row(turn)
    await gateway.cancels_turn(taken)
    assert await prune(gateway) == [gateway.run]


async def test_run_is_kept_while_its_send_is_open(gateway: StoreGateway) -> None:
    reply = OutboxReply(chat_address(), "notice", ("hello",))
    await gateway.receives("hello")
    await gateway.store.outbox.enqueue(key_of(), reply, 1)
    [row] = await gateway.outbox_heads()
    assert await gateway.starts_delivery(row)
    first = await run_that_ends(gateway, clean=False)
    assert await prune(gateway) == [first, gateway.run]
    assert await gateway.store.outbox.mark_orphans_unknown(gateway.now()) == 1
    assert await prune(gateway) == [gateway.run]


async def test_b162_dead_runs_of_other_gateways_are_forgotten_too(
    two_gateways: tuple[StoreGateway, StoreGateway], postgres_place: DatabaseLocation
) -> None:
    one, two = two_gateways
    await two.finishes_turn(await two.begins_turn("hello"))
    dead = two.run
    assert await one.declares_dead(two)
    await run_that_ends(one)
    assert dead not in await prune(one)
    assert await one.query("SELECT run FROM leases") == [(None,)]

"""The lease of an account: one run receives at a time, and a former one can tell that it must not.

Drives `store/receiving_leases` and `store/gateways`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from perdure.store.receiving_leases import ReceivingLease
from perdure.store.run_services import RunCapabilities, RunService
from support.store_gateway import DatabaseLocation, StoreGateway

pytestmark = pytest.mark.anyio

BOT = RunCapabilities((RunService("far", "main", "bot7"), RunService("web", "main")))


async def take(gateway: StoreGateway, account: str = "bot7") -> ReceivingLease | None:
    return await gateway.store.receiving_leases.take("far", account, gateway.run)


async def must_take(gateway: StoreGateway) -> ReceivingLease:
    taken = await take(gateway)
    assert taken is not None
    return taken


@pytest.fixture
async def gateways(
    postgres_url: str, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[list[StoreGateway]]:
    """Two gateways with the same bot."""
    place = DatabaseLocation(postgres_url, tmp_path_factory.mktemp("homes"))
    both = [await StoreGateway(place, name).open(capabilities=BOT) for name in ("one", "two")]
    yield both
    for each in both:
        await each.stop()


async def test_b167_lease_of_an_account_belongs_to_one_living_run(gateways: list[StoreGateway]) -> None:
    one, two = gateways
    lease = await must_take(one)
    assert await take(two) is None
    assert await take(two, "another-bot") is not None, "each account has its own"
    assert await one.store.receiving_leases.is_held(lease)
    await one.store.receiving_leases.release(lease)
    assert not await one.store.receiving_leases.is_held(lease)
    taken = await must_take(two)
    assert taken.epoch > lease.epoch
    await one.store.receiving_leases.release(lease)
    assert await two.store.receiving_leases.is_held(taken), "who had it before cannot give it away"


async def test_b167_lease_of_a_dead_run_is_free_and_the_dead_run_knows(gateways: list[StoreGateway]) -> None:
    one, two = gateways
    lease = await must_take(one)
    assert await two.declares_dead(one)
    assert not await one.store.receiving_leases.is_held(lease), "before anybody has taken it"
    assert await take(one) is None
    taken = await must_take(two)
    assert taken.epoch == lease.epoch + 1


async def test_b167_run_that_drains_keeps_its_lease_and_takes_no_other(gateways: list[StoreGateway]) -> None:
    one, two = gateways
    lease = await must_take(one)
    assert await one.store.receiving_leases.has_successor(lease)
    await one.store.runs.start_draining(one.run)
    assert await one.store.receiving_leases.is_held(lease)
    again = await must_take(one)
    assert again.epoch == lease.epoch + 1, "after a pause of its heartbeats"
    await one.store.receiving_leases.release(again)
    assert await take(one) is None
    taken = await must_take(two)
    assert not await two.store.receiving_leases.has_successor(taken), "the other one drains"


async def test_gateways_say_what_they_receive_and_are_asked_to_drain_once(gateways: list[StoreGateway]) -> None:
    one, two = gateways
    await must_take(one)
    first, second = await two.store.gateways.living()
    assert (first.receives, first.standing_by) == (("far", "web"), ())
    assert (second.receives, second.standing_by) == (("web",), ("far",))
    assert await one.store.gateways.ask_to_drain(second.id)
    assert not await one.store.gateways.ask_to_drain(second.id)
    asked = await two.store.runs.beat(two.run, {})
    assert asked is not None and asked.drain_asked
    other = await one.store.runs.beat(one.run, {})
    assert other is not None and not other.drain_asked

"""A gateway with nothing to do makes the transactions of its polls and no others, whatever went wrong before.

Drives `runtime/wiring`, `runtime/delivery` and `runtime/backoff`.

The gateway runs on a loop whose minutes pass at once: its transactions are counted in minutes of its own clock.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from perdure.core.delivery import DeliveryState
from perdure.core.messages import Outbound, Receipt
from perdure.errors import NotConnected, SendRefused, SendRetry, SendUnknown
from perdure.platforms.api import Capabilities
from perdure.runtime.gateway import Gateway
from perdure.runtime.wakeups import POLL_SECONDS
from perdure.testing import SimulatedPlatform
from perdure.testing.simulated_platform import SimulatedAdapter
from support.counting_database import CountingWrapper, fast_forward_gateway, pass_loop_time
from support.fast_forward_loop import run_fast_forward
from support.waiting import eventually

MINUTES = 10 * 60.0
POLLS = MINUTES / POLL_SECONDS
LOOPS = 8  # transactions a poll: of the loops that poll, of the heartbeat, and of slower loops now and then
FOR_A_TRY = 4  # transactions: it is begun, its outcome is recorded, and what stands behind it is looked for


class Scenario(NamedTuple):
    """A gateway, its platform and its database."""

    gateway: Gateway
    platform: SimulatedPlatform
    adapter: FailingAdapter
    counted: CountingWrapper

    async def states(self) -> list[tuple[str, str]]:
        sql = "SELECT text, state FROM outbox ORDER BY id"
        return [(text, state) for text, state in await self.gateway.store.database.read(lambda tx: tx.all(sql))]

    async def reaches(self, *expected: tuple[str, DeliveryState]) -> None:
        async def reached() -> bool:
            return await self.states() == list(expected)

        await eventually(f"the outbox is {expected}", reached, timeout=60)


class FailingAdapter(SimulatedAdapter):
    """Fails with the errors that it is given, one a send; before that, if wished, the store goes away."""

    def __init__(self, platform: SimulatedPlatform, counted: CountingWrapper) -> None:
        super().__init__(platform)
        self._counted = counted
        self.errors: list[Exception] = []
        self.takes_store_away = False

    async def send(self, outbound: Outbound) -> Receipt:
        if self.takes_store_away:
            self.takes_store_away = False
            self._counted.database.fill()
        if self.errors:
            raise self.errors.pop(0)
        return await super().send(outbound)


Fault = Callable[[Scenario], Awaitable[None]]


def store_away(error: Exception | None, *then: tuple[str, DeliveryState]) -> Fault:
    """The store goes away while a reply is being sent, and comes back later."""

    async def fault(scenario: Scenario) -> None:
        scenario.adapter.takes_store_away = True
        scenario.adapter.errors = [error] if error is not None else []
        scenario.platform.write("say: hi")
        database = scenario.counted.database
        await eventually("an outcome was not recorded", lambda: any("Outbox" in name for name in database.refused))
        database.mend()
        await scenario.reaches(*then)

    return fault


async def platform_away(scenario: Scenario) -> None:
    """The platform is away, and a reply is owed to it all the while."""
    scenario.adapter.errors = [NotConnected("gone")] * 1000
    scenario.platform.write("say: hi")
    await scenario.reaches(("hi", DeliveryState.OWED))


async def adapter_raises(scenario: Scenario) -> None:
    scenario.adapter.errors = [ZeroDivisionError("a defect")] * 3
    scenario.platform.write("say: hi")
    await scenario.reaches(("hi", DeliveryState.SENT))


async def refused_row(scenario: Scenario) -> None:
    scenario.platform.refusals.add("1")
    scenario.platform.write("say: hi")
    await scenario.reaches(("hi", DeliveryState.REFUSED))


async def damaged_row(scenario: Scenario) -> None:
    """A row whose file cannot be read any more stays unknown, and is tried more and more rarely."""
    scenario.adapter.errors = [NotConnected("gone")]
    scenario.platform.write("say: hi")
    await scenario.reaches(("hi", DeliveryState.OWED))
    damage = "UPDATE outbox SET file = '}{'"
    await scenario.gateway.store.database.write(lambda tx: tx.run(damage))
    await scenario.reaches(("hi", DeliveryState.UNKNOWN))


SENT = ("hi", DeliveryState.SENT)
FAULTS = {
    "nothing went wrong": store_away(None, SENT),
    "store away when the platform names a pause": store_away(SendRetry("busy", after=2), SENT),
    "store away when the platform is busy": store_away(SendRetry("busy"), SENT),
    "store away when the line is cut": store_away(NotConnected("gone"), SENT),
    "store away when the outcome is unknown": store_away(SendUnknown("the answer was lost"), SENT),
    "store away when the adapter raises": store_away(ZeroDivisionError("a defect"), SENT),
    "store away when it is refused": store_away(SendRefused("no"), ("hi", DeliveryState.REFUSED)),
    "platform away": platform_away,
    "adapter raises": adapter_raises,
    "row refused": refused_row,
    "row damaged": damaged_row,
}


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS.keys())
def test_b75_idle_gateway_makes_only_the_transactions_of_its_polls(tmp_path: Path, fault: Fault) -> None:
    run_fast_forward(_count_after(tmp_path, fault))


async def _count_after(home: Path, fault: Fault) -> None:
    platform, counted = SimulatedPlatform(), CountingWrapper()
    platform.capabilities = Capabilities(idempotent_send=True, keeps_missed=True)
    adapter = FailingAdapter(platform, counted)
    async with fast_forward_gateway(home, [adapter], wrap=counted.wrap) as gateway:
        await fault(Scenario(gateway, platform, adapter, counted))
        counted.database.counted.clear()
        await pass_loop_time(MINUTES)
        made = counted.database.counted
    tries = made["Outbox.start_sending"]
    assert tries <= POLLS + 5, f"a reply that waits is tried more often than once a poll: {made}"
    assert made.total() - tries * FOR_A_TRY <= POLLS * LOOPS, f"more than its polls: {made}"

"""How the process of a run died, as its supervisor says (`store/runs.py`): believed of that run alone.

Drives `store/runs`.
"""

from __future__ import annotations

import pytest

from perdure.core.exit_report import ExitReport, GatewayLaunch
from support.store_gateway import DatabaseLocation, StoreGateway

pytestmark = pytest.mark.anyio


async def died(gateway: StoreGateway, run: str) -> tuple[str | None, int | None, int | None]:
    found = await gateway.store.runs.get(run)
    assert found is not None, f"no run {run}"
    return found.ending, found.died_at, found.exit_code


async def test_death_is_on_record_with_the_run_that_it_names_and_with_no_other(place: DatabaseLocation) -> None:
    gateway = await StoreGateway(place).open(launch=GatewayLaunch("a"))
    first = gateway.run
    await gateway.crash()
    second = (
        await gateway.open(launch=GatewayLaunch("b", (ExitReport("a", 1_234, -9), ExitReport("x", 99, 1))))
    ).run
    assert await died(gateway, first) == ("lost", 1_234, -9)
    assert await died(gateway, second) == (None, None, None)
    await gateway.stop()


async def test_death_is_on_record_also_when_the_start_after_it_died_at_once(place: DatabaseLocation) -> None:
    """The third start is told of both deaths; the second never had a run."""
    gateway = await StoreGateway(place).open(launch=GatewayLaunch("a"))
    first = gateway.run
    await gateway.crash()
    await gateway.open(launch=GatewayLaunch("c", (ExitReport("a", 1_234, -9), ExitReport("b", 2_000, 1))))
    assert await died(gateway, first) == ("lost", 1_234, -9)
    await gateway.stop()


async def test_old_word_of_a_death_changes_nothing(place: DatabaseLocation) -> None:
    """Not of a run that stopped in good order, not of one whose death is known, not where nobody supervises."""
    gateway = await StoreGateway(place).open(launch=GatewayLaunch("a"))
    clean = gateway.run
    await gateway.stop()
    lost = (await gateway.open(launch=GatewayLaunch("b", (ExitReport("a", 5, 1),)))).run
    await gateway.crash()
    alone = (await gateway.open(launch=GatewayLaunch("c", (ExitReport("a", 5, 1), ExitReport("b", 7, -9))))).run
    await gateway.crash()
    await gateway.open()
    await gateway.crash()
    await gateway.open(launch=GatewayLaunch("d", (ExitReport("b", 8, 1), ExitReport("", 9, 1))))
    assert await died(gateway, clean) == ("clean", None, None)
    assert await died(gateway, lost) == ("lost", 7, -9)
    assert await died(gateway, alone) == ("lost", None, None)
    await gateway.stop()


async def test_death_is_believed_also_when_a_start_in_between_has_ended_the_run(place: DatabaseLocation) -> None:
    gateway = await StoreGateway(place).open(launch=GatewayLaunch("a"))
    first = gateway.run
    await gateway.crash()
    await gateway.open()
    assert await died(gateway, first) == ("lost", None, None)
    await gateway.crash()
    await gateway.open(launch=GatewayLaunch("c", (ExitReport("a", 1_234, -9),)))
    assert await died(gateway, first) == ("lost", 1_234, -9)
    await gateway.stop()

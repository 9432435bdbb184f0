"""B75: what came of an effect is recorded when the store is back; no reply stays `sending` that nobody sends.

Drives `runtime/delivery`, `runtime/turn_display` and `runtime/attachments`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from perdure.core.delivery import DeliveryState
from perdure.core.messages import Outbound, Receipt
from perdure.errors import FetchRefused, NotConnected
from perdure.platforms.api import Capabilities
from perdure.runtime.gateway import Gateway
from perdure.testing import SimulatedPlatform, gateways
from perdure.testing.simulated_platform import SimulatedAdapter
from support.counting_database import CountingWrapper
from support.waiting import eventually

pytestmark = pytest.mark.anyio

READ_BACK = Capabilities(keeps_missed=True, read_back=True)
EDITABLE = Capabilities(keeps_missed=True, edit=True, edit_every=0.0, show_after=0.0)


async def rows(gateway: Gateway) -> list[tuple[str, str, int]]:
    sql = "SELECT text, state, attempts FROM outbox ORDER BY id"
    found = await gateway.store.database.read(lambda tx: tx.all(sql))
    return [(text, state, attempts) for text, state, attempts in found]


async def reaches(gateway: Gateway, *expected: tuple[str, str, int]) -> None:
    async def reached() -> bool:
        return await rows(gateway) == list(expected)

    await eventually(f"the outbox is {expected}", reached)


class Dying(SimulatedAdapter):
    """Cancels the task that sends with it, as a library does that loses track of its own timeouts."""

    deaths = 1

    async def send(self, outbound: Outbound) -> Receipt:
        receipt = await super().send(outbound)
        if self.deaths:
            self.deaths -= 1
            raise asyncio.CancelledError
        return receipt


async def test_b75_reply_is_sent_when_the_task_that_sent_it_has_died(tmp_path: Path) -> None:
    """Nobody knows whether it arrived: its row becomes unknown, and its lane goes on."""
    platform = SimulatedPlatform()
    async with gateways.serving(tmp_path, [Dying(platform)]) as gateway:
        platform.write("say: one")
        await reaches(gateway, ("one", DeliveryState.SENT, 1))
        platform.write("say: two")
        await reaches(gateway, ("one", DeliveryState.SENT, 1), ("two", DeliveryState.SENT, 0))
    assert platform.replies() == ["one", "two"]


class Forgetful(SimulatedAdapter):
    """Fails in its own way when it is asked what was sent."""

    def __init__(self, platform: SimulatedPlatform, error: Exception) -> None:
        super().__init__(platform)
        self._errors = [error]

    async def find_sent(self, key: str) -> Receipt | None:
        if self._errors:
            raise self._errors.pop()
        return await super().find_sent(key)


@pytest.mark.parametrize(
    ("error", "attempts"),
    [
        pytest.param(ZeroDivisionError("a defect"), 2, id="a defect"),
        pytest.param(NotConnected("gone"), 1, id="a line that is cut"),
    ],
)
async def test_b75_reply_stays_unknown_when_its_platform_cannot_be_asked(
    tmp_path: Path, error: Exception, attempts: int
) -> None:
    platform = SimulatedPlatform(capabilities=READ_BACK)
    platform.lose_answers = 1
    async with gateways.serving(tmp_path, [Forgetful(platform, error)]) as gateway:
        platform.write("say: hi")
        await reaches(gateway, ("hi", DeliveryState.SENT, attempts))
    assert platform.replies() == ["hi"]


class Odd(SimulatedAdapter):
    """Answers a send with something that is no receipt."""

    odd = True

    async def send(self, outbound: Outbound) -> Receipt:
        receipt = await super().send(outbound)
        if self.odd:
            self.odd = False
            return None  # type: ignore[return-value]
        return receipt


async def test_b75_reply_is_unknown_when_its_adapter_gives_no_receipt(tmp_path: Path) -> None:
    platform = SimulatedPlatform()
    async with gateways.serving(tmp_path, [Odd(platform)]) as gateway:
        platform.write("say: hi")
        await reaches(gateway, ("hi", DeliveryState.SENT, 1))
    assert platform.replies() == ["hi"]


# ── relatives: what else is recorded after an effect ────────────────────────────────────────────────────────


class TakingStoreAway(SimulatedAdapter):
    """The store goes away while a preview is sent or a file is fetched."""

    def __init__(self, platform: SimulatedPlatform, counted: CountingWrapper) -> None:
        super().__init__(platform)
        self._counted = counted
        self.fetches = 0
        self.refuses = False

    async def send(self, outbound: Outbound) -> Receipt:
        if outbound.preview:
            self._counted.database.fill()
        return await super().send(outbound)

    async def fetch(self, reference: str) -> AsyncGenerator[bytes]:
        self.fetches += 1
        self._counted.database.fill()
        if self.refuses:
            raise FetchRefused("there is no such file")
        async for piece in super().fetch(reference):
            yield piece


async def test_b75_answer_takes_the_place_of_a_preview_whose_receipt_the_store_did_not_take(
    tmp_path: Path,
) -> None:
    """Otherwise a half answer would stand in the chat for good, beside the answer."""
    platform, counted = SimulatedPlatform(capabilities=EDITABLE), CountingWrapper()
    adapter = TakingStoreAway(platform, counted)
    async with gateways.serving(tmp_path, [adapter], wrap=counted.wrap):
        platform.write("stream: one two three")
        await eventually(
            "the store did not take the receipt", lambda: counted.database.refused["Previews.record_shown"] >= 2
        )
        counted.database.mend()
        await eventually("the answer is alone", lambda: platform.replies() == ["one two three"])


@pytest.mark.parametrize("refuses", [False, True], ids=["fetched", "given up"])
async def test_b75_outcome_of_a_fetch_is_recorded_when_the_store_is_back(tmp_path: Path, refuses: bool) -> None:
    """The file is not fetched again for each time that the store does not take it."""
    platform, counted = SimulatedPlatform(), CountingWrapper()
    adapter = TakingStoreAway(platform, counted)
    adapter.refuses = refuses
    async with gateways.serving(tmp_path, [adapter], wrap=counted.wrap):
        platform.write("say: hi", files=["a.txt"])
        name = "Attachments.record_failed" if refuses else "Attachments.record_fetched"
        await eventually("the store did not take the outcome", lambda: counted.database.refused[name] >= 2)
        counted.database.mend()
        await eventually("it is answered", lambda: "hi" in platform.replies())
    assert adapter.fetches == 1

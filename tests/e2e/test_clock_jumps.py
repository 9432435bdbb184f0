"""B89: nothing waits longer than its own delay when the wall clock is set, while a gateway runs or between two.

Drives `runtime/backoff`, `runtime/delivery` and `runtime/connections`.

The gateway runs on a loop whose minutes pass at once; its wall clock can be set, its steady clock is the loop's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from perdure.core import texts
from perdure.core.delivery import MAX_RETRY_MS, DeliveryState
from perdure.core.messages import Outbound, Receipt
from perdure.errors import NotConnected, SendRetry
from perdure.runtime.backoff import MAX_DELAY_SECONDS
from perdure.runtime.wakeups import POLL_SECONDS
from perdure.testing import SimulatedPlatform
from perdure.testing.simulated_platform import SimulatedAdapter
from support.counting_database import fast_forward_gateway, loop_milliseconds
from support.fast_forward_loop import run_fast_forward
from support.waiting import eventually

DAY = 86_400.0


class LoopClock:
    """A wall clock that goes like the loop, and can be set."""

    def __init__(self) -> None:
        self.ahead = 0

    def __call__(self) -> int:
        return loop_milliseconds() + self.ahead

    def move(self, seconds: float) -> None:
        self.ahead += int(seconds * 1000)


class Pausing(SimulatedAdapter):
    """Its sends and fetches fail with the errors that it is given, one each."""

    def __init__(self, platform: SimulatedPlatform, *errors: Exception) -> None:
        super().__init__(platform)
        self.errors = list(errors)
        self.failed = 0

    async def send(self, outbound: Outbound) -> Receipt:
        self._maybe_fail()
        return await super().send(outbound)

    def _maybe_fail(self) -> None:
        if self.errors:
            self.failed += 1
            raise self.errors.pop(0)


async def within(seconds: float, fact: str, probe: Callable[[], Any]) -> None:
    """The fact comes true within so many seconds of the loop, and one poll for a wake-up that was lost."""
    await eventually(fact, probe, timeout=seconds + 2 * POLL_SECONDS)


@pytest.mark.parametrize("jump", [-DAY, DAY], ids=["back", "forward"])
@pytest.mark.parametrize(
    ("error", "delay"),
    [
        pytest.param(SendRetry("busy", after=60), 60.0, id="the platform names a minute"),
        pytest.param(ZeroDivisionError("a defect"), 1.0, id="the outcome is unknown"),
        pytest.param(NotConnected("gone"), 1.0, id="the line is cut"),
    ],
)
def test_b89_reply_is_sent_after_its_own_delay_when_the_clock_jumps(
    tmp_path: Path, error: Exception, delay: float, jump: float
) -> None:
    async def story() -> None:
        platform, clock = SimulatedPlatform(), LoopClock()
        adapter = Pausing(platform, error)
        options = {"clock": clock, "DELIVERY__MAX_AGE": "2d", "INBOX__MAX_AGE": "2d"}
        async with fast_forward_gateway(tmp_path, [adapter], **options) as gateway:
            platform.write("say: hi")
            await eventually("the pause is on record", lambda: _waits(gateway.store))
            clock.move(jump)
            await within(delay, "it is sent", lambda: platform.replies() == ["hi"])

    run_fast_forward(story())


async def _waits(store: Any) -> bool:
    rows = await store.outbox.open_deliveries()
    return [row.state for row in rows if row.problem] in ([DeliveryState.OWED], [DeliveryState.UNKNOWN])


def test_b89_new_reply_is_sent_at_once_when_the_clock_was_set_back_since_it_is_owed(tmp_path: Path) -> None:
    """It has no delay at all: it only waits for its platform."""

    async def story() -> None:
        platform, clock = SimulatedPlatform(), LoopClock()
        async with fast_forward_gateway(tmp_path, [platform.adapter()], clock=clock) as gateway:
            platform.write("step wait 3s\nsay: late")
            await eventually("it is taken in", lambda: not platform.pending())
            platform.reachable = False
            platform.disconnect()
            await eventually("the reply is owed", gateway.store.outbox.open_deliveries)
            clock.move(-DAY)
            platform.reachable = True
            await within(MAX_DELAY_SECONDS, "it is sent", lambda: platform.replies() == ["late"])

    run_fast_forward(story())


def test_b89_reply_is_sent_after_its_own_delay_when_the_clock_was_set_back_between_two_runs(
    tmp_path: Path,
) -> None:
    async def story() -> None:
        platform, clock = SimulatedPlatform(), LoopClock()
        async with fast_forward_gateway(
            tmp_path, [Pausing(platform, SendRetry("busy", after=300))], clock=clock
        ) as first:
            platform.write("say: hi")
            await eventually("the pause is on record", lambda: _waits(first.store))
        clock.move(-DAY)
        assert platform.replies() == []
        async with fast_forward_gateway(tmp_path, [platform.adapter()], clock=clock):
            await within(MAX_RETRY_MS / 1000, "it is sent", lambda: platform.replies() == ["hi"])

    run_fast_forward(story())


class Fetching(Pausing):
    """Its fetches fail, and not its sends."""

    async def send(self, outbound: Outbound) -> Receipt:
        return await SimulatedAdapter.send(self, outbound)

    async def fetch(self, reference: str) -> Any:
        self._maybe_fail()
        async for piece in super().fetch(reference):
            yield piece


def test_b89_file_is_fetched_after_its_own_delay_when_the_clock_is_set_back(tmp_path: Path) -> None:
    async def story() -> None:
        platform, clock = SimulatedPlatform(), LoopClock()
        adapter = Fetching(platform, ZeroDivisionError("a defect"))
        async with fast_forward_gateway(tmp_path, [adapter], clock=clock) as gateway:
            platform.write("say: hi", files=["a.txt"])
            await eventually("a try has failed", lambda: _tried(gateway.store))
            clock.move(-DAY)
            await within(1, "it is answered", lambda: platform.replies() == ["hi"])

    run_fast_forward(story())


async def _tried(store: Any) -> bool:
    return bool(await store.database.read(lambda tx: tx.one("SELECT 1 FROM attachments WHERE attempts > 0")))


def test_b89_restart_is_obeyed_when_the_clock_was_set_back(tmp_path: Path) -> None:
    """It was asked for after this start, whatever the clock says."""

    async def story() -> None:
        platform, clock = SimulatedPlatform("web"), LoopClock()
        options = {"clock": clock, "PLATFORMS__WEB__ALLOW": "ann"}
        async with fast_forward_gateway(tmp_path, [platform.adapter()], **options):
            clock.move(-DAY)
            platform.write("/restart")
            await eventually("it is answered", platform.replies)
            assert platform.replies() == [texts.recovery.RESTARTING]

    run_fast_forward(story())


def test_b89_stranger_is_told_a_code_within_minutes_when_the_clock_was_set_back(tmp_path: Path) -> None:
    """Nobody is told codes more often than every ten minutes: these are counted anew, and no longer."""

    async def story() -> None:
        platform, clock = SimulatedPlatform("web"), LoopClock()
        options = {"clock": clock, "PLATFORMS__WEB__ALLOW": "ben"}
        async with fast_forward_gateway(tmp_path, [platform.adapter()], **options):
            platform.write("hello")
            await eventually("a code is told", lambda: len(platform.replies()) == 1)
            clock.move(-DAY)
            platform.write("hello?")
            await eventually("it is taken in", lambda: not platform.pending())
            await asyncio.sleep(600)
            platform.write("hello??")
            await within(0, "a new code is told", lambda: len(platform.replies()) == 2)

    run_fast_forward(story())

"""A platform that fails is left alone for longer and longer, and its defect is told once.

Drives `runtime/connections`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator

import pytest

from perdure.core.messages import Outbound, Receipt
from perdure.errors import NotConnected
from perdure.platforms.api import Adapter, Event
from perdure.runtime.backoff import MAX_DELAY_SECONDS
from perdure.runtime.connections import Connections
from support.fast_forward_loop import FastForwardLoop

FailurePlan = Callable[[int], Exception | None]  # what the n-th connection ends with, if it does not just end


class Failing(Adapter):
    """Connects, and fails after a while; and notes when it was tried."""

    name = "there"

    def __init__(self, plan: FailurePlan, *, tries: int, lasts: Callable[[int], float]) -> None:
        self.tried: list[float] = []
        self.enough = asyncio.Event()
        self._plan = plan
        self._tries = tries
        self._lasts = lasts

    async def open(self) -> None:
        self.tried.append(asyncio.get_running_loop().time())
        if len(self.tried) == self._tries:
            self.enough.set()

    async def receive(self) -> AsyncGenerator[Event]:
        number = len(self.tried)
        await asyncio.sleep(self._lasts(number))
        if error := self._plan(number):
            raise error
        return
        yield

    async def send(self, outbound: Outbound) -> Receipt:
        raise NotImplementedError


@pytest.fixture
def loop() -> Iterator[FastForwardLoop]:
    loop = FastForwardLoop()
    yield loop
    loop.close()


def pauses(
    loop: FastForwardLoop, plan: FailurePlan, tries: int, lasts: Callable[[int], float] = lambda _: 0.0
) -> list[float]:
    """How long it was left alone after each connection."""
    adapter = loop.run_until_complete(_attend(plan, tries, lasts))
    ended = [began + lasts(number) for number, began in enumerate(adapter.tried, 1)]
    return [began - before for before, began in zip(ended, adapter.tried[1:], strict=False)]


async def _attend(plan: FailurePlan, tries: int, lasts: Callable[[int], float]) -> Failing:
    async def nobody(_: object) -> None: ...

    adapter = Failing(plan, tries=tries, lasts=lasts)

    async def receive() -> None:
        async for _ in adapter.receive():
            raise AssertionError("nothing is received")

    attending = asyncio.create_task(Connections([adapter]).keep_connected(adapter, receive, nobody))
    await adapter.enough.wait()
    attending.cancel()
    await asyncio.wait({attending})
    return adapter


def tracebacks(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [str(record.exc_info[1]) for record in caplog.records if record.exc_info and record.exc_info[1]]


def test_adapter_that_connects_and_fails_at_once_is_left_alone_for_longer_each_time(
    loop: FastForwardLoop, caplog: pytest.LogCaptureFixture
) -> None:
    found = pauses(loop, lambda number: ValueError(f"no. {number}"), tries=10)
    assert found == [0.5, 1, 2, 4, 8, 16, 32, MAX_DELAY_SECONDS, MAX_DELAY_SECONDS]
    assert tracebacks(caplog) == ["no. 1"]
    told = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert told == ["disconnected"] * 9, "one line for each"


def test_platform_that_closes_every_connection_at_once_is_left_alone_for_longer_each_time(
    loop: FastForwardLoop,
) -> None:
    assert pauses(loop, lambda _: None, tries=4) == [0.5, 1, 2]


def test_another_defect_is_told_with_its_traceback(
    loop: FastForwardLoop, caplog: pytest.LogCaptureFixture
) -> None:
    kinds = [ValueError("first"), ValueError("first"), KeyError("other"), ValueError("first"), KeyError("other")]
    pauses(loop, lambda number: kinds[number - 1], tries=5)
    assert tracebacks(caplog) == ["first", "'other'"]


def test_adapter_that_has_served_for_long_is_tried_again_soon(
    loop: FastForwardLoop, caplog: pytest.LogCaptureFixture
) -> None:
    lasts = [0.0, 0.0, MAX_DELAY_SECONDS, 0.0, 0.0]
    found = pauses(loop, lambda number: ValueError(f"no. {number}"), tries=5, lasts=lambda n: lasts[n - 1])
    assert found == [0.5, 1, 0.5, 1]
    assert tracebacks(caplog) == ["no. 1", "no. 3"], "it was well in between"


def test_lost_line_is_no_fault_of_the_adapter_and_tried_again_soon(
    loop: FastForwardLoop, caplog: pytest.LogCaptureFixture
) -> None:
    assert pauses(loop, lambda _: NotConnected("lost"), tries=4) == [0.5, 0.5, 0.5]
    assert tracebacks(caplog) == []

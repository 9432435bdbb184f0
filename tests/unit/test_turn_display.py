"""That we type is shown when the platform's claim says so, to the second, and never behind the answer.

Drives `runtime/turn_display`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator

import pytest

from perdure.core.address import Address
from perdure.core.messages import Outbound, Receipt
from perdure.platforms.api import Adapter, Capabilities, Event
from perdure.runtime.turn_display import TYPING_DELAY_SECONDS, TypingIndicator
from support.fast_forward_loop import FastForwardLoop

CHAT = Address("there", "dm", "ann")


class Typist(Adapter):
    """Writes down when it was told to type."""

    name = "there"

    def __init__(self, every: float | None, *, slow: float = 0.0) -> None:
        self.capabilities = Capabilities(typing_every=every)
        self.told: list[tuple[Address, float]] = []
        self._slow = slow

    async def open(self) -> None: ...

    async def receive(self) -> AsyncGenerator[Event]:
        raise NotImplementedError
        yield

    async def send(self, outbound: Outbound) -> Receipt:
        raise NotImplementedError

    async def typing(self, address: Address) -> None:
        self.told.append((address, asyncio.get_running_loop().time()))
        await asyncio.sleep(self._slow)


@pytest.fixture
def loop() -> Iterator[FastForwardLoop]:
    loop = FastForwardLoop()
    yield loop
    loop.close()


async def _type(adapter: Adapter, seconds: float, then: float = 0.0) -> None:
    """Begin to type, end it after a while, and wait for longer."""
    typing = TypingIndicator(CHAT, lambda: adapter)
    typing.begin()
    await asyncio.sleep(seconds)
    typing.end()
    await asyncio.sleep(then)


def test_typing_is_shown_every_so_many_seconds_until_it_ends(loop: FastForwardLoop) -> None:
    adapter = Typist(4.0)
    loop.run_until_complete(_type(adapter, seconds=10, then=1000))
    assert adapter.told == [
        (CHAT, TYPING_DELAY_SECONDS),
        (CHAT, TYPING_DELAY_SECONDS + 4),
        (CHAT, TYPING_DELAY_SECONDS + 8),
    ]


def test_typing_is_not_shown_when_the_answer_is_there_at_once(loop: FastForwardLoop) -> None:
    adapter = Typist(4.0)
    loop.run_until_complete(_type(adapter, seconds=TYPING_DELAY_SECONDS / 2, then=1000))
    assert adapter.told == []


def test_typing_is_never_shown_where_it_is_not_claimed(loop: FastForwardLoop) -> None:
    adapter = Typist(None)
    loop.run_until_complete(_type(adapter, seconds=1000))
    assert adapter.told == []


def test_typing_is_not_shown_again_while_a_slow_platform_still_shows_it(loop: FastForwardLoop) -> None:
    adapter = Typist(4.0, slow=10.0)
    loop.run_until_complete(_type(adapter, seconds=14))
    assert adapter.told == [(CHAT, TYPING_DELAY_SECONDS), (CHAT, TYPING_DELAY_SECONDS + 12)]

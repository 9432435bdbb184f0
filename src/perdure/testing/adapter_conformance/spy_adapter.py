"""A wrapper around the adapter under test that records every call and can halt it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing, contextmanager
from enum import StrEnum

import msgspec
from msgspec import Struct

from perdure.core.address import Address
from perdure.core.messages import Outbound, Receipt, Stored
from perdure.errors import NotConnected, PerdureError
from perdure.platforms.api import Adapter, Checkpoint, Event


class SendCall(Struct):
    """One attempt to send a message, and its outcome."""

    outbound: Outbound
    receipt: Receipt | None = None
    error: Exception | None = None


class HaltPoint(StrEnum):
    """The calls at which a gateway can be halted."""

    BEFORE_STORE = "an event is handed over"
    BEFORE_ACK = "an event is stored"
    BEFORE_SEND = "a message is about to be sent"
    AFTER_SEND = "a message was sent"


class HaltSwitch:
    """A switch that halts every call at one point for ever, as before a crash."""

    def __init__(self) -> None:
        self.armed = False
        self.reached = asyncio.Event()

    async def wait_if_armed(self) -> None:
        if self.armed:
            self.reached.set()
            await asyncio.Event().wait()


class SpyAdapter(Adapter):
    """The adapter under test, as the gateway sees it."""

    def __init__(self, inner: Adapter) -> None:
        self.inner = inner
        self.name, self.account, self.capabilities = inner.name, inner.account, inner.capabilities
        self.handed: list[Event] = []
        self.acknowledged: list[Event] = []
        self.failed: list[Event] = []  # events that could not be stored
        self.send_calls: list[SendCall] = []
        self.glimpsed: list[str] = []
        self.typing_requests = 0  # how often
        self.typing_shown = 0  # how often it said that it has
        self.violations: list[str] = []
        self.connected = False  # whether the last attempt to connect succeeded
        self.connection_losses: list[NotConnected] = []
        self.halts = {place: HaltSwitch() for place in HaltPoint}
        for each in dir(Adapter):
            if not each.startswith("_") and each not in vars(SpyAdapter) and callable(getattr(inner, each)):
                setattr(self, each, getattr(inner, each))  # every other method of the contract

    def has_tried_connecting(self) -> bool:
        """Tell whether the gateway has tried to connect."""
        return self.connected or bool(self.connection_losses) or bool(self.violations)

    @property
    def takes_posts(self) -> bool:
        return self.inner.takes_posts

    async def open(self) -> None:
        with self._record_violations("open"):
            await self.inner.open()
            self.connected = True

    @property
    def receives_by_lease(self) -> bool:
        return self.inner.receives_by_lease

    async def receive(self) -> AsyncGenerator[Event | Checkpoint]:
        async with aclosing(self.inner.receive()) as events:
            with self._record_violations("receive"):
                async for event in events:
                    if isinstance(event, Checkpoint):
                        yield event
                        continue
                    self.handed.append(event)
                    await self.halts[HaltPoint.BEFORE_STORE].wait_if_armed()
                    yield self._wrap_event(event)

    @contextmanager
    def _record_violations(self, where: str) -> Iterator[None]:
        """Record every error except `NotConnected`."""
        try:
            yield
        except NotConnected as loss:
            self.connection_losses.append(loss)
            raise
        except Exception as error:
            self.violations.append(
                f"{where} raised {error!r}; only NotConnected says that a platform is not there"
            )
            raise

    def _wrap_event(self, event: Event) -> Event:
        async def ack(stored: Stored | None) -> None:
            await self.halts[HaltPoint.BEFORE_ACK].wait_if_armed()
            await event.ack(stored)
            self.acknowledged.append(event)

        async def fail(error: PerdureError) -> None:
            await event.fail(error)
            self.failed.append(event)

        return msgspec.structs.replace(event, ack=ack, fail=fail)

    async def send(self, outbound: Outbound) -> Receipt:
        sending = SendCall(outbound)
        self.send_calls.append(sending)
        await self.halts[HaltPoint.BEFORE_SEND].wait_if_armed()
        try:
            sending.receipt = await self.inner.send(outbound)
        except Exception as error:
            sending.error = error
            raise
        await self.halts[HaltPoint.AFTER_SEND].wait_if_armed()
        return sending.receipt

    async def glimpse(self, address: Address, turn: str, text: str) -> None:
        await self.inner.glimpse(address, turn, text)
        self.glimpsed.append(text)

    async def typing(self, address: Address) -> None:
        self.typing_requests += 1
        await self.inner.typing(address)
        self.typing_shown += 1

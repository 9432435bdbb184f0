"""What stands between the gateway and the adapter under test: it sees all that passes, and can hold it up."""

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
from perdure.platforms.api import Adapter, Event


class Sending(Struct):
    """One try to send a message, and what came of it."""

    outbound: Outbound
    receipt: Receipt | None = None
    error: Exception | None = None


class Place(StrEnum):
    """Where everything can be made to stand still."""

    BEFORE_STORE = "an event is handed over"
    BEFORE_ACK = "an event is stored"
    BEFORE_SEND = "a message is about to be sent"
    AFTER_SEND = "a message was sent"


class Halt:
    """A place at which everything stands still for ever once it is closed, as before a death."""

    def __init__(self) -> None:
        self.closed = False
        self.reached = asyncio.Event()

    async def pass_through(self) -> None:
        if self.closed:
            self.reached.set()
            await asyncio.Event().wait()


class Seam(Adapter):
    """The adapter, as the gateway knows it."""

    def __init__(self, inner: Adapter) -> None:
        self.inner = inner
        self.name, self.capabilities = inner.name, inner.capabilities
        self.handed: list[Event] = []
        self.acknowledged: list[Event] = []
        self.failed: list[Event] = []  # those that could not be stored
        self.sendings: list[Sending] = []
        self.glimpsed: list[str] = []
        self.told_to_type = 0  # how often
        self.typed = 0  # how often it said that it has
        self.offences: list[str] = []
        self.connected = False  # whether a try to connect has gone well
        self.losses: list[NotConnected] = []
        self.halts = {place: Halt() for place in Place}
        for each in dir(Adapter):
            if not each.startswith("_") and each not in vars(Seam) and callable(getattr(inner, each)):
                setattr(self, each, getattr(inner, each))  # whatever else the contract has or will have

    def tried(self) -> bool:
        """Whether it was tried to connect."""
        return self.connected or bool(self.losses) or bool(self.offences)

    @property
    def takes_posts(self) -> bool:
        return self.inner.takes_posts

    async def connect(self) -> None:
        with self._only_losses("connect"):
            await self.inner.connect()
            self.connected = True

    async def receive(self) -> AsyncGenerator[Event]:
        async with aclosing(self.inner.receive()) as events:
            with self._only_losses("receive"):
                async for event in events:
                    self.handed.append(event)
                    await self.halts[Place.BEFORE_STORE].pass_through()
                    yield self._watched(event)

    @contextmanager
    def _only_losses(self, where: str) -> Iterator[None]:
        """Note whatever is raised that does not say that the connection is lost."""
        try:
            yield
        except NotConnected as loss:
            self.losses.append(loss)
            raise
        except Exception as error:
            self.offences.append(f"{where} raised {error!r}; only NotConnected says that a platform is not there")
            raise

    def _watched(self, event: Event) -> Event:
        async def ack(stored: Stored | None) -> None:
            await self.halts[Place.BEFORE_ACK].pass_through()
            await event.ack(stored)
            self.acknowledged.append(event)

        async def fail(error: PerdureError) -> None:
            await event.fail(error)
            self.failed.append(event)

        return msgspec.structs.replace(event, ack=ack, fail=fail)

    async def send(self, outbound: Outbound) -> Receipt:
        sending = Sending(outbound)
        self.sendings.append(sending)
        await self.halts[Place.BEFORE_SEND].pass_through()
        try:
            sending.receipt = await self.inner.send(outbound)
        except Exception as error:
            sending.error = error
            raise
        await self.halts[Place.AFTER_SEND].pass_through()
        return sending.receipt

    async def glimpse(self, address: Address, turn: str, text: str) -> None:
        await self.inner.glimpse(address, turn, text)
        self.glimpsed.append(text)

    async def typing(self, address: Address) -> None:
        self.told_to_type += 1
        await self.inner.typing(address)
        self.typed += 1

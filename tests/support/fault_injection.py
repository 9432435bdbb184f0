"""Crashes a gateway at the n-th call to the store, the platform or the model.

From then on nothing that the gateway does has an effect, as if its process had been killed there: not on the disk,
not on the platform, not on the model.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import TypeVar

import msgspec

from perdure.agents.api import Model, ModelRequest, PreviewCallback
from perdure.core.journal import ModelAnswered
from perdure.core.messages import Inbound, Outbound, Receipt, Stored
from perdure.platforms.api import Event
from perdure.store.database import Database, Transaction
from perdure.testing import Crash, SimulatedPlatform
from perdure.testing.simulated_platform import SimulatedAdapter

T = TypeVar("T")


class CrashInjector:
    """Crashes before or after the n-th call, or after the write that makes a fact true."""

    def __init__(self, at: int | None = None, *, after: bool = False, fact: str = "") -> None:
        self.calls: list[str] = []  # the kinds of all calls, in order
        self.triggered = asyncio.Event()
        self.fact = fact  # a query that returns a row when the fact is true
        self._at = at
        self._after = after

    async def intercept(self, name: str, call: Callable[[], Awaitable[T]]) -> T:
        """Make a call, unless the gateway has crashed or crashes at this call."""
        self._raise_if_triggered()
        self.calls.append(name)
        fatal = len(self.calls) == self._at
        if fatal and not self._after:
            self.trigger()
        result = await call()
        self._raise_if_triggered()  # another task may have crashed the gateway during the call
        if fatal:
            self.trigger()
        return result

    def trigger(self) -> None:
        self.triggered.set()
        raise Crash

    def _raise_if_triggered(self) -> None:
        if self.triggered.is_set():
            raise Crash


class InterceptedDatabase:
    """A database whose calls pass a crash injector."""

    def __init__(self, database: Database, injector: CrashInjector) -> None:
        self.beneath = database
        self.ids = database.ids
        self.exclusive = database.exclusive
        self._injector = injector

    async def write(self, transaction: Transaction[T], *, key: str = "", at: int | None = None) -> T:
        result = await self._injector.intercept("store", lambda: self.beneath.write(transaction, key=key, at=at))
        if self._injector.fact and await self.beneath.read(lambda tx: tx.one(self._injector.fact)) is not None:
            self._injector.trigger()
        return result

    async def read(self, transaction: Transaction[T], *, at: int | None = None) -> T:
        return await self._injector.intercept("store", lambda: self.beneath.read(transaction, at=at))

    @property
    def problem(self) -> str | None:
        return self.beneath.problem

    async def close(self) -> None:
        """Close the files and free the locks, as the kernel does for a dead process."""
        await self.beneath.close()


class InterceptedAdapter(SimulatedAdapter):
    """An adapter of the simulated platform whose calls pass a crash injector."""

    def __init__(self, platform: SimulatedPlatform, injector: CrashInjector) -> None:
        super().__init__(platform)
        self._injector = injector

    async def open(self) -> None:
        await self._injector.intercept("connect", super().open)

    def _event(self, inbound: Inbound) -> Event:
        event = super()._event(inbound)

        async def ack(stored: Stored | None) -> None:
            await self._injector.intercept("ack", lambda: event.ack(stored))

        return msgspec.structs.replace(event, ack=ack)

    async def send(self, outbound: Outbound) -> Receipt:
        send = super().send
        return await self._injector.intercept("send", lambda: send(outbound))

    async def fetch(self, reference: str) -> AsyncGenerator[bytes]:
        inner = super().fetch

        async def whole() -> bytes:
            return b"".join([piece async for piece in inner(reference)])

        yield await self._injector.intercept("fetch", whole)

    async def edit(self, receipt: Receipt, outbound: Outbound) -> None:
        edit = super().edit
        await self._injector.intercept("edit", lambda: edit(receipt, outbound))

    async def find_sent(self, key: str) -> Receipt | None:
        find = super().find_sent
        return await self._injector.intercept("find", lambda: find(key))


class InterceptedModel:
    """A model whose calls pass a crash injector."""

    def __init__(self, model: Model, injector: CrashInjector) -> None:
        self.name = model.name
        self.window = model.window
        self._model = model
        self._injector = injector

    async def close(self) -> None:
        await self._model.close()

    async def respond(self, request: ModelRequest, show_preview: PreviewCallback | None = None) -> ModelAnswered:
        return await self._injector.intercept("model", lambda: self._model.respond(request, show_preview))

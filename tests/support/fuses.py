"""A fuse around a gateway: it counts every call to the store, the platform and the model, and burns at the n-th.

From then on nothing that the gateway does reaches anybody, as if its process had been killed there: not the disk,
not the platform, not the model.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import TypeVar

import msgspec

from perdure.agents.api import Hear, Model, ModelRequest
from perdure.core.journal import ModelAnswered
from perdure.core.messages import Inbound, Outbound, Receipt, Stored
from perdure.platforms.api import Event
from perdure.store.database import Database, Work
from perdure.testing import Crash, SimulatedPlatform
from perdure.testing.platform import SimulatedAdapter

T = TypeVar("T")


class Fuse:
    """Burns at the n-th call, before or after it took place, or after the write that makes a fact true."""

    def __init__(self, at: int | None = None, *, after: bool = False, fact: str = "") -> None:
        self.calls: list[str] = []  # what was called, in order
        self.burnt = asyncio.Event()
        self.fact = fact  # a query that gives a row
        self._at = at
        self._after = after

    async def around(self, name: str, call: Callable[[], Awaitable[T]]) -> T:
        """Let a call through, if this is not the end."""
        self._check()
        self.calls.append(name)
        fatal = len(self.calls) == self._at
        if fatal and not self._after:
            self.burn()
        result = await call()
        self._check()  # somebody else may have been killed meanwhile, and we with them
        if fatal:
            self.burn()
        return result

    def burn(self) -> None:
        self.burnt.set()
        raise Crash

    def _check(self) -> None:
        if self.burnt.is_set():
            raise Crash


class FusedDatabase:
    """A database behind a fuse."""

    def __init__(self, database: Database, fuse: Fuse) -> None:
        self.beneath = database
        self.sole = database.sole
        self._fuse = fuse

    async def write(self, work: Work[T], *, key: str = "") -> T:
        result = await self._fuse.around("store", lambda: self.beneath.write(work, key=key))
        if self._fuse.fact and await self.beneath.read(lambda tx: tx.one(self._fuse.fact)) is not None:
            self._fuse.burn()
        return result

    async def read(self, work: Work[T]) -> T:
        return await self._fuse.around("store", lambda: self.beneath.read(work))

    @property
    def problem(self) -> str | None:
        return self.beneath.problem

    async def close(self) -> None:
        """What the kernel does for a dead process: it closes the files and frees the locks."""
        await self.beneath.close()


class FusedAdapter(SimulatedAdapter):
    """A connection to the simulated platform behind a fuse."""

    def __init__(self, platform: SimulatedPlatform, fuse: Fuse) -> None:
        super().__init__(platform)
        self._fuse = fuse

    async def connect(self) -> None:
        await self._fuse.around("connect", super().connect)

    def _event(self, inbound: Inbound) -> Event:
        event = super()._event(inbound)

        async def ack(stored: Stored | None) -> None:
            await self._fuse.around("ack", lambda: event.ack(stored))

        return msgspec.structs.replace(event, ack=ack)

    async def send(self, outbound: Outbound) -> Receipt:
        send = super().send
        return await self._fuse.around("send", lambda: send(outbound))

    async def fetch(self, reference: str) -> AsyncGenerator[bytes]:
        inner = super().fetch

        async def whole() -> bytes:
            return b"".join([piece async for piece in inner(reference)])

        yield await self._fuse.around("fetch", whole)

    async def edit(self, receipt: Receipt, outbound: Outbound) -> None:
        edit = super().edit
        await self._fuse.around("edit", lambda: edit(receipt, outbound))

    async def find_sent(self, key: str) -> Receipt | None:
        find = super().find_sent
        return await self._fuse.around("find", lambda: find(key))


class FusedModel:
    """A model behind a fuse."""

    def __init__(self, model: Model, fuse: Fuse) -> None:
        self.name = model.name
        self.window = model.window
        self._model = model
        self._fuse = fuse

    async def close(self) -> None:
        await self._model.close()

    async def respond(self, request: ModelRequest, hear: Hear | None = None) -> ModelAnswered:
        return await self._fuse.around("model", lambda: self._model.respond(request, hear))

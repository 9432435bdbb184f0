"""Gateways with one fault each, which a drill must notice.

A test copies this file into a home, from which the drill's process imports it: it imports nothing of the tests.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from typing import Any, TypeVar

from msgspec.structs import replace

from perdure.core.address import Address
from perdure.core.messages import Inbound, Outbound, Receipt, Stored
from perdure.platforms.api import Adapter, Event
from perdure.runtime.gateway import Gateway
from perdure.store.database import Database, Transaction

T = TypeVar("T")


class _WrappedAdapter(Adapter):
    """A wrapper around an adapter."""

    def __init__(self, beneath: Adapter) -> None:
        self.inner = beneath
        self.name = beneath.name
        self.capabilities = beneath.capabilities

    async def open(self) -> None:
        await self.inner.open()

    async def receive(self) -> AsyncGenerator[Event]:
        async for event in self.inner.receive():
            if isinstance(event, Event):
                yield event

    async def send(self, outbound: Outbound) -> Receipt:
        return await self.inner.send(outbound)

    async def find_sent(self, key: str) -> Receipt | None:
        return await self.inner.find_sent(key)


class _DroppingAdapter(_WrappedAdapter):
    """Acknowledges some events and drops them."""

    def __init__(self, beneath: Adapter, ignores: Callable[[Inbound], bool]) -> None:
        super().__init__(beneath)
        self._ignores = ignores

    async def receive(self) -> AsyncGenerator[Event]:
        async for event in super().receive():
            if event.inbound is not None and self._ignores(event.inbound):
                await event.ack(None)
            else:
                yield event


class _EarlyAckAdapter(_WrappedAdapter):
    """Acknowledges before anything is stored."""

    async def receive(self) -> AsyncGenerator[Event]:
        async for event in super().receive():
            await event.ack(None)
            yield replace(event, ack=_ignore_ack)


async def _ignore_ack(_: Stored | None) -> None: ...


class _OverclaimingAdapter(_WrappedAdapter):
    """Claims `idempotent_send`, which is true of one platform only."""

    def __init__(self, beneath: Adapter) -> None:
        super().__init__(beneath)
        self.capabilities = replace(beneath.capabilities, idempotent_send=True)


class _DuplicatingAdapter(_WrappedAdapter):
    """Sends every answer twice."""

    async def send(self, outbound: Outbound) -> Receipt:
        await self.inner.send(replace(outbound, key=f"{outbound.key}~"))
        return await self.inner.send(outbound)


class _GreetingAdapter(_WrappedAdapter):
    """Sends a greeting to a chat of the first round at every start."""

    async def open(self) -> None:
        await super().open()
        if self.name == "plain":
            await self.send(Outbound(Address("plain", "dm", "1-once"), "Are you still there?", "greeting"))


class _ForgettingDatabase:
    """A database that loses the records of finished steps at every start."""

    def __init__(self, beneath: Database) -> None:
        self.beneath = beneath
        self.ids = beneath.ids
        self.exclusive = beneath.exclusive
        self._forgot = False

    async def write(self, transaction: Transaction[T], *, key: str = "", at: int | None = None) -> T:
        if not self._forgot:
            self._forgot = True
            steps = "('tool_started', 'tool_ended')"
            await self.beneath.write(lambda tx: tx.run(f"DELETE FROM journal WHERE kind IN {steps}"))
        return await self.beneath.write(transaction, key=key, at=at)

    async def read(self, transaction: Transaction[T], *, at: int | None = None) -> T:
        return await self.beneath.read(transaction, at=at)

    @property
    def problem(self) -> str | None:
        return self.beneath.problem

    async def close(self) -> None:
        await self.beneath.close()


def loses(settings: Any, *, adapters: list[Adapter], **more: Any) -> Gateway:
    """Loses messages: it acknowledges and drops them."""
    deaf = [_DroppingAdapter(adapter, lambda inbound: inbound.text.startswith("once ")) for adapter in adapters]
    return Gateway(settings, adapters=deaf, **more)


def acknowledges_early(settings: Any, *, adapters: list[Adapter], **more: Any) -> Gateway:
    """Loses messages if the kill comes between acknowledgement and store."""
    return Gateway(settings, adapters=[_EarlyAckAdapter(adapter) for adapter in adapters], **more)


def claims_too_much(settings: Any, *, adapters: list[Adapter], **more: Any) -> Gateway:
    """Repeats answers if the kill comes after a send."""
    return Gateway(settings, adapters=[_OverclaimingAdapter(adapter) for adapter in adapters], **more)


def hangs(settings: Any, *, adapters: list[Adapter], **more: Any) -> Gateway:
    """Drops the answers of people to questions."""
    deaf = [_DroppingAdapter(adapter, lambda inbound: "/approve" in inbound.text) for adapter in adapters]
    return Gateway(settings, adapters=deaf, **more)


def doubles(settings: Any, *, adapters: list[Adapter], **more: Any) -> Gateway:
    return Gateway(settings, adapters=[_DuplicatingAdapter(adapter) for adapter in adapters], **more)


def wakes(settings: Any, *, adapters: list[Adapter], **more: Any) -> Gateway:
    return Gateway(settings, adapters=[_GreetingAdapter(adapter) for adapter in adapters], **more)


def takes_nothing_over(settings: Any, **more: Any) -> Gateway:
    """A lease so long that nobody finds another gateway dead."""
    return Gateway(replace(settings, store=replace(settings.store, lease=3600.0)), **more)


def repeats(settings: Any, *, wrap: Callable[[Database], Database], **more: Any) -> Gateway:
    """Repeats finished steps."""
    return Gateway(settings, wrap=lambda database: _ForgettingDatabase(wrap(database)), **more)

"""The web platform: people who talk to the gateway over its own HTTP API.

Here we are the platform: what a person sees in a chat is read from the inbox and the outbox themselves, so a
message is on the platform as soon as its row says so, and sending it again changes nothing.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import contextmanager

import msgspec
from msgspec import Struct

from perdure.core import texts
from perdure.core.address import Address
from perdure.core.messages import Inbound, Outbound, Receipt, Stored
from perdure.errors import FetchRefused, NotTaken, PerdureError
from perdure.platforms.api import Adapter, Capabilities, Event


class ChatSubscription(Struct, frozen=True, eq=False):
    """Somebody who follows a chat now."""

    notices: deque[str]
    previews: dict[str, str]  # the newest text of answers that grow, by turn
    wake: Callable[[], None]


class WebAdapter(Adapter):
    """Takes messages from the HTTP API, and answers each call once its message is stored."""

    name = "web"
    capabilities = Capabilities(idempotent_send=True, live=True, files=True)

    def __init__(self) -> None:
        self._events: asyncio.Queue[Event] = asyncio.Queue()
        self._subscriptions: dict[Address, set[ChatSubscription]] = {}

    async def connect(self) -> None:
        """We are always there."""

    async def submit(self, inbound: Inbound) -> Stored:
        """Hand a message over. After return: it is stored. An error: it is not."""
        outcome: asyncio.Future[Stored] = asyncio.get_running_loop().create_future()

        async def ack(stored: Stored | None) -> None:
            if outcome.done():
                return
            if stored is None:
                outcome.set_exception(NotTaken("this message was not taken", hint="You may not write here."))
            else:
                outcome.set_result(stored)

        async def fail(error: PerdureError) -> None:
            if not outcome.done():
                outcome.set_exception(error)

        raw = msgspec.json.encode(inbound).decode()
        await self._events.put(Event(raw, inbound.event_key, inbound, ack=ack, fail=fail))
        return await outcome

    async def receive(self) -> AsyncGenerator[Event]:
        while True:
            yield await self._events.get()

    async def send(self, outbound: Outbound) -> Receipt:
        return Receipt(outbound.key)

    async def fetch(self, reference: str) -> AsyncGenerator[bytes]:
        """What was uploaded is here from the beginning; whatever is asked for is not."""
        raise FetchRefused(texts.attachments.NOT_UPLOADED)
        yield b""

    @contextmanager
    def subscribe(self, address: Address, wake: Callable[[], None]) -> Iterator[ChatSubscription]:
        """Collect what is of the moment in a chat while somebody follows it, and wake them for each."""
        reader = ChatSubscription(deque(), {}, wake)
        self._subscriptions.setdefault(address, set()).add(reader)
        try:
            yield reader
        finally:
            self._subscriptions[address].discard(reader)
            if not self._subscriptions[address]:
                del self._subscriptions[address]

    async def notice(self, address: Address, text: str) -> None:
        """Show it to whoever follows the chat now; it is kept for nobody else."""
        for reader in self._subscriptions.get(address, ()):
            reader.notices.append(text)
            reader.wake()

    async def glimpse(self, address: Address, turn: str, text: str) -> None:
        """Show a growing answer to whoever follows the chat now; who is slow sees only its newest text."""
        for reader in self._subscriptions.get(address, ()):
            reader.previews[turn] = text
            reader.wake()

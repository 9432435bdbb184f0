"""The web platform: chats over the gateway's own HTTP API.

The gateway is the platform here: people read a chat from the inbox and the outbox themselves. So a message is
delivered as soon as its row says so, and sending it again changes nothing.
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
    """A client that follows a chat now."""

    notices: deque[str]
    previews: dict[str, str]  # the newest text of growing answers, by turn
    wake: Callable[[], None]


class WebAdapter(Adapter):
    """Receives messages from the HTTP API, and answers each request once its message is stored."""

    name = "web"
    capabilities = Capabilities(idempotent_send=True, live=True, files=True)

    def __init__(self) -> None:
        self._events: asyncio.Queue[Event] = asyncio.Queue()
        self._subscriptions: dict[Address, set[ChatSubscription]] = {}

    async def open(self) -> None:
        """Do nothing: this platform is always there."""

    @property
    def receives_by_lease(self) -> bool:
        """Never: each gateway takes what people post to its own HTTP API."""
        return False

    async def submit(self, inbound: Inbound) -> Stored:
        """Hand a message over. After return it is stored; if this raises, it is not."""
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
        """Refuse: uploaded files are stored with their message, so that nothing remains to be fetched."""
        raise FetchRefused(texts.files.NOT_UPLOADED)
        yield b""

    @contextmanager
    def subscribe(self, address: Address, wake: Callable[[], None]) -> Iterator[ChatSubscription]:
        """Collect the notices and previews of a chat while a client follows it; call `wake` for each."""
        reader = ChatSubscription(deque(), {}, wake)
        self._subscriptions.setdefault(address, set()).add(reader)
        try:
            yield reader
        finally:
            self._subscriptions[address].discard(reader)
            if not self._subscriptions[address]:
                del self._subscriptions[address]

    async def notice(self, address: Address, text: str) -> None:
        """Show a notice to the clients that follow the chat now; it is not stored."""
        for reader in self._subscriptions.get(address, ()):
            reader.notices.append(text)
            reader.wake()

    async def glimpse(self, address: Address, turn: str, text: str) -> None:
        """Show a growing answer to the clients that follow the chat now; a slow one sees only its newest text."""
        for reader in self._subscriptions.get(address, ()):
            reader.previews[turn] = text
            reader.wake()

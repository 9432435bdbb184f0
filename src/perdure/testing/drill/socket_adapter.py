"""The adapters of a drilled gateway: they reach the simulated platforms over a socket."""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import AsyncGenerator, Callable
from pathlib import Path

import msgspec

from perdure.core.messages import Inbound, Outbound, Receipt, Stored
from perdure.errors import PerdureError, SendRefused
from perdure.platforms.api import Adapter, Capabilities, Event
from perdure.testing.drill import protocol

REDELIVERY_SECONDS = 0.1  # seconds until an event is handed over again that the gateway could not store


class PlatformSocket:
    """One connection for all platforms. When the connection ends, so has the drill, and this process exits."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._numbers = itertools.count(1)
        self._pending_requests: dict[int, asyncio.Future[protocol.RequestAnswer]] = {}
        self._queues: dict[str, asyncio.Queue[Inbound]] = {}

    @classmethod
    async def open(cls, path: Path) -> PlatformSocket:
        with protocol.short_socket_path(path) as short:
            return cls(*await asyncio.open_unix_connection(short, limit=protocol.MAX_LINE_BYTES))

    async def read_messages(self, arm: Callable[[protocol.Arm], None]) -> None:
        """Read the messages of the platforms."""
        async for encoded in protocol.read_lines(self._reader):
            match protocol.platform_message_decoder.decode(encoded):
                case protocol.EventHandedOver(platform, inbound):
                    self.events(platform).put_nowait(inbound)
                case protocol.RequestAnswer(number) as answer:
                    if not self._pending_requests[number].done():  # the task that asked may have been cancelled
                        self._pending_requests[number].set_result(answer)
                case protocol.Arm() as armed:
                    arm(armed)
        os._exit(1)

    def events(self, platform: str) -> asyncio.Queue[Inbound]:
        return self._queues.setdefault(platform, asyncio.Queue())

    def send(self, message: protocol.FromGateway) -> None:
        protocol.write_message(self._writer, message)

    async def request(self, make: Callable[[int], protocol.Request]) -> Receipt | None:
        """Send a request, and wait for its answer."""
        number = next(self._numbers)
        self._pending_requests[number] = asyncio.get_running_loop().create_future()
        self.send(make(number))
        try:
            answer = await self._pending_requests[number]
            if answer.refused:
                raise SendRefused(answer.refused)
            return answer.receipt
        finally:
            del self._pending_requests[number]


class SocketAdapter(Adapter):
    """The adapter of one simulated platform, over the socket."""

    def __init__(self, name: str, capabilities: Capabilities, socket: PlatformSocket) -> None:
        self.name = name
        self.capabilities = capabilities
        self._socket = socket

    async def open(self) -> None:
        """Begin to listen: one gateway at a time has the socket."""
        self._socket.send(protocol.Listen(self.name))

    async def receive(self) -> AsyncGenerator[Event]:
        events = self._socket.events(self.name)
        while True:
            yield self._event(await events.get())

    def _event(self, inbound: Inbound) -> Event:
        async def ack(_: Stored | None) -> None:
            await self._socket.request(lambda number: protocol.Ack(number, self.name, inbound.event_key))

        async def fail(_: PerdureError) -> None:
            """Hand the event over again, a little later, because it could not be stored."""
            asyncio.get_running_loop().call_later(
                REDELIVERY_SECONDS, self._socket.events(self.name).put_nowait, inbound
            )

        return Event(msgspec.json.encode(inbound).decode(), inbound.event_key, inbound, ack=ack, fail=fail)

    async def send(self, outbound: Outbound) -> Receipt:
        receipt = await self._socket.request(lambda number: protocol.Send(number, self.name, outbound))
        return receipt or Receipt(outbound.key)

    async def edit(self, receipt: Receipt, outbound: Outbound) -> None:
        await self._socket.request(lambda number: protocol.Edit(number, self.name, receipt, outbound))

    async def find_sent(self, key: str) -> Receipt | None:
        return await self._socket.request(lambda number: protocol.Find(number, self.name, key))

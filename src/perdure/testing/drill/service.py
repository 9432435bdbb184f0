"""The simulated platforms as a service: they live in the drill's own process, and outlive every gateway."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from perdure.errors import SendRefused
from perdure.platforms.api import Event
from perdure.testing.drill import wire
from perdure.testing.drill.points import REFUSED, Place, Point
from perdure.testing.platform import SimulatedAdapter, SimulatedPlatform


class Trap:
    """Kills at the n-th send or acknowledgement, before or after the platform has recorded it."""

    def __init__(self, kill: Callable[[], None]) -> None:
        self._kill = kill
        self._point: Point | None = None
        self._count = 0

    def set(self, point: Point | None) -> None:
        self._point, self._count = point, 0

    def springs(self, place: Place, *, after: bool) -> bool:
        """Whether it kills here. Asked twice for each: before, and after."""
        point = self._point
        if point is None or point.place != place:
            return False
        self._count += not after
        if self._count != point.nth or after != point.after:
            return False
        self._point = None
        self._kill()
        return True


class Service:
    """Answers gateways, one after the other."""

    def __init__(self, platforms: Mapping[str, SimulatedPlatform], trap: Trap) -> None:
        self._platforms = platforms
        self._trap = trap
        self._server: asyncio.Server | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._attending: set[asyncio.Task[None]] = set()
        self._alone = asyncio.Event()  # nobody is connected, and what was under way has been taken in
        self._alone.set()
        self.ready = asyncio.Event()  # the gateway says that it has started

    async def open(self, path: Path) -> None:
        with wire.within_reach(path) as short:
            self._server = await asyncio.start_unix_server(self._attend, short, limit=wire.LONGEST)

    async def close(self) -> None:
        for task in self._attending:
            task.cancel()
        if self._server is not None:
            self._server.close()

    async def settle(self) -> None:
        """Wait until everything has been taken in that a dead gateway had sent."""
        await self._alone.wait()

    def arm(self, point: Point) -> None:
        """Have the gateway that is connected killed at a store call, or let its disk be full from there on."""
        if self._writer is not None:
            refuse = REFUSED if point.place == "full" else 0
            wire.put(self._writer, wire.Arm(point.nth, point.after, refuse))

    async def _attend(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._alone.clear()
        self._writer = writer
        line = _Line(self._platforms, self._trap, writer)
        task = asyncio.current_task()
        if task is not None:
            self._attending.add(task)
            task.add_done_callback(self._attending.discard)
        try:
            async for said in wire.lines(reader):
                message = wire.from_gateway.decode(said)
                if isinstance(message, wire.Ready):
                    self.ready.set()
                else:
                    await line.take(message)
        finally:
            line.close()
            writer.close()
            self._alone.set()


class _Line:
    """One gateway's connections to all platforms."""

    def __init__(
        self, platforms: Mapping[str, SimulatedPlatform], trap: Trap, writer: asyncio.StreamWriter
    ) -> None:
        self._platforms = platforms
        self._trap = trap
        self._writer = writer
        self._adapters: dict[str, SimulatedAdapter] = {}
        self._handed: dict[str, Event] = {}
        self._handing: list[asyncio.Task[None]] = []

    def close(self) -> None:
        for task in self._handing:
            task.cancel()

    async def take(self, message: wire.Listen | wire.Request) -> None:
        match message:
            case wire.Listen(platform):
                adapter = self._adapters[platform] = self._platforms[platform].adapter()
                await adapter.connect()
                self._handing.append(asyncio.create_task(self._hand_over(platform, adapter)))
            case wire.Send() | wire.Edit():
                if not self._trap.springs("send", after=False):
                    told = await self._record(message)
                    if not self._trap.springs("send", after=True):
                        wire.put(self._writer, told)
            case wire.Ack(number, _, key):
                if not self._trap.springs("ack", after=False):
                    if event := self._handed.pop(key, None):  # twice is as good as once
                        await event.ack(None)
                    if not self._trap.springs("ack", after=True):
                        wire.put(self._writer, wire.Told(number))
            case wire.Find(number, platform, key):
                wire.put(self._writer, wire.Told(number, await self._adapters[platform].find_sent(key)))

    async def _record(self, message: wire.Send | wire.Edit) -> wire.Told:
        adapter = self._adapters[message.platform]
        try:
            if isinstance(message, wire.Send):
                return wire.Told(message.number, await adapter.send(message.outbound))
            await adapter.edit(message.receipt, message.outbound)
            return wire.Told(message.number, message.receipt)
        except SendRefused as error:
            return wire.Told(message.number, refused=error.message)

    async def _hand_over(self, platform: str, adapter: SimulatedAdapter) -> None:
        with suppress(ConnectionError):
            async for event in adapter.receive():
                if event.inbound is not None:
                    self._handed[event.key] = event
                    wire.put(self._writer, wire.Handed(platform, event.inbound))
                    await self._writer.drain()

"""Serves the simulated platforms of a drill over a socket; they outlive every gateway."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from perdure.core.messages import Inbound
from perdure.errors import SendRefused
from perdure.platforms.api import Event
from perdure.testing.drill import protocol
from perdure.testing.drill.points import REFUSED_WRITES, Point, PointKind
from perdure.testing.simulated_platform import SimulatedAdapter, SimulatedPlatform


class KillTrap:
    """Kills the gateway at the n-th send or acknowledgement, before or after the platform has recorded it."""

    def __init__(self, kill: Callable[[], None]) -> None:
        self._kill = kill
        self._point: Point | None = None
        self._count = 0

    def arm(self, point: Point | None) -> None:
        self._point, self._count = point, 0

    def kills_at(self, place: PointKind, *, after: bool) -> bool:
        """Kill the gateway if this is the point; called before and after each send and acknowledgement."""
        point = self._point
        if point is None or point.place != place:
            return False
        self._count += not after
        if self._count != point.nth or after != point.after:
            return False
        self._point = None
        self._kill()
        return True


class PlatformServer:
    """Serves one gateway after the other."""

    def __init__(
        self,
        platforms: Mapping[str, SimulatedPlatform],
        kill_trap: KillTrap,
        wait_for: Callable[[str], float] = lambda event_key: 0.0,
    ) -> None:
        """`wait_for` says for how many seconds an event is left to other gateways first, by its key."""
        self._wait_for = wait_for
        self._platforms = platforms
        self._kill_trap = kill_trap
        self._server: asyncio.Server | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._connections: set[asyncio.Task[None]] = set()
        self._drained = asyncio.Event()  # no gateway is connected, and all of its messages are handled
        self._drained.set()
        self.ready = asyncio.Event()  # the gateway has reported that it is ready

    async def open(self, path: Path) -> None:
        with protocol.short_socket_path(path) as short:
            self._server = await asyncio.start_unix_server(
                self._serve_gateway, short, limit=protocol.MAX_LINE_BYTES
            )

    async def close(self) -> None:
        for task in self._connections:
            task.cancel()
        if self._server is not None:
            self._server.close()

    async def wait_until_drained(self) -> None:
        """Wait until all messages of a killed gateway have been handled."""
        await self._drained.wait()

    def arm(self, point: Point) -> None:
        """Tell the connected gateway to kill itself at a store call, or to refuse writes from that call on."""
        if self._writer is not None:
            refuse = REFUSED_WRITES if point.place == "full" else 0
            protocol.write_message(self._writer, protocol.Arm(point.nth, point.after, refuse))

    async def _serve_gateway(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._drained.clear()
        self._writer = writer
        connection = _GatewayConnection(self._platforms, self._kill_trap, writer, self._wait_for)
        task = asyncio.current_task()
        if task is not None:
            self._connections.add(task)
            task.add_done_callback(self._connections.discard)
        try:
            async for encoded in protocol.read_lines(reader):
                message = protocol.gateway_message_decoder.decode(encoded)
                if isinstance(message, protocol.GatewayReady):
                    self.ready.set()
                else:
                    await connection.handle(message)
        finally:
            connection.close()
            writer.close()
            self._drained.set()


class _GatewayConnection:
    """One gateway's connections to all platforms."""

    def __init__(
        self,
        platforms: Mapping[str, SimulatedPlatform],
        kill_trap: KillTrap,
        writer: asyncio.StreamWriter,
        wait_for: Callable[[str], float],
    ) -> None:
        self._platforms = platforms
        self._wait_for = wait_for
        self._kill_trap = kill_trap
        self._writer = writer
        self._adapters: dict[str, SimulatedAdapter] = {}
        self._handed: dict[str, Event] = {}
        self._hand_over_tasks: dict[str, asyncio.Task[None]] = {}  # by platform
        self._later: set[asyncio.Task[None]] = set()  # events that are left to other gateways first

    def close(self) -> None:
        for task in (*self._hand_over_tasks.values(), *self._later):
            task.cancel()

    async def handle(self, message: protocol.Listen | protocol.Request) -> None:
        match message:
            case protocol.Listen(platform):
                adapter = self._adapters[platform] = self._platforms[platform].adapter()
                await adapter.open()
                if platform in self._hand_over_tasks:  # the gateway has begun a new run
                    self._hand_over_tasks[platform].cancel()
                self._hand_over_tasks[platform] = asyncio.create_task(self._hand_over(platform, adapter))
            case protocol.Send() | protocol.Edit():
                if not self._kill_trap.kills_at("send", after=False):
                    answer = await self._record(message)
                    if not self._kill_trap.kills_at("send", after=True):
                        protocol.write_message(self._writer, answer)
            case protocol.Ack(number, _, key):
                if not self._kill_trap.kills_at("ack", after=False):
                    if event := self._handed.pop(key, None):  # a second acknowledgement does nothing
                        await event.ack(None)
                    if not self._kill_trap.kills_at("ack", after=True):
                        protocol.write_message(self._writer, protocol.RequestAnswer(number))
            case protocol.Find(number, platform, key):
                protocol.write_message(
                    self._writer, protocol.RequestAnswer(number, await self._adapters[platform].find_sent(key))
                )

    async def _record(self, message: protocol.Send | protocol.Edit) -> protocol.RequestAnswer:
        adapter = self._adapters[message.platform]
        try:
            if isinstance(message, protocol.Send):
                return protocol.RequestAnswer(message.number, await adapter.send(message.outbound))
            await adapter.edit(message.receipt, message.outbound)
            return protocol.RequestAnswer(message.number, message.receipt)
        except SendRefused as error:
            return protocol.RequestAnswer(message.number, refused=error.message)

    async def _hand_over(self, platform: str, adapter: SimulatedAdapter) -> None:
        with suppress(ConnectionError):
            async for event in adapter.receive():
                if event.inbound is not None:
                    task = asyncio.create_task(self._hand_over_event(platform, event, event.inbound))
                    self._later.add(task)
                    task.add_done_callback(self._later.discard)

    async def _hand_over_event(self, platform: str, event: Event, inbound: Inbound) -> None:
        """Hand an event over, unless another gateway has acknowledged it meanwhile."""
        if wait := self._wait_for(event.key):
            await asyncio.sleep(wait)
            if all(each.event_key != event.key for each in self._platforms[platform].pending()):
                return
        self._handed[event.key] = event
        protocol.write_message(self._writer, protocol.EventHandedOver(platform, inbound))

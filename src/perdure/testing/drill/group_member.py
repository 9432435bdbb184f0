"""One of the gateways of a drill with several: its home, its process, and its line to the simulated platforms."""

from __future__ import annotations

import asyncio
import json
import time
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from perdure.config import Settings
from perdure.errors import PerdureError
from perdure.testing.drill.gateway_spawner import (
    DrilledGateway,
    GatewayLaunchSpec,
    GatewaySpawner,
    encode_settings,
)
from perdure.testing.drill.platform_server import KillTrap, PlatformServer
from perdure.testing.drill.points import Point
from perdure.testing.drill.settings import CRASH_SPACING_SECONDS
from perdure.testing.simulated_platform import SimulatedPlatform

POLL_SECONDS = 0.05  # between two looks at a database that several gateways use
REROUTE_SECONDS = 1.0  # until an event that a gateway has not acknowledged is handed to the next one


class MemberSpec(Struct, frozen=True):
    """What a gateway of the drill is made of."""

    number: int  # from 0
    home: Path
    settings: Settings
    gateway: str  # `module:object` that makes the gateway; empty: `perdure.Gateway`
    modules: Path  # a directory to import that module from


class GroupMember:
    """A gateway that is stopped, killed, frozen and started again, while the others go on."""

    def __init__(self, spec: MemberSpec, platforms: Mapping[str, SimulatedPlatform], members: int) -> None:
        self.number = spec.number
        self.home = spec.home
        self.platforms = frozenset(platforms)
        self._spec = spec
        self._spawner = GatewaySpawner()
        self._process: DrilledGateway | None = None
        self.is_away = True  # it was stopped, killed or frozen, and is not to be missed
        self._server = PlatformServer(
            platforms, KillTrap(self._spawner.kill), lambda key: _first_wait(key, self.number, members)
        )

    async def open(self) -> None:
        self.home.mkdir(mode=0o700)
        await self._server.open(self._line)
        await self._spawner.open(self.home)

    async def close(self) -> None:
        await self._spawner.close()
        await self._server.close()

    @property
    def _line(self) -> Path:
        return self.home.parent / f"line-{self.number}"

    @property
    def log(self) -> Path:
        return self.home.parent / f"gateway-{self.number}.log"

    @property
    def is_ready(self) -> bool:
        return self._server.ready.is_set()

    @property
    def is_over(self) -> bool:
        return self._process is None or self._process.is_over

    @property
    def instance(self) -> str:
        """The id of this gateway over all its runs."""
        kept: dict[str, Any] = json.loads((self.home / "instance").read_bytes())
        return str(kept["id"])

    async def start(self, kills: int) -> None:
        """Start the gateway. So many kills were made before: they must not look like a crash loop."""
        self._server.ready.clear()
        self._process = await self._spawner.start(
            GatewayLaunchSpec(
                settings=encode_settings(replace(self._spec.settings, home=self.home)),
                line=str(self._line),
                log=str(self.log),
                lease_ahead=int(kills * CRASH_SPACING_SECONDS * 1000),
                platforms=sorted(self.platforms),
                gateway=self._spec.gateway,
                modules=str(self._spec.modules),
            )
        )
        self.is_away = False

    async def wait_until_ready(self, patience: float) -> float:
        """Wait until the gateway serves; return the seconds that it took."""
        began = time.monotonic()
        while not self.is_ready:
            if self.is_over or time.monotonic() - began > patience:
                raise PerdureError(f"gateway {self.number} does not start")
            await asyncio.sleep(POLL_SECONDS)
        return time.monotonic() - began

    def arm(self, point: Point) -> None:
        """Have the gateway kill itself at a store call."""
        self.is_away = True
        self._server.arm(point)

    async def kill(self) -> None:
        process = self._running()
        process.kill()
        await process.wait_until_killed()
        await self._server.wait_until_drained()

    async def stop(self) -> None:
        """Stop the gateway in an orderly way."""
        self.is_away = True
        await self._running().stop()

    def freeze(self) -> None:
        self.is_away = True
        self._running().freeze()

    def thaw(self) -> None:
        """Let a frozen gateway go on; it is ready when it has begun a new run."""
        self._server.ready.clear()
        self._running().thaw()
        self.is_away = False

    def _running(self) -> DrilledGateway:
        if self._process is None:
            raise PerdureError(f"gateway {self.number} was not started")
        return self._process


def _first_wait(event_key: str, number: int, members: int) -> float:
    """Return the seconds after which a gateway is handed an event, unless another one has acknowledged it.

    So each event goes to one gateway first, and every gateway gets its share.
    """
    return (zlib.crc32(event_key.encode()) + number) % members * REROUTE_SECONDS

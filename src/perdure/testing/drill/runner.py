"""Runs a drill: people write, the gateway is killed and restarted, and all must be answered, round after round."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence

from perdure.config import Settings
from perdure.errors import PerdureError
from perdure.testing.drill.base import BaseDrill, DrillStuck
from perdure.testing.drill.findings import Audit
from perdure.testing.drill.gateway_spawner import (
    DrilledGateway,
    GatewayLaunchSpec,
    GatewaySpawner,
    encode_settings,
)
from perdure.testing.drill.platform_server import KillTrap, PlatformServer
from perdure.testing.drill.points import CommandKiller, Point, group_into_rounds
from perdure.testing.drill.scenarios import DrillChat, chats_of_round
from perdure.testing.drill.settings import clock_step_seconds, drill_settings, may_give_up

POLL_SECONDS = 0.01  # seconds between two probes
# After an orderly stop several recoveries go on at once, as they do in everyday life.
ROUNDS_PER_ORDERLY_STOP = 4


class Drill(BaseDrill):
    """One home, three platforms, and gateways that are killed one after the other."""

    def __init__(
        self,
        settings: Settings,
        points: Sequence[Point],
        *,
        seed: int | None = None,
        gateway: str = "",
        patience: float = 30.0,
        killed: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__(settings, seed=seed, gateway=gateway, patience=patience, killed=killed)
        self._points = points
        self._spawner = GatewaySpawner()
        self._kill_trap = KillTrap(self._spawner.kill)
        self._platform_server = PlatformServer(self._platforms, self._kill_trap)
        home = self._home / "home"
        url = f"sqlite:///{home / 'perdure.db'}"
        self._audit = Audit(url, [home], self._people, may_give_up=may_give_up(settings))
        self._command_killer = CommandKiller(self._home / "home")
        self._settings = encode_settings(drill_settings(settings, self._home / "home"))
        self._clock_step_ms = int(clock_step_seconds(settings) * 1000)
        self._clock_ahead_ms = 0  # milliseconds by which the gateway's clock is ahead

    async def _open(self) -> None:
        (self._home / "home").mkdir(mode=0o700)
        await self._platform_server.open(self._home / "line")
        await self._spawner.open(self._home)

    async def _close(self) -> None:
        await self._spawner.close()
        await self._platform_server.close()
        await self._audit.close()

    # ── rounds ──────────────────────────────────────────────────────────────────────────────────────────────

    async def _run_rounds(self) -> None:
        child = await self._start()
        await self._wait_until_ready(child)
        await self._audit.open()
        for number, points in enumerate(group_into_rounds(self._points), 1):
            try:
                child = await self._run_round(child, chats_of_round(number), points)
            except DrillStuck:
                self._is_stuck = True
                return
            if number % ROUNDS_PER_ORDERLY_STOP == 0:
                await child.stop()
                child = await self._start()
                await self._wait_until_ready(child)

    async def _run_round(
        self, child: DrilledGateway, new: Sequence[DrillChat], points: Sequence[Point]
    ) -> DrilledGateway:
        """Hold conversations and kill a gateway at each point; return the gateway that finished all of them."""
        self._audit.begin_round(new, points)
        for number, point in enumerate(points):
            if number:
                child = await self._start(point)
            await self._kill_at_point(child, point, [] if number else new)
            if not number:
                self._people.write_late(new)
        child = await self._start()
        await self._wait_until_ready(child)
        began = time.monotonic()
        if not await self._wait_until(child, lambda: False):
            raise PerdureError("the gateway ended by itself")
        self._answered_seconds.append(time.monotonic() - began)
        await self._audit.end_round(new)
        return child

    async def _start(self, point: Point | None = None) -> DrilledGateway:
        self._platform_server.ready.clear()
        return await self._spawner.start(
            GatewayLaunchSpec(
                settings=self._settings,
                line=str(self._home / "line"),
                log=str(self._log),
                ahead=self._clock_ahead_ms,
                at=point.nth if point is not None else None,
                after=point is not None and point.after,
                gateway=self._gateway_factory,
                modules=str(self._user_settings.home),
            )
        )

    async def _wait_until_ready(self, child: DrilledGateway) -> None:
        began = time.monotonic()
        while not self._platform_server.ready.is_set():
            if child.is_over or time.monotonic() - began > self._patience:
                raise PerdureError("the gateway does not start")
            await asyncio.sleep(POLL_SECONDS)
        if self._kills:
            self._ready_seconds.append(time.monotonic() - began)

    async def _kill_at_point(self, child: DrilledGateway, point: Point, new: Sequence[DrillChat]) -> None:
        """Kill the gateway at the point, or when it is idle before it reaches the point."""
        reached = self._point_probe(point)
        self._arm(point)
        self._people.write_first(new)
        if await self._wait_until(child, reached) and not (point.place == "full" and point.after):
            self._at_rest += 1
        self._kill_commands(point)
        child.kill()
        await child.wait_until_killed()
        await self._platform_server.wait_until_drained()
        self._kill_trap.arm(None)
        self._kills += 1
        self._clock_ahead_ms += self._clock_step_ms
        await self._audit.note_kill()
        self._notify_killed()

    def _point_probe(self, point: Point) -> Callable[[], bool]:
        """Return a probe for a point that only the drill can see."""
        traces = self._audit.traces
        steps, commands = traces.started_count(), traces.commands_started_count()
        match point.place:
            case "step":
                return lambda: traces.started_count() - steps >= point.nth
            case "keeper" | "command":
                return lambda: (
                    traces.commands_started_count() - commands >= point.nth
                    and bool(self._command_killer.running())
                )
            case _:
                return lambda: False

    def _kill_commands(self, point: Point) -> None:
        if point.place == "keeper":
            self._command_killer.kill_keepers()
        elif point.place == "command":
            self._command_killer.kill_commands()

    def _arm(self, point: Point) -> None:
        if point.place in ("store", "full"):
            self._platform_server.arm(point)
        elif point.place in ("send", "ack"):
            self._kill_trap.arm(point)

    async def _wait_until(self, child: DrilledGateway, reached: Callable[[], bool]) -> bool:
        """Wait until the gateway has ended, the probe holds, or the gateway is idle (True)."""
        signs, last = -1, time.monotonic()
        while not (child.is_over or reached()):
            self._people.react()
            if self._platform_server.ready.is_set() and await self._audit.is_quiet():
                return True
            now, seen = time.monotonic(), self._people.activity_count() + self._audit.traces.started_count()
            if seen != signs:
                signs, last = seen, now
            elif now - last > self._patience:
                raise DrillStuck
            await asyncio.sleep(POLL_SECONDS)
        return False

    def _points_reached(self) -> list[str]:
        return [str(point) for point in self._points[: self._kills]]

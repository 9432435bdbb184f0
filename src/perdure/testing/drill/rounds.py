"""The drill itself: write, kill, start again, and wait until all is answered, round after round."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from perdure.config import Settings
from perdure.errors import PerdureError
from perdure.testing.drill.audit import Audit
from perdure.testing.drill.commands import Commands
from perdure.testing.drill.nursery import Child, Nursery
from perdure.testing.drill.orders import Order, to_wire
from perdure.testing.drill.people import People
from perdure.testing.drill.points import Point, in_rounds
from perdure.testing.drill.report import UNKNOWN, Report, Waits
from perdure.testing.drill.scenes import PLATFORMS, Talk, talks
from perdure.testing.drill.service import Service, Trap
from perdure.testing.drill.settings import apart, for_drill, may_give_up
from perdure.testing.platform import SimulatedPlatform

TICK = 0.01  # seconds between two looks
ORDERLY_EVERY = 4  # rounds; after an orderly stop several recoveries go on at once, as they do in everyday life


class _Stuck(Exception):
    """Nothing has happened for too long, though not all is done."""


class Drill:
    """One home, three platforms, and gateways that die."""

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
        """`gateway` names what makes the gateway (`module:object`); `patience` is how long nothing may happen."""
        self._users = settings
        self._points = points
        self._seed = seed
        self._maker = gateway
        self._patience = patience
        self._killed = killed
        self._home = Path(tempfile.mkdtemp(prefix="perdure-drill-"))
        self._platforms = {name: SimulatedPlatform(name, capabilities=can) for name, can in PLATFORMS.items()}
        self._people = People(self._platforms)
        self._nursery = Nursery()
        self._trap = Trap(self._nursery.kill)
        self._service = Service(self._platforms, self._trap)
        self._audit = Audit(self._home / "home", self._people, may_give_up=may_give_up(settings))
        self._commands = Commands(self._home / "home")
        self._settings = to_wire(for_drill(settings, self._home / "home"))
        self._apart_ms = int(apart(settings) * 1000)
        self._ahead = 0  # by so many milliseconds the gateway's clock is ahead of ours
        self._kills = 0
        self._at_rest = 0
        self._hung = False
        self._ready: list[float] = []
        self._answered: list[float] = []

    async def run(self) -> Report:
        """Kill at every point, and count. What it leaves on the disk stays only if it failed."""
        began, keep = time.monotonic(), True
        try:
            await self._open()
            await self._drill()
            report = await self._report(time.monotonic() - began)
            keep = report.failed
        except (PerdureError, TimeoutError) as error:
            again = "" if self._seed is None else f" The same points again: --seed {self._seed}."
            hint = f"The log of the gateway is {self._log}.{again}"
            raise PerdureError(f"the drill broke off after {self._kills} kills: {error}", hint=hint) from error
        except (asyncio.CancelledError, KeyboardInterrupt):
            keep = False
            raise
        finally:
            await self._close()
            if not keep:
                shutil.rmtree(self._home, ignore_errors=True)
        return report

    @property
    def _log(self) -> Path:
        return self._home / "gateway.log"

    async def _open(self) -> None:
        (self._home / "home").mkdir(mode=0o700)
        await self._service.open(self._home / "line")
        await self._nursery.open(self._home)

    async def _close(self) -> None:
        await self._nursery.close()
        await self._service.close()
        await self._audit.close()

    # ── rounds ──────────────────────────────────────────────────────────────────────────────────────────────

    async def _drill(self) -> None:
        child = await self._start()
        await self._until_ready(child)
        await self._audit.open()
        for number, points in enumerate(in_rounds(self._points), 1):
            try:
                child = await self._round(child, talks(number), points)
            except _Stuck:
                self._hung = True
                return
            if number % ORDERLY_EVERY == 0:
                await child.stop()
                child = await self._start()
                await self._until_ready(child)

    async def _round(self, child: Child, new: Sequence[Talk], points: Sequence[Point]) -> Child:
        """Have conversations, and kill at each point; the gateway that brought all of them to their end."""
        self._audit.begin_round(new, points)
        for number, point in enumerate(points):
            if number:
                child = await self._start(point)
            await self._until_killed(child, point, [] if number else new)
            if not number:
                self._people.write_late(new)
        child = await self._start()
        await self._until_ready(child)
        began = time.monotonic()
        if not await self._until(child, lambda: False):
            raise PerdureError("the gateway ended by itself")
        self._answered.append(time.monotonic() - began)
        await self._audit.end_round(new)
        return child

    async def _start(self, point: Point | None = None) -> Child:
        self._service.ready.clear()
        return await self._nursery.start(
            Order(
                settings=self._settings,
                line=str(self._home / "line"),
                log=str(self._log),
                ahead=self._ahead,
                at=point.nth if point is not None else None,
                after=point is not None and point.after,
                gateway=self._maker,
                modules=str(self._users.home),
            )
        )

    async def _until_ready(self, child: Child) -> None:
        began = time.monotonic()
        while not self._service.ready.is_set():
            if child.is_over or time.monotonic() - began > self._patience:
                raise PerdureError("the gateway does not start")
            await asyncio.sleep(TICK)
        if self._kills:
            self._ready.append(time.monotonic() - began)

    async def _until_killed(self, child: Child, point: Point, new: Sequence[Talk]) -> None:
        """Let it work until the point is there; if it comes to rest before that, kill it then."""
        reached = self._reaches(point)
        self._set(point)
        self._people.begin(new)
        if await self._until(child, reached) and not (point.place == "full" and point.after):
            self._at_rest += 1
        self._kill_commands(point)
        child.kill()
        await child.killed()
        await self._service.settle()
        self._trap.set(None)
        self._kills += 1
        self._ahead += self._apart_ms
        await self._audit.note_kill()
        self._killed()

    def _reaches(self, point: Point) -> Callable[[], bool]:
        """Whether a point is there that nobody but the drill itself can see."""
        traces = self._audit.traces
        steps, commands = traces.begun(), traces.commands_begun()
        match point.place:
            case "step":
                return lambda: traces.begun() - steps >= point.nth
            case "keeper" | "command":
                return lambda: traces.commands_begun() - commands >= point.nth and bool(self._commands.running())
            case _:
                return lambda: False

    def _kill_commands(self, point: Point) -> None:
        if point.place == "keeper":
            self._commands.kill_keepers()
        elif point.place == "command":
            self._commands.kill_commands()

    def _set(self, point: Point) -> None:
        if point.place in ("store", "full"):
            self._service.arm(point)
        elif point.place in ("send", "ack"):
            self._trap.set(point)

    async def _until(self, child: Child, reached: Callable[[], bool]) -> bool:
        """Wait until the gateway has died, has reached something, or has nothing left to do (True)."""
        signs, last = -1, time.monotonic()
        while not (child.is_over or reached()):
            self._people.react()
            if self._service.ready.is_set() and await self._audit.is_quiet():
                return True
            now, seen = time.monotonic(), self._people.signs() + self._audit.traces.begun()
            if seen != signs:
                signs, last = seen, now
            elif now - last > self._patience:
                raise _Stuck
            await asyncio.sleep(TICK)
        return False

    # ── the end ─────────────────────────────────────────────────────────────────────────────────────────────

    async def _report(self, seconds: float) -> Report:
        found = await self._audit.findings()
        if self._hung and not found["stuck"]:
            found["stuck"].append(
                f"all turns are at their ends, but nothing came to rest for {self._patience:g} s"
            )
        counts = {name: len(lines) for name, lines in found.items()}
        faulty = any(count for name, count in counts.items() if name != UNKNOWN)
        return Report(
            **counts,
            kills=self._kills,
            turns=await self._audit.turns(),
            at_rest=self._at_rest,
            given_up=self._audit.given_up,
            by_hand=self._people.by_hand,
            seed=self._seed,
            seconds=round(seconds, 1),
            ready=Waits.of(self._ready),
            answered=Waits.of(self._answered),
            points=[str(point) for point in self._points[: self._kills]],
            findings=found,
            home=str(self._home) if faulty else None,
        )

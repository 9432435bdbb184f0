"""A real gateway inside the test's own event loop: real store, real loops, a simulated platform."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from perdure.agents.api import Agent
from perdure.config import load
from perdure.runtime.gateway import Gateway
from perdure.runtime.watchers import steady_clock
from perdure.store.database import Database
from perdure.store.ids import Clock, wall_clock
from perdure.testing import Crash, CrashingDatabase, SimulatedPlatform
from support.waiting import eventually


def make_gateway(
    home: Path,
    *platforms: SimulatedPlatform,
    agent: Agent | None = None,
    clock: Clock = wall_clock,
    steady: Clock = steady_clock,
    wrap: Callable[[Database], Database] = lambda database: database,
    **settings: str,
) -> Gateway:
    environment = {f"PERDURE_{name}": value for name, value in settings.items()}
    adapters = [platform.adapter() for platform in platforms]
    return Gateway(load(home, environment), adapters=adapters, agent=agent, clock=clock, steady=steady, wrap=wrap)


@asynccontextmanager
async def serving(home: Path, *platforms: SimulatedPlatform, **options: Any) -> AsyncIterator[Gateway]:
    """A gateway that serves these platforms, and is stopped in an orderly way at the end."""
    gateway = make_gateway(home, *platforms, **options)
    running = asyncio.create_task(gateway.run())
    try:
        await eventually("the gateway is ready", lambda: running.done() or gateway.phase == "ready")
        yield gateway
        gateway.stop()
    except BaseException:
        running.cancel()
        raise
    finally:
        await asyncio.wait({running})
    running.result()


@asynccontextmanager
async def crashing_at_the_end(home: Path, *platforms: SimulatedPlatform, **options: Any) -> AsyncIterator[Gateway]:
    """The same, but at the end it dies without a word, as if killed."""
    databases: list[CrashingDatabase] = []

    def wrap(database: Database) -> Database:
        databases.append(CrashingDatabase(database))
        return databases[0]

    gateway = make_gateway(home, *platforms, wrap=wrap, **options)
    running = asyncio.create_task(gateway.run())
    await eventually("the gateway is ready", lambda: running.done() or gateway.phase == "ready")
    try:
        yield gateway
    finally:
        databases[0].kill()
        running.cancel()
        await asyncio.wait({running})
    assert running.cancelled() or isinstance(running.exception(), Crash)

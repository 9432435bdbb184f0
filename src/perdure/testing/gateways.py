"""Runs a gateway with its real store inside the test's event loop, for given adapters."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from perdure.agents.api import Agent
from perdure.config import load_settings
from perdure.platforms.api import Adapter
from perdure.runtime.clocks import steady_clock
from perdure.runtime.gateway import Gateway
from perdure.store.database import Database
from perdure.store.ids import Clock, wall_clock
from perdure.testing.faults import Crash, CrashingDatabase
from perdure.testing.waiting import eventually


def make_gateway(
    home: Path,
    adapters: Sequence[Adapter],
    *,
    agent: Agent | None = None,
    clock: Clock = wall_clock,
    steady: Clock = steady_clock,
    wrap: Callable[[Database], Database] = lambda database: database,
    **settings: str,
) -> Gateway:
    """Make a gateway for these adapters; settings are spelled as in the environment, without `PERDURE_`."""
    environment = {f"PERDURE_{name}": value for name, value in settings.items()}
    return Gateway(
        load_settings(home, environment), adapters=adapters, agent=agent, clock=clock, steady=steady, wrap=wrap
    )


@asynccontextmanager
async def serving(home: Path, adapters: Sequence[Adapter], **options: Any) -> AsyncIterator[Gateway]:
    """Run a gateway with these adapters, and stop it in an orderly way at the end."""
    gateway = make_gateway(home, adapters, **options)
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
async def crashing_at_the_end(home: Path, adapters: Sequence[Adapter], **options: Any) -> AsyncIterator[Gateway]:
    """Run a gateway with these adapters, and crash it at the end, as if killed."""
    databases: list[CrashingDatabase] = []

    def wrap(database: Database) -> Database:
        databases.append(CrashingDatabase(database))
        return databases[0]

    gateway = make_gateway(home, adapters, wrap=wrap, **options)
    running = asyncio.create_task(gateway.run())
    await eventually("the gateway is ready", lambda: running.done() or gateway.phase == "ready")
    try:
        yield gateway
    finally:
        databases[0].kill()
        running.cancel()
        await asyncio.wait({running})
    if not running.cancelled() and not isinstance(running.exception(), Crash):
        running.result()
        raise AssertionError("the gateway ended before it was killed")

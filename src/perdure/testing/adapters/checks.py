"""How a check of the suite is run: on a stage of its own, as a plain method that needs no plug-in."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import TypeVar

from perdure.testing.adapters.performance import Performance
from perdure.testing.adapters.stage import PlatformStage

LETTING_GO = 5.0  # seconds that what is left running gets to end
PATIENCE = 60.0  # seconds after which what was promised does not come any more


class Checks:
    """What every part of the suite has."""

    patience = PATIENCE

    def stage(self, folder: Path) -> PlatformStage:
        """A new platform for one check, with nobody connected; the folder is empty, and gone afterwards."""
        raise NotImplementedError("give your class a `stage` that makes your platform")


S = TypeVar("S", bound=Checks)


def check(scene: Callable[[S, Performance], Awaitable[None]]) -> Callable[[S], None]:
    """Make a test of a scene."""

    def test(self: S) -> None:
        with tempfile.TemporaryDirectory(prefix="perdure-conformance-") as folder:
            _run(_perform(self, scene, Path(folder)))

    # By hand: what functools.wraps leaves behind would have pytest look for a fixture named `play`.
    test.__name__, test.__doc__ = scene.__name__, scene.__doc__
    return test


def _run(performance: Coroutine[None, None, None]) -> None:
    """Run it, and end what it left running; unlike `asyncio.run`, wait only so long for what never ends."""
    loop = asyncio.new_event_loop()
    try:
        loop.run_until_complete(performance)
    finally:
        left = asyncio.all_tasks(loop)
        for task in left:
            task.cancel()
        if left:
            loop.run_until_complete(asyncio.wait(left, timeout=LETTING_GO))
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()


async def _perform(suite: S, scene: Callable[[S, Performance], Awaitable[None]], folder: Path) -> None:
    platform, home = folder / "platform", folder / "home"
    platform.mkdir()
    stage = suite.stage(platform)
    await stage.open()
    try:
        play = Performance(stage, home, suite.patience)
        try:
            await play.begin()
            await scene(suite, play)
        finally:
            await play.end()
    finally:
        await stage.close()

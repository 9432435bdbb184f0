"""Runs one check of the adapter suite on a stage of its own, as a plain test method."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import TypeVar

from perdure.testing.adapter_conformance.context import CheckContext
from perdure.testing.adapter_conformance.stage import PlatformStage

CLEANUP_SECONDS = 5.0  # seconds that leftover tasks have to end
DEFAULT_PATIENCE_SECONDS = 60.0  # seconds to wait for a promised fact


class AdapterChecks:
    """The base of all parts of the suite."""

    patience = DEFAULT_PATIENCE_SECONDS

    def stage(self, folder: Path) -> PlatformStage:
        """Return a new platform for one check, with nobody connected. The folder is empty and temporary."""
        raise NotImplementedError("give your class a `stage` that makes your platform")


S = TypeVar("S", bound=AdapterChecks)


def adapter_check(body: Callable[[S, CheckContext], Awaitable[None]]) -> Callable[[S], None]:
    """Make a test method of a check."""

    def test(self: S) -> None:
        with tempfile.TemporaryDirectory(prefix="perdure-conformance-") as folder:
            _run_and_clean_up(_run_check(self, body, Path(folder)))

    # By hand: what functools.wraps leaves behind would have pytest look for a fixture named `play`.
    test.__name__, test.__doc__ = body.__name__, body.__doc__
    return test


def _run_and_clean_up(coroutine: Coroutine[None, None, None]) -> None:
    """Run a check and cancel the tasks it left; unlike `asyncio.run`, wait for them a limited time only."""
    loop = asyncio.new_event_loop()
    try:
        loop.run_until_complete(coroutine)
    finally:
        left = asyncio.all_tasks(loop)
        for task in left:
            task.cancel()
        if left:
            loop.run_until_complete(asyncio.wait(left, timeout=CLEANUP_SECONDS))
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()


async def _run_check(suite: S, body: Callable[[S, CheckContext], Awaitable[None]], folder: Path) -> None:
    platform, home = folder / "platform", folder / "home"
    platform.mkdir()
    stage = suite.stage(platform)
    await stage.open()
    try:
        play = CheckContext(stage, home, suite.patience)
        try:
            await play.open_webhook()
            await body(suite, play)
        finally:
            await play.close()
    finally:
        await stage.close()

"""DBOS: each session is a workflow, each append a step of it that returns the same text."""

from __future__ import annotations

import asyncio
from typing import Any

from bench.window import TEXT, Measured, Window


def measure(url: str, sessions: int, seconds: float) -> Measured:
    return asyncio.run(_measure(url, sessions, seconds))


async def _measure(url: str, sessions: int, seconds: float) -> Measured:
    from dbos import DBOS  # type: ignore[import-not-found, unused-ignore]

    DBOS(config={"name": "bench", "system_database_url": url, "log_level": "ERROR"})
    workflow = _declare(DBOS, window := Window(sessions, seconds))
    DBOS.launch()
    window.open()
    handles = [await DBOS.start_workflow_async(workflow, place) for place in range(sessions)]
    for handle in handles:
        await handle.get_result()
    DBOS.destroy()
    return window.close()


def _declare(dbos: Any, window: Window) -> Any:
    @dbos.step()  # type: ignore[untyped-decorator, unused-ignore]
    async def step(number: int) -> str:
        return f"call_{number:08d} ok {TEXT}"

    @dbos.workflow()  # type: ignore[untyped-decorator, unused-ignore]
    async def workflow(place: int) -> None:
        while not window.over:
            await step(window.counts[place])
            window.counts[place] += 1

    return workflow

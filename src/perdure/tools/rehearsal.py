"""The tools of the offline model: they take their time, and leave a trace of every run.

Each run adds a line to a file, so that anybody can count how often a step really ran.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from perdure.core.effects import Effect
from perdure.core.tools import Tool, Use


def rehearsal_tools(trace: Path) -> list[Tool]:
    """`step`, which may be repeated, and `once`, which must not be."""

    async def perform(use: Use) -> str:
        name, seconds = str(use.arguments["name"]), float(use.arguments["seconds"])
        await asyncio.to_thread(_leave_trace, trace, f"{name} {use.key}")
        await asyncio.sleep(seconds)
        return f"{name}: done"

    return [
        Tool("step", "Takes some time and changes nothing.", perform, Effect.PURE),
        Tool("once", "Has an effect that must not be repeated.", perform, Effect.ONCE),
    ]


def _leave_trace(trace: Path, line: str) -> None:
    descriptor = os.open(trace, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(descriptor, f"{line}\n".encode())
    finally:
        os.close(descriptor)

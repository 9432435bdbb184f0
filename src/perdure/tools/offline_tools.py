"""The tools of the offline model, which wait for some seconds and record every run in a trace file.

Each run appends a line to the file, so that anybody can count how often a step really ran.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from perdure.core.effects import Effect
from perdure.core.tools import Tool, Use

MAX_TRACE_BYTES = 1 << 17  # from the end of the trace, in which runs are counted


def offline_tools(trace: Path) -> list[Tool]:
    """`step`, which may be repeated, and `once`, which must not be."""

    async def perform(use: Use) -> str:
        name, seconds = str(use.arguments["name"]), float(use.arguments["seconds"])
        await asyncio.to_thread(_append_trace, trace, f"{name} {use.key}")
        await asyncio.sleep(seconds)
        return f"{name}: done"

    return [
        Tool("step", "Takes some time and changes nothing.", perform, Effect.PURE),
        Tool("once", "Has an effect that must not be repeated.", perform, Effect.ONCE),
    ]


def recent_runs(trace: Path) -> list[str]:
    """The keys of the calls (turn and name) of the last runs in the trace."""
    try:
        with trace.open("rb") as lines:
            lines.seek(max(0, os.fstat(lines.fileno()).st_size - MAX_TRACE_BYTES))
            last = lines.read().decode(errors="replace").splitlines()
    except FileNotFoundError:
        return []
    return [line.rpartition(" ")[2] for line in last]


def _append_trace(trace: Path, line: str) -> None:
    descriptor = os.open(trace, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(descriptor, f"{line}\n".encode())
    finally:
        os.close(descriptor)

"""A real `perdure run` on a database with turns that were cut off: when it is ready, and when all go on."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from bench.recovery_filled import Ground, Link
from bench.startup import COMMAND, PATIENCE, READY, _end, _first_line, cpu_of

PAUSE = 0.005  # seconds between two looks at the database


class Start(NamedTuple):
    """Seconds since the process was started, and CPU seconds that it has used by then."""

    ready: float
    ready_cpu: float
    past: float  # every turn that was cut off has finished a step since
    past_cpu: float


def measure(ground: Ground, sessions: Sequence[str], entries: int) -> Start:
    """Start a gateway, and wait until the turn of each of these sessions has gone on.

    `entries` is the length of their journals before the start: whatever stands behind was written since.
    """
    with ground.link() as link, (ground.home / "stderr").open("wb") as errors:
        begin = time.perf_counter()
        gateway = _start(ground, errors.fileno())
        try:
            if not _first_line(gateway).startswith(READY):
                raise SystemExit(f"`perdure run` did not become ready:\n{_last_words(ground.home)}")
            ready, ready_cpu = time.perf_counter() - begin, cpu_of(gateway.pid)
            _wait_for_all(link, sessions, entries, ground.home)
            past, past_cpu = time.perf_counter() - begin, cpu_of(gateway.pid)
        finally:
            _end(gateway)
    return Start(ready, ready_cpu, past, past_cpu)


def _start(ground: Ground, errors: int) -> subprocess.Popen[bytes]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PERDURE_")}
    environment |= {
        "PERDURE_HOME": str(ground.home),
        "PERDURE_STORE__URL": ground.url,
        "PERDURE_WEB__PORT": "0",
    }
    return subprocess.Popen(
        [COMMAND, "run"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, env=environment
    )


def _wait_for_all(link: Link, sessions: Sequence[str], entries: int, home: Path) -> None:
    """Look only at one session that has not gone on yet, so that looking costs next to nothing."""
    deadline = time.perf_counter() + PATIENCE
    for session in sessions:
        stepped = f"session = '{session}' AND seq > {entries} AND kind = 'tool_ended'"
        while not link.found(f"SELECT 1 FROM journal WHERE {stepped}"):
            if time.perf_counter() > deadline:
                raise SystemExit(f"session {session} did not go on:\n{_last_words(home)}")
            time.sleep(PAUSE)


def _last_words(home: Path) -> str:
    return "\n".join((home / "stderr").read_text().splitlines()[-5:])

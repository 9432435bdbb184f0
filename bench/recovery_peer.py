"""Measures how Hermes Agent starts after a crash."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from typing import NamedTuple

from bench.peers import HERMES, run

PATIENCE = 60  # seconds for a start: one that takes longer is told, not waited for


class Loaded(NamedTuple):
    """Seconds that its session store takes after a crash."""

    loaded: float
    marked: float  # those that were cut off
    marked_one: float


def measure(sessions: int, cut_off: int) -> Loaded | None:
    """Fill a home with so many sessions, and start on it. None: that took too long."""
    with tempfile.TemporaryDirectory(prefix="perdure-bench-") as home:
        environment = {**os.environ, "HERMES_HOME": home, "HOME": home}
        numbers = [str(sessions), str(cut_off)]
        try:
            run([HERMES.python, "-m", "bench.recovery_hermes", "fill", *numbers], environment)
            os.sync()
            measure = [HERMES.python, "-m", "bench.recovery_hermes", "measure", *numbers]
            printed = run(measure, environment, PATIENCE)
        except subprocess.TimeoutExpired:
            return None
    return Loaded(*json.loads(printed.splitlines()[-1]))

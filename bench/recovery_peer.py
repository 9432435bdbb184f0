"""Brings Hermes Agent here and measures it.

It pins every one of its dependencies, and would hold those of the other peers back: so it lives on its own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from typing import NamedTuple

from bench import ROOT

FOLDER = ROOT / "bench" / ".hermes"
PYTHON = FOLDER / "bin" / "python"
INSTALL = [ROOT / ".venv" / "bin" / "uv", "pip", "install", "-q", "--python", PYTHON, "--require-hashes", "-r"]
PATIENCE = 60  # seconds for a start: one that takes longer is told, not waited for
SETTING_UP = 300
VERSION = "import importlib.metadata as m; print(m.version('hermes-agent'))"


class Loaded(NamedTuple):
    """Seconds that its session store takes after a crash."""

    loaded: float
    marked: float  # those that were cut off
    marked_one: float


def install() -> str | None:
    """Have it installed; if that cannot be, say why."""
    try:
        if not PYTHON.exists():
            _run([sys.executable, "-m", "venv", str(FOLDER)])
        _run([*map(str, INSTALL), str(ROOT / "bench" / "hermes.lock")])
    except (OSError, subprocess.SubprocessError) as error:
        said = getattr(error, "stderr", None) or str(error)
        return " ".join(said.replace(f"{ROOT}/", "").split())[-300:]
    return None


def version() -> str:
    return _run([str(PYTHON), "-c", VERSION]).strip()


def measure(sessions: int, cut_off: int) -> Loaded | None:
    """Fill a home with so many sessions, and start on it. None: that took too long."""
    with tempfile.TemporaryDirectory(prefix="perdure-bench-") as home:
        environment = {**os.environ, "HERMES_HOME": home, "HOME": home}
        numbers = [str(sessions), str(cut_off)]
        try:
            _run([str(PYTHON), "-m", "bench.recovery_hermes", "fill", *numbers], environment)
            os.sync()
            measure = [str(PYTHON), "-m", "bench.recovery_hermes", "measure", *numbers]
            printed = _run(measure, environment, PATIENCE)
        except subprocess.TimeoutExpired:
            return None
    return Loaded(*json.loads(printed.splitlines()[-1]))


def _run(command: list[str], environment: dict[str, str] | None = None, patience: float = SETTING_UP) -> str:
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True, timeout=patience
    )
    return done.stdout

"""Peers from the package index, each in an environment of its own and from its own lock.

They pin their dependencies, and would hold back each other, and us.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from bench import ROOT

SETTING_UP = 300
UV = ROOT / ".venv" / "bin" / "uv"
VERSION = "import importlib.metadata as m, sys; print(m.version(sys.argv[1]))"


class Peer(NamedTuple):
    """A program of others; `bench/SHORT.lock` says what it needs, and it lives in `bench/.SHORT`."""

    name: str  # on the package index
    short: str

    @property
    def programs(self) -> Path:
        return ROOT / "bench" / f".{self.short}" / "bin"

    @property
    def python(self) -> str:
        return str(self.programs / "python")

    def install(self) -> str | None:
        """Have it installed; if that cannot be, say why."""
        lock = ROOT / "bench" / f"{self.short}.lock"
        try:
            if not Path(self.python).exists():
                run([sys.executable, "-m", "venv", str(self.programs.parent)])
            run([str(UV), "pip", "sync", "-q", "--python", self.python, "--require-hashes", str(lock)])
        except (OSError, subprocess.SubprocessError) as error:
            said = getattr(error, "stderr", None) or str(error)
            return " ".join(said.replace(f"{ROOT}/", "").split())[-300:]
        return None

    def version(self) -> str:
        return run([self.python, "-c", VERSION, self.name]).strip()


HERMES = Peer("hermes-agent", "hermes")
NANOBOT = Peer("nanobot-ai", "nanobot")


def run(command: list[str], environment: dict[str, str] | None = None, patience: float = SETTING_UP) -> str:
    """What a program prints, in the folder of the project."""
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True, timeout=patience
    )
    return done.stdout

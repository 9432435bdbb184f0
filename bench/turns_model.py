"""The model of the bench: `python -m perdure.testing.providers`, which says the same to everybody."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from bench.turns_tool import ARGUMENTS, NAME

TEXT = "I have looked at it, and it is as it should be."
PIECES = 10
PATIENCE = 30


@contextmanager
def model(*, tool: bool = False, think: float = 0.0, pause: float = 0.0) -> Iterator[str]:
    """The address of a model in a process of its own, until the end of the block."""
    options = ["--text", TEXT, "--pieces", str(PIECES), "--think", str(think), "--pause", str(pause)]
    if tool:
        options += ["--tool", NAME, "--arguments", ARGUMENTS]
    command = [sys.executable, "-m", "perdure.testing.providers", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        try:
            yield running.stdout.readline().removeprefix("listening on ").strip()
        finally:
            running.send_signal(signal.SIGTERM)
            running.wait(PATIENCE)

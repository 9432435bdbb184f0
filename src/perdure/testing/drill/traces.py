"""Reads the files in which the steps and commands of a drill leave their traces."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from perdure.testing.drill.scenarios import RUNS_FILE


class ExecutionTraces:
    """Counts runs of steps and commands. The files are polled, so only their new lines are read."""

    def __init__(self, home: Path) -> None:
        self._steps = _GrowingFile(home / "rehearsal.log")
        self._commands = _GrowingFile(home / "workspace" / RUNS_FILE)

    def started_count(self) -> int:
        """Count the steps and commands that have begun."""
        return len(self._steps.lines()) + len(self._commands.lines())

    def commands_started_count(self) -> int:
        """Count the commands that have begun."""
        return len(self._commands.lines())

    def runs_by_key(self) -> Counter[str]:
        """Count the runs of each call of a step, by its key."""
        return Counter(line.split()[1] for line in self._steps.lines())

    def runs_by_name(self) -> Counter[str]:
        """Count the runs of each step and each command, by its name."""
        return Counter(line.split()[0] for line in self._steps.lines() + self._commands.lines())


class _GrowingFile:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._read_bytes = 0
        self._lines: list[str] = []

    def lines(self) -> list[str]:
        if self._path.exists() and self._path.stat().st_size > self._read_bytes:
            with self._path.open("rb") as file:
                file.seek(self._read_bytes)
                whole = file.read().rpartition(b"\n")[0]
            self._read_bytes += len(whole) + 1 if whole else 0
            self._lines += whole.decode().splitlines()
        return self._lines

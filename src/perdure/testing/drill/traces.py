"""What steps and commands really did, told by what they left in files."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from perdure.testing.drill.scenarios import RUNS_FILE


class ExecutionTraces:
    """The files are read again only when they have grown: they are looked at all the time."""

    def __init__(self, home: Path) -> None:
        self._steps = _GrowingFile(home / "rehearsal.log")
        self._commands = _GrowingFile(home / "workspace" / RUNS_FILE)

    def started_count(self) -> int:
        """How many steps and commands have begun so far."""
        return len(self._steps.lines()) + len(self._commands.lines())

    def commands_started_count(self) -> int:
        """How many commands have begun so far."""
        return len(self._commands.lines())

    def runs_by_key(self) -> Counter[str]:
        """How often each call of a step ran."""
        return Counter(line.split()[1] for line in self._steps.lines())

    def runs_by_name(self) -> Counter[str]:
        """How often each step and each command ran, by its name."""
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

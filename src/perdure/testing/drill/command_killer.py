"""The commands of a drilled gateway, seen from outside: its keepers and its commands can be killed."""

from __future__ import annotations

import signal
from pathlib import Path

from perdure.tools import keeper
from perdure.tools.keeper import CommandEnded, CommandLost, CommandNeverStarted, CommandRunning
from perdure.tools.keeper.directory import process_stat, signal_process, signal_session


class CommandKiller:
    def __init__(self, home: Path) -> None:
        self._root = home / "keepers"
        self._finished: set[str] = set()  # names of places that nobody needs to look at again

    def running(self) -> list[CommandRunning]:
        """The commands that run now, and have been started."""
        seen = keeper.read_all_statuses(self._root, self._finished)
        self._finished |= {
            name
            for name, each in seen.items()
            if isinstance(each, CommandEnded | CommandLost | CommandNeverStarted)
        }
        return [each for each in seen.values() if isinstance(each, CommandRunning) and each.pid]

    def kill_keepers(self) -> None:
        """Kill the keepers of all commands that run; the commands live on."""
        for each in self.running():
            if found := process_stat(each.keeper):
                signal_process(each.keeper, found[2], signal.SIGKILL)

    def kill_commands(self) -> None:
        """Kill all commands that run, with whatever they have started; their keepers live on."""
        for each in self.running():
            signal_session(each.pid, signal.SIGKILL)

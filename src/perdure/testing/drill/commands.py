"""The commands of a drilled gateway, seen from outside: its keepers and its commands can be killed."""

from __future__ import annotations

import signal
from pathlib import Path

from perdure.tools import kept
from perdure.tools.kept import Ended, Lost, Refused, Running
from perdure.tools.place import process, signal_exactly, signal_session


class Commands:
    def __init__(self, home: Path) -> None:
        self._root = home / "keepers"
        self._over: set[str] = set()  # names of places that nobody needs to look at again

    def running(self) -> list[Running]:
        """The commands that run now, and have been started."""
        seen = kept.survey(self._root, self._over)
        self._over |= {name for name, each in seen.items() if isinstance(each, Ended | Lost | Refused)}
        return [each for each in seen.values() if isinstance(each, Running) and each.pid]

    def kill_keepers(self) -> None:
        """Kill the keepers of all commands that run; the commands live on."""
        for each in self.running():
            if found := process(each.keeper):
                signal_exactly(each.keeper, found[2], signal.SIGKILL)

    def kill_commands(self) -> None:
        """Kill all commands that run, with whatever they have started; their keepers live on."""
        for each in self.running():
            signal_session(each.pid, signal.SIGKILL)

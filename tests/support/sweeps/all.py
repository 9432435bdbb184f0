"""Every scene of the sweep, and how many points each of them has."""

from __future__ import annotations

import fcntl
import json
from pathlib import Path
from typing import Any

from support.markdown import ROOT
from support.sweeping import Swept, World
from support.sweeps import again, answers, busy, files, processes, taken_back, tools

SCENES: list[type[World]] = [
    *answers.SCENES,
    *tools.SCENES,
    *busy.SCENES,
    *processes.SCENES,
    *files.SCENES,
    *taken_back.SCENES,
    *again.SCENES,
]
RECORD = ROOT / "tests" / "crash" / "points.json"
ROOM = 0.8  # how many calls a scene makes depends a little on how its tasks are scheduled


def recorded() -> dict[str, Any]:
    """What the last full sweep that was recorded went through, by scene."""
    found: dict[str, Any] = json.loads(RECORD.read_text())
    return found


def record(scene: type[World], swept: Swept) -> None:
    """Write down what a full sweep went through."""
    mine = {
        "calls": dict(sorted(swept.calls.items())),
        "points": swept.points,
        "moments": {moment.name.lower(): count for moment, count in sorted(swept.moments.items())},
        "noticed": {
            what: {moment.name.lower(): count for moment, count in sorted(counts.items())}
            for what, counts in sorted(swept.noticed.items())
        },
    }
    with Path(RECORD).open("r+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        known = {**json.load(file), scene.name: mine}
        file.seek(0)
        file.truncate()
        file.write(json.dumps({each.name: known[each.name] for each in SCENES if each.name in known}, indent=2))
        file.write("\n")


def check_reach(scene: type[World], calls: dict[str, int]) -> None:
    """The sweep reaches what it did when it was recorded."""
    for what, count in recorded()[scene.name]["calls"].items():
        least = int(ROOM * count)
        assert calls.get(what, 0) >= least, f"{what}: {calls.get(what, 0)} calls, and there were {count}"

"""Every scene of the sweep, and how many points each of them has."""

from __future__ import annotations

import fcntl
import json
from pathlib import Path
from typing import Any

from support.crash_scenarios import answers, busy_chat, files, processes, repeated_crashes, tools, undo_and_erasure
from support.crash_sweep import CrashScenario, SweepResult
from support.markdown import ROOT

SCENARIOS: list[type[CrashScenario]] = [
    *answers.SCENARIOS,
    *tools.SCENARIOS,
    *busy_chat.SCENARIOS,
    *processes.SCENARIOS,
    *files.SCENARIOS,
    *undo_and_erasure.SCENARIOS,
    *repeated_crashes.SCENARIOS,
]
RECORD_FILE = ROOT / "tests" / "crash" / "points.json"
MIN_CALLS_SHARE = 0.8  # how many calls a scene makes depends a little on how its tasks are scheduled


def recorded_sweeps() -> dict[str, Any]:
    """What the last full sweep that was recorded went through, by scene."""
    found: dict[str, Any] = json.loads(RECORD_FILE.read_text())
    return found


def record_sweep(scenario: type[CrashScenario], result: SweepResult) -> None:
    """Write down what a full sweep went through."""
    mine = {
        "calls": dict(sorted(result.calls.items())),
        "points": result.points,
        "moments": {moment.name.lower(): count for moment, count in sorted(result.moments.items())},
        "noticed": {
            what: {moment.name.lower(): count for moment, count in sorted(counts.items())}
            for what, counts in sorted(result.noticed.items())
        },
    }
    with Path(RECORD_FILE).open("r+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        known = {**json.load(file), scenario.name: mine}
        file.seek(0)
        file.truncate()
        file.write(json.dumps({each.name: known[each.name] for each in SCENARIOS if each.name in known}, indent=2))
        file.write("\n")


def check_reach(scenario: type[CrashScenario], calls: dict[str, int]) -> None:
    """The sweep reaches what it did when it was recorded."""
    for what, count in recorded_sweeps()[scenario.name]["calls"].items():
        least = int(MIN_CALLS_SHARE * count)
        assert calls.get(what, 0) >= least, f"{what}: {calls.get(what, 0)} calls, and there were {count}"

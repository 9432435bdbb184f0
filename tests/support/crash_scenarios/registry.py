"""All crash scenarios of the sweep, and the recorded number of points of each."""

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
MIN_CALLS_SHARE = 0.8  # the number of calls depends a little on the scheduling of tasks


def recorded_sweeps() -> dict[str, Any]:
    """Return the recorded counts of the last full sweep, by scenario."""
    found: dict[str, Any] = json.loads(RECORD_FILE.read_text())
    return found


def record_sweep(scenario: type[CrashScenario], result: SweepResult) -> None:
    """Record the counts of a full sweep."""
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
    """Check that a sweep reaches as many points as when it was recorded."""
    for what, count in recorded_sweeps()[scenario.name]["calls"].items():
        least = int(MIN_CALLS_SHARE * count)
        assert calls.get(what, 0) >= least, f"{what}: {calls.get(what, 0)} calls, and there were {count}"

"""`make bench`: measures the store beside its limit and its peers, and writes docs/benchmarks/store.md."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from bench import ROOT, machine, report, startup
from bench.places import Place, SqlitePlace, postgres_place
from bench.results import ALONE, LONG, MANY, SHORT, Cell, Results
from bench.window import Measured
from support.postgres import installed_binaries

PAGE = ROOT / "docs" / "benchmarks" / "store.md"
REPETITIONS = 5
SECONDS = 1.2
PATIENCE = 120  # seconds for one contender, after which something is wrong with it
PLAN: dict[str, list[tuple[str, int]]] = {
    "SQLite": [
        ("ours", SHORT),
        ("limit", SHORT),
        ("ours", LONG),
        ("limit", LONG),
        ("dbos", 0),
        ("dbos-wal", 0),
        ("langgraph", 0),
    ],
    "PostgreSQL": [
        ("ours", SHORT),
        ("limit", SHORT),
        ("ours", LONG),
        ("limit", LONG),
        ("dbos", 0),
        ("langgraph", 0),
    ],
}


def main() -> None:
    begin, results, bystanders = time.monotonic(), Results(), machine.Bystanders()
    with tempfile.TemporaryDirectory(prefix="perdure-bench-") as name, postgres_place() as postgres:
        folder = Path(name)
        places: list[Place] = [SqlitePlace(folder), postgres]
        for place in places:
            _say(f"filling a journal of {LONG:,} rows on {place.name}")
            place.journal(LONG)
        for repetition in range(REPETITIONS):
            _round(results, places, folder, repetition)
        versions, here = machine.versions(installed_binaries()), machine.machine(folder)
    results.bystanders = bystanders.cores()
    PAGE.write_text(report.render(results, versions, here))
    for goal in results.goals():
        _say(f"{goal.verdict}: {goal.what}: {goal.got}, wanted {goal.wanted}")
    _say(f"other programs took {results.bystanders:.2f} cores{'' if results.quiet else ': ' + report.NOISE}")
    _say(f"{PAGE.relative_to(ROOT)} is written, after {time.monotonic() - begin:.0f} s")


def _round(results: Results, places: Sequence[Place], folder: Path, repetition: int) -> None:
    """Measure everything once; every other round goes backwards, so that nobody is always the first."""
    results.syncs.append(machine.sync_rate(folder))
    results.starts.append(startup.measure())
    plan = [(place, *step) for place in places for step in PLAN[place.name]]
    for place, contender, rows in plan if repetition % 2 == 0 else reversed(plan):
        url = place.journal(rows) if rows else place.empty()
        os.sync()  # what was written before must not be paid for by whoever comes next
        for sessions, measured in zip((ALONE, MANY), _slice(contender, url), strict=True):
            results.cells[Cell(place.name, contender, rows, sessions)].append(measured)
            _say(
                f"{repetition + 1}/{REPETITIONS} {place.name} {contender} rows={rows} sessions={sessions}: "
                f"{measured.rate:,.0f}/s, {measured.cpu_per_append * 1e6:,.0f} µs CPU"
            )


def _slice(contender: str, url: str) -> list[Measured]:
    """Measure one contender in a process of its own."""
    command = [sys.executable, "-m", "bench.slice", contender, url, str(SECONDS), str(ALONE), str(MANY)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=PATIENCE)
    if done.returncode != 0:
        raise SystemExit(f"{contender} failed on {url.split(':', 1)[0]}:\n{done.stderr}")
    return [Measured(*json.loads(line)) for line in done.stdout.splitlines() if line.startswith("[")]


def _say(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    main()

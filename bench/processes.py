"""`make bench`: measures processes in the background, and writes docs/benchmarks/processes.md."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench import ROOT, machine, processes_report
from bench.processes_idle import Idle
from bench.processes_results import COUNTS, NONE, SILENT, WATCHED, Results
from bench.processes_start import Start
from bench.report import NOISE
from support.postgres import installed_binaries

PAGE = ROOT / "docs" / "benchmarks" / "processes.md"
ROUNDS = 60
SECONDS = {
    NONE: 30,
    SILENT: 61,
    WATCHED: 61,
}  # in which nothing happens, but whatever the gateway does every minute
ENDINGS = {NONE: 0, SILENT: 20, WATCHED: 0}
PACKAGES = ("perdure", "msgspec", "uvicorn")
PATIENCE = 300


def main() -> None:
    begin, results, bystanders = time.monotonic(), Results(), machine.Bystanders()
    with tempfile.TemporaryDirectory(prefix="perdure-bench-") as name:
        for kind, count in COUNTS.items():
            results.syncs.append(machine.sync_rate(Path(name)))
            _starts(results, ROUNDS // len(COUNTS))
            _idle(results, kind, count)
        here, versions = machine.machine(Path(name)), machine.versions(installed_binaries(), PACKAGES)
    results.bystanders = bystanders.cores()
    PAGE.write_text(processes_report.render(results, versions, here))
    for goal in results.goals():
        say(f"{goal.verdict}: {goal.what}: {goal.got}, wanted {goal.wanted}")
    say(f"other programs took {results.bystanders:.2f} cores{'' if results.quiet else ': ' + NOISE}")
    say(f"{PAGE.relative_to(ROOT)} is written, after {time.monotonic() - begin:.0f} s")


def _starts(results: Results, rounds: int) -> None:
    for line in run("bench.processes_start", str(rounds)):
        bare, kept, sandboxed = json.loads(line)
        results.bare.append(Start(*bare))
        results.kept.append(Start(*kept))
        results.sandboxed.append(Start(*sandboxed))
    say(
        f"{len(results.kept)} commands begun each way: a keeper adds {results.added * 1000:.1f} ms, "
        f"and a command takes {results.sandbox_ratio:.2f} times as long in the sandbox"
    )


def _idle(results: Results, kind: str, count: int) -> None:
    os.sync()  # what was written before must not be paid for by whoever comes next
    [line] = run("bench.processes_idle", str(count), kind, str(SECONDS[kind]), str(ENDINGS[kind]))
    results.idle[kind] = Idle(*json.loads(line))
    say(f"{count} processes, {kind}: {results.busy(kind):.2%} of a core")


def run(module: str, *arguments: str) -> list[str]:
    """What a program of the bench prints: a line of JSON for each measurement."""
    command = [sys.executable, "-m", module, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=PATIENCE)
    if done.returncode != 0:
        raise SystemExit(f"{module} {' '.join(arguments)} failed:\n{done.stderr[-3000:]}")
    return [line for line in done.stdout.splitlines() if line.startswith("[")]


def say(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    main()

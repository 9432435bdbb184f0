"""`make bench`: measures turns through the whole gateway, and writes docs/benchmarks/turns.md."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import msgspec

from bench import ROOT, machine, turns_report
from bench.places import PostgresPlace, postgres_place
from bench.report import NOISE
from bench.turns_crowd import Spent
from bench.turns_memory import Kept
from bench.turns_model import model
from bench.turns_results import (
    ALONE,
    BARE,
    COUNTS,
    CROWDED,
    LIMIT,
    MANY,
    OFFLINE,
    OURS,
    POSTGRES,
    STREAMS,
    VARIANTS,
    WEB,
    Cell,
    Results,
    kind,
)
from bench.turns_slice import Phase, Slice, Who
from support.postgres import installed_binaries

PAGE = ROOT / "docs" / "benchmarks" / "turns.md"
ROUNDS = 3
LAST_BEGIN = 230.0  # seconds since the beginning: a slow machine has fewer rounds
THINK = 1.0
FULL_SPEED = (Phase(ALONE, 0.3, 0.9), Phase(MANY, 0.8, 2.4))
AT_EASE = Phase(MANY, warm_up=THINK, seconds=3 * THINK, spread=THINK)
LONG_PAUSE = 3600.0
PROGRAMS: dict[str, Who] = {
    BARE: "bare",
    LIMIT: "limit",
    OURS: "gateway",
    POSTGRES: "gateway",
    WEB: "web",
    OFFLINE: "offline",
}
PACKAGES = ("perdure", "msgspec", "psycopg", "pydantic-ai-slim", "openai", "uvicorn")
PATIENCE = 120
LAST_WORDS = 3000  # characters of the log of a program that failed


def main() -> None:
    begin, results, bystanders = time.monotonic(), Results(), machine.Bystanders()
    with ExitStack() as opened:
        name = opened.enter_context(tempfile.TemporaryDirectory(prefix="perdure-bench-"))
        postgres = opened.enter_context(postgres_place())
        models = {tool: opened.enter_context(model(tool=tool)) for tool in (False, True)}
        _memory(results)
        for number in range(ROUNDS):
            if number < 2 or time.monotonic() - begin < LAST_BEGIN:
                results.syncs.append(machine.sync_rate(Path(name)))
                _round(results, models, number)
        _once(results, models, postgres)
        here, versions = machine.machine(Path(name)), machine.versions(installed_binaries(), PACKAGES)
    results.bystanders = bystanders.cores()
    PAGE.write_text(turns_report.render(results, versions, here))
    for goal in results.goals():
        _say(f"{goal.verdict}: {goal.what}: {goal.got}, wanted {goal.wanted}")
    _say(f"other programs took {results.bystanders:.2f} cores{'' if results.quiet else ': ' + NOISE}")
    _say(f"{PAGE.relative_to(ROOT)} is written, after {time.monotonic() - begin:.0f} s")


def _round(results: Results, models: dict[bool, str], number: int) -> None:
    """Measure what the goals speak of; every other round goes backwards, so that nobody is always the first."""
    plan = [Cell(contender, 0, *variant) for variant in VARIANTS for contender in (BARE, OURS)]
    for cell in plan if number % 2 == 0 else reversed(plan):
        _measure(results, cell, _phases(cell, number), models[cell.tool])
    _measure(results, Cell(OFFLINE, 0), _phases(Cell(OFFLINE, 0), number))


def _phases(cell: Cell, number: int) -> list[Phase]:
    """Crowds take long, with a tool twice as long: the first round has them, and the bare loop one less."""
    crowded = number == 0 and not (cell.tool and cell.contender == BARE)
    return [*FULL_SPEED, *([Phase(CROWDED)] if crowded else [])]


def _once(results: Results, models: dict[bool, str], postgres: PostgresPlace) -> None:
    """What is told beside the goals."""
    for tool, streamed in VARIANTS:
        _measure(results, Cell(LIMIT, 0, tool, streamed), FULL_SPEED, models[tool])
    for tool, url in models.items():
        _measure(results, Cell(POSTGRES, 0, tool), FULL_SPEED[1:], url, postgres.empty())
        _measure(results, Cell(WEB, 0, tool, streamed=True), FULL_SPEED, url)
        with model(tool=tool, think=THINK) as slow:
            for contender in (BARE, OURS):
                _measure(results, Cell(contender, 0, tool, think=THINK), [AT_EASE], slow)


def _measure(
    results: Results, cell: Cell, phases: Sequence[Phase], url: str = "", store: str | None = None
) -> None:
    """Measure one contender in a process of its own."""
    os.sync()  # what was written before must not be paid for by whoever comes next
    wanted = Slice(PROGRAMS[cell.contender], phases, url, cell.streamed, store)
    lines = _run("bench.turns_slice", msgspec.json.encode(wanted).decode())
    for phase, line in zip(phases, lines, strict=True):
        measured, spent = cell._replace(sessions=phase.sessions), Spent(*json.loads(line))
        results.cells[measured].append(spent)
        _say(
            f"{measured.contender}, {measured.sessions} sessions, {kind(measured)}: {spent.rate:,.0f}/s, "
            f"{spent.cpu_per_turn * 1000:.2f} ms CPU, {spent.jobs:.2f} transactions, {spent.commits:.2f} commits, "
            f"p50 {spent.p50 * 1000:.1f} ms, p99 {spent.p99 * 1000:.1f} ms"
        )


def _memory(results: Results) -> None:
    with model(pause=LONG_PAUSE) as hanging:
        for what, count in COUNTS.items():
            [line] = _run("bench.turns_memory", what, str(count), *([hanging] if what == STREAMS else []))
            results.kept[what] = Kept(*json.loads(line))
            _say(f"{count:,} {what}: {results.each(what):.1f} KB each, {results.kept[what].tasks:,} tasks")


def _run(module: str, *arguments: str) -> list[str]:
    """What a program of the bench prints: a line of JSON for each measurement."""
    command = [sys.executable, "-m", module, *arguments]
    with tempfile.TemporaryFile("w+") as errors:
        try:
            done = subprocess.run(
                command,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                cwd=ROOT,
                env=_environment(),
                timeout=PATIENCE,
                check=True,
            )
        except subprocess.SubprocessError as error:
            errors.seek(0)
            raise SystemExit(f"{error}\n{errors.read()[-LAST_WORDS:]}") from error
    return [line for line in done.stdout.splitlines() if line.startswith("[")]


def _environment() -> dict[str, str]:
    """Ours, but each process keeps what it compiles: otherwise all of them compile the same libraries."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def _say(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    main()

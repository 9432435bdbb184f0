"""`make bench`: measures how fast a gateway is back after a crash, and writes docs/benchmarks/recovery.md."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from bench import ROOT, machine, recovery_peer, recovery_report, recovery_start, recovery_template
from bench.peers import HERMES
from bench.places import PostgresPlace, postgres_place
from bench.recovery_decisions import Pure, Taken
from bench.recovery_filled import Ground
from bench.recovery_results import FEW, LARGE, MANY, MIDDLE, SMALL, Cell, Results
from bench.recovery_template import Template
from bench.report import NOISE
from support.postgres import installed_binaries

PAGE = ROOT / "docs" / "benchmarks" / "recovery.md"
ROUNDS = {FEW: 5, MANY: 5}  # by the number of turns that were cut off
LAST_BEGIN = 190.0  # seconds since the beginning: a slow machine has fewer rounds of many
PEER_SESSIONS = (SMALL, MIDDLE, 50_000)
PACKAGES = ("perdure", "msgspec", "psycopg")
PATIENCE = 120


def main() -> None:
    begin, results, bystanders = time.monotonic(), Results(), machine.Bystanders()
    results.no_peer = HERMES.install()
    template = recovery_template.make()
    with tempfile.TemporaryDirectory(prefix="perdure-bench-") as name, postgres_place() as postgres:
        grounds = _grounds(Path(name), postgres, template)
        for cut_off, rounds in ROUNDS.items():
            for number in range(rounds):
                if number < 2 or time.monotonic() - begin < LAST_BEGIN:
                    _round(results, _chosen(grounds, cut_off, number), template, cut_off, number)
        _decisions(results, grounds, template)
        here, versions = machine.machine(Path(name)), machine.versions(installed_binaries(), PACKAGES)
    _peer(results, versions)
    results.bystanders = bystanders.cores()
    PAGE.write_text(recovery_report.render(results, versions, here))
    for goal in results.goals():
        _say(f"{goal.verdict}: {goal.what}: {goal.got}, wanted {goal.wanted}")
    _say(f"other programs took {results.bystanders:.2f} cores{'' if results.quiet else ': ' + NOISE}")
    _say(f"{PAGE.relative_to(ROOT)} is written, after {time.monotonic() - begin:.0f} s")


def _grounds(folder: Path, postgres: PostgresPlace, template: Template) -> list[Ground]:
    homes = {known: folder / f"sqlite{known}" for known in (SMALL, MIDDLE, LARGE)}
    grounds = [
        *(Ground("SQLite", f"sqlite:///{homes[known] / 'perdure.db'}", homes[known], known) for known in homes),
        *(Ground("PostgreSQL", postgres.empty(), folder / f"pg{known}", known) for known in (SMALL, MIDDLE)),
    ]
    for ground in grounds:
        _say(f"filling {ground.name} with {ground.known:,} sessions")
        ground.fill(template)
    return grounds


def _chosen(grounds: Sequence[Ground], cut_off: int, number: int) -> list[Ground]:
    """All of them; but many recoveries take long, and then only what a goal compares is measured again."""
    compared = [ground for ground in grounds if ground.name == "SQLite" and ground.known in (SMALL, LARGE)]
    return list(grounds) if cut_off == FEW or number == 0 else compared


def _round(results: Results, grounds: Sequence[Ground], template: Template, cut_off: int, number: int) -> None:
    """Start once on every database; every other round goes backwards, so that nobody is always the first."""
    results.syncs.append(machine.sync_rate(grounds[0].home))
    for ground in grounds if number % 2 == 0 else reversed(grounds):
        sessions = ground.cut_off(template, cut_off)
        os.sync()  # what was written before must not be paid for by whoever comes next
        start = recovery_start.measure(ground, sessions, template.entries)
        results.starts[Cell(ground.name, ground.known, cut_off)].append(start)
        _say(
            f"round {number + 1} {ground.name} known={ground.known} cut_off={cut_off}: ready {start.ready:.2f} s "
            f"({start.ready_cpu:.2f} s CPU), all on {start.past:.2f} s ({start.past_cpu:.2f} s CPU)"
        )


def _decisions(results: Results, grounds: Sequence[Ground], template: Template) -> None:
    """The pure decision, and what a start does with the store, each in a process of its own."""
    results.pure += [Pure(*_slice()) for _ in range(3)]
    _say(f"{results.decided:,.0f} decisions a second")
    for ground in grounds:
        for cut_off in (FEW, MANY):
            ground.cut_off(template, cut_off)
            os.sync()
            taken = Taken(*_slice(ground.url, str(ground.home)))  # type: ignore[arg-type]
            results.taken[Cell(ground.name, ground.known, cut_off)] = taken
            _say(f"{ground.name} known={ground.known}: {taken.turns} turns, {taken.rate:,.0f}/s through the store")


def _slice(*arguments: str) -> list[float]:
    command = [sys.executable, "-m", "bench.recovery_decisions", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=PATIENCE)
    if done.returncode != 0:
        raise SystemExit(f"deciding failed on {arguments}:\n{done.stderr}")
    found: list[float] = json.loads(done.stdout)
    return found


def _peer(results: Results, versions: dict[str, str]) -> None:
    if results.no_peer is not None:
        _say(f"hermes-agent is not measured: {results.no_peer}")
        return
    versions[HERMES.name] = HERMES.version()
    for sessions in PEER_SESSIONS:
        results.peer[sessions] = found = recovery_peer.measure(sessions, FEW)
        _say(f"hermes-agent with {sessions:,} sessions: {found or 'took too long'}")


def _say(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    main()

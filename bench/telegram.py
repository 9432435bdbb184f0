"""`make bench`: measures turns over Telegram's Bot API, ours and those of peers, for docs/benchmarks/telegram.md.

`python -m bench.telegram --quick` makes one short round of ours, to see that it works; the peers take as long.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from itertools import product
from pathlib import Path

import msgspec

from bench import ROOT, machine, telegram_report
from bench.peers import Peer
from bench.report import NOISE
from bench.telegram_peers import PEERS
from bench.telegram_report import NAMES, OURS, TelegramResults, words
from bench.telegram_slice import Slice
from bench.turns import PACKAGES, _run, _say
from bench.turns_crowd import Spent
from bench.turns_model import asked_directly, model
from bench.turns_results import ALONE, MANY, Cell
from bench.turns_slice import Phase
from support.postgres import installed_binaries

PAGE = ROOT / "docs" / "benchmarks" / "telegram.md"
ROUNDS = 3
THINK = 0.2
FULL_SPEED = (Phase(ALONE, 0.5, 1.5), Phase(MANY, 1.0, 3.0))
AT_EASE = (Phase(ALONE, 2 * THINK, 15 * THINK), Phase(MANY, 5 * THINK, 15 * THINK, THINK))
QUICK = (Phase(ALONE, 0.5, 2.0), Phase(MANY, 1.0, 2.0))
# The first turn of a chat costs some peers much more than the next ones: it is left out, to their advantage.
PEERS_MANY, PEERS_ALONE = Phase(MANY, 15.0, 10.0), Phase(ALONE, 2.0, 5.0)


def main(*options: str) -> None:
    begin, results, bystanders = time.monotonic(), TelegramResults(), machine.Bystanders()
    quick = "--quick" in options
    speed, ease = (QUICK, AT_EASE[:1]) if quick else (FULL_SPEED, AT_EASE)
    with ExitStack() as opened:
        name = opened.enter_context(tempfile.TemporaryDirectory(prefix="perdure-bench-"))
        prompt, slow = (opened.enter_context(model(think=think)) for think in (0.0, THINK))
        for number in range(1 if quick else ROUNDS):
            results.syncs.append(machine.sync_rate(Path(name)))
            for streamed in (False, True) if number % 2 == 0 else (True, False):
                results.directly[streamed].append(asked_directly(slow, streamed=streamed))
                _measure(results, Cell(OURS, 0, streamed=streamed), speed, prompt)
                _measure(results, Cell(OURS, 0, streamed=streamed, think=THINK), ease, slow)
        here, versions = machine.machine(Path(name)), machine.versions(installed_binaries(), PACKAGES)
        for peer in PEERS:
            if (version := _measure_peer(results, peer, {0.0: prompt, THINK: slow})) is not None:
                versions[peer.name] = version
    results.bystanders = bystanders.cores()
    for goal in results.goals():
        _say(f"{goal.verdict}: {goal.what}: {goal.got}, wanted {goal.wanted}")
    _say(f"other programs took {results.bystanders:.2f} cores{'' if results.quiet else ': ' + NOISE}")
    PAGE.write_text(telegram_report.render(results, versions, here))
    _say(f"{PAGE.relative_to(ROOT)} is written, after {time.monotonic() - begin:.0f} s")


def _measure_peer(results: TelegramResults, peer: Peer, models: dict[float, str]) -> str | None:
    """Measure a peer once, and return its version; what cannot be measured leaves its reason."""
    if (reason := peer.install()) is not None:
        _leave_out(results, peer, reason)
        return None
    for streamed, (think, url) in product((False, True), models.items()):
        phase = PEERS_ALONE if think else PEERS_MANY
        try:
            _measure(results, Cell(peer.name, 0, streamed=streamed, think=think), [phase], url)
        except SystemExit as failed:
            reason = f"{failed}".strip().splitlines()[-1].removeprefix("RuntimeError: ")
            _leave_out(results, peer, f"{words(streamed)}, chats: {phase.sessions}: {reason}")
    return peer.version()


def _leave_out(results: TelegramResults, peer: Peer, reason: str) -> None:
    results.absent.append((peer.name, reason))
    _say(f"{peer.name} could not be measured: {reason}")


def _measure(results: TelegramResults, cell: Cell, phases: Sequence[Phase], url: str) -> None:
    """Measure one gateway in a process of its own, and those who write to it in another."""
    os.sync()  # what was written before must not be paid for by whoever comes next
    wanted = Slice(phases, url, cell.streamed, "" if cell.contender == OURS else cell.contender)
    lines = _run("bench.telegram_slice", msgspec.json.encode(wanted).decode())
    for phase, line in zip(phases, lines, strict=True):
        measured, spent = cell._replace(sessions=phase.sessions), Spent(*json.loads(line))
        results.cells[measured].append(spent)
        _say(
            f"{NAMES[measured.contender]}, {measured.sessions} chats, {words(measured.streamed)}, "
            f"the model takes {measured.think:g} s: {spent.rate:,.1f}/s, {spent.cpu_per_turn * 1000:.2f} ms CPU, "
            f"p50 {spent.p50 * 1000:.1f} ms"
        )


if __name__ == "__main__":
    main(*sys.argv[1:])

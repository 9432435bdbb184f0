"""Turns the results of turns into `docs/benchmarks/turns.md`."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from statistics import median

from bench.report import goals, preamble, table, where
from bench.turns_crowd import TURNS_OF_A_CHAT, Spent
from bench.turns_memory import AT_ONCE
from bench.turns_model import PIECES
from bench.turns_results import (
    BARE,
    COUNTS,
    CROWDED,
    HELD,
    IDLE,
    KILOBYTE,
    LIMIT,
    MANY,
    OFFLINE,
    OURS,
    POSTGRES,
    STREAMS,
    WAITING,
    WEB,
    Cell,
    Results,
    cpu_of,
    jobs_of,
    kind,
    rate_of,
)

CONTENDERS = {
    BARE: "the bare loop",
    LIMIT: "the bare loop, our way",
    OURS: "Perdure on SQLite",
    POSTGRES: "Perdure on PostgreSQL",
    WEB: "Perdure on SQLite, over HTTP",
    OFFLINE: "Perdure on SQLite, model in process",
}
THINGS = {
    HELD: "a turn inside a step",
    STREAMS: "a turn whose answer is coming in",
    WAITING: "a turn that waits for a person",
    IDLE: "a session that has finished a turn",
}

SETTING = """\
A turn goes from a person's message to its reply. Each session waits for the reply and then writes again, and
begins a new conversation after {turns} turns; where there are {crowded:,}, everybody writes once, at the same
moment. Each contender runs in a process of its own, and the model in another, which shares the cores with it:
`python -m perdure.testing.providers` speaks OpenAI's API and says the same to everybody, a stream in {pieces}
pieces. With a tool, the model first calls one that costs nothing.

- **Perdure**: the whole gateway with its store and its log, and a platform that is reached without a wire:
  intake, turn, model, outbox, send. On SQLite with a write-ahead log and `synchronous = FULL`; on PostgreSQL with
  `fsync` and `synchronous_commit` on. A platform that can show growing answers makes it stream, one that cannot
  does not.
- **Over HTTP**: a real `perdure run`; messages go in by POST, and replies come out as server-sent events, each
  person on two connections. The client has a process of its own, so three share the cores.
- **The bare loop**: the same libraries (pydantic-ai, the OpenAI SDK, httpx2) as they come, the same requests, the
  same tool, as many conversations at a time, which it keeps in memory: no gateway, and nothing survives.
  *Our way* is that loop over [our own way to providers](../adr/0015-a-way-of-our-own-to-providers.md), which the
  gateway takes too: what it makes more than Perdure is the price of keeping everything.
- **The model in process**: the offline model, told `say: hi`: what is left is the gateway alone.

Transactions are those that a turn asks the store for; commits are what the disk sees of them, because those that
come together share one, and one that changes nothing costs none. Heartbeats are not counted. CPU is that of the
contender's process with all its threads; the PostgreSQL server's own is not in it. The tables show the median of
the rounds, whose order alternates, and for turns in a second the lowest and the highest; ratios are medians of
the ratios within a round. *Added* latency is what a turn takes beyond the model's own {think:g} s for each answer.

Memory is the growth of the process from {at_once} of a kind to {at_once} and as many as the table says. *Without
caches* is the same after SQLite was asked to give its page caches back (they grow to 64 MiB a connection, whoever
writes) and malloc what it kept for later.
"""


def render(results: Results, versions: dict[str, str], machine: str) -> str:
    """The whole page."""
    think = max(cell.think for cell in results.cells)
    setting = SETTING.format(turns=TURNS_OF_A_CHAT, crowded=CROWDED, pieces=PIECES, think=think, at_once=AT_ONCE)
    parts = [
        "# Turns, measured",
        *preamble(quiet=results.quiet),
        _meaning(results),
        "## Goals",
        goals(results.goals()),
        "## At full speed",
        *_kinds(results),
        "## Added latency",
        f"The model takes {think:g} s for each answer, and {MANY} sessions talk: nobody is at full speed.",
        _latencies(results),
        "## The gateway alone",
        _speeds(results, [cell for cell in results.cells if cell.contender == OFFLINE]),
        "## Memory",
        _memory(results),
        "## What was measured",
        setting.strip(),
        "## Where and with what",
        where(results.syncs, results.bystanders, versions, machine),
    ]
    return "\n\n".join(parts) + "\n"


def _meaning(results: Results) -> str:
    cell, alone = Cell(OURS, MANY), Cell(OFFLINE, MANY)
    text = (
        f"With {MANY} busy sessions on SQLite the gateway makes "
        f"{results.middle(cell, rate_of):,.0f} turns in a second with a model behind HTTP, "
        f"{results.ratio(cell):.2f} times what a loop around the same libraries makes that keeps nothing. Without "
        f"the model a turn takes {results.middle(alone, cpu_of) * 1000:.2f} ms of CPU. While it is inside a step "
        f"it takes {results.each(HELD):.0f} KB of memory; a session that has nothing to do takes "
        f"{results.each(IDLE):.1f} KB."
    )
    return textwrap.fill(text, 115)


def _kinds(results: Results) -> Iterable[str]:
    speeds = [cell for cell in results.cells if cell.contender != OFFLINE and not cell.think]
    for words in dict.fromkeys(kind(cell) for cell in sorted(speeds, key=lambda cell: cell[2:4])):
        yield f"### {words.capitalize()}"
        yield _speeds(results, [cell for cell in speeds if kind(cell) == words])


def _speeds(results: Results, cells: Sequence[Cell]) -> str:
    heads = ["", "sessions", "turns/s", "of the bare loop's", "p50", "p99"]
    heads += ["CPU per turn", "transactions", "commits", "memory", "rounds"]
    ordered = sorted(cells, key=lambda cell: (cell.sessions, list(CONTENDERS).index(cell.contender)))
    return table(heads, [_speed(results, cell) for cell in ordered])


def _speed(results: Results, cell: Cell) -> list[str]:
    compared = cell.contender not in (BARE, OFFLINE) and cell._replace(contender=BARE) in results.cells
    return [
        CONTENDERS[cell.contender],
        f"{cell.sessions:,}",
        _spread([spent.rate for spent in results.cells[cell]]),
        f"{results.ratio(cell):.2f}" if compared else "",
        _milliseconds(results.middle(cell, _p50)),
        _milliseconds(results.middle(cell, _p99)),
        f"{results.middle(cell, cpu_of) * 1000:,.2f} ms",
        *_asked(results, cell),
        f"{results.middle(cell, lambda spent: spent.rss) / KILOBYTE**2:,.0f} MB",
        str(len(results.cells[cell])),
    ]


def _asked(results: Results, cell: Cell) -> list[str]:
    """What a turn asks of the store; from outside a process nobody can tell, and the bare loop has none."""
    if cell.contender in (BARE, LIMIT, WEB):
        return ["", ""]
    numbers = (results.middle(cell, jobs_of), results.middle(cell, lambda spent: spent.commits))
    return [f"{number:.2f}" for number in numbers]


def _spread(rates: Sequence[float]) -> str:
    if len(rates) == 1:
        return f"{rates[0]:,.0f}"
    return f"{median(rates):,.0f} ({min(rates):,.0f}–{max(rates):,.0f})"


def _latencies(results: Results) -> str:
    cells = sorted((cell for cell in results.cells if cell.think), key=lambda cell: (cell.tool, cell.contender))
    lines = (
        [
            CONTENDERS[cell.contender],
            kind(cell),
            _milliseconds(results.middle(cell, _p50) - cell.own_time),
            _milliseconds(results.middle(cell, _p99) - cell.own_time),
            f"{results.middle(cell, rate_of):,.0f}",
        ]
        for cell in cells
    )
    return table(["", "turns", "added, p50", "added, p99", "turns/s"], lines)


def _memory(results: Results) -> str:
    lines = (
        [
            words,
            f"{COUNTS[what]:,}",
            _kilobytes(results.kept[what].resident / COUNTS[what]),
            _kilobytes(results.kept[what].own / COUNTS[what]),
            f"{results.kept[what].objects / COUNTS[what]:,.1f}",
            f"{results.kept[what].tasks / COUNTS[what]:,.1f}",
        ]
        for what, words in THINGS.items()
    )
    return table(["each of", "there are", "memory", "without caches", "objects", "tasks"], lines)


def _p50(spent: Spent) -> float:
    return spent.p50


def _p99(spent: Spent) -> float:
    return spent.p99


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1000:,.1f} ms"


def _kilobytes(size: float) -> str:
    return f"{size / KILOBYTE:,.1f} KB"

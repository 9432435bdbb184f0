"""Turns the results of recovery into `docs/benchmarks/recovery.md`."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from statistics import median

from bench.recovery_peer import PATIENCE
from bench.recovery_results import FEW, LARGE, MANY, SMALL, Cell, Results, past
from bench.recovery_start import Start
from bench.report import goals, preamble, table, where

SETTING = """\
Known sessions have had one turn, whose reply has arrived. Those that were cut off come on top of them, spread
evenly among them: their process was killed inside a tool call, and one tool call and a short answer are left.
All are copies of two real sessions, row by row, and the databases are in the file cache, as after any restart of
a process.

- **A start** is a real `perdure run` with the offline model and the defaults, at most four recoveries at a time
  among them. *Ready* is its ready line; *a step further* is the moment at which the journal of the last of the
  turns that were cut off has the result of its tool call. Both count from the start of the process. CPU is that of
  the process with all its threads; the PostgreSQL server's own is not in it. The tables show the median of the
  rounds and, in brackets, the lowest and the highest; the rounds alternate their order. Ratios are medians of the
  ratios within a round.
- **Decisions**: `decide()` over one turn for each thing that a turn can end with; once over turns in memory, and
  once from their entries as JSON.
- **Through the store**: in a process of its own, what a start does with the turns of a dead run, all at once: take
  each over, read its journal, its session and its run, decide, and put it back in the queue. Every step of it is
  durable.
- **Hermes Agent**: the session store of its gateway, in a process of its own, in steps: it opens and loads its
  sessions (`SessionStore`), marks those that were active within the last two minutes
  (`suspend_recently_active`), and marks one more, as it does for each running session when it is stopped
  (`mark_resume_pending`). Loading the code is not counted, neither its nor ours. Beside it stands what our store
  does in its place: open, find the turns of the dead run, take over all but one of them, and then that one.
"""


def render(results: Results, versions: dict[str, str], machine: str) -> str:
    """The whole page."""
    parts = [
        "# Recovery, measured",
        *preamble(quiet=results.quiet),
        _meaning(results),
        "## Goals",
        goals(results.goals()),
        "## From the start of the process",
        _starts(results),
        "## Decisions",
        _pure(results),
        _through_store(results),
        "## Beside Hermes Agent",
        _peer(results),
        "## What was measured",
        SETTING.strip(),
        "## Where and with what",
        where(results.syncs, results.bystanders, versions, machine),
    ]
    return "\n\n".join(parts) + "\n"


def _meaning(results: Results) -> str:
    large = results.starts[Cell("SQLite", LARGE, FEW)]
    text = (
        f"A gateway that was killed with {FEW} turns under way is ready again after "
        f"{median(start.ready for start in large):.2f} s, and after {median(start.past for start in large):.2f} s "
        f"each of those turns has gone on, with {LARGE:,} known sessions on SQLite. That is "
        f"{results.ratio(FEW, past):.2f} times as long as with {SMALL:,}: a start reads what is open, not what "
        "there is."
    )
    return textwrap.fill(text, 115)


def _starts(results: Results) -> str:
    heads = ["", "cut off", "known sessions", "ready", "CPU", "all a step further", "CPU", "rounds"]
    cells = sorted(results.starts, key=lambda cell: (cell.place != "SQLite", cell.cut_off, cell.known))
    return table(heads, [_start(cell, results.starts[cell]) for cell in cells])


def _start(cell: Cell, starts: Sequence[Start]) -> list[str]:
    return [
        cell.place,
        f"{cell.cut_off:,}",
        f"{cell.known:,}",
        _spread([start.ready for start in starts]),
        f"{median(start.ready_cpu for start in starts):.2f} s",
        _spread([start.past for start in starts]),
        f"{median(start.past_cpu for start in starts):.2f} s",
        str(len(starts)),
    ]


def _spread(seconds: Sequence[float]) -> str:
    if len(seconds) == 1:
        return f"{seconds[0]:.2f} s"
    return f"{median(seconds):.2f} s ({min(seconds):.2f}–{max(seconds):.2f})"


def _pure(results: Results) -> str:
    read = median(pure.read_and_decided for pure in results.pure)
    text = (
        f"On one thread `decide()` makes {results.decided:,.0f} decisions in a second, and {read:,.0f} when it "
        "first reads the turn's entries and folds them. Through the store, where everything is durable:"
    )
    return textwrap.fill(text, 115)


def _through_store(results: Results) -> str:
    lines = (
        [
            cell.place,
            f"{cell.known:,}",
            f"{taken.turns:,}",
            f"{taken.rate:,.0f}",
            _milliseconds(taken.cpu / taken.turns),
        ]
        for cell, taken in results.taken.items()
        if cell.cut_off == MANY
    )
    return table(["", "known sessions", "turns", "marked, decided, requeued/s", "CPU per turn"], lines)


def _peer(results: Results) -> str:
    if results.no_peer is not None:
        return f"Hermes Agent could not be installed, and is not measured: {results.no_peer}"
    heads = ["", "known sessions", "open and load", f"mark the {FEW} that were cut off", "mark one"]
    return table(heads, [*_theirs(results), *_ours(results)])


def _theirs(results: Results) -> Iterable[list[str]]:
    for sessions, loaded in results.peer.items():
        times = map(_milliseconds, loaded) if loaded else [f"not within {PATIENCE} s", "", ""]
        yield ["Hermes Agent", f"{sessions:,}", *times]


def _ours(results: Results) -> Iterable[list[str]]:
    for cell, taken in results.taken.items():
        if cell.cut_off == FEW:
            all_of_them = taken.marked + taken.marked_one
            times = map(_milliseconds, (taken.opened, all_of_them, taken.marked_one))
            yield [f"Perdure on {cell.place}", f"{cell.known:,}", *times]


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1000:,.1f} ms"

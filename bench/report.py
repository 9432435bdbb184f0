"""Turns the results of the store into `docs/benchmarks/store.md`."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from statistics import median

from bench.results import ALONE, MANY, SHORT, Cell, Goal, Results

CONTENDERS = {
    "ours": "Perdure",
    "limit": "the limit",
    "dbos": "DBOS",
    "dbos-wal": "DBOS with WAL",
    "langgraph": "LangGraph's checkpointer",
}

NOISE = "the machine was not quiet, and these numbers are worth little"

SETTING = """\
An append is a tool's result of some 200 bytes, made durable. Each session waits for its append before it makes
the next one. Every contender runs in a process of its own, one after another, in {repetitions} rounds whose
order alternates; the tables show the median of the rounds and, in brackets, the lowest and the highest. Ratios
are medians of the ratios within a round. CPU is that of the contender's process with all its threads; the
PostgreSQL server's own is not in it.

- **Perdure**: `store.turns.append(turn, [ToolEnded(...)], now)`. SQLite with a write-ahead log and
  `synchronous = FULL`; PostgreSQL with `fsync` and `synchronous_commit` on, as it comes.
- **The limit**: the bare driver (`sqlite3`; psycopg in pipeline mode, on as many connections as Perdure has
  writers) with the same statements, the same JSON and the same syncs. One transaction takes the next append of
  every session; nobody is waited for and nobody is told: the most that this disk and this driver can do.
- **DBOS**: each session is a workflow of plain functions, each append a step that returns the same text. On
  SQLite it keeps the rollback journal and `synchronous = FULL`, as it comes. *With WAL* is the same on a file
  that was switched to a write-ahead log beforehand.
- **LangGraph's checkpointer**: each session is a thread, each append one `aput` of a checkpoint whose state is
  that text alone, so that it does not grow; no graph runs. On SQLite `AsyncSqliteSaver` (write-ahead log,
  `synchronous = FULL`), on PostgreSQL `AsyncPostgresSaver` with a pool of 20 connections in pipeline mode.

The journal's rows are spread over sessions of 100 rows each (of 10, where there are {short:,}), and the
sessions that are appended to are spread among them. The peers begin with an empty database, to their advantage.
"""


def render(results: Results, versions: dict[str, str], machine: str) -> str:
    """The whole page."""
    parts = [
        "# The store, measured",
        *preamble(quiet=results.quiet),
        _meaning(results),
        "## Goals",
        goals(results.goals()),
        *_places(results),
        "## What was measured",
        SETTING.format(repetitions=len(results.syncs), short=SHORT).strip(),
        "## Where and with what",
        where(results.syncs, results.bystanders, versions, machine),
    ]
    return "\n\n".join(parts) + "\n"


def preamble(*, quiet: bool) -> list[str]:
    """What stands at the top of every page of measurements."""
    written = "Written by `make bench`; every number on this page comes from one run of it."
    return [written, *([] if quiet else [f"**{NOISE.capitalize()}.** Run it again on a quiet one."])]


def _meaning(results: Results) -> str:
    many, alone = Cell("SQLite", "ours", SHORT, MANY), Cell("SQLite", "ours", SHORT, ALONE)
    limit, dbos = many._replace(contender="limit"), Cell("SQLite", "dbos", 0, MANY)
    text = (
        f"With {MANY} busy sessions on SQLite the store makes {median(results.rates(many)):,.0f} appends durable "
        f"in a second, {results.ratio(many, limit):.2f} of what the bare driver reaches and "
        f"{results.ratio(many, dbos):.0f} times the steps of DBOS. One session alone is bound by the disk, since "
        f"each append waits for a sync of its own: {median(results.rates(alone)):,.0f} in a second, each one "
        "kept before anybody is told of it."
    )
    return textwrap.fill(text, 115)


def goals(wanted: Sequence[Goal]) -> str:
    """What was wanted, what was got, and how many goals are not met."""
    missed = sum(goal.met is not True for goal in wanted)
    lines = [
        [goal.what, goal.wanted, goal.got, goal.verdict if goal.met else f"**{goal.verdict}**"] for goal in wanted
    ]
    verdict = "All goals are met." if not missed else f"**{missed} of {len(wanted)} goals are not met.**"
    return f"{verdict}\n\n" + table(["goal", "wanted", "got", ""], lines)


def _places(results: Results) -> Iterable[str]:
    for place in sorted({cell.place for cell in results.cells}, reverse=True):
        yield f"## {place}"
        cells = sorted((cell for cell in results.cells if cell.place == place), key=_order)
        heads = ["", "journal rows", "sessions", "durable appends/s", "CPU per append", "Perdure is"]
        yield table(heads, [_line(results, cell) for cell in cells])


def _order(cell: Cell) -> tuple[int, int, int]:
    return -cell.sessions, list(CONTENDERS).index(cell.contender), cell.rows


def _line(results: Results, cell: Cell) -> list[str]:
    rates = results.rates(cell)
    ours = Cell(cell.place, "ours", cell.rows or SHORT, cell.sessions)
    return [
        CONTENDERS[cell.contender],
        f"{cell.rows:,}" if cell.rows else "none",
        str(cell.sessions),
        f"{median(rates):,.0f} ({min(rates):,.0f}–{max(rates):,.0f})",
        f"{results.cpu(cell) * 1e6:,.0f} µs",
        "" if cell.contender == "ours" else f"{results.ratio(ours, cell):.3g} times as fast",
    ]


def where(syncs: Sequence[float], others: float, versions: dict[str, str], machine: str) -> str:
    """The day, the machine, its mood, and the versions of everything that took part."""
    day = datetime.now(UTC).date()
    listed = ", ".join(f"{name} {version}" for name, version in versions.items())
    lowest, highest = f"{min(syncs):,.0f}", f"{max(syncs):,.0f}"
    disk = f"{median(syncs):,.0f} syncs per second ({lowest}–{highest}), each an `fdatasync` after 4 KiB more"
    bystanders = f"{others:.2f} cores on average"
    return "\n".join(
        [
            f"- {day} (UTC)",
            f"- {machine}",
            f"- the disk in the rounds: {disk}",
            f"- taken by other programs meanwhile: {bystanders}",
            f"- {listed}",
        ]
    )


def table(heads: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """A table in Markdown."""
    rows = [heads, ["---"] * len(heads), *lines]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)

"""Turns the results of processes into `docs/benchmarks/processes.md`."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from statistics import median

from bench.processes_idle import OF_A_CHAT
from bench.processes_results import COUNTS, NONE, SILENT, WATCHED, Results, acts, cpus
from bench.report import goals, preamble, table, where

MEGABYTE = 1 << 20
KINDS = {NONE: "no process", SILENT: "silent processes", WATCHED: "silent processes, watched for a text"}

SETTING = """\
- **The first act** is a word that the command's shell writes into a pipe, measured from the wish for the command
  in an event loop: under a keeper, as the gateway begins it (`kept.begin`, whose claim is synced to the disk
  before the command starts), the same in the sandbox of bubblewrap, and bare
  (`asyncio.create_subprocess_shell`). They take turns, {rounds} times each. What is *added* is the median of the
  differences. CPU is that of everything but the command itself: for the bare one that of our process; for the
  others also that of the keeper up to then.
- **Many processes**: a real `perdure run` on SQLite with the offline model, to which people talk over HTTP; in
  each chat {of_a_chat} processes are begun in the background, each a `sleep`. Once it has come to rest, CPU is
  taken over {seconds:.0f} s in which nobody writes, so that whatever the gateway does every minute is in it. Those
  that are watched have a text to be looked for in their output. Memory is PSS: what is shared is divided among
  those who share it. The `sleep` itself, and its memory, belong to the command and are not counted.
- **The end** of a process is a SIGKILL to its command, in the gateway with {silent} others and otherwise idle.
  *Stored* is when the database says that somebody is to be told, looked for every millisecond; *told* is when the
  chat has the answer of the turn that this begins, as an event over HTTP.
"""


def render(results: Results, versions: dict[str, str], machine: str) -> str:
    """The whole page."""
    idle = results.idle[SILENT]
    setting = SETTING.format(
        rounds=len(results.kept), of_a_chat=OF_A_CHAT, seconds=idle.seconds, silent=COUNTS[SILENT]
    )
    parts = [
        "# Processes, measured",
        *preamble(quiet=results.quiet),
        _meaning(results),
        "## Goals",
        goals(results.goals()),
        "## The start of a command",
        _starts(results),
        "## Many at once, while nothing happens",
        _idle(results),
        "## From the end of a process",
        table(
            ["", "median", "best", "worst"],
            [["stored", *_times(idle.stored)], ["told in the chat", *_times(idle.told)]],
        ),
        "## What was measured",
        setting.strip(),
        "## Where and with what",
        where(results.syncs, results.bystanders, versions, machine),
    ]
    return "\n\n".join(parts) + "\n"


def _meaning(results: Results) -> str:
    idle = results.idle[SILENT]
    text = (
        f"A command that outlives the gateway begins {results.added * 1000:.0f} ms later than a bare one. With "
        f"{COUNTS[SILENT]} of them in the background, the gateway and all keepers together take "
        f"{results.busy(SILENT):.1%} of one core while nothing happens; a keeper takes "
        f"{idle.keepers / COUNTS[SILENT] / MEGABYTE:.1f} MB of memory. {median(idle.told) * 1000:.0f} ms after "
        "one has ended, its chat is told."
    )
    return textwrap.fill(text, 115)


def _starts(results: Results) -> str:
    heads = ["", "first act, median", "best", "CPU, median", "best", "rounds"]
    return table(
        heads,
        [
            [name, *_times(acts(starts))[:2], *_times(cpus(starts))[:2], str(len(starts))]
            for name, starts in (
                ("bare", results.bare),
                ("under a keeper", results.kept),
                ("under a keeper, in the sandbox", results.sandboxed),
            )
        ],
    )


def _idle(results: Results) -> str:
    heads = ["", "there are", "begun within", "CPU of the gateway", "CPU of the keepers"]
    heads += ["memory of the gateway", "memory of the keepers", "of each"]
    return table(heads, [_kind(results, kind) for kind in results.idle])


def _kind(results: Results, kind: str) -> list[str]:
    idle, count = results.idle[kind], COUNTS[kind]
    return [
        KINDS[kind],
        f"{count:,}",
        f"{idle.begun:.1f} s" if count else "",
        f"{idle.gateway_cpu / idle.seconds:.2%}",
        f"{idle.keepers_cpu / idle.seconds:.2%}" if count else "",
        f"{idle.gateway / MEGABYTE:,.0f} MB",
        f"{idle.keepers / MEGABYTE:,.0f} MB" if count else "",
        f"{idle.keepers / count / MEGABYTE:.1f} MB" if count else "",
    ]


def _times(seconds: Sequence[float]) -> list[str]:
    """The median, the best and the worst."""
    return [f"{each * 1000:,.1f} ms" for each in (median(seconds), min(seconds), max(seconds))]

"""Turns the results of Telegram into `docs/benchmarks/telegram.md`, and holds them against the goals."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable

from bench.report import goals, preamble, table, where
from bench.results import Goal
from bench.turns_crowd import TURNS_OF_A_CHAT, Spent
from bench.turns_model import PIECES
from bench.turns_results import ALONE, KILOBYTE, MANY, Cell, Results, cpu_of, rate_of

OURS = "telegram"
PEER = "nanobot-ai"
PEER_RATE, PEER_ADDED = 9.0, 0.207  # turns in a second with fifty chats; seconds added with one
UNSTREAMED, STREAMED = 15, 8  # times the turns of that peer
MOST_ADDED = 0.015  # seconds, with one chat

SETTING = """\
A turn goes from the moment somebody writes in Telegram to the moment that the whole reply stands in their chat.
Each person waits for it and then writes again, and begins a new chat after {turns} turns. The gateway is a real
`perdure run` on SQLite (`synchronous = FULL`), which asks an emulator of the Bot API for updates over HTTP and
sends through it; the model is `python -m perdure.testing.providers`. The three are processes of their own and
share the cores; CPU and memory are those of the gateway alone. The emulator is written in Python and answers
from memory: with many chats it takes about as much CPU as the gateway, and the real service would take none of
ours.

*Streamed* means that the model sends its answer in {pieces} pieces, and that people would see it grow if it took
more than a second; these answers do not, so each needs one message, as Telegram's limits want. *Added* latency
is what a turn takes beyond the {think:g} s that the model takes for its answer.

{peers}
"""

NOT_MEASURED = (
    f"Other gateways were not measured in this run. The goals speak of the best of those that were measured on a "
    f"machine of this kind, {PEER}: {PEER_RATE:g} turns in a second with {MANY} chats, and "
    f"{PEER_ADDED * 1000:.0f} ms added with one."
)


class TelegramResults(Results):
    """Every measurement by its cell."""

    def goals(self) -> list[Goal]:
        return [
            *(self._faster(streamed=streamed) for streamed in (False, True)),
            *(self._prompt(cell) for cell in self.cells if cell.think and cell.sessions == ALONE),
        ]

    def _faster(self, *, streamed: bool) -> Goal:
        rate = self.middle(Cell(OURS, MANY, streamed=streamed), rate_of)
        times = STREAMED if streamed else UNSTREAMED
        what = f"{MANY} chats, {words(streamed)}: turns in a second, compared with {PEER}"
        got = f"{rate / PEER_RATE:.1f} times ({rate:,.0f})"
        return Goal(what, f"at least {times} times", got, rate >= times * PEER_RATE)

    def _prompt(self, cell: Cell) -> Goal:
        added = self.middle(cell, p50) - cell.think
        what = f"one chat, {words(cell.streamed)}: added latency"
        return Goal(what, f"less than {MOST_ADDED * 1000:g} ms", _milliseconds(added), added < MOST_ADDED)


def words(streamed: bool) -> str:
    return "streamed" if streamed else "not streamed"


def p50(spent: Spent) -> float:
    return spent.p50


def render(results: TelegramResults, versions: dict[str, str], machine: str) -> str:
    """The whole page."""
    think = max(cell.think for cell in results.cells)
    setting = SETTING.format(
        turns=TURNS_OF_A_CHAT, pieces=PIECES, think=think, peers=textwrap.fill(NOT_MEASURED, 115)
    )
    parts = [
        "# Telegram, measured",
        *preamble(quiet=results.quiet),
        "## Goals",
        goals(results.goals()),
        "## At full speed",
        table(
            ["", "chats", "turns/s", "p50", "p99", "CPU per turn", "memory", "rounds"],
            [_speed(results, cell) for cell in sorted(results.cells) if not cell.think],
        ),
        "## Added latency",
        table(["", "chats", "added, p50", "added, p99"], _latencies(results)),
        "## What was measured",
        setting.strip(),
        "## Where and with what",
        where(results.syncs, results.bystanders, versions, machine),
    ]
    return "\n\n".join(parts) + "\n"


def _speed(results: TelegramResults, cell: Cell) -> list[str]:
    return [
        words(cell.streamed),
        f"{cell.sessions}",
        f"{results.middle(cell, rate_of):,.0f}",
        _milliseconds(results.middle(cell, p50)),
        _milliseconds(results.middle(cell, lambda spent: spent.p99)),
        f"{results.middle(cell, cpu_of) * 1000:,.2f} ms",
        f"{results.middle(cell, lambda spent: spent.rss) / KILOBYTE**2:,.0f} MB",
        str(len(results.cells[cell])),
    ]


def _latencies(results: TelegramResults) -> Iterable[list[str]]:
    for cell in sorted(cell for cell in results.cells if cell.think):
        yield [
            words(cell.streamed),
            f"{cell.sessions}",
            _milliseconds(results.middle(cell, p50) - cell.think),
            _milliseconds(results.middle(cell, lambda spent: spent.p99) - cell.think),
        ]


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1000:,.1f} ms"

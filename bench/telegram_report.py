"""Turns the results of Telegram into `docs/benchmarks/telegram.md`, and holds them against the goals."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable
from statistics import median
from typing import NamedTuple

from bench.peers import HERMES, NANOBOT
from bench.report import goals, preamble, table, where
from bench.results import Goal
from bench.turns_crowd import TURNS_OF_A_CHAT, Spent
from bench.turns_model import PIECES
from bench.turns_results import ALONE, KILOBYTE, MANY, Cell, Results, cpu_of, rate_of

OURS = "telegram"
NAMES = {OURS: "Perdure", NANOBOT.name: NANOBOT.name, HERMES.name: HERMES.name}
UNSTREAMED, STREAMED = 15, 8  # times the turns of the best peer
MOST_ADDED = 0.015  # seconds, with one chat


class Recorded(NamedTuple):
    """What was measured of a peer earlier, on a machine of this kind."""

    rate: float  # turns in a second with fifty chats, at best
    added: float  # seconds, with one


RECORDED = {
    NANOBOT.name: Recorded(9.0, 0.207),
    HERMES.name: Recorded(7.0, 0.327),
    "openclaw": Recorded(1.2, 1.001),
}

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
is what a turn takes beyond what the model takes when it is asked directly, with nothing in between, in the same
rounds: it thinks for {think:g} s, and its whole answer is there after {whole}, streamed after {streamed}.

**The peers** do the same work here, after our rounds and once each: real processes with a home and a
configuration of their own, on the same emulator and the same model, with their own prompts and tools as they come.
Whatever they want from the rest of the world fails at once. With many chats they get fifteen seconds to warm up,
since a first turn costs some of them more than the next ones. *Streamed* is their own way of showing how an answer
grows.

- **nanobot-ai**: `nanobot gateway`, with everybody allowed. It has no setting for the address of the Bot API: a
  launcher outside of it gives that address to the builder of its Telegram library, and then runs its command.
- **hermes-agent**: `hermes gateway run`, with everybody allowed, and the address as its own setting `base_url`. It
  collects what a person writes for a moment before it begins, as it comes. `busy_input_mode` is `queue`, since
  people here write again at once, which it would take for an interruption, and `context_length` is given, or it
  would ask the model for that before every turn.

{peers}
"""


class Rival(NamedTuple):
    """A peer, and its turns in a second with fifty chats."""

    rate: float
    name: str
    measured: bool  # in this run; otherwise it is what was recorded


class TelegramResults(Results):
    """Every measurement by its cell."""

    def __init__(self) -> None:
        super().__init__()
        self.absent: list[tuple[str, str]] = []  # peers of which something could not be measured, and why
        self.directly: dict[bool, list[float]] = {
            False: [],
            True: [],
        }  # seconds of the model alone; True: streamed

    def goals(self) -> list[Goal]:
        ours = (cell for cell in self.cells if cell.contender == OURS)
        return [
            *(self._faster(streamed=streamed) for streamed in (False, True)),
            *(self._prompt(cell) for cell in ours if cell.think and cell.sessions == ALONE),
        ]

    def best(self, *, streamed: bool) -> Rival:
        """The quickest peer, by this run where it was measured, and by the record where not."""
        return max(self._rival(name, streamed) for name in RECORDED)

    def _rival(self, name: str, streamed: bool) -> Rival:
        cell = Cell(name, MANY, streamed=streamed)
        if cell in self.cells:
            return Rival(self.middle(cell, rate_of), name, measured=True)
        return Rival(RECORDED[name].rate, name, measured=False)

    def _faster(self, *, streamed: bool) -> Goal:
        rate, peer = self.middle(Cell(OURS, MANY, streamed=streamed), rate_of), self.best(streamed=streamed)
        times = STREAMED if streamed else UNSTREAMED
        known = "" if peer.measured else ", as recorded"
        what = f"{MANY} chats, {words(streamed)}: turns in a second, compared with {peer.name}{known}"
        got = f"{rate / peer.rate:.1f} times ({rate:,.0f} to {peer.rate:,.1f})"
        return Goal(what, f"at least {times} times", got, rate >= times * peer.rate)

    def model(self, *, streamed: bool) -> float:
        """Seconds that the model itself takes for an answer."""
        return median(self.directly[streamed])

    def added(self, cell: Cell, measure: Callable[[Spent], float]) -> float:
        return self.middle(cell, measure) - self.model(streamed=cell.streamed)

    def _prompt(self, cell: Cell) -> Goal:
        added = self.added(cell, p50)
        what = f"one chat, {words(cell.streamed)}: added latency"
        return Goal(what, f"less than {MOST_ADDED * 1000:g} ms", _milliseconds(added), added < MOST_ADDED)


def words(streamed: bool) -> str:
    return "streamed" if streamed else "not streamed"


def p50(spent: Spent) -> float:
    return spent.p50


def p99(spent: Spent) -> float:
    return spent.p99


def render(results: TelegramResults, versions: dict[str, str], machine: str) -> str:
    """The whole page."""
    think = max(cell.think for cell in results.cells)
    peers = textwrap.fill(_not_measured(results), 115, break_on_hyphens=False)
    whole, streamed = (_milliseconds(results.model(streamed=each)) for each in (False, True))
    setting = SETTING.format(
        turns=TURNS_OF_A_CHAT, pieces=PIECES, think=think, whole=whole, streamed=streamed, peers=peers
    )
    parts = [
        "# Telegram, measured",
        *preamble(quiet=results.quiet),
        "## Goals",
        goals(results.goals()),
        "## At full speed",
        table(
            ["", "", "chats", "turns/s", "p50", "p99", "CPU per turn", "memory", "rounds"],
            [_speed(results, cell) for cell in _sorted(results) if not cell.think],
        ),
        "## Added latency",
        table(["", "", "chats", "added, p50", "added, p99"], _latencies(results)),
        "## What was measured",
        setting.strip(),
        "## Where and with what",
        where(results.syncs, results.bystanders, versions, machine),
    ]
    return "\n\n".join(parts) + "\n"


def _not_measured(results: TelegramResults) -> str:
    """Why there are peers without a number, and what stands for it."""
    absent = [*results.absent, ("openclaw", "it is no package of Python's")]
    reasons = "; ".join(f"{name} ({reason})" for name, reason in absent)
    known = "; ".join(
        f"{name} {RECORDED[name].rate:g} turns in a second with {MANY} chats, "
        f"{RECORDED[name].added * 1000:,.0f} ms added with one"
        for name in dict(absent)
    )
    return (
        f"Not measured, or not in full: {reasons}. Where a number is missing, the goals take what was recorded "
        f"earlier on a machine of this kind: {known}."
    )


def _sorted(results: TelegramResults) -> list[Cell]:
    """Ours first; the peers in the order in which they were measured."""
    order = list(NAMES)
    return sorted(results.cells, key=lambda cell: (order.index(cell.contender), cell))


def _speed(results: TelegramResults, cell: Cell) -> list[str]:
    rate = results.middle(cell, rate_of)
    return [
        NAMES[cell.contender],
        words(cell.streamed),
        f"{cell.sessions}",
        f"{rate:,.0f}" if cell.contender == OURS else f"{rate:,.1f}",
        _milliseconds(results.middle(cell, p50)),
        _milliseconds(results.middle(cell, p99)),
        f"{results.middle(cell, cpu_of) * 1000:,.2f} ms",
        f"{results.middle(cell, lambda spent: spent.rss) / KILOBYTE**2:,.0f} MB",
        str(len(results.cells[cell])),
    ]


def _latencies(results: TelegramResults) -> Iterable[list[str]]:
    for cell in (cell for cell in _sorted(results) if cell.think):
        yield [
            NAMES[cell.contender],
            words(cell.streamed),
            f"{cell.sessions}",
            _milliseconds(results.added(cell, p50)),
            _milliseconds(results.added(cell, p99)),
        ]


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1000:,.1f} ms"

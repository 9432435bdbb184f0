"""The command `perdure drill`: runs a drill with a progress bar and prints its report."""

from __future__ import annotations

import asyncio
import secrets
import sys
from collections.abc import Callable, Iterator

import msgspec
from msgspec import Struct
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from perdure.config import Settings
from perdure.plugins import load_object
from perdure.settings import SQLITE_PREFIX
from perdure.testing.drill.base import BaseDrill
from perdure.testing.drill.group_faults import FAULT_KINDS, random_faults
from perdure.testing.drill.points import random_points, sweep_points
from perdure.testing.drill.report import FAULTS, GROUP_FAULTS, UNKNOWN, Report
from perdure.testing.drill.runner import Drill
from perdure.testing.drill.scenarios import PLATFORMS, SCENARIOS

MAX_SEED = 1_000_000


class DrillOptions(Struct, frozen=True):
    """What the command line says of a drill."""

    kills: int
    seed: int | None = None
    sweep: bool = False
    gateway: str = ""  # `module:object` that makes the gateway
    gateways: int = 1
    store: str = ""  # the URL of an empty database, for several gateways


def run_drill_command(settings: Settings, options: DrillOptions, *, json: bool) -> int:
    """Run a drill, print its report, and return the exit code."""
    report = run_drill(settings, options)
    if json:
        print(report_to_json(report))  # noqa: T201 reason: it is what was asked for
    else:
        print_report(report)
    return 1 if report.failed else 0


def run_drill(settings: Settings, options: DrillOptions) -> Report:
    """Run a drill, with a progress bar if there is a terminal."""
    if options.gateway:
        load_object(options.gateway, settings.home)  # reports a wrong configuration before the drill starts
    errors = Console(stderr=True)
    if not settings.store_url.startswith(SQLITE_PREFIX) and not options.store:
        errors.print("The drill keeps its conversations in SQLite: your PostgreSQL database is not touched.")
    with _progress_bar(errors) as bar:
        task = bar.add_task("killing", total=options.kills)
        return asyncio.run(_make_drill(settings, options, lambda: bar.advance(task)).run())


def _make_drill(settings: Settings, options: DrillOptions, killed: Callable[[], None]) -> BaseDrill:
    seed, kills = options.seed, options.kills
    if seed is None and not options.sweep:
        seed = secrets.randbelow(MAX_SEED)
    if seed is None:
        return Drill(settings, sweep_points(kills), gateway=options.gateway, killed=killed)
    if options.gateways == 1:
        return Drill(settings, random_points(seed, kills), seed=seed, gateway=options.gateway, killed=killed)
    from perdure.testing.drill.group_runner import GroupDrill  # only here the driver of PostgreSQL is needed

    return GroupDrill(
        settings,
        random_faults(seed, kills, options.gateways),
        gateways=options.gateways,
        store=options.store,
        seed=seed,
        gateway=options.gateway,
        killed=killed,
    )


def _progress_bar(console: Console) -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    return Progress(*columns, console=console, transient=True, disable=not console.is_terminal)


def report_to_json(report: Report) -> str:
    return msgspec.json.format(msgspec.json.encode(report), indent=2).decode()


def print_report(report: Report) -> None:
    """Print the table of counts, and a line for each finding."""
    console = Console(file=sys.stdout, highlight=False, soft_wrap=True)
    console.print(_report_table(report))
    for line in _report_lines(report):
        console.print(line, markup=False)


def _report_table(report: Report) -> Table:
    table = Table(title=_report_title(report), title_justify="left", show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(no_wrap=True)
    at_rest = f", {report.at_rest} of them when all was done" if report.at_rest else ""
    if report.gateways == 1:
        table.add_row("kills", str(report.kills), f"with SIGKILL{at_rest}")
    for kind, count in report.faults.items():
        table.add_row(kind, str(count), FAULT_KINDS[kind])
    table.add_row("turns", str(report.turns), f"in {len(SCENARIOS)} kinds of chats on {len(PLATFORMS)} platforms")
    table.add_section()
    for name, meaning in (FAULTS if report.gateways == 1 else GROUP_FAULTS).items():
        count = getattr(report, name)
        table.add_row(name, str(count), meaning, style="bold red" if count else None)
    table.add_section()
    table.add_row(UNKNOWN, str(report.unknown), "outcomes that nobody can know, and that were told so")
    if report.given_up:
        table.add_row("given up", str(report.given_up), "messages, as configured; people were told")
    if report.by_hand:
        table.add_row("by hand", str(report.by_hand), "times that a person had to say /resume")
    if report.gateways > 1:
        table.add_row("stayed", str(report.stayed), "turns that went on without a machine's files or commands")
        table.add_row("silence", f"{report.silence:.2f} s", "the longest that somebody waited and heard nothing")
    ready, answered = report.ready, report.answered
    table.add_row(
        "ready", f"{ready.median:.2f} s", f"after a kill until it served again; {ready.longest:.2f} s at most"
    )
    table.add_row(
        "carried on",
        f"{answered.median:.2f} s",
        f"from then until all was answered; {answered.longest:.2f} s at most",
    )
    return table


def _report_title(report: Report) -> str:
    return _command_line(report, report.kills if report.gateways == 1 else sum(report.faults.values()))


def _command_line(report: Report, kills: int) -> str:
    several = f"--gateways {report.gateways} --store … " if report.gateways > 1 else ""
    return f"perdure drill {several}--kills {kills} {_points_option(report)}"


def _points_option(report: Report) -> str:
    return "--sweep" if report.seed is None else f"--seed {report.seed}"


def _report_lines(report: Report) -> Iterator[str]:
    """Return a line for each finding; a chat is named by its round and its scenario."""
    yield from (f"left out: {line}" for line in report.left_out)
    if report.silence_at:
        yield f"silence: the longest was in {report.silence_at}"
    for name, lines in report.findings.items():
        yield from (f"{name}: {line}" for line in lines)
    if report.failed:
        yield f"This is not as it should be. What is left of it is in {report.home}; the same points again:"
        yield f"    {_command_line(report, len(report.points))}"
    else:
        yield f"Nothing was lost, repeated or doubled; nothing woke up or hung. It took {report.seconds:g} s."

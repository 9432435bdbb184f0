"""`perdure drill`: kill a gateway again and again, and count what was lost."""

from __future__ import annotations

from typing import Annotated

import typer

from perdure.cli.output import JsonOption
from perdure.config import load_settings
from perdure.core import texts

app = typer.Typer(rich_markup_mode=None)


@app.command()
def drill(
    kills: Annotated[int, typer.Option(min=1, help="How often to kill.")] = 50,
    seed: Annotated[int | None, typer.Option(min=0, help="Kill at the points of this number again.")] = None,
    sweep: Annotated[
        bool, typer.Option("--sweep", help="Kill around store call 1, 2, 3 …, not by chance.")
    ] = False,
    gateway: Annotated[str, typer.Option(metavar="MODULE:OBJECT", help="Kill what this makes instead.")] = "",
    gateways: Annotated[int, typer.Option(min=1, max=16, help="How many gateways share one database.")] = 1,
    store: Annotated[
        str, typer.Option(metavar="URL", help="An empty PostgreSQL database for them, made for the drill.")
    ] = "",
    json: JsonOption = False,
) -> None:
    """Put the promises to the test: kill a gateway again and again, and count.

    It runs conversations in a temporary home, with your configuration, but with the offline model and on
    simulated platforms: your database, your files and your chats are not touched. It kills the gateway with
    SIGKILL, starts it again, and counts what was lost, repeated or doubled; if anything was, it ends with code 1.
    With --gateways, several of them share one PostgreSQL, and are also stopped, frozen and cut off from it.
    """
    from perdure.testing.drill.cli import DrillOptions, run_drill_command

    if sweep and seed is not None:
        raise typer.BadParameter(texts.cli.SEED_OR_SWEEP)
    if gateways > 1 and not store:
        raise typer.BadParameter(texts.cli.DRILL_NEEDS_STORE)
    if store and gateways == 1:
        raise typer.BadParameter(texts.cli.DRILL_NEEDS_GATEWAYS)
    if sweep and gateways > 1:
        raise typer.BadParameter(texts.cli.DRILL_NO_SWEEP)
    options = DrillOptions(kills, seed, sweep, gateway, gateways, store)
    raise typer.Exit(run_drill_command(load_settings(), options, json=json))

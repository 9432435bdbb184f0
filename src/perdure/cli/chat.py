"""`perdure chat`: talk to the running gateway, in the terminal."""

from __future__ import annotations

import asyncio

import typer

from perdure.cli.options import ChatOption
from perdure.config import load_settings

app = typer.Typer(rich_markup_mode=None)


@app.command()
def chat(name: ChatOption = "terminal") -> None:
    """Talk to the running gateway, in the terminal."""
    from perdure.cli.terminal_chat import run_chat  # loads the HTTP client

    raise typer.Exit(asyncio.run(run_chat(load_settings(), name)))

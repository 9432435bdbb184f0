"""The command line. Every command says what it did, or in one sentence why not and what to do."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Annotated, NoReturn

import typer

from perdure import __version__, logs
from perdure.config import load
from perdure.errors import PerdureError
from perdure.supervisor import lifeline, supervise

app = typer.Typer(
    help="An LLM agent on chat platforms whose conversations survive whatever happens to the process.",
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
config_app = typer.Typer(help="Look at the configuration.", no_args_is_help=True)
app.add_typer(config_app, name="config")

Chat = Annotated[str, typer.Option(help="The name of the chat: each one is a conversation of its own.")]


@app.command()
def run() -> None:
    """Run the gateway in the foreground."""
    from perdure.console.serve import serve  # loads the web server

    supervisor = lifeline()
    settings = load()
    logs.to_stderr()
    asyncio.run(serve(settings, on_ready=_announce, lifeline=supervisor))


@app.command()
def up() -> None:
    """Run the gateway and start it again whenever it dies."""
    raise typer.Exit(supervise([sys.executable, "-m", "perdure", "run"]))


@app.command()
def chat(name: Chat = "terminal") -> None:
    """Talk to the running gateway in the terminal; survives the gateway's death."""
    from perdure.chat import converse  # loads the HTTP client

    raise typer.Exit(asyncio.run(converse(load(), name)))


@app.command()
def token() -> None:
    """Print the login token of this home."""
    from perdure.console.tokens import ensure_token

    typer.echo(ensure_token(load().home))


@app.command()
def version() -> None:
    """Print the version."""
    typer.echo(f"perdure {__version__}")


@config_app.command("check")
def check() -> None:
    """Check the configuration, and say where everything is kept."""
    settings = load()
    typer.echo(f"The configuration is fine. Home: {settings.home}")


def _announce(url: str) -> None:
    """The one line on standard output. After a restart by the supervisor it has been said already."""
    if not os.environ.get("PERDURE_QUIET_READY"):
        typer.echo(f"Perdure is ready: {url}")
        sys.stdout.flush()


def main() -> NoReturn:
    """The entry point. Errors that we foresaw become a sentence and an exit code."""
    try:
        app()
    except PerdureError as error:
        typer.echo(f"perdure: {error}", err=True)
        sys.exit(getattr(error, "exit_code", 1))
    sys.exit(0)

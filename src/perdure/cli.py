"""The command line. Every command says what it did, or in one sentence why not and what to do."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Annotated, Any, NoReturn

import msgspec
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

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Output = Annotated[Path | None, typer.Option("--output", "-o", help="Write to this file, not to the terminal.")]
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
    """Talk to the running gateway, in the terminal."""
    from perdure.chat import converse  # loads the HTTP client

    raise typer.Exit(asyncio.run(converse(load(), name)))


@app.command("export")
def export_(output: Output = None) -> None:
    """Write every session as JSON, also while the gateway runs."""
    from perdure.operations import export_to

    count = asyncio.run(export_to(load(), output))
    typer.echo(f"{count} session{'' if count == 1 else 's'} exported.", err=True)


@app.command("import")
def import_(
    file: Annotated[Path, typer.Argument(help="A file that `perdure export` wrote.")], json: Json = False
) -> None:
    """Bring in the sessions of an export."""
    from perdure.operations import import_from

    report = asyncio.run(import_from(load(), file))
    typer.echo(as_json(report) if json else report.to_text())
    raise typer.Exit(1 if report.problems else 0)


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


def as_json(value: Any) -> str:
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()


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

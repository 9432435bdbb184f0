"""The command line. Every command says what it did, or in one sentence why not and what to do."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, TypeVar

import msgspec
import typer

from perdure import logs
from perdure.config import Settings, load
from perdure.errors import PerdureError
from perdure.supervisor import lifeline, supervise
from perdure.version import __version__

if TYPE_CHECKING:
    from perdure.store.api import Store

app = typer.Typer(
    help="An LLM agent on chat platforms whose conversations survive whatever happens to the process.",
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
config_app = typer.Typer(help="Look at the configuration.", no_args_is_help=True)
app.add_typer(config_app, name="config")

RESTART_WANTED = 75

T = TypeVar("T")

Session = Annotated[str, typer.Argument(help="The id or the key of a session; `perdure sessions` lists them.")]
AnySession = Annotated[str | None, typer.Argument(help="The id or the key of a session.")]
All = Annotated[bool, typer.Option("--all", help="Let everything go on that a crash loop has paused.")]
Message = Annotated[str, typer.Argument(help="The id of a message, ours or the platform's.")]
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
    ending = asyncio.run(serve(settings, on_ready=_announce, lifeline=supervisor))
    sys.exit(RESTART_WANTED if ending == "restart" else 0)


@app.command()
def up() -> None:
    """Run the gateway and start it again whenever it dies."""
    sys.exit(supervise([sys.executable, "-m", "perdure", "run"]))


@app.command()
def chat(name: Chat = "terminal") -> None:
    """Talk to the running gateway, in the terminal."""
    from perdure.chat import converse  # loads the HTTP client

    raise typer.Exit(asyncio.run(converse(load(), name)))


@app.command()
def stop() -> None:
    """Stop the running gateway in an orderly way."""
    from perdure import remote

    remote.stop(load())
    typer.echo("The gateway has stopped.")


@app.command()
def restart() -> None:
    """Restart the running gateway in an orderly way."""
    from perdure import remote

    remote.restart(load())
    typer.echo("The gateway has stopped; its supervisor starts it again.")


@app.command()
def status(json: Json = False) -> None:
    """Say how the running gateway is."""
    from perdure import remote

    found = remote.call(load(), "GET", "/api/status")
    typer.echo(as_json(found) if json else "\n".join(found["summary"]))


@app.command()
def sessions(json: Json = False) -> None:
    """List the sessions, and what each waits for."""
    from perdure.operations.look import list_sessions, session_line
    from perdure.store.ids import wall_clock

    found = asyncio.run(looking(load(), lambda store: list_sessions(store, limit=100_000)))
    lines = [session_line(fields, wall_clock()) for fields in found]
    typer.echo(as_json(found) if json else "\n".join(lines) or "There are no sessions yet.")


@app.command()
def why(session: Session, json: Json = False) -> None:
    """Explain what became of a session's last turn."""
    from perdure.operations.look import alone
    from perdure.operations.look import why as explained
    from perdure.store.ids import wall_clock

    settings = load()
    lines = asyncio.run(looking(settings, lambda store: explained(store, session, wall_clock)))
    lines += alone(settings)
    typer.echo(as_json(lines) if json else "\n".join(lines))


@app.command()
def trace(message: Message, json: Json = False) -> None:
    """Show the whole life of a message."""
    from perdure.operations.look import fact_line
    from perdure.operations.look import trace as traced

    facts = asyncio.run(looking(load(), lambda store: traced(store, message)))
    typer.echo(as_json(facts) if json else "\n".join(fact_line(fact) for fact in facts))


@app.command()
def resume(session: AnySession = None, everything: All = False) -> None:
    """Go on with what was interrupted or set aside."""
    from perdure import remote

    if everything == (session is not None):
        raise typer.BadParameter("name a session, or say --all")
    if session is None:
        done = remote.call(load(), "POST", "/api/resume")["done"]
        typer.echo("Automatic resume goes on." if done else "Automatic resume was not paused.")
    else:
        _report(remote.act(load(), session, "resume"), "It goes on.", "There is nothing to resume.")


@app.command()
def drop(session: Session) -> None:
    """Give up a session's interrupted turn."""
    from perdure import remote

    _report(remote.act(load(), session, "drop"), "Given up.", "There is nothing interrupted to give up.")


@app.command()
def suspend(session: Session) -> None:
    """Set a session aside: it does not go on by itself."""
    from perdure import remote

    _report(remote.act(load(), session, "suspend"), "Set aside.", "It was set aside or closed before.")


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
    """Check the configuration, and that the model, the tools and the agent are there; say where all is kept."""
    from perdure.runtime.agents import Agents

    settings = load()
    Agents(settings, ["web"])
    typer.echo(f"The configuration is fine. Home: {settings.home}")


def _report(done: bool, yes: str, no: str) -> None:
    typer.echo(yes if done else no)
    if not done:
        raise typer.Exit(1)


async def looking(settings: Settings, look: Callable[[Store], Awaitable[T]]) -> T:
    """Look at the database, whether or not a gateway is at work on it."""
    from perdure.store.api import Store
    from perdure.store.reader import open_reader

    store = Store(await open_reader(settings.store_url))
    try:
        return await look(store)
    finally:
        await store.close()


def as_json(value: Any) -> str:
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()


def _announce(url: str) -> None:
    """The one line on standard output. After a restart by the supervisor it has been said already."""
    if not os.environ.get("PERDURE_QUIET_READY"):
        typer.echo(f"Perdure is ready: {url}")
        sys.stdout.flush()


def main() -> NoReturn:
    """The entry point. Errors that we foresaw become a sentence and an exit code."""
    # Typer needs a quarter of a second to learn of options; the commands that start a gateway have none.
    plain = {"run": run, "up": up}
    try:
        plain.get(" ".join(sys.argv[1:]), app)()
    except PerdureError as error:
        typer.echo(f"perdure: {error}", err=True)
        sys.exit(getattr(error, "exit_code", 1))
    sys.exit(0)

"""The command line. Every command says what it did, or in one sentence why not and what to do."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, TypeVar
from urllib.parse import quote

import msgspec
import typer

from perdure import logs
from perdure.config import Settings, load
from perdure.config.secrets import secrets_of
from perdure.errors import PerdureError
from perdure.supervisor import launched, lifeline, supervise
from perdure.version import __version__

if TYPE_CHECKING:
    from perdure.store.api import Store
    from perdure.store.erasing import Erased

app = typer.Typer(
    help="An LLM agent on chat platforms whose conversations survive whatever happens to the process.",
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
config_app = typer.Typer(help="Look at the configuration.", no_args_is_help=True)
app.add_typer(config_app, name="config")
people_app = typer.Typer(
    help="List who is known and who asks to be let in, or change that.", invoke_without_command=True
)
app.add_typer(people_app, name="people")

RESTART_WANTED = 75

T = TypeVar("T")

Session = Annotated[str, typer.Argument(help="The id or the key of a session; `perdure sessions` lists them.")]
AnySession = Annotated[str | None, typer.Argument(help="The id or the key of a session.")]
All = Annotated[bool, typer.Option("--all", help="Let everything go on that a crash loop has paused.")]
Message = Annotated[str, typer.Argument(help="The id of a message, ours or the platform's.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Output = Annotated[Path | None, typer.Option("--output", "-o", help="Write to this file, not to the terminal.")]
Chat = Annotated[str, typer.Option(help="The name of the chat: each one is a conversation of its own.")]
Who = Annotated[
    str, typer.Argument(help="A platform and an id on it, such as telegram:1234.", metavar="PLATFORM:ID")
]
Role = Annotated[str, typer.Option(help="owner, member or guest.")]
InChat = Annotated[str | None, typer.Option("--chat", help="Only in the chat of that id; without it, everywhere.")]
Called = Annotated[str, typer.Option("--name", help="What to call them.")]


@app.command()
def run() -> None:
    """Run the gateway in the foreground."""
    from perdure.console.serve import serve  # loads the web server
    from perdure.runtime.gateway import Gateway
    from perdure.tools.descriptors import raise_limit

    raise_limit()
    supervisor, make = lifeline(), partial(Gateway, launch=launched())
    settings = load()
    level = logging.DEBUG if os.environ.get("PERDURE_LOG") == "debug" else logging.INFO
    logs.to_stderr(level, secrets_of(settings, os.environ))
    ending = asyncio.run(serve(settings, on_ready=_announce, lifeline=supervisor, make=make))
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


@app.command()
def pair(
    code: Annotated[str, typer.Argument(help="The code that they were told, such as ABCD-EFGH.")],
    role: Role = "member",
    chat: Annotated[str, typer.Option(help="here (the chat where they asked) or everywhere.")] = "everywhere",
) -> None:
    """Let in somebody whom the agent does not know yet."""
    if chat not in ("here", "everywhere"):
        raise typer.BadParameter(f"--chat is here or everywhere, not {chat!r}")
    _change_people("pair", code=code, role=role, here=chat == "here")


@people_app.callback()
def people(context: typer.Context, json: Json = False) -> None:
    """List who is known and who asks to be let in, or change that."""
    if context.invoked_subcommand is not None:
        return
    from perdure.operations.people import Register, lines
    from perdure.store.ids import wall_clock

    settings = load()
    found = asyncio.run(looking(settings, lambda store: Register(settings, store).page(limit=100_000)))
    typer.echo(as_json(found) if json else "\n".join(lines(found, wall_clock())))


@people_app.command("add")
def add_person(who: Who, role: Role = "member", chat: InChat = None, name: Called = "") -> None:
    """Let somebody in without a code."""
    _change_people("add", who=who, role=role, chat=chat or "", name=name)


@people_app.command("role")
def change_role(
    who: Who, role: Annotated[str, typer.Argument(help="owner, member or guest.")], chat: InChat = None
) -> None:
    """Give somebody who is known another role."""
    _change_people("role", who=who, role=role, chat=chat or "")


@people_app.command("remove")
def remove_person(who: Who, chat: InChat = None) -> None:
    """Make somebody unknown: what they wrote and still waits is not answered, and nothing of theirs goes on."""
    _change_people("remove", who=who, chat=chat)


def _change_people(verb: str, **words: Any) -> None:
    """Ask the running gateway; if there is none, change the database itself."""
    from perdure import remote
    from perdure.errors import GatewayNotRunning
    from perdure.operations.people import by_hand

    settings = load()
    try:
        found = remote.call(settings, "POST", f"/api/people/{verb}", words)
    except GatewayNotRunning:
        found = msgspec.to_builtins(asyncio.run(by_hand(settings, lambda people: getattr(people, verb)(**words))))
    _report(found["done"], found["said"], found["said"])


@app.command()
def erase(
    session: Annotated[str, typer.Argument(help="The id of a session; or a key, and all that it ever had goes.")],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask first.")] = False,
    json: Json = False,
) -> None:
    """Remove a session for good, with all that belongs to it."""
    from perdure.operations.erase import erased_line, to_erase
    from perdure.runtime.eraser import erase_from

    settings = load()
    lines = asyncio.run(looking(settings, lambda store: to_erase(store, session)))
    typer.echo("\n".join(lines), err=True)
    if not yes and not _confirmed("Erase this for good? [y/N] "):
        typer.echo("Nothing was erased.", err=True)
        raise typer.Exit(1)
    erased = _erased(settings, session) or asyncio.run(erase_from(settings, session))
    typer.echo(as_json(erased) if json else "\n".join(["Erased:", *map(erased_line, erased)]))


def _confirmed(question: str) -> bool:
    """Ask on standard error: standard output is for what was done."""
    typer.echo(question, err=True, nl=False)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _erased(settings: Settings, session: str) -> list[Erased]:
    """What the running gateway has erased; nothing if there is no gateway."""
    from perdure import remote
    from perdure.errors import GatewayNotRunning
    from perdure.store.erasing import Erased

    try:
        found = remote.call(settings, "POST", f"/api/sessions/{quote(session, safe='')}/erase")
    except GatewayNotRunning:
        return []
    return msgspec.convert(found["erased"], list[Erased])


@app.command("export")
def export_(
    output: Output = None,
    person: Annotated[
        str | None,
        typer.Option(metavar="PLATFORM:ID", help="Only what is of this person, such as telegram:1234."),
    ] = None,
    session: Annotated[
        str | None, typer.Option(metavar="SESSION", help="Only this session, by id or key.")
    ] = None,
) -> None:
    """Write sessions as JSON, also while the gateway runs: every one, one, or those of one person."""
    from perdure.operations import export_to

    if person is not None and session is not None:
        raise typer.BadParameter("say --person or --session, not both")
    count = asyncio.run(export_to(load(), output, person=person, session=session))
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
def drill(
    kills: Annotated[int, typer.Option(min=1, help="How often to kill.")] = 50,
    seed: Annotated[int | None, typer.Option(min=0, help="Kill at the points of this number again.")] = None,
    sweep: Annotated[
        bool, typer.Option("--sweep", help="Kill around store call 1, 2, 3 …, not by chance.")
    ] = False,
    gateway: Annotated[str, typer.Option(metavar="MODULE:OBJECT", help="Kill what this makes instead.")] = "",
    json: Json = False,
) -> None:
    """Put the promises to the test: kill a gateway again and again, and count.

    It runs conversations in a temporary home, with your configuration, but with the offline model and on
    simulated platforms: your database, your files and your chats are not touched. It kills the gateway with
    SIGKILL, starts it again, and counts what was lost, repeated or doubled; if anything was, it ends with code 1.
    """
    from perdure.testing.drill.command import drill_and_tell

    if sweep and seed is not None:
        raise typer.BadParameter("a sweep leaves nothing to chance: say --seed or --sweep, not both")
    raise typer.Exit(drill_and_tell(load(), kills=kills, seed=seed, sweep=sweep, gateway=gateway, json=json))


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
    """Check the configuration, and that platforms, model, tools and agent are there; say where all is kept."""
    from perdure.runtime.agents import Agents
    from perdure.runtime.platforms import configured

    settings = load()
    Agents(settings, [adapter.name for adapter in configured(settings)])
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

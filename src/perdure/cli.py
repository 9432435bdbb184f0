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
from perdure.config import Settings, load_settings
from perdure.config.secrets import collect_secrets
from perdure.errors import PerdureError
from perdure.supervisor import supervise, take_launch, take_lifeline
from perdure.version import __version__

if TYPE_CHECKING:
    from perdure.store.api import Store
    from perdure.store.erasure import ErasedSession

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

EXIT_RESTART = 75

T = TypeVar("T")

SessionArgument = Annotated[
    str, typer.Argument(help="The id or the key of a session; `perdure sessions` lists them.")
]
OptionalSessionArgument = Annotated[str | None, typer.Argument(help="The id or the key of a session.")]
AllOption = Annotated[bool, typer.Option("--all", help="Let everything go on that a crash loop has paused.")]
MessageArgument = Annotated[str, typer.Argument(help="The id of a message, ours or the platform's.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
OutputOption = Annotated[
    Path | None, typer.Option("--output", "-o", help="Write to this file, not to the terminal.")
]
ChatOption = Annotated[str, typer.Option(help="The name of the chat: each one is a conversation of its own.")]
PersonArgument = Annotated[
    str, typer.Argument(help="A platform and an id on it, such as telegram:1234.", metavar="PLATFORM:ID")
]
RoleOption = Annotated[str, typer.Option(help="owner, member or guest.")]
InChatOption = Annotated[
    str | None, typer.Option("--chat", help="Only in the chat of that id; without it, everywhere.")
]
NameOption = Annotated[str, typer.Option("--name", help="What to call them.")]


@app.command()
def run() -> None:
    """Run the gateway in the foreground."""
    from perdure.runtime.gateway import Gateway
    from perdure.tools.descriptor_limit import raise_limit
    from perdure.web.server import serve  # loads the web server

    raise_limit()
    supervisor, make = take_lifeline(), partial(Gateway, launch=take_launch())
    settings = load_settings()
    level = logging.DEBUG if os.environ.get("PERDURE_LOG") == "debug" else logging.INFO
    logs.to_stderr(level, collect_secrets(settings, os.environ))
    ending = asyncio.run(serve(settings, on_ready=_print_ready_line, lifeline=supervisor, make_gateway=make))
    sys.exit(EXIT_RESTART if ending == "restart" else 0)


@app.command()
def up() -> None:
    """Run the gateway and start it again whenever it dies."""
    sys.exit(supervise([sys.executable, "-m", "perdure", "run"]))


@app.command()
def chat(name: ChatOption = "terminal") -> None:
    """Talk to the running gateway, in the terminal."""
    from perdure.terminal_chat import run_chat  # loads the HTTP client

    raise typer.Exit(asyncio.run(run_chat(load_settings(), name)))


@app.command()
def stop() -> None:
    """Stop the running gateway in an orderly way."""
    from perdure import gateway_client

    gateway_client.stop(load_settings())
    typer.echo("The gateway has stopped.")


@app.command()
def restart() -> None:
    """Restart the running gateway in an orderly way."""
    from perdure import gateway_client

    gateway_client.restart(load_settings())
    typer.echo("The gateway has stopped; its supervisor starts it again.")


@app.command()
def status(json: JsonOption = False) -> None:
    """Say how the running gateway is."""
    from perdure import gateway_client

    found = gateway_client.call(load_settings(), "GET", "/api/status")
    typer.echo(format_json(found) if json else "\n".join(found["summary"]))


@app.command()
def sessions(json: JsonOption = False) -> None:
    """List the sessions, and what each waits for."""
    from perdure.operations.inspect import list_sessions, session_line
    from perdure.store.ids import wall_clock

    found = asyncio.run(read_store(load_settings(), lambda store: list_sessions(store, limit=100_000)))
    lines = [session_line(fields, wall_clock()) for fields in found]
    typer.echo(format_json(found) if json else "\n".join(lines) or "There are no sessions yet.")


@app.command()
def why(session: SessionArgument, json: JsonOption = False) -> None:
    """Explain what became of a session's last turn."""
    from perdure.operations.inspect import explain_session as explained
    from perdure.operations.inspect import no_gateway_notice
    from perdure.store.ids import wall_clock

    settings = load_settings()
    lines = asyncio.run(read_store(settings, lambda store: explained(store, session, wall_clock)))
    lines += no_gateway_notice(settings)
    typer.echo(format_json(lines) if json else "\n".join(lines))


@app.command()
def trace(message: MessageArgument, json: JsonOption = False) -> None:
    """Show the whole life of a message."""
    from perdure.operations.inspect import fact_line
    from perdure.operations.inspect import trace_message as traced

    facts = asyncio.run(read_store(load_settings(), lambda store: traced(store, message)))
    typer.echo(format_json(facts) if json else "\n".join(fact_line(fact) for fact in facts))


@app.command()
def resume(session: OptionalSessionArgument = None, everything: AllOption = False) -> None:
    """Go on with what was interrupted or set aside."""
    from perdure import gateway_client

    if everything == (session is not None):
        raise typer.BadParameter("name a session, or say --all")
    if session is None:
        done = gateway_client.call(load_settings(), "POST", "/api/resume")["done"]
        typer.echo("Automatic resume goes on." if done else "Automatic resume was not paused.")
    else:
        _print_outcome(
            gateway_client.run_session_verb(load_settings(), session, "resume"),
            "It goes on.",
            "There is nothing to resume.",
        )


@app.command()
def drop(session: SessionArgument) -> None:
    """Give up a session's interrupted turn."""
    from perdure import gateway_client

    _print_outcome(
        gateway_client.run_session_verb(load_settings(), session, "drop"),
        "Given up.",
        "There is nothing interrupted to give up.",
    )


@app.command()
def suspend(session: SessionArgument) -> None:
    """Set a session aside: it does not go on by itself."""
    from perdure import gateway_client

    _print_outcome(
        gateway_client.run_session_verb(load_settings(), session, "suspend"),
        "Set aside.",
        "It was set aside or closed before.",
    )


@app.command()
def pair(
    code: Annotated[str, typer.Argument(help="The code that they were told, such as ABCD-EFGH.")],
    role: RoleOption = "member",
    chat: Annotated[str, typer.Option(help="here (the chat where they asked) or everywhere.")] = "everywhere",
) -> None:
    """Let in somebody whom the agent does not know yet."""
    if chat not in ("here", "everywhere"):
        raise typer.BadParameter(f"--chat is here or everywhere, not {chat!r}")
    _change_people("pair", code=code, role=role, here=chat == "here")


@people_app.callback()
def people(context: typer.Context, json: JsonOption = False) -> None:
    """List who is known and who asks to be let in, or change that."""
    if context.invoked_subcommand is not None:
        return
    from perdure.operations.people import PeopleVerbs, people_lines
    from perdure.store.ids import wall_clock

    settings = load_settings()
    found = asyncio.run(read_store(settings, lambda store: PeopleVerbs(settings, store).page(limit=100_000)))
    typer.echo(format_json(found) if json else "\n".join(people_lines(found, wall_clock())))


@people_app.command("add")
def add_person(
    who: PersonArgument, role: RoleOption = "member", chat: InChatOption = None, name: NameOption = ""
) -> None:
    """Let somebody in without a code."""
    _change_people("add", who=who, role=role, chat=chat or "", name=name)


@people_app.command("role")
def change_role(
    who: PersonArgument,
    role: Annotated[str, typer.Argument(help="owner, member or guest.")],
    chat: InChatOption = None,
) -> None:
    """Give somebody who is known another role."""
    _change_people("role", who=who, role=role, chat=chat or "")


@people_app.command("remove")
def remove_person(who: PersonArgument, chat: InChatOption = None) -> None:
    """Make somebody unknown: what they wrote and still waits is not answered, and nothing of theirs goes on."""
    _change_people("remove", who=who, chat=chat)


def _change_people(verb: str, **arguments: Any) -> None:
    """Ask the running gateway; if there is none, change the database itself."""
    from perdure import gateway_client
    from perdure.errors import GatewayNotRunning
    from perdure.operations.people import without_gateway

    settings = load_settings()
    try:
        found = gateway_client.call(settings, "POST", f"/api/people/{verb}", arguments)
    except GatewayNotRunning:
        found = msgspec.to_builtins(
            asyncio.run(without_gateway(settings, lambda people: getattr(people, verb)(**arguments)))
        )
    _print_outcome(found["done"], found["said"], found["said"])


@app.command()
def erase(
    session: Annotated[str, typer.Argument(help="The id of a session; or a key, and all that it ever had goes.")],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask first.")] = False,
    json: JsonOption = False,
) -> None:
    """Remove a session for good, with all that belongs to it."""
    from perdure.operations.erasure import erased_line, erasure_preview
    from perdure.runtime.erasure import erase_without_gateway

    settings = load_settings()
    lines = asyncio.run(read_store(settings, lambda store: erasure_preview(store, session)))
    typer.echo("\n".join(lines), err=True)
    if not yes and not _confirm("Erase this for good? [y/N] "):
        typer.echo("Nothing was erased.", err=True)
        raise typer.Exit(1)
    erased = _erase_remotely(settings, session) or asyncio.run(erase_without_gateway(settings, session))
    typer.echo(format_json(erased) if json else "\n".join(["Erased:", *map(erased_line, erased)]))


def _confirm(question: str) -> bool:
    """Ask on standard error: standard output is for what was done."""
    typer.echo(question, err=True, nl=False)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _erase_remotely(settings: Settings, session: str) -> list[ErasedSession]:
    """What the running gateway has erased; nothing if there is no gateway."""
    from perdure import gateway_client
    from perdure.errors import GatewayNotRunning
    from perdure.store.erasure import ErasedSession

    try:
        found = gateway_client.call(settings, "POST", f"/api/sessions/{quote(session, safe='')}/erase")
    except GatewayNotRunning:
        return []
    return msgspec.convert(found["erased"], list[ErasedSession])


@app.command("export")
def export_(
    output: OutputOption = None,
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
    count = asyncio.run(export_to(load_settings(), output, person=person, session=session))
    typer.echo(f"{count} session{'' if count == 1 else 's'} exported.", err=True)


@app.command("import")
def import_(
    file: Annotated[Path, typer.Argument(help="A file that `perdure export` wrote.")], json: JsonOption = False
) -> None:
    """Bring in the sessions of an export."""
    from perdure.operations import import_from

    report = asyncio.run(import_from(load_settings(), file))
    typer.echo(format_json(report) if json else report.to_text())
    raise typer.Exit(1 if report.problems else 0)


@app.command()
def drill(
    kills: Annotated[int, typer.Option(min=1, help="How often to kill.")] = 50,
    seed: Annotated[int | None, typer.Option(min=0, help="Kill at the points of this number again.")] = None,
    sweep: Annotated[
        bool, typer.Option("--sweep", help="Kill around store call 1, 2, 3 …, not by chance.")
    ] = False,
    gateway: Annotated[str, typer.Option(metavar="MODULE:OBJECT", help="Kill what this makes instead.")] = "",
    json: JsonOption = False,
) -> None:
    """Put the promises to the test: kill a gateway again and again, and count.

    It runs conversations in a temporary home, with your configuration, but with the offline model and on
    simulated platforms: your database, your files and your chats are not touched. It kills the gateway with
    SIGKILL, starts it again, and counts what was lost, repeated or doubled; if anything was, it ends with code 1.
    """
    from perdure.testing.drill.cli import run_drill_command

    if sweep and seed is not None:
        raise typer.BadParameter("a sweep leaves nothing to chance: say --seed or --sweep, not both")
    raise typer.Exit(
        run_drill_command(load_settings(), kills=kills, seed=seed, sweep=sweep, gateway=gateway, json=json)
    )


@app.command()
def token() -> None:
    """Print the login token of this home."""
    from perdure.web.auth.token import ensure_token

    typer.echo(ensure_token(load_settings().home))


@app.command()
def version() -> None:
    """Print the version."""
    typer.echo(f"perdure {__version__}")


@config_app.command("check")
def check() -> None:
    """Check the configuration, and that platforms, model, tools and agent are there; say where all is kept."""
    from perdure.runtime.agent_factory import AgentFactory
    from perdure.runtime.configured_platforms import configured_adapters

    settings = load_settings()
    AgentFactory(settings, [adapter.name for adapter in configured_adapters(settings)])
    typer.echo(f"The configuration is fine. Home: {settings.home}")


def _print_outcome(done: bool, yes: str, no: str) -> None:
    typer.echo(yes if done else no)
    if not done:
        raise typer.Exit(1)


async def read_store(settings: Settings, query: Callable[[Store], Awaitable[T]]) -> T:
    """Look at the database, whether or not a gateway is at work on it."""
    from perdure.store.api import Store
    from perdure.store.backends.read_only import open_read_only

    store = Store(await open_read_only(settings.store_url))
    try:
        return await query(store)
    finally:
        await store.close()


def format_json(value: Any) -> str:
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()


def _print_ready_line(url: str) -> None:
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

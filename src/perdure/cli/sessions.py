"""`perdure sessions`, `why`, `trace`, `resume`, `drop`, `suspend`, `erase`, `export` and `import`."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from urllib.parse import quote

import msgspec
import typer

from perdure.cli.output import (
    AllOption,
    JsonOption,
    MessageArgument,
    OptionalSessionArgument,
    OutputOption,
    SessionArgument,
    print_json,
    print_lines,
    print_outcome,
    read_store,
)
from perdure.config import Settings, load_settings
from perdure.core import texts

if TYPE_CHECKING:
    from perdure.store.erasure import ErasedSession


app = typer.Typer(rich_markup_mode=None)


@app.command()
def sessions(json: JsonOption = False) -> None:
    """List the sessions, and what each waits for."""
    from perdure.operations.inspect import list_sessions, session_line
    from perdure.store.ids import wall_clock

    found = asyncio.run(read_store(load_settings(), lambda store: list_sessions(store, limit=100_000)))
    lines = [session_line(fields, wall_clock()) for fields in found]
    if json:
        print_json(found)
    else:
        print_lines(*lines or [texts.cli.NO_SESSIONS])


@app.command()
def why(session: SessionArgument, json: JsonOption = False) -> None:
    """Explain what became of a session's last turn."""
    from perdure.operations.inspect import explain_session, no_gateway_notice
    from perdure.store.ids import wall_clock

    settings = load_settings()
    lines = asyncio.run(read_store(settings, lambda store: explain_session(store, session, wall_clock)))
    lines += no_gateway_notice(settings)
    if json:
        print_json(lines)
    else:
        print_lines(*lines)


@app.command()
def trace(message: MessageArgument, json: JsonOption = False) -> None:
    """Show the whole life of a message."""
    from perdure.operations.inspect import fact_line, trace_message

    facts = asyncio.run(read_store(load_settings(), lambda store: trace_message(store, message)))
    if json:
        print_json(facts)
    else:
        print_lines(*map(fact_line, facts))


@app.command()
def resume(session: OptionalSessionArgument = None, everything: AllOption = False) -> None:
    """Continue what was interrupted or suspended."""
    from perdure.cli import gateway_client

    if everything == (session is not None):
        raise typer.BadParameter(texts.cli.SESSION_OR_ALL)
    if session is None:
        done = gateway_client.call(load_settings(), "POST", "/api/resume")["done"]
        print_lines(texts.cli.RESUME_UNPAUSED if done else texts.cli.RESUME_NOT_PAUSED)
    else:
        _run_verb("resume", session)


@app.command()
def drop(session: SessionArgument) -> None:
    """Give up a session's interrupted turn."""
    _run_verb("drop", session)


@app.command()
def suspend(session: SessionArgument) -> None:
    """Set a session aside: it does not go on by itself."""
    _run_verb("suspend", session)


def _run_verb(verb: str, session: str) -> None:
    """Let the running gateway carry out a verb on a session, and print what came of it."""
    from perdure.cli import gateway_client

    done = gateway_client.run_session_verb(load_settings(), session, verb)
    print_outcome(done, *texts.cli.VERB_OUTCOMES[verb])


@app.command()
def erase(
    session: Annotated[str, typer.Argument(help="The id of a session; or a key, and all that it ever had goes.")],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask first.")] = False,
    json: JsonOption = False,
) -> None:
    """Remove a session for good, with all that belongs to it."""
    from perdure.operations.personal_data import erased_line, erasure_preview
    from perdure.runtime.erasure import erase_without_gateway

    settings = load_settings()
    lines = asyncio.run(read_store(settings, lambda store: erasure_preview(store, session, settings.home)))
    print_lines(*lines, err=True)
    if not yes and not _confirm(texts.cli.CONFIRM_ERASURE):
        print_lines(texts.cli.NOTHING_ERASED, err=True)
        raise typer.Exit(1)
    erased = _erase_remotely(settings, session) or asyncio.run(erase_without_gateway(settings, session))
    if json:
        print_json(erased)
    else:
        print_lines(texts.cli.ERASED, *map(erased_line, erased))


def _confirm(question: str) -> bool:
    """Ask on standard error: standard output is for what was done."""
    sys.stderr.write(question)
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _erase_remotely(settings: Settings, session: str) -> list[ErasedSession]:
    """Let the running gateway erase a session; the list of what it erased is empty if there is no gateway."""
    from perdure.cli import gateway_client
    from perdure.errors import GatewayNotRunning
    from perdure.store.erasure import ErasedSession

    try:
        found = gateway_client.call(settings, "POST", f"/api/sessions/{quote(session, safe='')}/erase")
    except GatewayNotRunning:
        return []
    return msgspec.convert(found["erased"], list[ErasedSession])


@app.command("export")
def export_sessions(
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
    from perdure.operations.transfer import export_to

    if person is not None and session is not None:
        raise typer.BadParameter(texts.cli.PERSON_OR_SESSION)
    count = asyncio.run(export_to(load_settings(), output, person=person, session=session))
    print_lines(texts.cli.sessions_exported(count), err=True)


@app.command("import")
def import_sessions(
    file: Annotated[Path, typer.Argument(help="A file that `perdure export` wrote.")], json: JsonOption = False
) -> None:
    """Bring in the sessions of an export."""
    from perdure.operations.transfer import import_from

    report = asyncio.run(import_from(load_settings(), file))
    if json:
        print_json(report)
    else:
        print_lines(*report.to_lines())
    raise typer.Exit(1 if report.problems else 0)

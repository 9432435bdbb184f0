"""`perdure export` and `import`: sessions as JSON, out of a database and into one."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from perdure.cli.output import JsonOption, OutputOption, print_json, print_lines
from perdure.config import load_settings
from perdure.core import texts

app = typer.Typer(rich_markup_mode=None)


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

"""`perdure doctor`: looks at this installation, and says what is wrong or dangerous; it changes nothing."""

from __future__ import annotations

import typer

from perdure.cli.output import JsonOption, print_json, print_lines
from perdure.config import load_settings
from perdure.core import texts

app = typer.Typer(rich_markup_mode=None)


@app.callback()
def root() -> None:
    """Accept the group: Typer would make an app with one command that command itself."""


@app.command()
def doctor(json: JsonOption = False) -> None:
    """Say how well this installation is protected; the exit code is 1 if something is wrong."""
    from perdure.cli.diagnosis import examine

    found = examine(load_settings())
    wrong = [each for each in found if each.level in ("wrong", "danger")]
    if json:
        print_json({"well": not wrong, "findings": found})
    else:
        print_lines(*(texts.cli.doctor_line(each.level, each.about, each.text) for each in found))
        print_lines(texts.cli.doctor_problems(len(wrong)) if wrong else texts.cli.DOCTOR_ALL_WELL)
    if wrong:
        raise typer.Exit(1)

"""The command line: the table of commands, each loaded from its module when it is called, and the entry point."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, NoReturn

import typer
from typer.core import TyperGroup

from perdure.core.printable_text import printable_text
from perdure.errors import PerdureError

if TYPE_CHECKING:
    from typer._click import Command, Context

COMMANDS = {  # the module of each command, in the order of the help
    "run": "gateway",
    "up": "gateway",
    "chat": "chat",
    "stop": "gateway",
    "restart": "gateway",
    "drain": "gateway",
    "status": "gateway",
    "sessions": "sessions",
    "why": "sessions",
    "trace": "sessions",
    "resume": "sessions",
    "drop": "sessions",
    "suspend": "sessions",
    "pair": "people",
    "erase": "sessions",
    "export": "sessions",
    "import": "sessions",
    "drill": "drill",
    "doctor": "doctor",
    "token": "token",
    "version": "configuration",
    "config": "configuration",
    "people": "people",
}


class LazyGroup(TyperGroup):
    """The commands of `COMMANDS`; calling one imports its module alone."""

    def list_commands(self, ctx: Context) -> list[str]:
        """Every command, in the order of the help."""
        return list(COMMANDS)

    def get_command(self, ctx: Context, cmd_name: str) -> Command | None:
        """Load a command from its module; None if there is no such command."""
        if cmd_name not in COMMANDS:
            # Typer suggests the nearest of the commands that it holds itself.
            self.commands = {name: _load_command(name) for name in COMMANDS}
            return None
        return _load_command(cmd_name)


def _load_command(name: str) -> Command:
    module = import_module(f"perdure.cli.{COMMANDS[name]}")
    return typer.main.get_group(module.app).commands[name]


app = typer.Typer(
    cls=LazyGroup,
    help="An LLM agent on chat platforms whose conversations survive whatever happens to the process.",
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


@app.callback()
def root() -> None:
    """Accept the group: Typer refuses an app that has neither a command nor a callback of its own."""


def main() -> NoReturn:
    """Run the command that was typed. Errors that we foresaw become a sentence and an exit code."""
    try:
        _run_command()
    except PerdureError as error:
        typer.echo(printable_text(f"perdure: {error}"), err=True)
        sys.exit(getattr(error, "exit_code", 1))
    sys.exit(0)


def _run_command() -> None:
    # Typer needs a quarter of a second to learn of options; the commands that start a gateway have none.
    if sys.argv[1:] in (["run"], ["up"]):
        from perdure.cli.gateway import run, up

        {"run": run, "up": up}[sys.argv[1]]()
    else:
        app()

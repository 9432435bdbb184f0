"""The command line's table of commands.

Drives `cli/__init__`.
"""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module

import pytest
import typer.main

from perdure.cli import COMMANDS


@pytest.mark.parametrize("module", sorted(set(COMMANDS.values())))
def test_table_names_exactly_the_commands_of_a_module(module: str) -> None:
    found = typer.main.get_group(import_module(f"perdure.cli.{module}").app).commands
    assert set(found) == {name for name, of in COMMANDS.items() if of == module}


def test_commands_load_only_their_own_module() -> None:
    script = (
        "import sys\n"
        "from perdure.cli import main\n"
        "sys.argv = ['perdure', 'version']\n"
        "try: main()\n"
        "except SystemExit: print(*sorted(name for name in sys.modules if name.startswith('perdure.cli.')))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "perdure.cli.configuration perdure.cli.output"


def test_the_table_is_read_without_the_configuration() -> None:
    script = "import sys, perdure.cli; print('perdure.config' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"

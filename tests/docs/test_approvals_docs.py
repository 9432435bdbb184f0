"""The page about approvals tells which commands are dangerous as the code has it.

Drives `tools/shell_policy`.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable

import pytest

from perdure.tools.shell_policy.parser import MAX_CHARACTERS
from perdure.tools.shell_policy.policy import assess_command, make_policy
from perdure.tools.shell_policy.rules import DANGEROUS_COMMANDS, HARMLESS_COMMANDS, RISK_EXAMPLES
from support.markdown import page

APPROVALS = page("docs/approvals.md")


def _code(text: str) -> str:
    """Some code in a cell of a table; with backquotes in it, or a bar, it needs care."""
    return f"`{' '.join(text.split())}`".replace("|", "\\|")


def seen() -> str:
    rows = [f"| {why} | {_code(example)} |" for why, example in RISK_EXAMPLES.items()]
    return "\n".join(["| why | for example |", "|---|---|", *rows])


def dangers() -> str:
    rows = [
        f"| {why} | {', '.join(map(_code, patterns.split(';')))} |" for why, patterns in DANGEROUS_COMMANDS.items()
    ]
    return "\n".join(["| why | commands |", "|---|---|", *rows])


def harmless() -> str:
    return ", ".join(map(_code, HARMLESS_COMMANDS.split(";")))


GENERATED: dict[str, Callable[[], str]] = {"seen": seen, "dangers": dangers, "harmless": harmless}


@pytest.mark.parametrize("region", GENERATED)
def test_generated_part_is_what_its_source_says(region: str) -> None:
    fresh = page("docs/approvals.md").rendered(region, GENERATED[region]())
    if os.environ.get("PERDURE_WRITE_DOCS"):
        APPROVALS.path.write_text(fresh)
    assert APPROVALS.text == fresh, "docs/approvals.md is out of date; CONTRIBUTING.md says how to write it anew"


def test_page_says_which_removals_ask() -> None:
    told = [
        code for code in APPROVALS.code() if code.startswith("rm ") and "build" not in code and "**" not in code
    ]
    assert [line for line in told if not assess_command(line).dangerous] == ["rm notes.txt"]
    assert len(told) > 4


def test_page_says_how_long_a_line_may_be() -> None:
    assert f"{MAX_CHARACTERS:,} characters" in APPROVALS.text


def test_example_of_patterns_does_what_the_page_says() -> None:
    _, example = APPROVALS.blocks("toml")
    tools = tomllib.loads(example)["tools"]
    ours = make_policy(tools["dangerous"], tools["safe"])
    for line in ("terraform plan", "kubectl scale web", "rm -rf build dist", "git push --force origin main"):
        assert assess_command(line, ours).dangerous, line
    for line in ("rm -rf build", "git push --force origin topic-1", "kubectl get pods"):
        assert not assess_command(line, ours).dangerous, line

"""The page about approvals tells which commands are dangerous as the code has it."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable

import pytest

from perdure.tools.danger import judge, rules
from perdure.tools.judging.commandline import LENGTH
from perdure.tools.judging.dangers import EXAMPLES, HARMLESS, PATTERNS
from support.markdown import page

APPROVALS = page("docs/approvals.md")


def _code(text: str) -> str:
    """Some code in a cell of a table; with backquotes in it, or a bar, it needs care."""
    return f"`{' '.join(text.split())}`".replace("|", "\\|")


def seen() -> str:
    rows = [f"| {why} | {_code(example)} |" for why, example in EXAMPLES.items()]
    return "\n".join(["| why | for example |", "|---|---|", *rows])


def dangers() -> str:
    rows = [f"| {why} | {', '.join(map(_code, patterns.split(';')))} |" for why, patterns in PATTERNS.items()]
    return "\n".join(["| why | commands |", "|---|---|", *rows])


def harmless() -> str:
    return ", ".join(map(_code, HARMLESS.split(";")))


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
    assert [line for line in told if not judge(line).dangerous] == ["rm notes.txt"]
    assert len(told) > 4


def test_page_says_how_long_a_line_may_be() -> None:
    assert f"{LENGTH:,} characters" in APPROVALS.text


def test_example_of_patterns_does_what_the_page_says() -> None:
    [example] = APPROVALS.blocks("toml")
    tools = tomllib.loads(example)["tools"]
    ours = rules(tools["dangerous"], tools["safe"])
    for line in ("terraform plan", "kubectl scale web", "rm -rf build dist", "git push --force origin main"):
        assert judge(line, ours).dangerous, line
    for line in ("rm -rf build", "git push --force origin topic-1", "kubectl get pods"):
        assert not judge(line, ours).dangerous, line

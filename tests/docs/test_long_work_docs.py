"""The page on long work: its example runs, its commands are there, and its lines are those that end a goal.

Drives `core/commands` and `tools/function_tools`.
"""

from __future__ import annotations

import re
from typing import Any

import pytest

from perdure.core.commands import GOAL_GIVEN_UP, GOAL_REACHED, read_background_request
from perdure.core.tools import Use
from perdure.tools.function_tools import as_tool
from support.markdown import page

pytestmark = pytest.mark.anyio

PAGE = page("docs/long-work.md")


async def test_example_gives_signs_of_life() -> None:
    [example] = PAGE.blocks("python")
    names: dict[str, Any] = {"__name__": "garden"}
    exec(compile(example, "docs/long-work.md", "exec", dont_inherit=True), names)  # noqa: S102 reason: that is the test
    signs: list[None] = []
    use = Use({"depth": 3}, "turn:call", lambda: signs.append(None))
    assert await as_tool(names["dig"]).run(use) == "a hole"
    assert len(signs) == 3


def test_commands_for_work_in_the_background_are_understood() -> None:
    told = re.findall(r"`(?:/background )?([a-z]+) N(?: TEXT)?`", PAGE.text)
    assert set(told) == {"stop", "answer", "resume", "drop", "approve", "deny", "why"}
    assert all(read_background_request(f"{verb} 1") for verb in told)


def test_lines_that_end_a_goal_are_told() -> None:
    assert {GOAL_REACHED, GOAL_GIVEN_UP} <= set(PAGE.code())

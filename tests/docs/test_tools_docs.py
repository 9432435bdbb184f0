"""The page on tools: its example works as it says, and its tables leave nothing out.

Drives `tools`.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from perdure.core.effects import Effect
from perdure.core.tools import Use
from perdure.errors import ToolFailed
from perdure.runtime.process_records import DeferredProcessRecords
from perdure.tools.fetch import fetch_tool
from perdure.tools.file_tools import file_tools
from perdure.tools.function_tools import as_tool
from perdure.tools.process_tool import process_tool
from perdure.tools.shell import CommandEnvironment, shell_tool
from perdure.tools.tool_commands import give_commands
from support.chat_folders import shared_folders
from support.markdown import page
from support.sandbox import NO_SANDBOX

pytestmark = pytest.mark.anyio

TOOLS = page("docs/tools.md")


@pytest.fixture
def kitchen() -> dict[str, Any]:
    """The examples, run one after the other."""
    names: dict[str, Any] = {"__name__": "kitchen"}
    for each in TOOLS.blocks("python"):
        exec(compile(each, "docs/tools.md", "exec", dont_inherit=True), names)  # noqa: S102 reason: that is the test
    return names


def rows(heading: str) -> list[list[str]]:
    """The rows of the table whose first column has this heading."""
    found = re.search(rf"^\| {heading} \|.*\n\|[-|]+\|\n((?:\|.*\n)+)", TOOLS.text, re.MULTILINE)
    assert found is not None, f"there is no table of each {heading}"
    return [[cell.strip() for cell in row.split("|")[1:-1]] for row in found[1].splitlines()]


async def test_example_works_as_the_page_says(kitchen: dict[str, Any]) -> None:
    price, order = as_tool(kitchen["price"]), as_tool(kitchen["order"])
    assert kitchen["price"]("cake", 2) == 8
    assert await price.run(Use({"item": "cake", "count": 2}, "k")) == "8"
    assert price.description == "Tell what something costs."
    assert price.schema["properties"]["count"]["description"] == "How many."
    with pytest.raises(ToolFailed, match=r"`item`: invalid enum value 'coffee'.*\"coffee\".*cake"):
        await price.run(Use({"item": "coffee"}, "k"))
    for _ in range(2):
        assert await order.run(Use({"item": "tea"}, "turn:call")) == "One tea is on its way."
    assert kitchen["ORDERS"] == {"turn:call": "tea"}
    with pytest.raises(ToolFailed, match="There is no ham today"):
        await order.run(Use({"item": "ham"}, "k"))
    assert (price.effect, order.effect, order.timeout) == (Effect.PURE, Effect.KEYED, 20)


async def test_example_with_a_command_works_as_the_page_says(kitchen: dict[str, Any], tmp_path: Path) -> None:
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    (workspace / "notes").write_text("tea\ncake\ntea and cake\n")
    work = CommandEnvironment(tmp_path / "keepers", shared_folders(workspace), lambda: NO_SANDBOX)
    counting = give_commands(as_tool(kitchen["count_lines"]), work)
    assert await counting.run(Use({"pattern": "tea"}, "turn:call")) == "2"


def test_table_has_the_tools_as_they_are(tmp_path: Path) -> None:
    there = {
        f"`{tool.name}`": [", ".join(f"`{name}`" for name in tool.schema["properties"]), f"`{tool.effect}`"]
        for tool in [
            shell_tool(
                CommandEnvironment(tmp_path, shared_folders(tmp_path), lambda: NO_SANDBOX),
                DeferredProcessRecords(),
            ),
            process_tool(tmp_path, DeferredProcessRecords()),
            *file_tools(shared_folders(tmp_path)),
            fetch_tool(),
        ]
    }
    told = {name: row for name, *row, _ in rows("tool")}
    assert {name: told.get(name) for name in there} == there


def test_table_has_every_effect() -> None:
    assert {name.strip("`") for name, *_ in rows("effect")} == set(Effect)

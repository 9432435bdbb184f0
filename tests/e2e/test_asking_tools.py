"""Tools that the operator makes ask: built-in ones, those of MCP servers, one's own, and the offline model's.

Drives `tools/tool_registry` and `runtime/tool_factory`.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from perdure.config import load_settings
from perdure.errors import ConfigurationError
from perdure.runtime.agent_factory import AgentFactory
from perdure.testing.providers import LocalProvider, Says, Wish
from support.approvals import ApprovalScenario
from support.chat_folders import workspaces
from support.mcp_process import SHOWN_IN_SANDBOX, stdio_command
from support.shell_commands import home_without_commands

pytestmark = pytest.mark.anyio

OWN_TOOL = """
import perdure

@perdure.tool
def pay(euros: int) -> str:
    return f"paid {euros}"
"""
SERVERS = {
    "TOOLS__MCP": json.dumps({"calc": {"command": stdio_command(), "startup_timeout": 60}}),
    "TOOLS__SANDBOX_READ": SHOWN_IN_SANDBOX,
}


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    yield from home_without_commands(tmp_path)


@asynccontextmanager
async def wishing(
    home: Path, *wishes: Wish, **settings: str
) -> AsyncIterator[tuple[ApprovalScenario, LocalProvider]]:
    """A gateway whose model wishes for these calls at once, and then says that it is done."""
    with LocalProvider() as provider:
        provider.script = [Says(calls=wishes), Says("All done.")]
        model = {"MODEL__NAME": "openai:local", "MODEL__BASE_URL": provider.openai_url}
        scenario = ApprovalScenario(home, None, MODEL__API_KEY=provider.key, **model, **settings)
        async with scenario.serving():
            yield scenario, provider


def results(provider: LocalProvider) -> list[str]:
    return [each["content"] for each in provider.requests[-1].messages if each["role"] == "tool"]


async def test_b107_built_in_tool_asks_when_it_is_named_even_with_approvals_off(home: Path) -> None:
    wish = Wish("write_file", {"path": "a", "content": "b"})
    async with wishing(home, wish, TOOLS__APPROVALS="off", TOOLS__ASK="write_*") as (scenario, _):
        approve, _ = await scenario.ask("go")
        [asked] = scenario.platform.replies()
        assert "write_file(path='a', content='b')" in asked
        assert "the operator wants to be asked about `write_*`" in asked
        assert not workspaces(home), "nothing was written yet"
        scenario.platform.press(approve.command)
        await scenario.wait_for_replies("All done.")
        assert (scenario.commands.workspace / "a").read_text() == "b"
        assert (await scenario.started_entry()).approved_by == "ann"


async def test_b107_every_tool_of_an_mcp_server_asks_when_the_server_is_named(home: Path) -> None:
    wish = Wish("calc_add", {"a": 2, "b": 3})
    async with wishing(home, wish, TOOLS__ASK="mcp:calc", **SERVERS) as (scenario, provider):
        _, deny = await scenario.ask("go")
        assert "calc_add(a=2, b=3)" in scenario.platform.replies()[0]
        scenario.platform.press(deny.command)
        await scenario.wait_for_replies("All done.")
        assert "not run: the user denied it" in results(provider)[0]


def add_own_tool(home: Path) -> None:
    home.mkdir(exist_ok=True)
    (home / "asking_pay.py").write_text(OWN_TOOL)


async def test_b107_tool_of_ones_own_asks_and_the_approval_is_for_that_call_alone(home: Path) -> None:
    add_own_tool(home)
    wishes = [Wish("pay", {"euros": 5}), Wish("pay", {"euros": 7})]
    async with wishing(home, *wishes, TOOLS__ASK="pay", TOOLS__LOAD="asking_pay:pay") as (scenario, provider):
        approve, _ = await scenario.ask("go")
        assert "pay(euros=5)" in scenario.platform.replies()[0]
        scenario.platform.press(approve.command)
        _, deny = await scenario.wait_for_question(2)
        assert "pay(euros=7)" in scenario.platform.replies()[-1]
        scenario.platform.press(deny.command)
        await scenario.wait_for_replies("All done.")
        assert results(provider)[0] == "paid 5"
        assert "denied" in results(provider)[1]


async def test_b107_tool_of_the_offline_model_asks_when_it_is_named(home: Path) -> None:
    scenario = ApprovalScenario(home, TOOLS__ASK="once")
    async with scenario.serving():
        approve, _ = await scenario.ask("step look 0s\nonce send 0s\nsay: Sent.")
        assert "once(" in scenario.platform.replies()[0]
        scenario.platform.press(approve.command)
        await scenario.wait_for_replies("Sent.")


async def test_b107_every_tool_asks_when_approvals_are_for_all(home: Path) -> None:
    async with wishing(home, Wish("read_file", {"path": "a"}), TOOLS__APPROVALS="all") as (scenario, _):
        approve, _ = await scenario.ask("go")
        assert "every call here needs approval" in scenario.platform.replies()[0]
        scenario.platform.press(approve.command)
        await scenario.wait_for_replies("All done.")


async def test_b107_question_of_the_model_needs_no_approval_when_approvals_are_for_all(home: Path) -> None:
    wish = Wish("clarify", {"question": "Which one?"})
    async with wishing(home, wish, TOOLS__APPROVALS="all", TOOLS__ASK="*") as (scenario, _):
        scenario.platform.write("go")
        await scenario.wait_for_replies("Which one?")
        scenario.platform.write("The left one.")
        await scenario.wait_for_replies("All done.")


@pytest.mark.parametrize("pattern", ["write_fiel", "mcp:pay", "nothing_*"])
def test_pattern_that_names_no_tool_is_refused_with_those_that_there_are(tmp_path: Path, pattern: str) -> None:
    environment = {"PERDURE_MODEL__NAME": "openai:x", "PERDURE_MODEL__API_KEY": "k", "PERDURE_TOOLS__ASK": pattern}
    with pytest.raises(ConfigurationError, match="there is no such tool") as refused:
        AgentFactory(load_settings(tmp_path, environment), ["web"])
    assert "write_file" in refused.value.hint

"""Commands that tools of one's own run through the gateway: in its sandbox, and over its death.

Drives `tools/tool_commands`, `tools/shell`, `runtime/tool_factory` and `runtime/command_cleanup`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from perdure.core.tools import Use
from perdure.errors import ToolFailed
from perdure.testing import SimulatedPlatform
from perdure.testing.providers import LocalProvider, Says, Wish
from support.inprocess import crashing_at_the_end, serving
from support.keepers import end_all_commands
from support.waiting import eventually

pytestmark = pytest.mark.anyio

OWN_TOOLS = """
import perdure

@perdure.tool(effect="pure")
async def count(line: str, use: perdure.Use) -> list:
    done = await use.run_command(line, timeout=60)
    return [done.exit_code, done.output, done.problem]

@perdure.tool
async def leave(use: perdure.Use) -> str:
    import asyncio
    task = asyncio.create_task(use.run_command("echo $$ > begun; sleep 300"))
    import pathlib
    while not (found := list(pathlib.Path(__file__).parent.glob("**/begun"))):
        await asyncio.sleep(0.02)
    task.cancel()
    return "left"
"""


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    for _ in end_all_commands(tmp_path / "home" / "keepers"):
        yield tmp_path / "home"


@pytest.fixture
def provider() -> Iterator[LocalProvider]:
    with LocalProvider() as provider:
        yield provider


def settings(home: Path, provider: LocalProvider, name: str) -> dict[str, str]:
    """A model of the test's own, and the tools above; a module is loaded once in this process."""
    home.mkdir(exist_ok=True)
    (home / f"{name}.py").write_text(OWN_TOOLS)
    model = {"MODEL__NAME": "openai:local", "MODEL__BASE_URL": provider.openai_url, "MODEL__API_KEY": provider.key}
    return model | {"TOOLS__LOAD": f"{name}:count,{name}:leave"}


def result(provider: LocalProvider) -> str:
    [said] = [each["content"] for each in provider.requests[-1].messages if each["role"] == "tool"]
    return str(said)


async def test_b185_command_of_a_tool_runs_in_the_sandbox(home: Path, provider: LocalProvider) -> None:
    line = f"cat {home}/token; touch made; ls; exit 3"
    provider.script = [Says(calls=(Wish("count", {"line": line}),)), Says("Done.")]
    platform = SimulatedPlatform()
    async with serving(home, platform, **settings(home, provider, "counting_in_the_sandbox")):
        platform.write("go")
        await eventually("it is done", lambda: "Done." in platform.replies())
    assert json.loads(result(provider)) == [3, f"cat: {home}/token: No such file or directory\nmade\n", ""]
    [order] = (home / "keepers").glob("*/order.json")
    assert json.loads(order.read_text())["sandbox"]["layer"] == "bwrap"


async def test_b185_b184_command_of_a_tool_outlives_the_gateway_and_runs_once(
    home: Path, provider: LocalProvider
) -> None:
    line = "echo ran >> runs; until [ -e go ]; do sleep 0.02; done; cat runs"
    provider.script = [Says(calls=(Wish("count", {"line": line}),)), Says("Done.")]
    platform = SimulatedPlatform()
    with_tools = settings(home, provider, "counting_over_a_crash")
    async with crashing_at_the_end(home, platform, **with_tools):
        platform.write("go")
        [runs] = await eventually("it runs", lambda: list(home.glob("chats/*/workspace/runs")))
    runs.with_name("go").touch()
    async with serving(home, platform, **with_tools):
        await eventually("it is done", lambda: "Done." in platform.replies())
    assert json.loads(result(provider)) == [0, "ran\n", ""]


async def test_b185_command_is_stopped_when_the_call_of_its_tool_is_over(
    home: Path, provider: LocalProvider
) -> None:
    provider.script = [Says(calls=(Wish("leave", {}),)), Says("Done.")]
    platform = SimulatedPlatform()
    async with serving(home, platform, **settings(home, provider, "leaving_a_command")):
        platform.write("go")
        await eventually("it is done", lambda: "Done." in platform.replies())
        [ended] = await eventually("it is stopped", lambda: list((home / "keepers").glob("*/result.json")))
        assert json.loads(ended.read_text())["stopped"]


async def test_tool_outside_of_a_gateway_runs_no_commands() -> None:
    with pytest.raises(ToolFailed, match="only in a gateway a tool can run commands"):
        await Use({}, "key").run_command("echo", timeout=5)

"""Which calls wait for a person's word, and in which order it is asked for.

Drives `agents/tool_calls` and `tools/shell_policy`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from perdure.testing.providers import LocalProvider, Says, Wish
from support.approvals import DONE, ApprovalScenario
from support.shell_commands import home_without_commands

pytestmark = pytest.mark.anyio


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    yield from home_without_commands(tmp_path)


@asynccontextmanager
async def wishing(
    home: Path, *wishes: Wish, **settings: str
) -> AsyncIterator[tuple[ApprovalScenario, LocalProvider]]:
    """A scenario whose model wishes for these calls at once, and then says that it is done."""
    with LocalProvider() as provider:
        provider.script = [Says(calls=wishes), Says("All done.")]
        model = {"MODEL__NAME": "openai:local", "MODEL__BASE_URL": provider.openai_url}
        yield ApprovalScenario(home, None, MODEL__API_KEY=provider.key, **model, **settings), provider


def results(provider: LocalProvider) -> list[str]:
    return [each["content"] for each in provider.requests[-1].messages if each["role"] == "tool"]


async def test_b66_two_guarded_calls_are_asked_for_one_after_the_other(home: Path) -> None:
    calls = [Wish("shell", {"command": f"echo {name} >> {name}; echo {name}"}) for name in ("one", "two")]
    async with wishing(home, *calls, TOOLS__APPROVALS="all") as (scenario, provider):
        async with scenario.serving():
            first, _ = await scenario.ask("go")
            assert len(scenario.platform.replies()) == 1
            scenario.platform.press(first.command)
            _, second = await scenario.wait_for_question(2)
            assert first.command.split(".")[-1] != second.command.split(".")[-1]
            assert (scenario.commands.workspace / "one").exists(), "what was approved is done before more is asked"
            scenario.platform.press(second.command)
            await scenario.wait_for_replies("All done.")
        assert results(provider)[0] == "exit code 0\none"
        assert "not run: the user denied it" in results(provider)[1]
    assert not (scenario.commands.workspace / "two").exists()


async def test_calls_that_need_no_word_are_done_before_it_is_asked_for_the_others(home: Path) -> None:
    calls = [Wish("shell", {"command": "echo ran >> runs"}), Wish("write_file", {"path": "a", "content": "b"})]
    async with wishing(home, *calls, TOOLS__APPROVALS="off", TOOLS__ASK="shell") as (scenario, provider):
        async with scenario.serving():
            approve, _ = await scenario.ask("go")
            assert (scenario.commands.workspace / "a").read_text() == "b"
            assert scenario.runs() == 0
            scenario.platform.press(approve.command)
            await scenario.wait_for_replies("All done.")
        assert results(provider)[0] == "exit code 0\n(no output)"
    assert scenario.runs() == 1


async def test_every_command_is_asked_for_when_the_settings_say_all(home: Path) -> None:
    scenario = ApprovalScenario(home, TOOLS__APPROVALS="all")
    async with scenario.serving():
        await scenario.ask("run: echo ran >> runs")
        assert "every command here needs approval" in scenario.platform.replies()[0]
        assert scenario.runs() == 0


async def test_no_command_is_asked_for_when_the_settings_say_off(home: Path) -> None:
    scenario = ApprovalScenario(home, TOOLS__APPROVALS="off")
    async with scenario.serving():
        scenario.platform.write("run: echo ran >> runs; rm -rf ./nothing; echo hello")
        await scenario.wait_for_replies(DONE)
    assert scenario.runs() == 1

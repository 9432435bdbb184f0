"""The page on agents of one's own: its examples run in a real gateway, through a restart, and its suite passes.

Drives `agents/custom` and `testing/agent_conformance`.
"""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from perdure.agents import FunctionAgent
from perdure.core.journal import ToolEnded
from perdure.plugins import load_object
from perdure.testing import Crash, RecordingTurn, SimulatedPlatform
from support.inprocess import crashing_at_the_end, serving
from support.markdown import ROOT, page
from support.waiting import eventually

pytestmark = pytest.mark.anyio

PAGE = page("docs/writing-an-agent.md")
EXAMPLES = ROOT / "examples"
QUESTION = "That makes 3 €. Shall I order it?\n(Yes / No)"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home directory with the examples in it; what they write goes there too."""
    for example in EXAMPLES.glob("*.py"):
        shutil.copy(example, tmp_path)
        monkeypatch.delitem(sys.modules, example.stem, raising=False)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.chdir(tmp_path)
    return tmp_path


async def replies(platform: SimulatedPlatform, *texts: str) -> None:
    await eventually(f"the chat sees {texts}", lambda: platform.replies() == list(texts))


def test_page_shows_the_examples_as_they_are() -> None:
    shown = PAGE.blocks("python")
    assert shown[:2] == [(EXAMPLES / f"{name}.py").read_text() for name in ("own_agent", "pydantic_agent")]


async def test_own_agent_orders_once_though_the_gateway_dies_while_it_waits(home: Path) -> None:
    platform, settings = SimulatedPlatform(), {"AGENT__ENTRYPOINT": "own_agent:answer"}
    async with crashing_at_the_end(home, platform, **settings):
        platform.write("tea")
        await replies(platform, QUESTION)
    async with serving(home, platform, **settings):
        platform.write("yes")
        await replies(platform, QUESTION, "Your tea is number 1.")
        platform.write("soup")
        await replies(platform, QUESTION, "Your tea is number 1.", "We have tea and coffee.")
    assert (home / "orders.txt").read_text() == "tea 3\n"


async def test_own_agent_says_so_when_it_dies_while_it_orders(home: Path) -> None:
    agent = FunctionAgent(load_object("own_agent:answer", home))
    turn = RecordingTurn("tea")
    with pytest.raises(Exception, match="waits for an answer"):
        await agent.run(turn)
    turn = turn.answered("Yes").crash(when=lambda entry: isinstance(entry, ToolEnded))
    with pytest.raises(Crash):
        await agent.run(turn)
    reply = await agent.run(turn.resumed())
    assert reply.text.startswith("I was cut off while I ordered")
    assert (home / "orders.txt").read_text() == "tea 3\n"


class Clerk:
    """A model for the clerk. It can be held, so that the gateway dies while it thinks."""

    def __init__(self) -> None:
        self.thinking = asyncio.Event()
        self.go = asyncio.Event()
        self.requests = 0

    async def __call__(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        self.requests += 1
        said = sum(isinstance(message, ModelResponse) for message in messages)
        if said == 0:
            return ModelResponse([ToolCallPart("count_stock", {"item": "tea"}), mail("ann", "Tea is here.")])
        self.thinking.set()
        await self.go.wait()
        return ModelResponse([TextPart("Ann knows that there is tea.")])


def mail(to: str, text: str) -> ToolCallPart:
    return ToolCallPart("send_mail", {"to": to, "text": text})


async def test_pydantic_agent_sends_one_mail_though_the_gateway_dies_while_it_thinks(home: Path) -> None:
    platform, settings = SimulatedPlatform(), {"AGENT__ENTRYPOINT": "pydantic_agent:agent"}
    clerk: Any = load_object("pydantic_agent:clerk", home)
    model = Clerk()
    with clerk.override(model=FunctionModel(model)):
        async with crashing_at_the_end(home, platform, **settings):
            platform.write("Tell Ann about the tea.")
            await eventually("the model thinks about the results", model.thinking.is_set)
        model.go.set()
        async with serving(home, platform, **settings):
            await replies(platform, "Ann knows that there is tea.")
    assert (home / "mails.txt").read_text() == "ann: Tea is here.\n"
    assert model.requests == 3, "the response that was cut off is asked for again, and no other"


def test_suite_on_the_page_passes(tmp_path: Path) -> None:
    (tmp_path / "test_mine.py").write_text(PAGE.blocks("python")[2])
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "error", "test_mine.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "11 passed" in done.stdout, done.stdout + done.stderr

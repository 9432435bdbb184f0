"""What `agent.entrypoint` may name, and what is said about everything else.

Drives `agents/custom/entrypoint`.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pydantic_ai
import pytest
from pydantic_ai.models.test import TestModel

from perdure.agents import FunctionAgent, PydanticAgent, Reply, StepContext, TurnContext
from perdure.agents.custom.entrypoint import as_agent
from perdure.errors import ConfigurationError
from perdure.plugins import load_object


class Own:
    async def run(self, context: TurnContext) -> Reply:
        return Reply("Hello.")


class Synchronous:
    def run(self, context: TurnContext) -> Reply:
        return Reply("Hello.")


async def answer(context: StepContext) -> str:
    return "Hello."


async def two(context: StepContext, more: str) -> str:
    return more


def plain(context: StepContext) -> str:
    return "Hello."


def test_agent_is_taken_as_it_is() -> None:
    own = Own()
    assert as_agent(own, "mine:own") is own


def test_function_and_agent_of_pydantic_ai_are_made_agents() -> None:
    assert isinstance(as_agent(answer, "mine:answer"), FunctionAgent)
    assert isinstance(as_agent(pydantic_ai.Agent(), "mine:agent"), PydanticAgent)


@pytest.mark.parametrize(
    ("found", "came"),
    [
        pytest.param(Own, "it is the class Own", id="a class"),
        pytest.param(Synchronous(), "it is a Synchronous whose `run` is not async", id="a synchronous agent"),
        pytest.param(two, "it takes (context", id="two parameters"),
        pytest.param(plain, "it is a function that is not async", id="a plain function"),
        pytest.param("text", "it is a str", id="a text"),
        pytest.param(3, "it is an int", id="a number"),
        pytest.param(TestModel(), "it is a TestModel of pydantic-ai", id="a model"),
    ],
)
def test_anything_else_is_refused_with_what_it_is(found: Any, came: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        as_agent(found, "mine:thing")
    assert caught.value.message.startswith(f"'mine:thing' is no agent: {came}")
    assert caught.value.hint


@pytest.mark.parametrize(
    ("source", "name", "says"),
    [
        pytest.param(None, "nowhere_at_all:agent", "cannot be imported: No module named", id="no module"),
        pytest.param("x = 1", "half_made:agent", "half_made has no agent", id="no object"),
        pytest.param("x = (", "not_python:agent", "cannot be imported: SyntaxError: ", id="no Python"),
        pytest.param("1 / 0", "breaks:agent", "cannot be imported: ZeroDivisionError: ", id="an error"),
    ],
)
def test_module_that_cannot_be_loaded_is_told(source: str | None, name: str, says: str, tmp_path: Path) -> None:
    if source is not None:
        (tmp_path / f"{name.partition(':')[0]}.py").write_text(source)
    with pytest.raises(ConfigurationError) as caught:
        load_object(name, tmp_path)
    assert says in caught.value.message
    sys.path.remove(str(tmp_path))


def test_function_agent_loads_no_pydantic(tmp_path: Path) -> None:
    """Only who has an agent of pydantic-ai waits for it."""
    (tmp_path / "mine.py").write_text("async def answer(context): return 'Hello.'")
    program = (
        "import sys, pathlib; from perdure.agents.custom.entrypoint import as_agent; from "
        "perdure.plugins import load_object; "
        "as_agent(load_object('mine:answer', pathlib.Path.cwd()), 'mine:answer'); "
        "sys.exit(any(name.split('.')[0] in ('pydantic', 'pydantic_ai') for name in sys.modules))"
    )
    subprocess.run([sys.executable, "-c", program], cwd=tmp_path, check=True)

"""Refusals that both services share, heard through the real models.

Drives `testing/providers/dialect`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest
from pydantic_ai.exceptions import ModelAuthenticationError, ModelNotFoundError, ModelRequestRejectedError
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, ToolCallPart, ToolReturnPart
from pydantic_ai.models import Model

from perdure.testing import LocalProvider
from support.models import ask, connect, offer_tools, prompt

pytestmark = pytest.mark.anyio

READ = offer_tools("read_file")


@pytest.fixture(scope="module")
def listening() -> Iterator[LocalProvider]:
    with LocalProvider() as provider:
        yield provider


@pytest.fixture
def provider(listening: LocalProvider) -> LocalProvider:
    listening.script = []
    listening.requests.clear()
    return listening


@pytest.fixture(params=["openai", "anthropic"])
async def model(provider: LocalProvider, request: pytest.FixtureRequest) -> AsyncIterator[Model[object]]:
    async with connect(provider, request.param) as connected:
        yield connected


async def test_wrong_key_is_refused(provider: LocalProvider, model: Model[object]) -> None:
    async with connect(provider, model.system, key="stolen") as thief:
        with pytest.raises(ModelAuthenticationError, match="401"):
            await ask(thief)
    assert provider.requests[-1].outcome == "refused"


async def test_unknown_model_is_refused(provider: LocalProvider, model: Model[object]) -> None:
    async with connect(provider, model.system, name="missing") as missing:
        with pytest.raises(ModelNotFoundError, match="404"):
            await ask(missing)


async def test_call_without_a_result_is_refused_through_the_models(
    provider: LocalProvider, model: Model[object]
) -> None:
    called = ModelResponse(parts=[ToolCallPart("read_file", {}, tool_call_id="c1")])
    with pytest.raises(ModelRequestRejectedError, match="no result right after"):
        await ask(model, [prompt(), called, prompt()], READ)


async def test_second_result_of_a_call_is_refused_through_the_models(
    provider: LocalProvider, model: Model[object]
) -> None:
    called = ModelResponse(parts=[ToolCallPart("read_file", {}, tool_call_id="c1")])
    twice = ModelRequest(parts=[ToolReturnPart("read_file", "x", tool_call_id="c1") for _ in range(2)])
    with pytest.raises(ModelRequestRejectedError, match=r"a result already|two results"):
        await ask(model, [prompt(), called, twice], READ)


async def test_tool_that_was_known_before_is_no_mistake(provider: LocalProvider, model: Model[object]) -> None:
    called = ModelResponse(parts=[ToolCallPart("gone", {}, tool_call_id="c1")])
    history: list[ModelMessage] = [
        prompt(),
        called,
        ModelRequest(parts=[ToolReturnPart("gone", "x", tool_call_id="c1")]),
    ]
    with pytest.raises(ModelRequestRejectedError, match="no tool is named 'gone'; known are: read_file"):
        await ask(model, history, READ)
    provider.known_tools.add("gone")
    try:
        assert (await ask(model, history, READ)).finish_reason == "stop"
    finally:
        provider.known_tools.clear()

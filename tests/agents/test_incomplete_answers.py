"""Half an answer is never an answer: every client against a provider whose bytes are cut at every place.

Drives `agents/providers/completeness`, `agents/providers/retries` and `agents/builtin_agent`.

Drives agents/endings, agents/tries and whatever reads a provider's bytes: the built-in agent with its own clients,
the built-in agent with the clients of the SDKs, and an agent of pydantic-ai. A new client is one of `CLIENTS`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pydantic_ai
import pytest
from pydantic_ai.models import Model
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider

from perdure.agents import Agent, PydanticAgent
from perdure.agents.builtin_agent import Bounds, BuiltinAgent
from perdure.agents.providers.models import ProviderModel, open_model
from perdure.agents.providers.retries import MAX_INCOMPLETE_RETRIES
from perdure.core import texts
from perdure.core.effects import Effect
from perdure.core.journal import ModelAnswered, ModelFailed, ToolEnded, ToolStarted
from perdure.core.tools import Tool, Use
from perdure.errors import ModelError
from perdure.testing import RecordingTurn
from perdure.testing.providers import Says, Wish
from support.models import EMPTY_TLS_CONTEXT
from support.wire_provider import CUTS, FRAMINGS, Plays, WireProvider

pytestmark = pytest.mark.anyio

HALF = Says("Transfer 100 euros to Ann but do NOT do it today.")
CALL = Says("Let me see.", calls=[Wish("pay", {"to": "Ann", "sum": 100})])
BOUNDS = Bounds(retry_backoff_seconds=0.001)
APIS = ("openai", "anthropic")


@pytest.fixture(scope="module")
def listening() -> Iterator[WireProvider]:
    with WireProvider() as provider:
        yield provider


@pytest.fixture
def provider(listening: WireProvider) -> WireProvider:
    listening.requests.clear()
    return listening


@pytest.fixture(params=["whole", "streamed"])
def streamed(request: pytest.FixtureRequest) -> bool:
    return bool(request.param == "streamed")


@pytest.fixture
def paid() -> list[str]:
    """What the agent's tool did."""
    return []


Opened = Callable[[WireProvider, str, list[str]], Any]


@asynccontextmanager
async def built_in(provider: WireProvider, api: str, paid: list[str]) -> AsyncIterator[Agent]:
    url = provider.openai_url if api == "openai" else provider.anthropic_url
    model = open_model(f"{api}:local", base_url=url, api_key="a-local-key")
    yield looping(model, paid)
    await model.close()


@asynccontextmanager
async def with_sdk_client(provider: WireProvider, api: str, paid: list[str]) -> AsyncIterator[Agent]:
    """The built-in agent with a model as pydantic-ai makes it, which is how every other provider is reached."""
    async with sdk_model(provider, api) as inner:
        yield looping(ProviderModel(f"{api}:local", inner), paid)


def looping(model: ProviderModel, paid: list[str]) -> Agent:
    async def pay(use: Use) -> str:
        paid.append(str(use.arguments["to"]))
        return "paid"

    return BuiltinAgent(model, [Tool("pay", "Pays.", pay, Effect.ONCE)], bounds=BOUNDS)


@asynccontextmanager
async def of_pydantic(provider: WireProvider, api: str, paid: list[str]) -> AsyncIterator[Agent]:
    def pay(to: str, sum: int) -> str:  # noqa: A002 reason: the model names it so
        paid.append(to)
        return "paid"

    async with sdk_model(provider, api) as model:
        yield PydanticAgent(pydantic_ai.Agent(model, tools=[pay]), bounds=BOUNDS)


@asynccontextmanager
async def sdk_model(provider: WireProvider, api: str) -> AsyncIterator[Model[Any]]:
    async with httpx2.AsyncClient(verify=EMPTY_TLS_CONTEXT, timeout=60) as client:
        if api == "openai":
            service = OpenAIProvider(provider.openai_url, "key", http_client=client)
            service.client.max_retries = 0  # else the SDK asks again by itself, before anybody knows
            yield OpenAIChatModel("local", provider=service)
        else:
            claude = AnthropicProvider(base_url=provider.anthropic_url, api_key="key", http_client=client)
            claude.client.max_retries = 0
            yield AnthropicModel("local", provider=claude)


CLIENTS: dict[str, Opened] = {"built in": built_in, "sdk client": with_sdk_client, "pydantic": of_pydantic}
EVERY_CLIENT = [(name, api) for name in CLIENTS for api in APIS]
Run = Callable[..., Awaitable[tuple[str, RecordingTurn]]]


@pytest.fixture(params=EVERY_CLIENT, ids=lambda client: " ".join(client))
def run(request: pytest.FixtureRequest, provider: WireProvider, paid: list[str]) -> Run:
    name, api = request.param

    async def run(*script: Plays, streamed: bool, turn: RecordingTurn | None = None) -> tuple[str, RecordingTurn]:
        """Let the client's agent answer, against this script: what the person reads, and the turn."""
        provider.script = list(script)
        turn = turn or RecordingTurn("Pay Ann.", shows=streamed)
        async with CLIENTS[name](provider, api, paid) as agent:
            try:
                return (await agent.run(turn)).text, turn
            except ModelError as error:
                return error.message, turn

    return run


def failed(turn: RecordingTurn) -> list[ModelFailed]:
    return [entry for entry in turn.entries if isinstance(entry, ModelFailed)]


def answers(turn: RecordingTurn) -> list[str]:
    return [entry.text for entry in turn.entries if isinstance(entry, ModelAnswered)]


HALVES = [pytest.param(HALF, id="text"), pytest.param(CALL, id="call")]


@pytest.mark.parametrize("cut", CUTS)
async def test_b69_half_an_answer_is_discarded_and_asked_for_again(
    provider: WireProvider, run: Run, paid: list[str], cut: Any, streamed: bool
) -> None:
    """The call of a half answer is not run, its words are nowhere, and each failed try is on record."""
    for framing in FRAMINGS:
        provider.requests.clear()
        script = [Plays(CALL, cut, framing), Plays(HALF, cut, framing), Plays(Says("right"))]
        text, turn = await run(*script, streamed=streamed)
        assert (text, paid) == ("right", []), framing
        assert "Transfer" not in "".join(answers(turn)), framing
        tries = [(entry.step, entry.number, entry.broke_off) for entry in failed(turn)]
        assert tries == [(1, 1, True), (1, 2, True)], framing
        assert all(entry.said and entry.wait is not None for entry in failed(turn)), framing
        assert len(provider.requests) == 3, framing


@pytest.mark.parametrize("half", HALVES)
async def test_b69_answer_without_a_finish_reason_is_half_an_answer(
    provider: WireProvider, run: Run, paid: list[str], half: Says, streamed: bool
) -> None:
    """A whole body without a finish reason; a stream that is closed properly, without any sign of its end."""
    silent = Plays(half, "before the finish") if streamed else Plays(half, unfinished=True)
    text, turn = await run(*[silent] * 9, streamed=streamed)
    assert text.startswith(texts.agents.PROVIDER_INCOMPLETE)
    assert texts.agents.NO_FINISH_REASON in text
    assert f"Asked {1 + MAX_INCOMPLETE_RETRIES} times" in text
    assert len(provider.requests) == 1 + MAX_INCOMPLETE_RETRIES
    assert [entry.number for entry in failed(turn)] == [1, 2, 3, 4]
    assert failed(turn)[-1].wait is None
    assert (paid, answers(turn)) == ([], [])


@pytest.mark.parametrize("framing", ["closed", "chunked", "short length"])
async def test_b69_mark_that_ends_a_stream_is_an_end(
    provider: WireProvider, run: Run, paid: list[str], framing: Any
) -> None:
    call, text = Plays(CALL, framing=framing, unfinished=True), Plays(HALF, framing=framing, unfinished=True)
    said, turn = await run(call, text, streamed=True)
    assert said == HALF.text
    assert paid == ["Ann"]
    assert failed(turn) == []


@pytest.mark.parametrize("framing", ["closed", "chunked", "short length"])
async def test_b69_whole_answer_counts_however_its_body_is_framed(
    provider: WireProvider, run: Run, paid: list[str], framing: Any, streamed: bool
) -> None:
    said, turn = await run(Plays(CALL, framing=framing), Plays(HALF, framing=framing), streamed=streamed)
    assert said == HALF.text
    assert paid == ["Ann"]
    assert failed(turn) == []


async def test_b69_length_ends_a_text_and_is_told(provider: WireProvider, run: Run, streamed: bool) -> None:
    said, turn = await run(Plays(Says("Once upon a", finish="length")), streamed=streamed)
    assert said == texts.turns.model_reply("Once upon a", cut=True)
    assert texts.turns.ANSWER_TRUNCATED in said
    assert failed(turn) == []


async def test_b69_length_never_ends_a_tool_call(
    provider: WireProvider, run: Run, paid: list[str], streamed: bool
) -> None:
    cut = Says(calls=CALL.calls, finish="length")
    text, turn = await run(Plays(cut), Plays(Says("right")), streamed=streamed)
    assert (text, paid) == ("right", [])
    assert [entry.said for entry in failed(turn)] == [texts.agents.incomplete_call("length")]
    assert not any(isinstance(entry, ToolStarted | ToolEnded) for entry in turn.entries)


async def test_b69_tries_are_counted_on_after_a_restart(provider: WireProvider, run: Run, streamed: bool) -> None:
    """Two tries before the crash, and two behind it: four in all."""
    broken = Plays(HALF, "before the finish")
    turn = RecordingTurn("Pay Ann.", shows=streamed)
    turn.write(*[ModelFailed(1, "local", number, "broken", None, 1, broke_off=True) for number in (1, 2)])
    text, turn = await run(*[broken] * 9, streamed=streamed, turn=turn.resumed())
    assert [entry.number for entry in failed(turn)] == [1, 2, 3, 4]
    assert len(provider.requests) == 2
    assert "Asked 4 times" in text


async def test_b69_empty_answer_is_told_in_words(provider: WireProvider, run: Run, streamed: bool) -> None:
    text, _ = await run(*[Plays(Says(""))] * 9, streamed=streamed)
    assert "empty answer" in text or "makes no sense" in text

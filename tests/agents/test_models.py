"""Models of real providers, through their real SDKs, against local servers that are as strict as the real ones.

Drives `agents/providers/models`, `agents/providers/message_codec` and `agents/providers/window_probe`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from itertools import pairwise
from typing import Any, get_args

import pytest
from pydantic_ai.messages import ModelResponse, TextPart, ThinkingPart, ToolCallPart
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider

from perdure.agents.api import ModelRequest
from perdure.agents.providers import message_codec
from perdure.agents.providers.models import MAX_ANSWER_CHARS, ProviderModel, open_model
from perdure.agents.providers.retries import MAX_INCOMPLETE_RETRIES, MAX_REQUESTS, ask_with_retries
from perdure.agents.providers.window_probe import MAX_PROBES
from perdure.core import texts
from perdure.core.conversation import AssistantMessage, Message, NoteMessage, ToolMessage, UserMessage
from perdure.core.journal import ModelAnswered, TokenUsage, ToolCall
from perdure.core.tools import Tool, Use
from perdure.errors import ConfigurationError, ContextTooLong, ModelCallFailed, ModelError
from perdure.testing import RecordingTurn
from perdure.testing.providers import (
    CutsOff,
    Fails,
    Floods,
    Hangs,
    LocalProvider,
    NeverEnds,
    Says,
    Window,
    Wish,
)
from perdure.testing.providers import Usage as Cost
from perdure.testing.providers.context_window import ServerKind
from support.waiting import eventually

pytestmark = pytest.mark.anyio

APIS = ("openai", "anthropic")


@pytest.fixture
def provider() -> Iterator[LocalProvider]:
    with LocalProvider() as provider:
        yield provider


@pytest.fixture(params=APIS)
def api(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture(params=["whole", "streamed"])
def streamed(request: pytest.FixtureRequest) -> bool:
    return bool(request.param == "streamed")


Open = Callable[..., ProviderModel]


@pytest.fixture
async def opened(provider: LocalProvider) -> AsyncIterator[Open]:
    """Opens models of the local provider; they are closed after the test."""
    models: list[ProviderModel] = []

    def opened(api: str, model: str = "local", **more: Any) -> ProviderModel:
        url = provider.openai_url if api == "openai" else provider.anthropic_url
        models.append(open_model(f"{api}:{model}", base_url=url, api_key=provider.key, **more))
        return models[-1]

    yield opened
    for model in models:
        await model.close()


async def look(use: Use) -> str:
    raise AssertionError("a model only wishes")


LOOK = Tool("look", "Looks around.", look, schema={"type": "object", "properties": {"at": {"type": "string"}}})


def asking(*messages: Message, tools: tuple[Tool, ...] = (LOOK,), **more: Any) -> ModelRequest:
    return ModelRequest(messages or [UserMessage("hello")], 1, tools=tools, system_prompt="Be kind.", **more)


class Ears:
    def __init__(self) -> None:
        self.heard: list[str] = []

    def __call__(self, text: str) -> None:
        self.heard.append(text)


async def respond(model: ProviderModel, streamed: bool, request: ModelRequest | None = None) -> ModelAnswered:
    return await tried(model, Ears() if streamed else None, request)


async def tried(
    model: ProviderModel, hear: Ears | None = None, request: ModelRequest | None = None
) -> ModelAnswered:
    """The answer, asked for as the built-in agent does it."""
    once = partial(model.respond, request or asking(), hear)
    return await ask_with_retries(RecordingTurn(), 1, model.name, once, 0.001)


# ── answers ─────────────────────────────────────────────────────────────────────────────────────────────────


async def test_answer_is_journalled_with_its_end_and_its_cost(
    provider: LocalProvider, opened: Open, api: str, streamed: bool
) -> None:
    provider.script = [Says("good day", usage=Cost(12, 7))]
    answer = await respond(opened(api), streamed)
    assert answer == ModelAnswered(1, "good day", (), "stop", TokenUsage(12, 7))
    [asked] = provider.requests
    assert asked.streamed is streamed
    assert asked.tools == ["look"]
    assert "Be kind." in str(asked.body)


async def test_answer_is_heard_while_it_grows(provider: LocalProvider, opened: Open, api: str) -> None:
    hanging = Hangs(after=2)
    provider.script = [hanging]
    ears = Ears()
    answering = asyncio.create_task(opened(api).respond(asking(), ears))
    await eventually("what came is heard", lambda: ears.heard[-1:] == ["one two "])
    hanging.release()
    assert (await answering).text == ears.heard[-1] == "one two three four five"
    assert all(later.startswith(earlier) for earlier, later in pairwise(ears.heard))


async def test_wishes_get_ids_of_ours(provider: LocalProvider, opened: Open, api: str, streamed: bool) -> None:
    """Providers reuse theirs; ours are unique in their turn."""
    wishes = [Wish("look", {"at": "a"}, id="same"), Wish("look", {"at": "b"}, id="other")]
    provider.script = [Says("Let me see.", calls=wishes)]
    answer = await respond(opened(api), streamed)
    assert answer.text == "Let me see."
    assert answer.calls == (ToolCall("c1.1", "look", {"at": "a"}), ToolCall("c1.2", "look", {"at": "b"}))
    assert answer.finish == "tool_call"


CALLS = (ToolCall("c1.1", "look", {"at": "a"}), ToolCall("c1.2", "look", {}))
TOLD: list[Message] = [
    NoteMessage("[Gateway note: in short]"),
    UserMessage("first"),
    AssistantMessage("", CALLS),
    ToolMessage("c1.1", "look", "", "ok"),
    ToolMessage("c1.2", "look", texts.tool_calls.OUTCOME_UNKNOWN, "unknown"),
    AssistantMessage("done"),
    UserMessage("second"),
    NoteMessage("[Gateway note: cut off]"),
    AssistantMessage("Let me see.", CALLS[:1]),
    ToolMessage("c1.1", "look", "seen", "ok"),
]
"""The same ids in two turns, notes in a row, a result without words, an answer behind calls."""


async def test_b64_conversation_with_notes_and_results_is_taken_by_every_provider(
    provider: LocalProvider, opened: Open, api: str, streamed: bool
) -> None:
    answer = await respond(opened(api), streamed, asking(*TOLD))
    assert provider.refusals == []
    assert answer.text == "ok"
    sent = str(provider.requests[0].messages)
    for text in ("in short", "first", "second", "outcome unknown", "cut off", "seen", texts.phrases.NO_OUTPUT):
        assert text in sent, text


async def test_request_is_the_one_that_the_sdk_would_make(
    provider: LocalProvider, opened: Open, streamed: bool
) -> None:
    alike = OpenAICompatibleProvider("openai", base_url=provider.openai_url, api_key=provider.key)
    theirs = ProviderModel("openai:local", OpenAIChatModel("local", provider=alike))
    for model in (opened("openai"), theirs):
        await respond(model, streamed, asking(*TOLD))
    await theirs.close()
    ours, made_by_sdk = provider.requests
    assert ours.body == made_by_sdk.body


async def test_arguments_that_are_no_json_come_back_as_a_problem(
    provider: LocalProvider, opened: Open, api: str, streamed: bool
) -> None:
    provider.script = [Says(calls=[Wish("look", '{"at": ')])]
    [call] = (await respond(opened(api), streamed)).calls
    # Whole answers of Anthropic hold objects, never text: there nothing can be malformed.
    assert call.problem.startswith("the arguments are no JSON object") or (api, streamed) == ("anthropic", False)


@pytest.mark.parametrize(
    ("api", "finish", "kept"),
    [
        ("openai", "length", "length"),
        ("openai", "content_filter", "content_filter"),
        ("anthropic", "max_tokens", "length"),
        ("anthropic", "refusal", "content_filter"),
        ("anthropic", "stop_sequence", "stop"),
    ],
)
async def test_b45_every_spelling_of_an_end_is_understood(
    provider: LocalProvider, opened: Open, api: str, finish: str, kept: str, streamed: bool
) -> None:
    provider.script = [Says("as far as", finish=finish)]
    assert (await respond(opened(api), streamed)).finish == kept


# ── what goes wrong ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "failure",
    [
        pytest.param(Fails(429, retry_after=0.001), id="too many requests"),
        pytest.param(Fails(500), id="a problem of its own"),
        pytest.param(Fails(503), id="not there"),
        pytest.param(Fails(529), id="overloaded"),
        pytest.param(CutsOff(after=0), id="cut off before the first word"),
        pytest.param(CutsOff(after=2), id="cut off in the middle"),
    ],
)
async def test_what_may_pass_is_asked_again(
    provider: LocalProvider, opened: Open, api: str, streamed: bool, failure: Fails | CutsOff
) -> None:
    """A half-streamed response is discarded; the SDKs' own retries are off, so each try is one request."""
    provider.script = [failure, failure, Says("at last")]
    answer = await respond(opened(api), streamed)
    assert answer.text == "at last"
    assert len(provider.requests) == 3


async def test_half_of_a_stream_is_never_part_of_the_answer(
    provider: LocalProvider, opened: Open, api: str
) -> None:
    provider.script = [CutsOff(after=2, of=Says("wrong words here")), Says("right")]
    ears = Ears()
    answer = await tried(opened(api), ears)
    assert answer.text == "right"
    assert ears.heard[-1] == "right"


@pytest.mark.parametrize(
    ("failure", "told", "tries"),
    [
        pytest.param(
            Fails(429, retry_after=0.001, message="Slow down."),
            texts.agents.provider_failed(texts.agents.PROVIDER_BUSY, 429, "Slow down.", MAX_REQUESTS),
            MAX_REQUESTS,
            id="too many requests",
        ),
        pytest.param(
            Fails(500, message="Oh."),
            texts.agents.provider_failed(texts.agents.PROVIDER_SERVER_ERROR, 500, "Oh.", MAX_REQUESTS),
            MAX_REQUESTS,
            id="a problem of its own",
        ),
        pytest.param(CutsOff(), texts.agents.PROVIDER_INCOMPLETE, 1 + MAX_INCOMPLETE_RETRIES, id="cut off"),
    ],
)
async def test_b88_what_never_passes_is_told_after_some_tries_with_what_the_provider_said(
    provider: LocalProvider, opened: Open, api: str, failure: Fails | CutsOff, told: str, tries: int
) -> None:
    provider.script = [failure] * 20
    with pytest.raises(ModelError) as caught:
        await respond(opened(api), streamed=False)
    assert caught.value.message.startswith(told)
    assert f"Asked {tries} times." in caught.value.message
    assert len(provider.requests) == tries


async def test_b88_provider_that_cannot_be_reached_is_told(provider: LocalProvider, api: str) -> None:
    model = open_model(f"{api}:local", base_url="http://127.0.0.1:9", api_key="a-local-key")
    with pytest.raises(ModelError) as caught:
        await respond(model, streamed=False)
    await model.close()
    assert caught.value.message.startswith(texts.agents.PROVIDER_UNREACHABLE)
    assert f"Asked {MAX_REQUESTS} times." in caught.value.message


async def test_provider_that_wants_to_be_left_alone_for_long_has_failed(
    provider: LocalProvider, opened: Open, api: str
) -> None:
    provider.script = [Fails(429, retry_after=3600)]
    with pytest.raises(ModelError, match="too much to do"):
        await respond(opened(api), streamed=False)
    assert len(provider.requests) == 1


async def test_key_that_is_refused_is_told_without_the_key(
    provider: LocalProvider, opened: Open, api: str
) -> None:
    model = opened(api)
    provider.key = "another"
    with pytest.raises(ModelError) as caught:
        await respond(model, streamed=False)
    said = "This is not the key of the local provider."
    assert caught.value.message == texts.agents.provider_failed(texts.agents.PROVIDER_KEY_REFUSED, 401, said, 1)
    assert len(provider.requests) == 1


async def test_unknown_model_is_told_by_name(
    provider: LocalProvider, opened: Open, api: str, streamed: bool
) -> None:
    with pytest.raises(ModelError) as caught:
        await respond(opened(api, "missing"), streamed)
    assert caught.value.message.startswith(f"{texts.agents.unknown_model('missing')} (HTTP 404: ")


async def test_refusal_is_told_in_the_words_of_the_provider(
    provider: LocalProvider, opened: Open, api: str, streamed: bool
) -> None:
    provider.script = [Fails(400, message="No poems on Sundays.")]
    with pytest.raises(ModelError, match="refused the request: No poems on Sundays"):
        await respond(opened(api), streamed)
    assert len(provider.requests) == 1


@pytest.mark.parametrize(
    ("api", "failure"),
    [
        ("openai", Fails(400, message="Too many tokens.", code="context_length_exceeded")),
        ("anthropic", Fails(400, message="prompt is too long: 210000 tokens > 200000 maximum")),
    ],
)
async def test_conversation_that_is_too_long_is_its_own_error(
    provider: LocalProvider, opened: Open, api: str, failure: Fails
) -> None:
    provider.script = [failure]
    with pytest.raises(ContextTooLong):
        await respond(opened(api), streamed=False)


LONG = ModelRequest([UserMessage("a word " * 1200)], 1)


@pytest.mark.parametrize("server", get_args(ServerKind))
@pytest.mark.parametrize("tells", [True, False], ids=["told", "untold"])
async def test_b87_request_that_is_too_long_teaches_the_window(
    provider: LocalProvider, opened: Open, streamed: bool, server: ServerKind, tells: bool
) -> None:
    """By what the server tells when it is asked, or by its refusal; what it says itself is not sent to it."""
    provider.window = Window(1024, server, tells)
    model = opened("openai")
    with pytest.raises(ContextTooLong):
        await respond(model, streamed, LONG)
    told = tells and server != "openai"
    assert len(provider.requests) == (0 if told else 1)
    assert model.window == 1024 if told or server not in ("ollama", "openai") else 1024 < model.window < 2500


async def test_b87_refusal_inside_a_stream_is_known(provider: LocalProvider, opened: Open) -> None:
    """As LM Studio says it: under a status of success, and without a code."""
    said = "The number of tokens to keep from the initial prompt is greater than the context length"
    provider.script = [Fails(500, message=f"{said} (n_keep: 3000>= n_ctx: 2048).", after=0)]
    model = opened("openai")
    with pytest.raises(ContextTooLong):
        await respond(model, streamed=True)
    assert model.window == 2048
    assert len(provider.requests) == 1


async def test_b87_server_that_is_full_while_it_answers_is_not_asked_the_same_again(
    provider: LocalProvider, opened: Open, streamed: bool
) -> None:
    provider.script = [Fails(500, message="Context size has been exceeded.", type="server_error")]
    with pytest.raises(ContextTooLong):
        await respond(opened("openai"), streamed)
    assert len(provider.requests) == 1


async def test_b87_short_request_asks_for_no_window(provider: LocalProvider, opened: Open) -> None:
    await respond(opened("openai"), streamed=False)
    assert provider.looked_up == []


async def test_b87_server_that_tells_nothing_is_asked_a_few_times_and_answers_all_the_same(
    provider: LocalProvider, opened: Open
) -> None:
    model = opened("openai")
    for _ in range(MAX_PROBES + 2):
        assert (await respond(model, False, LONG)).text == "ok"
    assert provider.looked_up == ["/v1/models", "/props", "/api/ps", "/api/v0/models"] * MAX_PROBES
    assert model.window == 128_000


# ── bounds ──────────────────────────────────────────────────────────────────────────────────────────────────


async def test_b69_stream_without_end_is_given_up_at_some_length(
    provider: LocalProvider, opened: Open, api: str
) -> None:
    provider.script = [NeverEnds(piece="again " * 1000)]
    with pytest.raises(ModelCallFailed) as caught:
        await opened(api).respond(asking(), Ears())
    assert caught.value.said == texts.agents.answer_too_long(MAX_ANSWER_CHARS)
    assert caught.value.broke_off


async def test_stream_that_falls_silent_is_given_up(provider: LocalProvider, opened: Open, api: str) -> None:
    hanging = Hangs(after=1)
    provider.script = [hanging] * 20
    with pytest.raises(ModelError) as caught:
        await tried(opened(api, silence=0.2), Ears())
    hanging.release()
    assert caught.value.message.startswith(texts.agents.PROVIDER_TIMED_OUT)


async def test_answer_that_takes_too_long_in_all_is_given_up(
    provider: LocalProvider, opened: Open, api: str
) -> None:
    provider.script = [NeverEnds(pause=0.01)] * 20
    with pytest.raises(ModelError) as caught:
        await opened(api, timeout=0.3).respond(asking(), Ears())
    assert caught.value.message == texts.agents.PROVIDER_TIMED_OUT


async def test_flood_within_bounds_is_taken_whole(
    provider: LocalProvider, opened: Open, api: str, streamed: bool
) -> None:
    provider.script = [Floods(5_000)]
    assert len((await respond(opened(api), streamed)).text) >= 5_000 * len("flood")


async def test_more_calls_than_allowed_are_left_out_and_told(
    provider: LocalProvider, opened: Open, api: str
) -> None:
    provider.script = [Says(calls=[Wish("look", {"at": str(n)}) for n in range(message_codec.MAX_CALLS + 3)])]
    answer = await respond(opened(api), streamed=False)
    assert len(answer.calls) == message_codec.MAX_CALLS
    assert texts.tool_calls.too_many(3) in answer.text


async def test_arguments_that_are_too_large_come_back_as_a_problem(
    provider: LocalProvider, opened: Open, api: str
) -> None:
    provider.script = [Says(calls=[Wish("look", {"at": "x" * (message_codec.MAX_ARGUMENT_BYTES + 1)})])]
    [call] = (await respond(opened(api), streamed=False)).calls
    assert call.arguments == {}
    assert "smaller pieces" in call.problem


async def test_cancelling_ends_the_request(
    provider: LocalProvider, opened: Open, api: str, streamed: bool
) -> None:
    hanging = Hangs(after=0)
    provider.script = [hanging]
    task = asyncio.create_task(respond(opened(api), streamed))
    await asyncio.to_thread(hanging.reached.wait)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    hanging.release()
    assert len(provider.requests) == 1


# ── what a provider wants back ──────────────────────────────────────────────────────────────────────────────


def thoughtful(provider_name: str) -> ModelResponse:
    return ModelResponse(
        [
            ThinkingPart("hm", signature="signed", provider_name=provider_name),
            TextPart("Let me see."),
            ToolCallPart("look", {"at": "a"}, "theirs"),
        ],
        provider_name=provider_name,
        finish_reason="tool_call",
    )


async def test_thoughts_go_back_to_the_provider_that_signed_them(provider: LocalProvider, opened: Open) -> None:
    answer = message_codec.to_model_answered(1, thoughtful("anthropic"))
    assert answer.native is not None
    told: list[Message] = [
        UserMessage("hello"),
        AssistantMessage(answer.text, answer.calls, answer.native),
        ToolMessage("c1.1", "look", "seen", "ok"),
    ]
    model = opened("anthropic")
    kinds = [
        type(part).__name__ for part in message_codec.to_provider_messages(asking(*told), model._provider)[1].parts
    ]
    assert kinds == ["ThinkingPart", "TextPart", "ToolCallPart"]
    other = opened("openai")
    kinds = [
        type(part).__name__ for part in message_codec.to_provider_messages(asking(*told), other._provider)[1].parts
    ]
    assert kinds == ["TextPart", "ToolCallPart"]


async def test_b65_thoughts_that_a_newer_library_cannot_read_are_left_out(opened: Open) -> None:
    answer = message_codec.to_model_answered(1, thoughtful("anthropic"))
    garbled = (answer.native or {}) | {"parts": [{"part_kind": "telepathy"}]}
    told: list[Message] = [UserMessage("hello"), AssistantMessage("Let me see.", answer.calls, garbled)]
    told.append(ToolMessage("c1.1", "look", "seen", "ok"))
    messages = message_codec.to_provider_messages(asking(*told), opened("anthropic")._provider)
    assert [type(part).__name__ for part in messages[1].parts] == ["TextPart", "ToolCallPart"]


def test_answer_of_words_and_calls_alone_keeps_nothing_more() -> None:
    plain = ModelResponse([TextPart("hi"), ToolCallPart("look", {"at": "a"}, "theirs")], finish_reason="stop")
    assert message_codec.to_model_answered(1, plain).native is None


# ── which one ───────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", ["openai:gpt-5", "anthropic:claude-sonnet-5"])
def test_missing_key_is_told_with_what_to_do(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "ANTHROPIC_API_KEY"):
        monkeypatch.delenv(variable, raising=False)
    with pytest.raises(ConfigurationError) as caught:
        open_model(name)
    variable = f"{name.partition(':')[0].upper()}_API_KEY"
    assert caught.value.message == f"the model {name!r} needs a key, and there is none"
    assert caught.value.hint == f"Set model.api_key, or {variable} in the environment."


def test_usual_variable_of_the_provider_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "from-the-environment")
    assert open_model("anthropic:claude-sonnet-5").name == "anthropic:claude-sonnet-5"


def test_unknown_provider_is_told() -> None:
    with pytest.raises(ConfigurationError, match="'nobody:x' cannot be used"):
        open_model("nobody:x")


def test_provider_whose_library_is_missing_is_told_with_how_to_install_it() -> None:
    with pytest.raises(ConfigurationError) as caught:
        open_model("groq:llama", api_key="x")
    assert "pip install 'pydantic-ai-slim[groq]'" in caught.value.hint


def test_window_of_a_known_model_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    assert open_model("anthropic:claude-sonnet-4-5", api_key="x").window >= 200_000
    assert open_model("openai:nobody-knows", base_url="http://127.0.0.1:1/v1").window == 128_000
    assert open_model("openai:gpt-5", api_key="x", window=5000).window == 5000

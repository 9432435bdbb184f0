"""Our clients against the libraries of the providers: the same requests, and the same reading of every answer.

Drives `agents/providers/openai_chat`, `agents/providers/anthropic_messages`, `agents/providers/tool_schemas`,
`agents/providers/known_models`, `agents/providers/responses` and `agents/providers/failures`.

Where ours differ on purpose, the name of a test says so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from genai_prices.data_snapshot import get_snapshot
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic_ai.messages import ModelMessagesTypeAdapter, ModelResponse
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.profiles.openai import OpenAIJsonSchemaTransformer
from pydantic_ai.providers.anthropic import AnthropicJsonSchemaTransformer, AnthropicProvider

from perdure.agents.api import ModelRequest
from perdure.agents.providers.known_models import anthropic_answer_tokens, known_context_window
from perdure.agents.providers.responses import load_blocks
from perdure.agents.providers.tool_schemas import clean_schema, strict_schema
from perdure.core import texts
from perdure.core.conversation import (
    AssistantMessage,
    AttachedFile,
    Message,
    NoteMessage,
    ToolMessage,
    UserMessage,
)
from perdure.core.journal import TokenUsage, ToolCall, ToolOutcome
from perdure.core.tools import Tool, Use
from perdure.errors import ModelCallFailed
from support.judged_provider import JudgedProvider, http_answer, library_client, our_client
from support.scripted_server import ScriptedServer, run_server

APIS = ("openai", "anthropic")
EXAMPLES = settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(scope="module")
def listening() -> Iterator[JudgedProvider]:
    with JudgedProvider() as provider:
        yield provider


@pytest.fixture
def provider(listening: JudgedProvider) -> JudgedProvider:
    listening.requests.clear()
    return listening


@pytest.fixture(params=APIS)
def api(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture(params=["whole", "streamed"])
def streamed(request: pytest.FixtureRequest) -> bool:
    return bool(request.param == "streamed")


# ── requests ────────────────────────────────────────────────────────────────────────────────────────────────

WORDS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12)
SPOKEN = WORDS.filter(str.strip)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-1000, 1000) | WORDS, lambda inner: st.lists(inner, max_size=2)
)
ARGUMENTS = st.dictionaries(WORDS, VALUES, max_size=3)
OUTCOMES: st.SearchStrategy[ToolOutcome] = st.sampled_from(["ok", "error", "unknown"])
SIGNATURES = st.text("abc=", min_size=1, max_size=8)


@st.composite
def thoughts(draw: st.DrawFn, api: str) -> dict[str, Any]:
    """A thought as the journal stores it."""
    known = {"part_kind": "thinking", "provider_name": api, "content": draw(SPOKEN)}
    if api == "openai":
        return known | {"id": draw(st.sampled_from(["reasoning", "reasoning_content", "content"]))}
    redacted = {"id": "redacted_thinking", "content": ""} if draw(st.booleans()) else {}
    return known | {"signature": draw(SIGNATURES)} | redacted


@st.composite
def answers_of_assistants(draw: st.DrawFn, api: str, calls: tuple[ToolCall, ...]) -> AssistantMessage:
    text = draw(SPOKEN if not calls else WORDS)
    if not draw(st.booleans()):
        return AssistantMessage(text, calls)
    parts: list[dict[str, Any]] = [draw(thoughts(api)) for _ in range(draw(st.integers(1, 2)))]
    parts += [{"part_kind": "text", "content": text}] if text.strip() else []
    for call in calls:
        details = {"extra_content": {"google": draw(SIGNATURES)}} if draw(st.booleans()) else None
        made = {"part_kind": "tool-call", "tool_name": call.tool, "tool_call_id": "theirs", "provider_name": api}
        written = msgspec.json.encode(call.arguments).decode() if draw(st.booleans()) else call.arguments
        parts.append(made | {"args": written, "provider_details": details})
    native = {"kind": "response", "provider_name": draw(st.sampled_from([api, api, "other"])), "parts": parts}
    return AssistantMessage(text, calls, native)


@st.composite
def conversations(draw: st.DrawFn, api: str, image: str) -> list[Message]:
    """What people, the gateway, the model and its tools said, as the journal gives it."""
    messages: list[Message] = []
    for _ in range(draw(st.integers(1, 3))):
        messages += [NoteMessage(draw(SPOKEN))] if draw(st.booleans()) else []
        shown = AttachedFile("a.png", "image/png", "[file: a.png]", image)
        messages.append(UserMessage(draw(SPOKEN), (shown,) if draw(st.booleans()) else ()))
        for step in range(draw(st.integers(0, 2))):
            calls = tuple(
                ToolCall(f"c{step}.{number}", "look", draw(ARGUMENTS)) for number in range(draw(st.integers(1, 3)))
            )
            messages.append(draw(answers_of_assistants(api, calls)))
            messages += [ToolMessage(call.id, "look", draw(WORDS), draw(OUTCOMES)) for call in calls]
        messages.append(draw(answers_of_assistants(api, ())))
    return messages[:-1]


async def look(use: Use) -> str:
    raise AssertionError("a model only wishes")


TOOLS = (
    Tool("look", "Looks around.", look),
    Tool(
        "find",
        "Finds.",
        look,
        schema={
            "type": "object",
            "title": "Find",
            "properties": {
                "title": {"type": "string", "title": "Title"},
                "count": {"type": "integer", "minimum": 1},
            },
            "required": ["title", "count"],
        },
    ),
    Tool(
        "list",
        "",
        look,
        schema={
            "type": "object",
            "properties": {
                "names": {"type": "array", "items": {"type": "string"}},
                "limit": {"anyOf": [{"type": "integer"}, {"type": "null"}], "default": None},
            },
        },
    ),
)


@EXAMPLES
@given(data=st.data(), prompt=WORDS, offered=st.integers(0, len(TOOLS)))
def test_request_is_the_one_that_the_library_makes(
    provider: JudgedProvider,
    api: str,
    streamed: bool,
    data: st.DataObject,
    prompt: str,
    offered: int,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    image = tmp_path_factory.getbasetemp() / "a.png"
    image.write_bytes(b"\x89PNG")
    messages = data.draw(conversations(api, str(image)))
    request = ModelRequest(messages, 1, system_prompt=prompt, tools=TOOLS[:offered])
    ours, theirs = provider.requested_by_both(api, "local", request, streamed=streamed)
    assert ours == theirs


@pytest.mark.filterwarnings("ignore:The model:DeprecationWarning")
@pytest.mark.parametrize("model", ["claude-sonnet-5", "claude-sonnet-4-5", "claude-3-5-haiku-latest", "local"])
def test_length_of_answers_and_streaming_are_those_of_the_library(provider: JudgedProvider, model: str) -> None:
    """Long answers of Anthropic's are streamed, even if nobody sees them grow."""
    request = ModelRequest([UserMessage("hello")], 1)
    ours, theirs = provider.requested_by_both("anthropic", model, request, streamed=False)
    assert ours == theirs


KEPT_HEADERS = ("authorization", "x-api-key", "anthropic-version", "content-type", "accept")


@pytest.mark.anyio
async def test_headers_are_those_that_the_library_sends(api: str) -> None:
    """Without those by which the library tells of itself, its machine and its retries."""
    answers = [http_answer({"error": {"message": "No."}}, status=400)] * 2
    server = ScriptedServer(*answers)
    async with run_server(server) as port:
        for open_client in (our_client, library_client):
            async with open_client(f"http://127.0.0.1:{port}/v1", api, "local") as client:
                with pytest.raises(ModelCallFailed):
                    await client.respond(ModelRequest([UserMessage("hello")], 1))
    ours, theirs = (head.split("\r\n") for head in server.request_heads)
    assert ours[0] == theirs[0]
    named = [dict(line.lower().split(": ", 1) for line in head[1:] if line) for head in (ours, theirs)]
    assert [named[0].get(name) for name in KEPT_HEADERS] == [named[1].get(name) for name in KEPT_HEADERS]
    assert named[0]["user-agent"].startswith("perdure/")


def test_thought_without_a_signature_differs_on_purpose(provider: JudgedProvider) -> None:
    """It is left out; the library has the user say it. Anthropic signs every thought."""
    native = {"provider_name": "anthropic", "parts": [
        {"part_kind": "thinking", "content": "hm", "provider_name": "anthropic"},
        {"part_kind": "text", "content": "yes"},
    ], "kind": "response"}  # fmt: skip
    messages: list[Message] = [UserMessage("hello"), AssistantMessage("yes", (), native), UserMessage("and?")]
    ours, theirs = provider.requested_by_both("anthropic", "local", ModelRequest(messages, 1), streamed=False)
    assert ours["messages"][1] == {"role": "assistant", "content": [{"type": "text", "text": "yes"}]}
    assert "hm" not in str(ours["messages"])
    assert "hm" in str(theirs["messages"])


# ── schemas ─────────────────────────────────────────────────────────────────────────────────────────────────

PLAIN_SCHEMAS = st.sampled_from(
    [
        {"type": "string"},
        {"type": "string", "title": "A", "description": "b"},
        {"type": "string", "format": "date-time"},
        {"type": "string", "format": "uri"},
        {"type": "string", "pattern": "^a(?=b)"},
        {"type": "string", "pattern": "^a+$"},
        {"type": "string", "minLength": 2},
        {"type": "integer", "default": 3},
        {"enum": ["a", "b"]},
        {"type": "array"},
        {"type": "array", "items": {}},
        {"$ref": "#/$defs/a"},
        {"type": "object", "additionalProperties": True},
        {"type": ["string", "null"]},
    ]
)


def _containers(inner: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    properties = st.dictionaries(st.sampled_from(["title", "a", "b"]), inner, max_size=3)
    objects = st.builds(
        lambda named, needed: {"type": "object", "properties": named} | ({"required": [*named]} if needed else {}),
        properties,
        st.booleans(),
    )
    arrays = st.builds(lambda item: {"type": "array", "items": item}, inner)
    unions = st.builds(
        lambda name, each: {name: each},
        st.sampled_from(["anyOf", "oneOf"]),
        st.lists(inner, min_size=2, max_size=3),
    )
    return objects | arrays | unions


SCHEMAS = st.recursive(PLAIN_SCHEMAS, _containers, max_leaves=6)
TOOL_SCHEMAS = st.builds(
    lambda named, needed: (
        {"type": "object", "title": "T", "properties": named, "$defs": {"a": {"type": "string"}}}
        | ({"required": [*named]} if needed else {})
    ),
    st.dictionaries(st.sampled_from(["title", "a", "b"]), SCHEMAS, max_size=3),
    st.booleans(),
)


@settings(max_examples=200, deadline=None)
@given(schema=TOOL_SCHEMAS)
def test_schema_of_a_tool_is_the_one_that_the_library_sends(schema: dict[str, Any]) -> None:
    judge = OpenAIJsonSchemaTransformer(schema)
    ours, strict = strict_schema(schema)
    assert (ours, strict) == (judge.walk(), judge.is_strict_compatible)
    assert clean_schema(schema) == AnthropicJsonSchemaTransformer(schema).walk()


@pytest.mark.parametrize(
    "unusual",
    [
        {"$ref": "#/$defs/a", "description": "b"},
        {"type": "array", "prefixItems": [{"type": "string"}]},
        {"allOf": [{"type": "string"}]},
    ],
    ids=["reference with words", "tuple", "union of one"],
)
def test_schema_differs_on_purpose_where_the_library_rewrites_it(unusual: dict[str, Any]) -> None:
    """It goes out as it was written; the model is held to it only if it is as strict as it stands."""
    schema = {"type": "object", "properties": {"x": unusual}, "required": ["x"]}
    ours, _ = strict_schema(schema)
    assert ours["properties"]["x"] == unusual


# ── what is known of models ─────────────────────────────────────────────────────────────────────────────────


def test_windows_of_models_are_those_that_the_library_knows() -> None:
    chat = ("claude-", "gpt-", "o1", "o3", "o4", "codex-mini")
    others = ("realtime", "transcribe", "tts", "image", "audio", "live")
    for service in get_snapshot().providers:
        for model in service.models if service.id in APIS else ():
            if model.context_window and model.id.startswith(chat) and not any(each in model.id for each in others):
                assert (known_context_window(model.id) or 128_000) == model.context_window, model.id


def test_lengths_of_answers_are_those_that_the_library_knows() -> None:
    service = AnthropicProvider(api_key="x")
    [anthropic] = [each for each in get_snapshot().providers if each.id == "anthropic"]
    for name in [*(model.id for model in anthropic.models), "local", "claude-opus-4", "claude-opus-4-20250514"]:
        profile = AnthropicModel(name, provider=service).profile
        legacy = profile.get("anthropic_rejects_max_tokens_beyond_context_window")
        longest = 4096 if legacy else profile.get("anthropic_max_output_tokens") or 16384
        assert anthropic_answer_tokens(name) == longest, name


# ── whole answers ───────────────────────────────────────────────────────────────────────────────────────────

FINISHES = {
    "openai": ["stop", "length", "tool_calls", "content_filter", "function_call", "guardrail", None],
    "anthropic": [
        "end_turn", "max_tokens", "stop_sequence", "tool_use", "refusal", "pause_turn",
        "model_context_window_exceeded", None,
    ],
}  # fmt: skip
COUNTS = st.integers(0, 5000)
WRITTEN_ARGUMENTS = ARGUMENTS.map(lambda value: msgspec.json.encode(value).decode()) | st.sampled_from(
    ["", "{", "[]", '{"a": 1', "null"]
)
OPENAI_CALLS = st.builds(
    lambda call, name, written, extra: (
        {"id": call, "type": "function", "function": {"name": name, "arguments": written}}
        | ({"extra_content": {"google": extra}} if extra else {})
    ),
    SIGNATURES,
    st.sampled_from(["look", "find"]),
    WRITTEN_ARGUMENTS,
    st.none() | SIGNATURES,
)
TAGGED = st.lists(st.sampled_from(["<think>", "</think>", "a", " b", "\n"]), max_size=6).map("".join)


def openai_usage(read: int, written: int) -> dict[str, Any]:
    return {
        "prompt_tokens": read,
        "completion_tokens": written,
        "total_tokens": read + written,
        "prompt_tokens_details": {"cached_tokens": read // 2},
    }


@st.composite
def openai_answers(draw: st.DrawFn) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": draw(st.none() | WORDS | TAGGED)}
    if draw(st.booleans()):
        message["tool_calls"] = draw(st.lists(OPENAI_CALLS, max_size=3))
    if draw(st.booleans()):
        message[draw(st.sampled_from(["reasoning", "reasoning_content"]))] = draw(WORDS)
    if draw(st.integers(0, 9)) == 0:
        message["refusal"] = draw(SPOKEN)
    choice = {"index": 0, "message": message, "finish_reason": draw(st.sampled_from(FINISHES["openai"]))}
    known = {"id": "1", "object": "chat.completion", "created": 1, "model": "local", "choices": [choice]}
    return known | {"usage": draw(st.none() | st.builds(openai_usage, COUNTS, COUNTS))}


ANTHROPIC_BLOCKS = st.one_of(
    st.builds(lambda text: {"type": "text", "text": text}, WORDS),
    st.builds(lambda text, mark: {"type": "thinking", "thinking": text, "signature": mark}, WORDS, SIGNATURES),
    st.builds(lambda mark: {"type": "redacted_thinking", "data": mark}, SIGNATURES),
    st.builds(
        lambda call, value: {"type": "tool_use", "id": call, "name": "look", "input": value}, SIGNATURES, ARGUMENTS
    ),
)


def anthropic_usage(read: int, made: int, cached: int, written: int) -> dict[str, Any]:
    return {
        "input_tokens": read,
        "cache_creation_input_tokens": made,
        "cache_read_input_tokens": cached,
        "output_tokens": written,
    }


@st.composite
def anthropic_answers(draw: st.DrawFn) -> dict[str, Any]:
    return {
        "id": "1",
        "type": "message",
        "role": "assistant",
        "model": "local",
        "content": draw(st.lists(ANTHROPIC_BLOCKS, max_size=4)),
        "stop_reason": draw(st.sampled_from(FINISHES["anthropic"])),
        "stop_sequence": None,
        "usage": draw(st.builds(anthropic_usage, COUNTS, COUNTS, COUNTS, COUNTS)),
    }


def agree(provider: JudgedProvider, api: str, said: bytes, *, streamed: bool = False) -> None:
    ours, theirs = provider.read_by_both(api, said, streamed=streamed)
    assert ours == theirs


@EXAMPLES
@given(answer=openai_answers())
def test_b45_whole_answer_of_openai_is_read_as_the_library_reads_it(
    provider: JudgedProvider, answer: dict[str, Any]
) -> None:
    agree(provider, "openai", http_answer(answer))


@EXAMPLES
@given(answer=anthropic_answers())
def test_b45_whole_answer_of_anthropic_is_read_as_the_library_reads_it(
    provider: JudgedProvider, answer: dict[str, Any]
) -> None:
    agree(provider, "anthropic", http_answer(answer))


def test_b65_what_is_stored_of_an_answer_can_be_read_by_the_library(provider: JudgedProvider) -> None:
    """So that an agent of pydantic-ai, or an older version, goes on with a turn that our client has begun."""
    answer = {"stop_reason": "end_turn", "usage": {}, "content": [
        {"type": "thinking", "thinking": "hm", "signature": "s"},
        {"type": "tool_use", "id": "1", "name": "look", "input": {"a": 1}},
    ]}  # fmt: skip

    async def stored() -> dict[str, Any] | None:
        async with our_client(provider.base_url("anthropic"), "anthropic", "local") as client:
            return (await client.respond(ModelRequest([UserMessage("hello")], 1))).native

    provider.said = http_answer(answer)
    native = asyncio.run(stored())
    assert native is not None
    [read] = ModelMessagesTypeAdapter.validate_python([native])
    assert isinstance(read, ModelResponse)
    assert [part.part_kind for part in read.parts] == ["thinking", "tool-call"]
    assert load_blocks(native, "anthropic", 1) is not None


# ── streams ─────────────────────────────────────────────────────────────────────────────────────────────────

PLAIN_WORDS = WORDS.filter(lambda text: "<" not in text)


def openai_chunk(delta: dict[str, Any] | None, finish: str | None = None) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return {"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "local", "choices": [choice]}


@st.composite
def openai_streams(draw: st.DrawFn) -> list[Any]:
    events: list[Any] = [openai_chunk({"role": "assistant", "content": ""})]
    calls = 0
    for _ in range(draw(st.integers(0, 6))):
        match draw(st.sampled_from(["text", "thought", "call", "more", "nothing"])):
            case "text":
                events.append(openai_chunk({"content": draw(PLAIN_WORDS)}))
            case "thought":
                events.append(openai_chunk({"reasoning_content": draw(PLAIN_WORDS)}))
            case "call":
                events.append(openai_chunk({"tool_calls": [{"index": calls} | draw(OPENAI_CALLS)]}))
                calls += 1
            case "more" if calls:
                more = {"index": draw(st.integers(0, calls - 1)), "function": {"arguments": draw(WORDS)}}
                events.append(openai_chunk({"tool_calls": [more]}))
            case _:
                events.append(openai_chunk(draw(st.none() | st.just({}))))
    if draw(st.booleans()):
        events.append(openai_chunk({}, draw(st.sampled_from(FINISHES["openai"]))))
    if draw(st.booleans()):
        usage = openai_usage(draw(COUNTS), draw(COUNTS))
        events.append(openai_chunk(None) | {"choices": [], "usage": usage})
    return [*events, *([b"data: [DONE]\n\n"] if draw(st.booleans()) else [])]


@st.composite
def anthropic_streams(draw: st.DrawFn) -> list[Any]:
    usage = draw(st.builds(anthropic_usage, COUNTS, COUNTS, COUNTS, st.just(1)))
    message = {"id": "1", "type": "message", "role": "assistant", "model": "local", "content": [], "usage": usage}
    events: list[Any] = [{"type": "message_start", "message": message}, {"type": "ping"}]
    for index, block in enumerate(draw(st.lists(ANTHROPIC_BLOCKS, max_size=4))):
        events += _block_events(index, block, draw)
    if draw(st.booleans()):
        reason = draw(st.sampled_from(FINISHES["anthropic"]))
        counted = {"output_tokens": draw(COUNTS)}
        events.append({"type": "message_delta", "delta": {"stop_reason": reason}, "usage": counted})
    return [*events, *([{"type": "message_stop"}] if draw(st.booleans()) else [])]


def _block_events(index: int, block: dict[str, Any], draw: st.DrawFn) -> Iterator[dict[str, Any]]:
    def delta(**values: Any) -> dict[str, Any]:
        return {"type": "content_block_delta", "index": index, "delta": values}

    def begin(**values: Any) -> dict[str, Any]:
        return {"type": "content_block_start", "index": index, "content_block": block | values}

    match block["type"]:
        case "text":
            yield begin(text="")
            for piece in (block["text"][:3], block["text"][3:]):
                yield delta(type="text_delta", text=piece)
        case "thinking":
            yield begin(thinking="", signature="")
            yield delta(type="thinking_delta", thinking=block["thinking"])
            yield delta(type="signature_delta", signature=block["signature"])
        case "tool_use":
            yield begin(input={})
            written = draw(WRITTEN_ARGUMENTS)
            for piece in ("", written[:3], written[3:]):
                yield delta(type="input_json_delta", partial_json=piece)
        case _:
            yield begin()
    yield {"type": "content_block_stop", "index": index}


@EXAMPLES
@given(events=openai_streams())
def test_b69_stream_of_openai_is_read_as_the_library_reads_it(provider: JudgedProvider, events: list[Any]) -> None:
    agree(provider, "openai", http_answer(events, streamed=True), streamed=True)


@EXAMPLES
@given(events=anthropic_streams())
def test_b69_stream_of_anthropic_is_read_as_the_library_reads_it(
    provider: JudgedProvider, events: list[Any]
) -> None:
    agree(provider, "anthropic", http_answer(events, streamed=True), streamed=True)


END = openai_chunk({}, "stop")


def test_thoughts_in_the_text_of_a_stream_differ_on_purpose(provider: JudgedProvider) -> None:
    """They are found wherever the stream is cut; the library finds a tag only if it comes alone."""
    events = [openai_chunk({"content": piece}) for piece in ("<thi", "nk>hm</th", "ink>yes")]
    ours, theirs = provider.read_by_both("openai", http_answer([*events, END], streamed=True), streamed=True)
    assert ours.text == "yes"
    assert theirs.text == "<think>hm</think>yes"


def test_usage_in_every_piece_differs_on_purpose(provider: JudgedProvider) -> None:
    """Servers that count in every piece count from the beginning; the library adds their counts up."""
    pieces = [openai_chunk({"content": "a"}) | {"usage": openai_usage(10, count)} for count in (1, 2)]
    ours, theirs = provider.read_by_both("openai", http_answer([*pieces, END], streamed=True), streamed=True)
    assert ours.usage == TokenUsage(10, 2)
    assert theirs.usage == TokenUsage(20, 3)


def test_name_of_a_tool_in_every_piece_differs_on_purpose(provider: JudgedProvider) -> None:
    pieces = [
        openai_chunk({"tool_calls": [{"index": 0, "id": "1", "function": {"name": "look", "arguments": each}}]})
        for each in ("{", "}")
    ]
    ours, theirs = provider.read_by_both("openai", http_answer([*pieces, END], streamed=True), streamed=True)
    assert [call.tool for call in ours.calls] == ["look"]
    assert [call.tool for call in theirs.calls] == ["looklook"]


# ── errors ──────────────────────────────────────────────────────────────────────────────────────────────────

STATUSES = [400, 401, 402, 403, 404, 408, 409, 413, 418, 422, 429, 500, 502, 503, 504, 529]
OPENAI_CODES = [
    None, "insufficient_quota", "billing_hard_limit_reached", "context_length_exceeded", "model_not_found",
    "invalid_api_key", "server_is_overloaded", "rate_limit_exceeded", "server_error", "429", "whatever",
]  # fmt: skip
ANTHROPIC_TYPES = [
    "invalid_request_error", "authentication_error", "billing_error", "permission_error", "not_found_error",
    "request_too_large", "rate_limit_error", "api_error", "timeout_error", "overloaded_error", "whatever",
]  # fmt: skip
SENTENCES = [
    "No.", "This model's maximum context length is 4096 tokens, however you requested 5000 tokens",
    "prompt is too long: 210000 tokens > 200000 maximum", "Your credit balance is too low to access the API.",
    "Please reduce the length of the messages.", "We are over capacity.",
]  # fmt: skip


@pytest.mark.parametrize("status", STATUSES)
def test_b88_error_of_openai_means_what_the_library_says(provider: JudgedProvider, status: int) -> None:
    for code, said in [*((code, SENTENCES[0]) for code in OPENAI_CODES), *((None, said) for said in SENTENCES)]:
        error = {"message": said, "type": "x", "code": code}
        agree(provider, "openai", http_answer({"error": error}, status=status))


@pytest.mark.parametrize("status", STATUSES)
def test_b88_error_of_anthropic_means_what_the_library_says(provider: JudgedProvider, status: int) -> None:
    for kind in ANTHROPIC_TYPES:
        for said in SENTENCES[:4] if kind == "invalid_request_error" else SENTENCES[:1]:
            agree(
                provider,
                "anthropic",
                http_answer({"type": "error", "error": {"type": kind, "message": said}}, status=status),
            )


def test_error_inside_a_stream_means_what_the_library_says(provider: JudgedProvider) -> None:
    for code in OPENAI_CODES:
        error: dict[str, Any] = {"error": {"message": "No.", "type": "x", "code": code}}
        agree(
            provider, "openai", http_answer([openai_chunk({"content": "a"}), error], streamed=True), streamed=True
        )
    for kind in ANTHROPIC_TYPES:
        error = {"type": "error", "error": {"type": kind, "message": "No."}}
        agree(provider, "anthropic", http_answer([{"type": "ping"}, error], streamed=True), streamed=True)


@pytest.mark.parametrize(
    "header",
    ["Retry-After: 7\r\n", "retry-after-ms: 1500\r\n", "Retry-After: -1\r\n", "Retry-After: soon\r\n",
     "Retry-After: Wed, 21 Oct 2015 07:28:00 GMT\r\nDate: Thu, 22 Oct 2015 07:28:00 GMT\r\n", ""],
)  # fmt: skip
def test_wait_that_a_provider_asks_for_is_the_same(provider: JudgedProvider, api: str, header: str) -> None:
    agree(provider, api, http_answer({"error": {"message": "Slow down."}}, status=429, headers=header))


NONSENSE = [b"", b"<html>no</html>", b"[]", b"{}", b'{"choices": []}', b'"words"', b"null"]


@pytest.mark.parametrize("body", NONSENSE)
@pytest.mark.parametrize("status", [200, 502])
def test_answer_of_openai_that_makes_no_sense_is_asked_for_again_as_by_the_library(
    provider: JudgedProvider, status: int, body: bytes
) -> None:
    """The sentence differs on purpose where the library says that the provider refused the request."""
    ours, theirs = provider.read_by_both("openai", http_answer(body, status=status), streamed=False)
    assert ours.failure is not None
    assert theirs.failure is not None
    assert ours.failure[1:] == theirs.failure[1:]
    assert ours.failure[0] == (
        texts.agents.PROVIDER_GARBLED if status == 200 else texts.agents.PROVIDER_SERVER_ERROR
    )


@pytest.mark.parametrize("body", NONSENSE)
def test_answer_of_anthropic_that_makes_no_sense_differs_on_purpose(provider: JudgedProvider, body: bytes) -> None:
    """It is asked for again; the library takes some of it for an answer, and fails of itself at the rest."""
    provider.said = http_answer(body)

    async def asked() -> None:
        async with our_client(provider.base_url("anthropic"), "anthropic", "local") as client:
            await client.respond(ModelRequest([UserMessage("hello")], 1))

    with pytest.raises(ModelCallFailed) as caught:
        asyncio.run(asked())
    assert (caught.value.message, caught.value.broke_off) == (texts.agents.PROVIDER_GARBLED, True)

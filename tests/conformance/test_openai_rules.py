"""The local provider refuses what OpenAI refuses, in the format that OpenAI's own client understands.

Drives `testing/providers/openai`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx2
import openai
import pytest

from perdure.testing import LocalProvider
from support.models import EMPTY_TLS_CONTEXT

Json = dict[str, Any]


@pytest.fixture(scope="module")
def provider() -> Iterator[LocalProvider]:
    with LocalProvider() as listening:
        yield listening


@pytest.fixture(scope="module")
def client(provider: LocalProvider) -> Iterator[openai.OpenAI]:
    sending = httpx2.Client(verify=EMPTY_TLS_CONTEXT)
    with openai.OpenAI(
        base_url=provider.openai_url, api_key=provider.key, max_retries=0, timeout=30, http_client=sending
    ) as connected:
        yield connected


def user(content: object = "hello") -> Json:
    return {"role": "user", "content": content}


def tool(name: str = "read_file", schema: Json | None = None) -> Json:
    described = {"name": name, "parameters": schema or {"type": "object", "properties": {}}}
    return {"type": "function", "function": described}


def call(identity: str = "c1", name: str = "read_file", arguments: object = "{}") -> Json:
    return {"id": identity, "type": "function", "function": {"name": name, "arguments": arguments}}


def calling(*calls: Json, content: str | None = None) -> Json:
    return {"role": "assistant", "content": content, "tool_calls": list(calls)}


def result(identity: str = "c1", content: object = "found") -> Json:
    return {"role": "tool", "tool_call_id": identity, "content": content}


SAID = {"role": "assistant", "content": "hi"}

OPENAI_REFUSES: dict[str, tuple[list[Json], str]] = {
    "call without a result at the end": ([user(), calling(call())], "no result right after them: c1"),
    "call without a result before the next message": ([user(), calling(call()), user()], "no result right after"),
    "one of two calls without a result": (
        [user(), calling(call("c1"), call("c2")), result("c1"), user()],
        "no result right after them: c2",
    ),
    "result that comes too late": ([user(), calling(call()), SAID, result()], "no result right after"),
    "two results of one call": ([user(), calling(call()), result(), result()], "has a result already"),
    "result without a call": ([user(), result("c9")], "makes the tool call 'c9'"),
    "result of a call further up": (
        [user(), calling(call("c1")), result("c1"), SAID, user(), result("c1")],
        "makes the tool call 'c1'",
    ),
    "result that names no call": ([user(), calling(call()), {"role": "tool", "content": "x"}], "expected the id"),
    "result without content": ([user(), calling(call()), result(content=None)], "expected a string"),
    "two calls with one id": ([user(), calling(call(), call()), result()], "given to two tool calls"),
    "call of a tool that nobody offers": ([user(), calling(call(name="rm")), result()], "no tool is named 'rm'"),
    "call whose arguments are no string": ([user(), calling(call(arguments={})), result()], "JSON in a string"),
    "call whose id is too long": ([user(), calling(call("c" * 41)), result("c" * 41)], "1 to 40 characters"),
    "list of calls without any": ([user(), calling(content="hi")], "at least one entry"),
    "blank message of a user": ([user(" \n")], "the text is blank"),
    "empty message of a user": ([user("")], "the text is blank"),
    "message without content": ([{"role": "user"}], "expected a string, got nothing"),
    "message of no parts": ([user([])], "at least one entry"),
    "blank part": ([user([{"type": "text", "text": ""}])], "the text is blank"),
    "unknown part": ([user([{"type": "smell"}])], "user messages have parts of text"),
    "blank message of the system": ([{"role": "system", "content": ""}, user()], "the text is blank"),
    "answer that says nothing": ([user(), {"role": "assistant", "content": None}, user()], "got nothing"),
    "blank answer": ([user(), {"role": "assistant", "content": " "}, user()], "the text is blank"),
    "unknown role": ([{"role": "wizard", "content": "hi"}], "got 'wizard'"),
    "no message at all": ([], "at least one entry"),
}


@pytest.mark.parametrize(("messages", "why"), OPENAI_REFUSES.values(), ids=OPENAI_REFUSES)
def test_openai_refuses_messages(
    provider: LocalProvider, client: openai.OpenAI, messages: list[Any], why: str
) -> None:
    check_openai(provider, client, why, messages=messages, tools=[tool()])


OPENAI_REFUSES_OPTIONS: dict[str, tuple[Json, str]] = {
    "a list of tools without any": ({"tools": []}, "at least one entry"),
    "a tool offered twice": ({"tools": [tool(), tool()]}, "offered twice"),
    "a tool with an impossible name": ({"tools": [tool("read file")]}, "can be no tool's name"),
    "a tool whose arguments are no object": ({"tools": [tool(schema={"type": "string"})]}, "type 'object'"),
    "the choice of a tool that is not offered": (
        {"tools": [tool()], "tool_choice": {"type": "function", "function": {"name": "rm"}}},
        "no tool is named 'rm'",
    ),
    "a choice of tools without any": ({"tool_choice": "auto"}, "only beside `tools`"),
    "stream options without a stream": ({"stream_options": {"include_usage": True}}, "for streams only"),
}


@pytest.mark.parametrize(("options", "why"), OPENAI_REFUSES_OPTIONS.values(), ids=OPENAI_REFUSES_OPTIONS)
def test_openai_refuses_options(provider: LocalProvider, client: openai.OpenAI, options: Json, why: str) -> None:
    check_openai(provider, client, why, **({"messages": [user()]} | options))


def check_openai(provider: LocalProvider, client: openai.OpenAI, why: str, **request: Any) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        client.chat.completions.create(model="local", **request)
    assert why in caught.value.message
    assert (caught.value.type, caught.value.param is None) == ("invalid_request_error", False)
    assert provider.requests[-1].outcome == "refused"
    assert why in provider.refusals[-1]


def test_openai_takes_a_long_conversation(client: openai.OpenAI) -> None:
    messages: list[Any] = [
        {"role": "system", "content": "Be brief."},
        user([{"type": "text", "text": "hello"}, {"type": "image_url", "image_url": {"url": "data:,x"}}]),
        calling(call("c1"), call("c2"), content=""),
        result("c2", ""),
        result("c1", [{"type": "text", "text": "found"}]),
        calling(call("c1", arguments="no JSON")),
        result("c1"),
        user("and?"),
        user("well?"),
        {"role": "assistant", "refusal": "no"},
        user(),
    ]
    answer = client.chat.completions.create(model="local", messages=messages, tools=[tool()])  # type: ignore[list-item]
    assert answer.choices[0].message.content == "ok"

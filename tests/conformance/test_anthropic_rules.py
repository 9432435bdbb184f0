"""The local provider refuses what Anthropic refuses, in the format that Anthropic's own client understands.

Drives `testing/providers/anthropic`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import anthropic
import httpx2
import pytest

from perdure.testing import LocalProvider
from support.models import EMPTY_TLS_CONTEXT

Json = dict[str, Any]


@pytest.fixture(scope="module")
def provider() -> Iterator[LocalProvider]:
    with LocalProvider() as listening:
        yield listening


@pytest.fixture(scope="module")
def client(provider: LocalProvider) -> Iterator[anthropic.Anthropic]:
    sending = httpx2.Client(verify=EMPTY_TLS_CONTEXT)
    with anthropic.Anthropic(
        base_url=provider.anthropic_url, api_key=provider.key, max_retries=0, timeout=30, http_client=sending
    ) as connected:
        yield connected


def user(content: object = "hello") -> Json:
    return {"role": "user", "content": content}


def use(identity: str = "c1", name: str = "read_file", arguments: object = None) -> Json:
    return {"type": "tool_use", "id": identity, "name": name, "input": {} if arguments is None else arguments}


def using(*blocks: Json) -> Json:
    return {"role": "assistant", "content": list(blocks)}


def found(identity: str = "c1", content: object = "found") -> Json:
    return {"type": "tool_result", "tool_use_id": identity, "content": content}


SAID = {"role": "assistant", "content": "hi"}
TEXT = {"type": "text", "text": "words"}

ANTHROPIC_REFUSES: dict[str, tuple[list[Json], str]] = {
    "call without a result at the end": ([user(), using(use())], "no result right after: c1"),
    "call without a result in the next message": ([user(), using(use()), user()], "no result right after: c1"),
    "one of two calls without a result": ([user(), using(use("c1"), use("c2")), user([found("c1")])], "after: c2"),
    "result that comes too late": (
        [user(), using(use()), user(), SAID, user([found()])],
        "no result right after: c1",
    ),
    "two results of one call": ([user(), using(use()), user([found(), found()])], "has two results"),
    "result without a call": ([user([found("c9")])], "makes no tool call 'c9'"),
    "result of a call further up": (
        [user(), using(use()), user([found()]), SAID, user([found()])],
        "makes no tool call 'c1'",
    ),
    "result after other words": ([user(), using(use()), user([TEXT, found()])], "must come first"),
    "result that names no call": ([user(), using(use()), user([{"type": "tool_result"}])], "expected the id"),
    "result with a blank block": (
        [user(), using(use()), user([found(content=[{"type": "text", "text": ""}])])],
        "the text is blank",
    ),
    "two calls with one id": ([user(), using(use(), use()), user([found()])], "given to two tool calls"),
    "two calls with one id, in two messages": (
        [user(), using(use()), user([found()]), using(use()), user([found()])],
        "given to two tool calls",
    ),
    "call with an impossible id": ([user(), using(use("c:1")), user([found("c:1")])], "letters, digits"),
    "call of a tool that nobody offers": (
        [user(), using(use(name="rm")), user([found()])],
        "no tool is named 'rm'",
    ),
    "call whose arguments are no object": ([user(), using(use(arguments="{}")), user([found()])], "an object"),
    "call made by the user": ([user([use()])], "has no place in a message of the user"),
    "result given by the model": ([user(), using(found()), user()], "has no place in a message of the assistant"),
    "blank message": ([user(" \n")], "the text is blank"),
    "empty message": ([user("")], "the text is blank"),
    "message without content": ([{"role": "user"}], "got nothing"),
    "message of no blocks": ([user([])], "at least one entry"),
    "blank block": ([user([TEXT, {"type": "text", "text": " "}])], "the text is blank"),
    "answer of no blocks": ([user(), using(), user()], "at least one entry"),
    "thinking without its signature": (
        [user(), using({"type": "thinking", "thinking": "hm"}, TEXT), user()],
        "signature",
    ),
    "two messages of the user in a row": ([user(), user()], "two messages of the user in a row"),
    "two answers in a row": ([user(), SAID, SAID, user()], "two messages of the assistant in a row"),
    "answer at the beginning": ([SAID, user()], "the user must speak first"),
    "answer at the end": ([user(), SAID], "must end with a message of the user"),
    "system among the messages": ([{"role": "system", "content": "x"}, user()], "expected user or assistant"),
    "no message at all": ([], "at least one entry"),
}

ANTHROPIC_TOOL = {"name": "read_file", "input_schema": {"type": "object"}}


@pytest.mark.parametrize(("messages", "why"), ANTHROPIC_REFUSES.values(), ids=ANTHROPIC_REFUSES)
def test_anthropic_refuses_messages(
    provider: LocalProvider, client: anthropic.Anthropic, messages: list[Any], why: str
) -> None:
    check_anthropic(provider, client, why, messages=messages, tools=[ANTHROPIC_TOOL])


ANTHROPIC_REFUSES_OPTIONS: dict[str, tuple[Json, str]] = {
    "no limit of tokens": ({"max_tokens": anthropic.omit}, "max_tokens: this field is required"),
    "no tokens at all": ({"max_tokens": 0}, "max_tokens"),
    "a blank system prompt": ({"system": " "}, "system: the text is blank"),
    "a blank block in the system prompt": ({"system": [{"type": "text", "text": ""}]}, "system.0.text"),
    "a tool offered twice": ({"tools": [ANTHROPIC_TOOL, ANTHROPIC_TOOL]}, "offered twice"),
    "a tool without a schema": ({"tools": [{"name": "read_file"}]}, "tools.0.input_schema"),
    "a tool with an impossible name": ({"tools": [ANTHROPIC_TOOL | {"name": "a.b"}]}, "can be no tool's name"),
    "the choice of a tool that is not offered": (
        {"tools": [ANTHROPIC_TOOL], "tool_choice": {"type": "tool", "name": "rm"}},
        "no tool is named 'rm'",
    ),
    "a choice of tools without any": ({"tool_choice": {"type": "auto"}}, "only beside `tools`"),
}


@pytest.mark.parametrize(("options", "why"), ANTHROPIC_REFUSES_OPTIONS.values(), ids=ANTHROPIC_REFUSES_OPTIONS)
def test_anthropic_refuses_options(
    provider: LocalProvider, client: anthropic.Anthropic, options: Json, why: str
) -> None:
    check_anthropic(provider, client, why, **({"messages": [user()]} | options))


def check_anthropic(provider: LocalProvider, client: anthropic.Anthropic, why: str, **request: Any) -> None:
    whole: Any = {"model": "local", "max_tokens": 100, "timeout": 30} | request
    with pytest.raises(anthropic.BadRequestError) as caught:
        client.messages.create(**whole)
    error = caught.value.body
    assert isinstance(error, dict)
    assert (error["type"], error["error"]["type"]) == ("error", "invalid_request_error")
    assert why in error["error"]["message"]
    assert provider.requests[-1].outcome == "refused"
    assert why in provider.refusals[-1]


def test_anthropic_takes_a_long_conversation(client: anthropic.Anthropic) -> None:
    thinking = {"type": "thinking", "thinking": "hm", "signature": "sealed"}
    messages: list[Any] = [
        user([TEXT, TEXT]),
        using(thinking, TEXT, use("c1"), use("c2")),
        user([found("c2", ""), found("c1", [TEXT]), TEXT]),
        using(use("c3", arguments={"path": "x"})),
        user([found("c3"), TEXT]),
        SAID,
        user(),
    ]
    tools: list[Any] = [ANTHROPIC_TOOL]
    answer = client.messages.create(
        model="local",
        max_tokens=10,
        system=[{"type": "text", "text": "Be brief."}],
        messages=messages,
        tools=tools,
    )
    assert [block.type for block in answer.content] == ["text"]

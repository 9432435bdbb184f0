"""Anthropic's Messages API: the format of answers, streams and errors, and the rules that refuse requests."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from msgspec import json

from perdure.testing.providers.answers import Api, Fails, PreparedReply, StreamFrame, Usage, Wish, argument_pieces
from perdure.testing.providers.dialect import (
    RequestRefused,
    describe_value,
    expect_known_tool,
    expect_list,
    expect_model,
    expect_object,
    expect_schema,
    expect_text,
    expect_tool_name,
    refuse,
)

NAME: Api = "anthropic"
CALL_PREFIX = "toolu_"
REPLY_PREFIX = "msg_"

FINISH_REASONS = {
    "stop": "end_turn",
    "tool_calls": "tool_use",
    "length": "max_tokens",
    "content_filter": "refusal",
}
ERROR_TYPES = {
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
    529: "overloaded_error",
}


def api_key(headers: Mapping[str, str]) -> str:
    """Return the API key of the request."""
    return headers.get("x-api-key") or headers.get("authorization", "").removeprefix("Bearer ")


def check_headers(headers: Mapping[str, str]) -> None:
    """Refuse a request without an API version."""
    if not headers.get("anthropic-version"):
        refuse("anthropic-version", "this header is required.")


def unknown_model(model: str) -> RequestRefused:
    return RequestRefused(f"model: {model}", status=404)


def wants_usage(body: dict[str, Any], streamed: bool) -> bool:
    return True


def encode_whole(reply: PreparedReply) -> bytes:
    """Encode an unstreamed answer."""
    text = "".join(reply.words)
    content = [{"type": "text", "text": text}] if text else []
    content += [_call(call, _arguments(call)) for call in reply.calls]
    return json.encode(_message(reply, content) | _finish(reply) | {"usage": _usage(reply.usage)})


def opening_frames(reply: PreparedReply) -> Iterator[StreamFrame]:
    usage = _usage(reply.usage) | {"output_tokens": 1}
    nothing = {"stop_reason": None, "stop_sequence": None, "stop_details": None, "usage": usage}
    yield _event({"type": "message_start", "message": _message(reply, []) | nothing})
    yield _event({"type": "ping"})


def body_frames(reply: PreparedReply) -> Iterator[StreamFrame]:
    """Yield one block for the text, if any, and one for each call, its arguments in pieces."""
    index = -1
    for word in reply.words:
        if index < 0:
            index = 0
            yield _block_start(index, {"type": "text", "text": ""})
        yield _delta(index, {"type": "text_delta", "text": word})
    if index == 0:
        yield _block_stop(index)
    for call in reply.calls:
        index += 1
        yield _block_start(index, _call(call, {}))
        yield StreamFrame(_delta(index, {"type": "input_json_delta", "partial_json": ""}).body)
        for part in argument_pieces(call.spelled):
            yield _delta(index, {"type": "input_json_delta", "partial_json": part})
        yield _block_stop(index)


def closing_frames(reply: PreparedReply) -> Iterator[StreamFrame]:
    yield _event({"type": "message_delta", "delta": _finish(reply), "usage": _usage(reply.usage)})
    yield _event({"type": "message_stop"})


def encode_error(failure: Fails, param: str | None = None) -> bytes:
    return json.encode(_error(failure))


def stream_error_frame(failure: Fails) -> StreamFrame:
    """Encode an error inside a stream."""
    return _event(_error(failure))


def _error(failure: Fails) -> dict[str, Any]:
    usual = "api_error" if failure.status >= 500 else "invalid_request_error"
    kind = failure.type or ERROR_TYPES.get(failure.status, usual)
    return {"type": "error", "error": {"type": kind, "message": failure.message}, "request_id": "req_local"}


def _message(reply: PreparedReply, content: list[dict[str, Any]]) -> dict[str, Any]:
    head = {"id": reply.id, "type": "message", "role": "assistant", "model": reply.model}
    return head | {"content": content, "container": None}


def _finish(reply: PreparedReply) -> dict[str, Any]:
    reason = reply.finish or ("tool_use" if reply.calls else "end_turn")
    reason = FINISH_REASONS.get(reason, reason)
    details = {"type": "refusal", "category": None, "explanation": None} if reason == "refusal" else None
    return {"stop_reason": reason, "stop_sequence": None, "stop_details": details}


def _call(call: Wish, arguments: dict[str, Any]) -> dict[str, Any]:
    return {"type": "tool_use", "id": call.id, "name": call.tool, "input": arguments}


def _arguments(call: Wish) -> dict[str, Any]:
    """Return the arguments as an object; an unstreamed answer has to wrap anything else."""
    try:
        return json.decode(call.spelled, type=dict[str, Any])
    except msgspec.DecodeError:
        return {"INVALID_JSON": call.spelled}


def _usage(usage: Usage) -> dict[str, Any]:
    return {
        "input_tokens": usage.input - usage.cached,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": usage.cached,
        "output_tokens": usage.output,
    }


def _block_start(index: int, block: dict[str, Any]) -> StreamFrame:
    return _event({"type": "content_block_start", "index": index, "content_block": block})


def _delta(index: int, delta: dict[str, Any]) -> StreamFrame:
    return _event({"type": "content_block_delta", "index": index, "delta": delta}, piece=True)


def _block_stop(index: int) -> StreamFrame:
    return _event({"type": "content_block_stop", "index": index})


def _event(value: dict[str, Any], *, piece: bool = False) -> StreamFrame:
    return StreamFrame(b"event: " + value["type"].encode() + b"\ndata: " + json.encode(value) + b"\n\n", piece)


ID_PATTERN = re.compile(r"[a-zA-Z0-9_-]+")
MAX_NAME_CHARS = 128
CHOICES = ("auto", "any", "tool", "none")
BLOCK_TYPES = {
    "user": ("text", "image", "document", "search_result", "tool_result"),
    "assistant": ("text", "thinking", "redacted_thinking", "tool_use"),
}
RESULT_BLOCK_TYPES = ("text", "image", "document", "search_result")


def check_request(body: dict[str, Any], known: set[str]) -> None:
    """Refuse a request that breaks a rule. `known` are tools beside those that the request offers."""
    expect_model(body)
    _check_max_tokens(body)
    _check_system(body.get("system"))
    offered = _check_tools(body)
    _check_choice(body.get("tool_choice"), offered)
    messages = expect_list("messages", body.get("messages"))
    _check_roles(messages)
    _check_contents(messages, known | offered)
    _check_pairs(messages)
    if messages[-1]["role"] != "user":
        refuse(f"messages.{len(messages) - 1}", "the conversation must end with a message of the user.")


def _check_max_tokens(body: dict[str, Any]) -> None:
    limit = body.get("max_tokens")
    if not isinstance(limit, int) or isinstance(limit, bool) or limit < 1:
        refuse("max_tokens", f"this field is required, a number of at least 1; got {describe_value(limit)}.")


def _check_system(system: object) -> None:
    if isinstance(system, list):
        for index, block in enumerate(expect_list("system", system)):
            _check_text(f"system.{index}", expect_object(f"system.{index}", block))
    elif system is not None:
        expect_text("system", system)


def _check_tools(body: dict[str, Any]) -> set[str]:
    """Check the offered tools and return their names."""
    offered: set[str] = set()
    tools = body.get("tools")
    if tools is not None and not isinstance(tools, list):
        refuse("tools", f"expected a list, got {describe_value(tools)}.")
    for index, tool in enumerate(tools or []):
        name = expect_tool_name(
            f"tools.{index}.name", expect_object(f"tools.{index}", tool).get("name"), MAX_NAME_CHARS
        )
        if name in offered:
            refuse(f"tools.{index}.name", f"the tool {name!r} is offered twice.")
        if tool.get("type") in (None, "custom"):
            expect_schema(f"tools.{index}.input_schema", tool.get("input_schema"))
        offered.add(name)
    return offered


def _check_choice(choice: object, offered: set[str]) -> None:
    if choice is None:
        return
    if not offered:
        refuse("tool_choice", "this is allowed only beside `tools`.")
    chosen = expect_object("tool_choice", choice)
    if chosen.get("type") not in CHOICES:
        refuse(
            "tool_choice.type", f"expected one of {', '.join(CHOICES)}, got {describe_value(chosen.get('type'))}."
        )
    if chosen["type"] == "tool":
        expect_known_tool("tool_choice.name", str(chosen.get("name")), offered)


def _check_roles(messages: list[Any]) -> None:
    """Check that user and assistant alternate, beginning with the user."""
    before = "assistant"
    for index, message in enumerate(messages):
        role = expect_object(f"messages.{index}", message).get("role")
        if role not in BLOCK_TYPES:
            refuse(f"messages.{index}.role", f"expected user or assistant, got {describe_value(role)}.")
        if role == before:
            why = f"two messages of the {role} in a row" if index else "the user must speak first"
            refuse(f"messages.{index}.role", f"{why}; user and assistant must speak in turns.")
        before = role


def _check_contents(messages: list[dict[str, Any]], known: set[str]) -> None:
    calls: set[str] = set()
    for index, message in enumerate(messages):
        where, content = f"messages.{index}.content", message.get("content")
        if not isinstance(content, list):
            expect_text(where, content)
            continue
        for position, block in enumerate(expect_list(where, content)):
            at = f"{where}.{position}"
            kind = expect_object(at, block).get("type")
            if kind not in BLOCK_TYPES[message["role"]]:
                refuse(f"{at}.type", f"{describe_value(kind)} has no place in a message of the {message['role']}.")
            _check_block(at, block, known, calls)


def _check_block(where: str, block: dict[str, Any], known: set[str], calls: set[str]) -> None:
    if block["type"] == "text":
        _check_text(where, block)
    elif block["type"] == "tool_use":
        _check_call(where, block, known, calls)
    elif block["type"] == "tool_result":
        _check_result(where, block)
    elif block["type"] == "thinking" and not block.get("signature"):
        refuse(f"{where}.signature", "this field is required: thinking must come back as it was given.")


def _check_text(where: str, block: dict[str, Any]) -> None:
    if block.get("type") != "text":
        refuse(f"{where}.type", f"expected 'text', got {describe_value(block.get('type'))}.")
    expect_text(f"{where}.text", block.get("text"))


def _check_call(where: str, block: dict[str, Any], known: set[str], calls: set[str]) -> None:
    identity = block.get("id")
    if not isinstance(identity, str) or not ID_PATTERN.fullmatch(identity):
        refuse(f"{where}.id", f"expected letters, digits, - or _, got {describe_value(identity)}.")
    if identity in calls:
        refuse(f"{where}.id", f"the id {identity!r} is given to two tool calls.")
    calls.add(identity)
    expect_known_tool(f"{where}.name", expect_tool_name(f"{where}.name", block.get("name"), MAX_NAME_CHARS), known)
    expect_object(f"{where}.input", block.get("input"))


def _check_result(where: str, block: dict[str, Any]) -> None:
    if not isinstance(block.get("tool_use_id"), str):
        refuse(
            f"{where}.tool_use_id",
            f"expected the id of a tool call, got {describe_value(block.get('tool_use_id'))}.",
        )
    content = block.get("content")
    if content is None or isinstance(content, str):
        return  # the result of a tool may be empty
    for index, part in enumerate(expect_list(f"{where}.content", content)):
        at = f"{where}.content.{index}"
        if expect_object(at, part).get("type") not in RESULT_BLOCK_TYPES:
            refuse(
                f"{at}.type",
                f"a result is made of {', '.join(RESULT_BLOCK_TYPES)}; got {describe_value(part.get('type'))}.",
            )
        if part["type"] == "text":
            _check_text(at, part)


def _check_pairs(messages: list[dict[str, Any]]) -> None:
    """Check that every call has exactly one result, at the beginning of the next message."""
    open_calls: list[str] = []
    for index, message in enumerate(messages):
        results = _ids(message, "tool_result", "tool_use_id")
        for result in results:
            if result not in open_calls:
                refuse(f"messages.{index}", f"the message before this one makes no tool call {result!r}.")
            if results.count(result) > 1:
                refuse(f"messages.{index}", f"the tool call {result!r} has two results; it must have exactly one.")
        missing = [call for call in open_calls if call not in results]
        if missing:
            refuse(f"messages.{index - 1}", f"these tool calls have no result right after: {', '.join(missing)}.")
        _expect_results_first(index, message, len(results))
        open_calls = _ids(message, "tool_use", "id")
    if open_calls:
        refuse(
            f"messages.{len(messages) - 1}",
            f"these tool calls have no result right after: {', '.join(open_calls)}.",
        )


def _ids(message: dict[str, Any], kind: str, field: str) -> list[str]:
    content = message["content"]
    return [block[field] for block in content if block["type"] == kind] if isinstance(content, list) else []


def _expect_results_first(index: int, message: dict[str, Any], results: int) -> None:
    if any(block["type"] != "tool_result" for block in message["content"][:results]):
        refuse(
            f"messages.{index}", "the results of tool calls must come first in a message, other words after them."
        )

"""OpenAI's Chat Completions API: the format of answers, streams and errors, and the rules that refuse requests."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any

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

NAME: Api = "openai"
CALL_PREFIX = "call_"
REPLY_PREFIX = "chatcmpl-"

FINISH_REASONS = {"end_turn": "stop", "tool_use": "tool_calls", "max_tokens": "length", "refusal": "stop"}
ERROR_TYPES = {
    401: ("invalid_request_error", "invalid_api_key"),
    404: ("invalid_request_error", "model_not_found"),
    429: ("requests", "rate_limit_exceeded"),
}


def api_key(headers: Mapping[str, str]) -> str:
    """Return the API key of the request."""
    return headers.get("authorization", "").removeprefix("Bearer ")


def check_headers(headers: Mapping[str, str]) -> None:
    """Accept any headers: this service needs only the key."""


def unknown_model(model: str) -> RequestRefused:
    return RequestRefused(f"There is no model `{model}`, or it is not open to you.", status=404)


def wants_usage(body: dict[str, Any], streamed: bool) -> bool:
    return not streamed or bool((body.get("stream_options") or {}).get("include_usage"))


def encode_whole(reply: PreparedReply) -> bytes:
    """Encode an unstreamed answer."""
    text = "".join(reply.words)
    refused = reply.finish == "refusal"
    message: dict[str, Any] = {
        "role": "assistant",
        "content": None if refused or (reply.calls and not text) else text,
        "refusal": text if refused else None,
        "annotations": [],
    }
    if reply.calls:
        message["tool_calls"] = [_call(call, call.spelled) for call in reply.calls]
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": _finish(reply)}
    return json.encode(_head(reply, "chat.completion") | {"choices": [choice], "usage": _usage(reply.usage)})


def opening_frames(reply: PreparedReply) -> Iterator[StreamFrame]:
    yield _chunk(reply, {"role": "assistant", "content": "", "refusal": None})


def body_frames(reply: PreparedReply) -> Iterator[StreamFrame]:
    """Yield the text, then each call: its name first, then its arguments in pieces."""
    said = "refusal" if reply.finish == "refusal" else "content"
    for word in reply.words:
        yield _chunk(reply, {said: word}, piece=True)
    for index, call in enumerate(reply.calls):
        yield _chunk(reply, {"tool_calls": [{"index": index} | _call(call, "")]})
        for part in argument_pieces(call.spelled):
            continued = {"index": index, "function": {"arguments": part}}
            yield _chunk(reply, {"tool_calls": [continued]}, piece=True)


def closing_frames(reply: PreparedReply) -> Iterator[StreamFrame]:
    yield _chunk(reply, {}, finish=_finish(reply))
    if reply.counted:
        yield _event(_head(reply, "chat.completion.chunk") | {"choices": [], "usage": _usage(reply.usage)})
    yield StreamFrame(b"data: [DONE]\n\n")


def encode_error(failure: Fails, param: str | None = None) -> bytes:
    return json.encode(_error(failure, param))


def stream_error_frame(failure: Fails) -> StreamFrame:
    """Encode an error inside a stream."""
    return _event(_error(failure, None))


def _error(failure: Fails, param: str | None) -> dict[str, Any]:
    usual = "server_error" if failure.status >= 500 else "invalid_request_error"
    kind, code = ERROR_TYPES.get(failure.status, (usual, None))
    described = {"message": failure.message, "type": failure.type or kind, "param": param}
    return {"error": described | {"code": failure.code or code}}


def _finish(reply: PreparedReply) -> str:
    if reply.finish is None:
        return "tool_calls" if reply.calls else "stop"
    return FINISH_REASONS.get(reply.finish, reply.finish)


def _head(reply: PreparedReply, kind: str) -> dict[str, Any]:
    return {
        "id": reply.id,
        "object": kind,
        "created": int(time.time()),
        "model": reply.model,
        "service_tier": "default",
        "system_fingerprint": None,
    }


def _call(call: Wish, arguments: str) -> dict[str, Any]:
    return {"id": call.id, "type": "function", "function": {"name": call.tool, "arguments": arguments}}


def _usage(usage: Usage) -> dict[str, Any]:
    return {
        "prompt_tokens": usage.input,
        "completion_tokens": usage.output,
        "total_tokens": usage.input + usage.output,
        "prompt_tokens_details": {"cached_tokens": usage.cached, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 0, "audio_tokens": 0},
    }


def _chunk(
    reply: PreparedReply, delta: dict[str, Any], *, finish: str | None = None, piece: bool = False
) -> StreamFrame:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
    chunk = _head(reply, "chat.completion.chunk") | {"choices": [choice]}
    return _event(chunk | {"usage": None} if reply.counted else chunk, piece=piece)


def _event(value: dict[str, Any], *, piece: bool = False) -> StreamFrame:
    return StreamFrame(b"data: " + json.encode(value) + b"\n\n", piece)


MAX_ID_CHARS = 40
MAX_NAME_CHARS = 64
CHOICES = ("none", "auto", "required")
PART_TYPES = {
    "system": ("text",),
    "developer": ("text",),
    "user": ("text", "image_url", "input_audio", "file"),
    "assistant": ("text", "refusal"),
    "tool": ("text",),
}


def check_request(body: dict[str, Any], known: set[str]) -> None:
    """Refuse a request that breaks a rule. `known` are tools beside those that the request offers."""
    expect_model(body)
    offered = _check_tools(body)
    _check_choice(body, offered)
    if body.get("stream_options") is not None and not body.get("stream"):
        refuse("stream_options", "these are for streams only; `stream` is not set.")
    _check_messages(expect_list("messages", body.get("messages")), known | offered)


def _check_tools(body: dict[str, Any]) -> set[str]:
    """Check the offered tools and return their names."""
    offered: set[str] = set()
    if body.get("tools") is None:
        return offered
    for index, tool in enumerate(expect_list("tools", body["tools"])):
        where = f"tools[{index}].function"
        if expect_object(f"tools[{index}]", tool).get("type") != "function":
            refuse(f"tools[{index}].type", f"expected 'function', got {describe_value(tool.get('type'))}.")
        function = expect_object(where, tool.get("function"))
        name = expect_tool_name(f"{where}.name", function.get("name"), MAX_NAME_CHARS)
        if name in offered:
            refuse(f"{where}.name", f"the tool {name!r} is offered twice.")
        if "parameters" in function:
            expect_schema(f"{where}.parameters", function["parameters"])
        offered.add(name)
    return offered


def _check_choice(body: dict[str, Any], offered: set[str]) -> None:
    for parameter in ("tool_choice", "parallel_tool_calls"):
        if body.get(parameter) is not None and not offered:
            refuse(parameter, "this is allowed only beside `tools`.")
    choice = body.get("tool_choice")
    if isinstance(choice, dict) and choice.get("type") == "function":
        name = expect_object("tool_choice.function", choice.get("function")).get("name")
        expect_known_tool("tool_choice.function.name", str(name), offered)
    elif choice is not None and not isinstance(choice, dict) and choice not in CHOICES:
        refuse("tool_choice", f"expected one of {', '.join(CHOICES)}, got {describe_value(choice)}.")


def _check_messages(messages: list[Any], known: set[str]) -> None:
    """Check that every call has exactly one result, directly after the message that made the call."""
    owed: dict[str, str] = {}  # the calls without a result so far, each with its position
    settled: set[str] = set()
    for index, message in enumerate(messages):
        where = f"messages[{index}]"
        role = expect_object(where, message).get("role")
        if role not in PART_TYPES:
            refuse(f"{where}.role", f"expected one of {', '.join(PART_TYPES)}, got {describe_value(role)}.")
        if role == "tool":
            _record_result(where, message, owed, settled)
        else:
            _expect_all_results(owed)
            settled.clear()
        _check_content(where, role, message)
        if role == "assistant" and message.get("tool_calls") is not None:
            owed.update(_check_calls(where, message["tool_calls"], known))
    _expect_all_results(owed)


def _expect_all_results(owed: dict[str, str]) -> None:
    if owed:
        where = next(iter(owed.values()))
        refuse(where, f"these tool calls have no result right after them: {', '.join(owed)}.")


def _record_result(where: str, message: dict[str, Any], owed: dict[str, str], settled: set[str]) -> None:
    call = message.get("tool_call_id")
    if not isinstance(call, str):
        refuse(f"{where}.tool_call_id", f"expected the id of a tool call, got {describe_value(call)}.")
    if call in settled:
        refuse(f"{where}.tool_call_id", f"the tool call {call!r} has a result already; it must have exactly one.")
    if call not in owed:
        refuse(f"{where}.tool_call_id", f"no message right before this one makes the tool call {call!r}.")
    del owed[call]
    settled.add(call)


def _check_content(where: str, role: str, message: dict[str, Any]) -> None:
    content = message.get("content")
    calls = role == "assistant" and message.get("tool_calls")
    if isinstance(content, list):
        for index, part in enumerate(expect_list(f"{where}.content", content)):
            _check_part(f"{where}.content[{index}]", role, part)
    elif role == "tool":
        # The result of a tool may be empty; a message of a person or a model may not.
        if not isinstance(content, str):
            refuse(f"{where}.content", f"expected a string or a list of parts, got {describe_value(content)}.")
    elif not (calls and content in (None, "")) and not (content is None and message.get("refusal")):
        expect_text(f"{where}.content", content)


def _check_part(where: str, role: str, part: object) -> None:
    kind = expect_object(where, part).get("type")
    if kind not in PART_TYPES[role]:
        refuse(
            f"{where}.type",
            f"{role} messages have parts of {', '.join(PART_TYPES[role])}; got {describe_value(kind)}.",
        )
    if kind in ("text", "refusal"):
        expect_text(f"{where}.{kind}", expect_object(where, part).get(kind))


def _check_calls(where: str, calls: object, known: set[str]) -> dict[str, str]:
    """Return the ids of a message's calls, each with its position."""
    made: dict[str, str] = {}
    for index, call in enumerate(expect_list(f"{where}.tool_calls", calls)):
        at = f"{where}.tool_calls[{index}]"
        identity = expect_object(at, call).get("id")
        if not isinstance(identity, str) or not 0 < len(identity) <= MAX_ID_CHARS:
            refuse(
                f"{at}.id", f"expected an id of 1 to {MAX_ID_CHARS} characters, got {describe_value(identity)}."
            )
        if identity in made:
            refuse(f"{at}.id", f"the id {identity!r} is given to two tool calls.")
        if call.get("type") != "function":
            refuse(f"{at}.type", f"expected 'function', got {describe_value(call.get('type'))}.")
        function = expect_object(f"{at}.function", call.get("function"))
        name = expect_tool_name(f"{at}.function.name", function.get("name"), MAX_NAME_CHARS)
        expect_known_tool(f"{at}.function.name", name, known)
        if not isinstance(function.get("arguments"), str):
            refuse(
                f"{at}.function.arguments",
                f"expected JSON in a string, got {describe_value(function.get('arguments'))}.",
            )
        made[identity] = at
    return made

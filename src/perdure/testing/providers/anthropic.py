"""The format of Anthropic's Messages API: whole answers, streams and errors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from msgspec import json

from perdure.testing.providers import anthropic_rules
from perdure.testing.providers.answers import Api, Fails, PreparedReply, StreamFrame, Usage, Wish, argument_pieces
from perdure.testing.providers.dialect import RequestRefused, refuse

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

check_request = anthropic_rules.check_request


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

"""The format of OpenAI's Chat Completions API: whole answers, streams and errors."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import json

from perdure.testing.providers import openai_rules
from perdure.testing.providers.answers import Api, Fails, PreparedReply, StreamFrame, Usage, Wish, argument_pieces
from perdure.testing.providers.dialect import RequestRefused

NAME: Api = "openai"
CALL_PREFIX = "call_"
REPLY_PREFIX = "chatcmpl-"

FINISH_REASONS = {"end_turn": "stop", "tool_use": "tool_calls", "max_tokens": "length", "refusal": "stop"}
ERROR_TYPES = {
    401: ("invalid_request_error", "invalid_api_key"),
    404: ("invalid_request_error", "model_not_found"),
    429: ("requests", "rate_limit_exceeded"),
}

check_request = openai_rules.check_request


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

"""Encodes responses and results of pydantic-ai for the journal, and decodes them. It loads pydantic-ai."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import count
from typing import Any

import msgspec
import pydantic_core
from pydantic_ai.messages import (
    BinaryContent,
    FileUrl,
    ModelMessage,
    ModelResponse,
    ModelResponsePart,
    TextContent,
    TextPart,
    ToolCallPart,
    ToolReturn,
    ToolReturnPart,
    UploadedFile,
    is_multi_modal_content,
)
from pydantic_ai.usage import RequestUsage

from perdure.agents.providers.library_codec import (
    dump_native,
    encode_answer,
    load_native,
    tool_call_parts,
    with_call_ids,
)
from perdure.core import texts
from perdure.core.effects import Effect
from perdure.core.journal import CallProgress, Entry, ModelAnswered, ToolEnded, ToolOutcome, ToolStarted

# ── responses ───────────────────────────────────────────────────────────────────────────────────────────────


def encode_response(step: int, response: ModelResponse) -> ModelAnswered:
    """A response as an entry, with everything that the library knows of it, so that a replay returns the same."""
    entry = encode_answer(step, response)
    if len(entry.calls) != len(
        tool_call_parts(response)
    ):  # too many calls: the rest is left out, here and on replay
        return entry
    return msgspec.structs.replace(entry, native=dump_native(response))


def decode_response(entry: ModelAnswered) -> ModelResponse:
    """The response as it was, or at least its text and calls; every call has a unique id."""
    native = None if entry.native is None else load_native(entry.native, len(entry.calls))
    response = native or ModelResponse(_plain(entry), usage=_usage(entry), finish_reason=None)
    ids = [part.tool_call_id for part in tool_call_parts(response)]
    if "" in ids or len({*ids}) < len(ids):
        return replace(response, parts=list(with_call_ids(response.parts, _replay_ids(entry.step))))
    return response


def _plain(entry: ModelAnswered) -> list[ModelResponsePart]:
    text = [TextPart(entry.text)] if entry.text.strip() else []
    calls = [ToolCallPart(call.tool, call.arguments) for call in entry.calls]
    return [*text, *with_call_ids(calls, _replay_ids(entry.step))]


def _usage(entry: ModelAnswered) -> RequestUsage:
    return RequestUsage(input_tokens=entry.usage.input, output_tokens=entry.usage.output)


def _replay_ids(step: int) -> Iterator[str]:
    """Ids of calls that are the same on every replay, and short enough for every provider."""
    return (f"c{step:04}x{number:03}" for number in count(1))


# ── results ─────────────────────────────────────────────────────────────────────────────────────────────────


def newest_results(messages: Sequence[ModelMessage]) -> Iterator[ToolReturnPart]:
    """The tool results behind the last response."""
    for message in reversed(messages):
        if isinstance(message, ModelResponse):
            return
        yield from (part for part in message.parts if isinstance(part, ToolReturnPart))


def result_entries(call: CallProgress, part: ToolReturnPart, limit: int) -> list[Entry]:
    """The entries for a call whose result came from the library, and not from a tool of the agent."""
    request = call.request
    if call.started is not None:  # by earlier code, which had a tool for it
        return [ToolEnded(request.id, "unknown", texts.tool_calls.OUTCOME_UNKNOWN)]
    outcome: ToolOutcome = "ok" if part.outcome == "success" else "error"
    text = texts.phrases.clip(part.model_response_str(wrap_if_error=False), limit)
    return [ToolStarted(request.id, request.tool, Effect.PURE, ""), ToolEnded(request.id, outcome, text)]


def tool_result_text(result: Any) -> str:
    """The result of a tool as text: pictures and other files are only mentioned."""
    value, content = (result.return_value, result.content) if isinstance(result, ToolReturn) else (result, None)
    part = ToolReturnPart("", value)
    also = [content] if isinstance(content, str) else content or []
    lines = [part.model_response_str(), *map(_content_text, [*part.files, *also])]
    return "\n".join(filter(None, lines)).encode(errors="replace").decode()


def _content_text(item: Any) -> str:
    match item:
        case str():
            return item
        case TextContent():
            return item.content
        case BinaryContent():
            return texts.mcp.binary_content(item.media_type, len(item.data))
        case FileUrl():
            return texts.mcp.resource_link("a file", item.url)
        case UploadedFile():
            return texts.mcp.resource_link("a file", item.file_id)
        case _:
            return ""


def reply_text(output: Any) -> str:
    """An output as the text that people read: a text as it is, everything else as JSON."""
    if output is None or isinstance(output, str):
        return output or ""
    if is_multi_modal_content(output):
        return _content_text(output)
    return pydantic_core.to_json(output, fallback=str).decode()

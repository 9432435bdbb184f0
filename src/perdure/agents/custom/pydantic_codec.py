"""What pydantic-ai said and did, as the journal keeps it and gives it back. Imported only where that is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import msgspec
import pydantic
import pydantic_core
from pydantic_ai.messages import (
    BinaryContent,
    FileUrl,
    ModelMessage,
    ModelMessagesTypeAdapter,
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

from perdure.agents.providers.message_codec import to_model_answered
from perdure.core import texts
from perdure.core.effects import Effect
from perdure.core.journal import CallProgress, Entry, ModelAnswered, ToolEnded, ToolOutcome, ToolStarted

# ── responses ───────────────────────────────────────────────────────────────────────────────────────────────


def encode_response(step: int, response: ModelResponse) -> ModelAnswered:
    """A response with all that the library knows of it, so that it can be given again as it was."""
    entry = to_model_answered(step, response)
    if len(entry.calls) != len(_tool_call_parts(response)):  # too many: the rest is left out, here and on replay
        return entry
    (native,) = ModelMessagesTypeAdapter.dump_python([response], mode="json")
    return msgspec.structs.replace(entry, native=dict(native))


def decode_response(entry: ModelAnswered) -> ModelResponse:
    """The response as it was, or at least its words and calls; every call has an id of its own."""
    response = _load_native(entry) or ModelResponse(_plain(entry), usage=_usage(entry), finish_reason=None)
    ids = [wish.tool_call_id for wish in _tool_call_parts(response)]
    if "" in ids or len({*ids}) < len(ids):
        return replace(response, parts=list(_with_call_ids(response.parts, entry.step)))
    return response


def _load_native(entry: ModelAnswered) -> ModelResponse | None:
    if entry.native is None:
        return None
    try:
        (found,) = ModelMessagesTypeAdapter.validate_python([entry.native])
    except pydantic.ValidationError:  # another version of the library wrote it
        return None
    fits = isinstance(found, ModelResponse) and len(_tool_call_parts(found)) == len(entry.calls)
    return found if fits and isinstance(found, ModelResponse) else None


def _plain(entry: ModelAnswered) -> list[ModelResponsePart]:
    text = [TextPart(entry.text)] if entry.text.strip() else []
    return [*text, *_with_call_ids([ToolCallPart(call.tool, call.arguments) for call in entry.calls], entry.step)]


def _usage(entry: ModelAnswered) -> RequestUsage:
    return RequestUsage(input_tokens=entry.usage.input, output_tokens=entry.usage.output)


def _tool_call_parts(response: ModelResponse) -> list[ToolCallPart]:
    return [part for part in response.parts if isinstance(part, ToolCallPart)]


def _with_call_ids(parts: Sequence[ModelResponsePart], step: int) -> Iterator[ModelResponsePart]:
    """Calls with ids that are the same on every replay, and short enough for every provider."""
    number = 0
    for part in parts:
        if isinstance(part, ToolCallPart):
            number += 1
            yield replace(part, tool_call_id=f"c{step:04}x{number:03}")
        else:
            yield part


# ── results ─────────────────────────────────────────────────────────────────────────────────────────────────


def newest_results(messages: Sequence[ModelMessage]) -> Iterator[ToolReturnPart]:
    """The results behind the last response."""
    for message in reversed(messages):
        if isinstance(message, ModelResponse):
            return
        yield from (part for part in message.parts if isinstance(part, ToolReturnPart))


def result_entries(call: CallProgress, part: ToolReturnPart, limit: int) -> list[Entry]:
    """The facts about a call that no tool of the agent ran now."""
    wish = call.request
    if call.started is not None:  # by code that had a tool for it
        return [ToolEnded(wish.id, "unknown", texts.tool_calls.OUTCOME_UNKNOWN)]
    outcome: ToolOutcome = "ok" if part.outcome == "success" else "error"
    text = texts.phrases.clip(part.model_response_str(wrap_if_error=False), limit)
    return [ToolStarted(wish.id, wish.tool, Effect.PURE, ""), ToolEnded(wish.id, outcome, text)]


def tool_result_text(result: Any) -> str:
    """What a tool gave, as words: pictures and other files are only mentioned."""
    value, content = (result.return_value, result.content) if isinstance(result, ToolReturn) else (result, None)
    part = ToolReturnPart("", value)
    also = [content] if isinstance(content, str) else content or []
    said = [part.model_response_str(), *map(_content_text, [*part.files, *also])]
    return "\n".join(filter(None, said)).encode(errors="replace").decode()


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
    """An output as the text that people read: words as they are, everything else as JSON."""
    if output is None or isinstance(output, str):
        return output or ""
    if is_multi_modal_content(output):
        return _content_text(output)
    return pydantic_core.to_json(output, fallback=str).decode()

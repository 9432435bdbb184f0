"""Translates messages and responses between core and pydantic-ai, which it loads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pydantic
from pydantic_ai.messages import (
    BinaryContent,
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequestPart,
    ModelResponse,
    ModelResponsePart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.messages import ModelRequest as Request
from pydantic_ai.models import Model as Provider

from perdure.agents.api import ModelRequest
from perdure.agents.providers.client import LoadedImages, WireCallIds, shown_images, tool_result_words
from perdure.agents.providers.completeness import require_finish_reason
from perdure.agents.providers.responses import ProviderResponse, RequestedCall, to_model_answered
from perdure.core import texts
from perdure.core.conversation import AssistantMessage, Message, NoteMessage, ToolMessage, UserMessage
from perdure.core.journal import ModelAnswered, TokenUsage

# ── requests ────────────────────────────────────────────────────────────────────────────────────────────────


def to_provider_messages(
    request: ModelRequest, provider: Provider | None = None, loaded_images: LoadedImages | None = None
) -> list[ModelMessage]:
    """The conversation as pydantic-ai expects it: requests and responses in turn, every call with its result.

    The native form of a response goes back to its own provider only. The request contains those pictures that are
    in `loaded_images`.
    """
    ids = WireCallIds()
    messages: list[ModelMessage] = []
    parts: list[ModelRequestPart] = []
    for message in request.messages:
        if isinstance(message, AssistantMessage):
            if parts:
                messages.append(Request(parts))
                parts = []
            messages.append(_response(message, ids, provider))
        else:
            parts.append(_request_part(message, ids, loaded_images or {}))
    messages.append(Request(parts, instructions=request.system_prompt or None))
    return messages


def _request_part(message: Message, ids: WireCallIds, loaded_images: LoadedImages) -> ModelRequestPart:
    match message:
        case ToolMessage(call, tool, _, outcome):
            words, failed = tool_result_words(message), outcome != "ok"
            return ToolReturnPart(tool, words, ids.find(call), outcome="failed" if failed else "success")
        case UserMessage():
            shown = shown_images(message, loaded_images)
            images = [BinaryContent(each.content, media_type=each.media_type) for each in shown]
            return UserPromptPart([message.text_with_files, *images] if images else message.text_with_files)
        case NoteMessage(text):
            return UserPromptPart(text)
        case AssistantMessage():
            raise AssertionError("what an assistant said is no part of a request")


def _response(message: AssistantMessage, ids: WireCallIds, provider: Provider | None) -> ModelResponse:
    wire_ids = [ids.assign(call.id) for call in message.calls]
    native = _load_native(message, provider)
    if native is not None:
        return replace(native, parts=list(with_call_ids(native.parts, iter(wire_ids))))
    parts: list[ModelResponsePart] = [TextPart(message.text)] if message.text.strip() else []
    parts += [
        ToolCallPart(call.tool, call.arguments, wire) for call, wire in zip(message.calls, wire_ids, strict=True)
    ]
    return ModelResponse(parts or [TextPart(texts.agents.EMPTY_MESSAGE)])


def _load_native(message: AssistantMessage, provider: Provider | None) -> ModelResponse | None:
    """The response as its provider gave it, if this is that provider and the library still reads it."""
    if provider is None or message.native is None or message.native.get("provider_name") != provider.system:
        return None
    return load_native(message.native, len(message.calls))


# ── a provider's own response ───────────────────────────────────────────────────────────────────────────────


def load_native(native: Mapping[str, Any], call_count: int) -> ModelResponse | None:
    """The response that `dump_native` stored; None if the library cannot read it, or it has other calls."""
    try:
        (found,) = ModelMessagesTypeAdapter.validate_python([native])
    except pydantic.ValidationError:  # another version of the library wrote it
        return None
    fits = isinstance(found, ModelResponse) and len(tool_call_parts(found)) == call_count
    return found if fits and isinstance(found, ModelResponse) else None


def dump_native(response: ModelResponse) -> dict[str, Any]:
    """A response with everything that the library knows of it, as JSON can hold it."""
    (native,) = ModelMessagesTypeAdapter.dump_python([response], mode="json")
    return dict(native)


def tool_call_parts(response: ModelResponse) -> list[ToolCallPart]:
    return [part for part in response.parts if isinstance(part, ToolCallPart)]


def with_call_ids(parts: Sequence[ModelResponsePart], call_ids: Iterator[str]) -> Iterator[ModelResponsePart]:
    """The parts of a response, with these ids for its calls, in their order."""
    for part in parts:
        yield replace(part, tool_call_id=next(call_ids)) if isinstance(part, ToolCallPart) else part


# ── responses ───────────────────────────────────────────────────────────────────────────────────────────────


def encode_answer(step: int, response: ModelResponse) -> ModelAnswered:
    """A response as an entry of the journal; `ModelCallFailed` if it is incomplete."""
    finish = require_finish_reason(response)
    found = ProviderResponse(
        "".join(part.content for part in response.parts if isinstance(part, TextPart)),
        [RequestedCall(part.tool_name, part.args) for part in tool_call_parts(response)],
        finish,
        TokenUsage(response.usage.input_tokens, response.usage.output_tokens),
        dump_native(response) if any(_has_more(part) for part in response.parts) else None,
    )
    return to_model_answered(step, found)


def _has_more(part: ModelResponsePart) -> bool:
    """Whether a part holds more than text or a call: a signature, a thought, an id of the provider."""
    plain = isinstance(part, TextPart | ToolCallPart)
    return not plain or bool(getattr(part, "provider_details", None) or getattr(part, "id", None))

"""Translates messages, responses and pictures between core and pydantic-ai, which it loads."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pydantic
from msgspec import Struct
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
from perdure.agents.providers.completeness import require_complete_calls, require_finish_reason
from perdure.core import texts
from perdure.core.conversation import AssistantMessage, Message, NoteMessage, ToolMessage, UserMessage
from perdure.core.journal import ModelAnswered, TokenUsage, ToolCall
from perdure.core.storable_text import make_storable, to_json

MAX_CALLS = 64  # in one response
MAX_ARGUMENT_BYTES = 256 * 1024  # of one call
IMAGE_TYPES = frozenset(("image/jpeg", "image/png", "image/gif", "image/webp"))
MAX_IMAGE_BYTES = 5_000_000  # providers take no more
MAX_IMAGES = 8  # in one request: the newest


class LoadedImage(Struct, frozen=True):
    """A picture that came with a message, read for one request to a model and never kept."""

    path: str
    media_type: str
    content: bytes


# ── requests ────────────────────────────────────────────────────────────────────────────────────────────────


def to_provider_messages(
    request: ModelRequest, provider: Provider | None = None, loaded_images: Mapping[str, LoadedImage] | None = None
) -> list[ModelMessage]:
    """The conversation as pydantic-ai expects it: requests and responses in turn, every call with its result.

    The native form of a response goes back to its own provider only. The request contains those pictures that are
    in `loaded_images`.
    """
    ids = _WireCallIds()
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


class _WireCallIds:
    """Ids of calls for the provider. Ours are unique in their turn only, and some providers need short ones."""

    def __init__(self) -> None:
        self._count = 0
        self._open: dict[str, str] = {}

    def assign(self, call: str) -> str:
        self._count += 1
        self._open[call] = f"call{self._count:05}"
        return self._open[call]

    def find(self, call: str) -> str:
        return self._open[call]


def _request_part(
    message: Message, ids: _WireCallIds, loaded_images: Mapping[str, LoadedImage]
) -> ModelRequestPart:
    match message:
        case ToolMessage(call, tool, text, outcome):
            failed = outcome != "ok"
            content = text if text.strip() else texts.phrases.NO_OUTPUT
            return ToolReturnPart(tool, content, ids.find(call), outcome="failed" if failed else "success")
        case UserMessage():
            shown = [
                loaded_images[file.path] for file in message.files if file.path and file.path in loaded_images
            ]
            images = [BinaryContent(each.content, media_type=each.media_type) for each in shown]
            return UserPromptPart([message.text_with_files, *images] if images else message.text_with_files)
        case NoteMessage(text):
            return UserPromptPart(text)
        case AssistantMessage():
            raise AssertionError("what an assistant said is no part of a request")


def _response(message: AssistantMessage, ids: _WireCallIds, provider: Provider | None) -> ModelResponse:
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


def to_model_answered(step: int, response: ModelResponse) -> ModelAnswered:
    """A response as an entry of the journal; `ModelCallFailed` if it is incomplete."""
    finish = require_finish_reason(response)
    text = "".join(part.content for part in response.parts if isinstance(part, TextPart))
    requested = tool_call_parts(response)
    calls = tuple(_call(f"c{step}.{number}", part) for number, part in enumerate(requested[:MAX_CALLS], 1))
    if len(requested) > MAX_CALLS:
        text = f"{text}\n{texts.tool_calls.too_many(len(requested) - MAX_CALLS)}".strip()
    usage = TokenUsage(response.usage.input_tokens, response.usage.output_tokens)
    keeps_native = len(requested) <= MAX_CALLS and any(_has_more(part) for part in response.parts)
    native = dump_native(response) if keeps_native else None
    return require_complete_calls(ModelAnswered(step, text, calls, finish, usage, native))


def _call(call: str, part: ToolCallPart) -> ToolCall:
    written = make_storable(part.args) if isinstance(part.args, str) else to_json(part.args or {})
    if len(written.encode()) > MAX_ARGUMENT_BYTES:
        return ToolCall(
            call, part.tool_name, {}, texts.tool_calls.arguments_too_long(len(written), MAX_ARGUMENT_BYTES)
        )
    try:
        arguments = msgspec.json.decode(written or "{}", type=dict[str, Any])
    except msgspec.DecodeError as error:
        return ToolCall(call, part.tool_name, {}, texts.tool_calls.arguments_not_json(str(error), written))
    return ToolCall(call, part.tool_name, arguments)


def _has_more(part: ModelResponsePart) -> bool:
    """Whether a part holds more than text or a call: a signature, a thought, an id of the provider."""
    plain = isinstance(part, TextPart | ToolCallPart)
    return not plain or bool(getattr(part, "provider_details", None) or getattr(part, "id", None))


# ── pictures ────────────────────────────────────────────────────────────────────────────────────────────────


def visible_images(messages: Sequence[Message], excluded: Collection[str] = ()) -> list[tuple[str, str]]:
    """The paths and types of the pictures in a conversation that a model may see, the newest first."""
    files = [file for message in messages if isinstance(message, UserMessage) for file in message.files]
    images = [
        (file.path, file.media_type) for file in reversed(files) if file.path and file.media_type in IMAGE_TYPES
    ]
    return [(path, media_type) for path, media_type in images if path not in excluded]


def load_images(wanted: Sequence[tuple[str, str]]) -> dict[str, LoadedImage]:
    """Read the first of these pictures, by their paths, without those that are too large or gone."""
    found: dict[str, LoadedImage] = {}
    for path, media_type in wanted:
        content = _read_image(path) if len(found) < MAX_IMAGES else b""
        if content:
            found[path] = LoadedImage(path, media_type, content)
    return found


def _read_image(path: str) -> bytes:
    try:
        with Path(path).open("rb") as file:
            content = file.read(MAX_IMAGE_BYTES + 1)
    except OSError:
        return b""
    return content if len(content) <= MAX_IMAGE_BYTES else b""

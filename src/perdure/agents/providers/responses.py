"""Responses of models: as a provider gave them, as the journal stores them, and as they go back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from perdure.core import texts
from perdure.core.journal import ModelAnswered, TokenUsage, ToolCall
from perdure.core.recovery.decision import STOPPED_FINISH_REASONS
from perdure.core.storable_text import make_storable, to_json
from perdure.errors import ModelCallFailed

MAX_CALLS = 64  # in one response
MAX_ARGUMENT_BYTES = 256 * 1024  # of one call
INVALID_ARGUMENTS = "INVALID_JSON"  # the field by which arguments that are no JSON object go back to a model

Arguments = str | dict[str, Any] | None


class RequestedCall(Struct, frozen=True):
    """A tool call as a model wrote it."""

    tool: str
    arguments: Arguments = None


class ProviderResponse(Struct, frozen=True):
    """A complete response of a model, whichever provider gave it."""

    text: str
    calls: Sequence[RequestedCall] = ()
    finish: str | None = None
    usage: TokenUsage = TokenUsage()
    native: dict[str, Any] | None = None  # what the provider wants back word for word, as the journal stores it


def to_model_answered(step: int, response: ProviderResponse) -> ModelAnswered:
    """A response as an entry of the journal; `ModelCallFailed` if it ends inside of a tool call."""
    text, left_out = response.text, len(response.calls) - MAX_CALLS
    calls = tuple(_tool_call(f"c{step}.{number}", call) for number, call in enumerate(response.calls, 1))
    if left_out > 0:
        text = f"{text}\n{texts.tool_calls.too_many(left_out)}".strip()
    if calls and (response.finish or "").lower() in STOPPED_FINISH_REASONS:
        raise incomplete_answer_error(texts.agents.incomplete_call(str(response.finish)))
    native = response.native if left_out <= 0 else None
    return ModelAnswered(step, text, calls[:MAX_CALLS], response.finish, response.usage, native)


def incomplete_answer_error(why: str) -> ModelCallFailed:
    """The failure of a model call whose answer is incomplete."""
    return ModelCallFailed(texts.agents.PROVIDER_INCOMPLETE, said=why, broke_off=True)


def _tool_call(call_id: str, call: RequestedCall) -> ToolCall:
    given = call.arguments
    written = make_storable(given) if isinstance(given, str) else to_json(given or {})
    if len(written.encode()) > MAX_ARGUMENT_BYTES:
        problem = texts.tool_calls.arguments_too_long(len(written), MAX_ARGUMENT_BYTES)
        return ToolCall(call_id, call.tool, {}, problem)
    try:
        arguments = msgspec.json.decode(written or "{}", type=dict[str, Any])
    except msgspec.DecodeError as error:
        return ToolCall(call_id, call.tool, {}, texts.tool_calls.arguments_not_json(str(error), written))
    return ToolCall(call_id, call.tool, arguments)


# ── the provider's own form ─────────────────────────────────────────────────────────────────────────────────


class TextBlock(Struct, tag="text", tag_field="part_kind"):
    content: str = ""


class ThinkingBlock(Struct, tag="thinking", tag_field="part_kind", omit_defaults=True):
    """A thought of a model. `id` says in which form the provider gave it, `signature` is the provider's own."""

    content: str = ""
    id: str | None = None
    signature: str | None = None
    provider_name: str | None = None


class CallBlock(Struct, tag="tool-call", tag_field="part_kind", omit_defaults=True):
    tool_name: str
    args: Arguments = None
    tool_call_id: str = ""
    provider_name: str | None = None
    provider_details: dict[str, Any] | None = None  # what else the provider wants back with the call

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments as an object, as providers want them back."""
        if not self.args or isinstance(self.args, dict):
            return self.args or {}
        try:
            return msgspec.json.decode(make_storable(self.args), type=dict[str, Any])
        except msgspec.DecodeError:
            return {INVALID_ARGUMENTS: self.args}


Block = TextBlock | ThinkingBlock | CallBlock


class _NativeResponse(Struct):
    """The stored form: that of pydantic-ai, as 0.2.0 wrote it, of which we read and write these fields."""

    parts: list[Block]
    provider_name: str | None = None
    kind: str = "response"


def response_from_blocks(
    blocks: Sequence[Block], provider_name: str, finish: str | None, usage: TokenUsage
) -> ProviderResponse:
    """The response that consists of these blocks; thoughts and signatures are kept in its native form."""
    has_more = any(
        isinstance(block, ThinkingBlock) or (isinstance(block, CallBlock) and block.provider_details)
        for block in blocks
    )
    return ProviderResponse(
        "".join(block.content for block in blocks if isinstance(block, TextBlock)),
        [RequestedCall(block.tool_name, block.args) for block in blocks if isinstance(block, CallBlock)],
        finish,
        usage,
        msgspec.to_builtins(_NativeResponse(list(blocks), provider_name)) if has_more else None,
    )


def load_blocks(native: Mapping[str, Any] | None, provider_name: str, calls: int) -> list[Block] | None:
    """The blocks of a stored response; None if it is another provider's, cannot be read or has other calls."""
    if native is None or native.get("provider_name") != provider_name:
        return None
    try:
        blocks = msgspec.convert(native, _NativeResponse).parts
    except msgspec.ValidationError:  # with parts of a kind that the clients of ours do not know
        return None
    return blocks if sum(isinstance(block, CallBlock) for block in blocks) == calls else None


def plain_blocks(text: str, calls: Iterable[ToolCall]) -> list[Block]:
    """The blocks of a response of which the journal has only the text and the calls."""
    blocks: list[Block] = [TextBlock(text)] if text.strip() else []
    blocks += [CallBlock(call.tool, call.arguments) for call in calls]
    return blocks or [TextBlock(texts.agents.EMPTY_MESSAGE)]

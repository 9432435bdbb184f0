"""Anthropic's messages: how requests are written and answers read."""

from __future__ import annotations

import base64
import os
from collections.abc import Mapping
from typing import Any

from perdure.agents.api import ModelRequest
from perdure.agents.providers.api_client import ProviderApi, RefusedAnswer, StreamReader
from perdure.agents.providers.client import LoadedImages, WireCallIds, shown_images, tool_result_words
from perdure.agents.providers.failures import (
    FailureKind,
    Refusal,
    kind_of_status,
    provider_message,
    requested_wait,
)
from perdure.agents.providers.known_models import anthropic_answer_tokens
from perdure.agents.providers.responses import (
    Block,
    CallBlock,
    ProviderResponse,
    TextBlock,
    ThinkingBlock,
    incomplete_answer_error,
    load_blocks,
    plain_blocks,
    response_from_blocks,
)
from perdure.agents.providers.tool_schemas import clean_schema
from perdure.core import texts
from perdure.core.conversation import AssistantMessage, Message, NoteMessage, ToolMessage, UserMessage
from perdure.core.journal import TokenUsage

BASE_URL = "https://api.anthropic.com"
PROVIDER_NAME = "anthropic"
API_VERSION = "2026-10-21"
MAX_UNSTREAMED_TOKENS = (
    21_333  # a longer answer may take more than ten minutes, and connections do not last as long
)
REDACTED_THOUGHT = "redacted_thinking"  # the id of a thought that only the provider can read
FINISH_REASONS = {
    "compaction": "stop",
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "tool_call",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "content_filter",
}
STATUS_BY_ERROR_TYPE = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}
KIND_BY_ERROR_TYPE = {
    "rate_limit_error": FailureKind.BUSY,
    "overloaded_error": FailureKind.BUSY,
    "billing_error": FailureKind.QUOTA_EXHAUSTED,
}
NO_CREDIT = "credit balance is too low"  # said under the status of a refused request
# Newer models bind a thought to what stood before it, and refuse it behind anything else, e.g. other tools. Then
# they are asked to leave such thoughts out.
STALE_THOUGHT = "The block is bound to a different conversation"
DROP_STALE_THOUGHTS = {"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "drop_block"}}
BINDING_FEATURE = "thinking-binding-controls-2026-08-01"
USAGE_FIELDS = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens")


class AnthropicApi(ProviderApi):
    def __init__(self, model: str, base_url: str, api_key: str) -> None:
        self.model = model
        self._base_url = base_url.rstrip("/")
        self._api_key = api_key
        self._answer_tokens = anthropic_answer_tokens(model)
        self._drops_stale_thoughts = False

    def must_stream(self) -> bool:
        return self._answer_tokens > MAX_UNSTREAMED_TOKENS

    def address(self) -> str:
        return f"{self._base_url}/v1/messages"

    def headers(self) -> Mapping[str, str]:
        lines = os.environ.get("ANTHROPIC_CUSTOM_HEADERS", "").split("\n")
        given = (line.partition(":") for line in lines if ":" in line)
        headers = {name.strip(): value.strip() for name, _, value in given}
        headers |= {"Authorization": f"Bearer {self._api_key}", "Accept": "application/json"}
        headers |= {"anthropic-version": API_VERSION}
        return headers | ({"anthropic-beta": BINDING_FEATURE} if self._drops_stale_thoughts else {})

    def learn_from_refusal(self, refusal: Refusal) -> bool:
        stale = refusal.status == 400 and STALE_THOUGHT in provider_message(refusal.body)
        learnt = stale and not self._drops_stale_thoughts
        self._drops_stale_thoughts = self._drops_stale_thoughts or stale
        return learnt

    # ── requests ────────────────────────────────────────────────────────────────────────────────────────────

    def body(self, request: ModelRequest, images: LoadedImages, *, streamed: bool) -> dict[str, Any]:
        body: dict[str, Any] = {
            "model": self.model,
            "max_tokens": self._answer_tokens,
            "messages": _messages(request, images),
            "stream": streamed,
        }
        if request.system_prompt:
            body |= {"system": [{"type": "text", "text": request.system_prompt}]}
        if request.tools:
            tools = [
                {"name": tool.name, "description": tool.description, "input_schema": clean_schema(tool.schema)}
                for tool in request.tools
            ]
            body |= {"tools": tools, "tool_choice": {"type": "auto"}}
        return body | ({"thinking": DROP_STALE_THOUGHTS} if self._drops_stale_thoughts else {})

    # ── answers ─────────────────────────────────────────────────────────────────────────────────────────────

    def read_whole(self, answer: dict[str, Any]) -> ProviderResponse:
        reader = MessageStreamReader()
        reader.add_usage(answer.get("usage"))
        for index, block in enumerate(answer["content"]):
            reader.begin_block(index, block, whole=True)
        reader.finish = answer.get("stop_reason")
        return reader.response(ended=False)

    def open_stream(self) -> StreamReader:
        return MessageStreamReader()

    def refusal(self, status: int, headers: Mapping[str, str], body: Any) -> Refusal:
        return Refusal(_failure_kind(status, body), body, status, wait_seconds=requested_wait(headers))


def _messages(request: ModelRequest, images: LoadedImages) -> list[dict[str, Any]]:
    """The conversation: what stands between two answers is one message of the user."""
    ids = WireCallIds()
    messages: list[dict[str, Any]] = []
    for message in request.messages:
        if isinstance(message, AssistantMessage):
            messages.append({"role": "assistant", "content": _answer_blocks(message, ids)})
            continue
        if not messages or messages[-1]["role"] == "assistant":
            messages.append({"role": "user", "content": []})
        messages[-1]["content"] += _user_blocks(message, ids, images)
    return messages


def _user_blocks(message: Message, ids: WireCallIds, images: LoadedImages) -> list[dict[str, Any]]:
    match message:
        case ToolMessage(call, outcome=outcome):
            words = [{"type": "text", "text": tool_result_words(message)}]
            result = {"type": "tool_result", "tool_use_id": ids.find(call), "content": words}
            return [result | {"is_error": outcome != "ok"}]
        case UserMessage():
            shown = [_image_block(each.media_type, each.content) for each in shown_images(message, images)]
            return [{"type": "text", "text": message.text_with_files}, *shown]
        case NoteMessage(text):
            return [{"type": "text", "text": text}]
        case AssistantMessage():
            raise AssertionError("what an assistant said is no part of a user's message")


def _image_block(media_type: str, content: bytes) -> dict[str, Any]:
    source = {"type": "base64", "media_type": media_type, "data": base64.b64encode(content).decode()}
    return {"type": "image", "source": source}


def _answer_blocks(message: AssistantMessage, ids: WireCallIds) -> list[dict[str, Any]]:
    blocks = load_blocks(message.native, PROVIDER_NAME, len(message.calls))
    blocks = plain_blocks(message.text, message.calls) if blocks is None else blocks
    wire_ids = iter([ids.assign(call.id) for call in message.calls])
    written: list[dict[str, Any]] = []
    for block in blocks:
        match block:
            case TextBlock(content) if content:
                written.append({"type": "text", "text": content})
            case ThinkingBlock(id="redacted_thinking", signature=data) if data:
                written.append({"type": REDACTED_THOUGHT, "data": data})
            case ThinkingBlock(content, signature=signature) if signature:
                written.append({"type": "thinking", "thinking": content, "signature": signature})
            case CallBlock():
                call = {"type": "tool_use", "id": next(wire_ids), "name": block.tool_name}
                written.append(call | {"input": block.arguments})
    return written or [{"type": "text", "text": texts.agents.EMPTY_MESSAGE}]


# ── reading ─────────────────────────────────────────────────────────────────────────────────────────────────


class MessageStreamReader(StreamReader):
    """Puts an answer together from its blocks and their deltas."""

    def __init__(self) -> None:
        self.finish: str | None = None
        self._usage: dict[str, int] = {}
        self._blocks: dict[int, Block] = {}  # by their index
        self._ended = False

    @property
    def text(self) -> str:
        return "".join(block.content for block in self._blocks.values() if isinstance(block, TextBlock))

    @property
    def has_end(self) -> bool:
        return self._ended

    def add(self, event: dict[str, Any]) -> None:
        match event.get("type"):
            case "message_start":
                self.add_usage(event["message"].get("usage"))
            case "content_block_start":
                self.begin_block(event["index"], event["content_block"])
            case "content_block_delta":
                self._extend_block(self._blocks.get(event["index"]), event["delta"])
            case "message_delta":
                self.add_usage(event.get("usage"))
                self.finish = event["delta"].get("stop_reason") or self.finish
            case "message_stop":
                self._ended = True
            case "error":
                raise RefusedAnswer(_stream_refusal(event))

    def add_usage(self, given: object) -> None:
        """Take over counts; in a stream, later ones replace those before them."""
        counted = given if isinstance(given, dict) else {}
        self._usage |= {name: counted[name] for name in USAGE_FIELDS if isinstance(counted.get(name), int)}

    def begin_block(self, index: int, block: dict[str, Any], *, whole: bool = False) -> None:
        """Begin a block, or take one of an answer that came at once as a whole."""
        match block.get("type"):
            case "text":
                self._blocks[index] = TextBlock(block.get("text") or "")
            case "thinking":
                thought, signature = block.get("thinking") or "", block.get("signature") or None
                self._blocks[index] = ThinkingBlock(thought, None, signature, PROVIDER_NAME)
            case "redacted_thinking":
                self._blocks[index] = ThinkingBlock("", REDACTED_THOUGHT, block["data"], PROVIDER_NAME)
            case "tool_use":
                arguments = dict(block.get("input") or {})
                given = arguments if whole else arguments or None  # None: its pieces follow in the stream
                self._blocks[index] = CallBlock(str(block["name"]), given, str(block.get("id") or ""))

    def _extend_block(self, block: Block | None, delta: dict[str, Any]) -> None:
        match block, delta.get("type"):
            case TextBlock(), "text_delta":
                block.content += delta["text"]
            case ThinkingBlock(), "thinking_delta":
                block.content += delta["thinking"]
            case ThinkingBlock(), "signature_delta":
                block.signature = f"{block.signature or ''}{delta['signature']}"
            case CallBlock(args=None | str()), "input_json_delta":
                block.args = f"{block.args or ''}{delta['partial_json']}"

    def response(self, *, ended: bool) -> ProviderResponse:
        finish = self.finish or ("stop" if ended else None)
        if finish is None:
            raise incomplete_answer_error(texts.agents.NO_FINISH_REASON)
        *read, written = (self._usage.get(name, 0) for name in USAGE_FIELDS)
        blocks = [block for _, block in sorted(self._blocks.items())]
        reason = FINISH_REASONS.get(finish, finish)
        return response_from_blocks(blocks, PROVIDER_NAME, reason, TokenUsage(sum(read), written))


# ── errors ──────────────────────────────────────────────────────────────────────────────────────────────────


def _failure_kind(status: int | None, body: Any) -> FailureKind:
    if NO_CREDIT in provider_message(body).lower():
        return FailureKind.QUOTA_EXHAUSTED
    return KIND_BY_ERROR_TYPE.get(_error_type(body)) or kind_of_status(status)


def _error_type(body: Any) -> str:
    error = body.get("error") if isinstance(body, dict) else None
    return str(error.get("type") or "") if isinstance(error, dict) else ""


def _stream_refusal(event: dict[str, Any]) -> Refusal:
    """An error inside a stream, with the status that it would have outside of one."""
    status = STATUS_BY_ERROR_TYPE.get(_error_type(event))
    return Refusal(_failure_kind(status, event), event, status, in_stream=True)

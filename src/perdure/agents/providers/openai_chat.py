"""OpenAI's chat completions, which most other servers speak as well: how requests are written and answers read."""

from __future__ import annotations

import base64
import os
from collections.abc import Iterator, Mapping
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
    says_overloaded,
)
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
from perdure.agents.providers.tool_schemas import strict_schema
from perdure.core import texts
from perdure.core.conversation import AssistantMessage, Message, NoteMessage, ToolMessage, UserMessage
from perdure.core.journal import TokenUsage
from perdure.core.storable_text import to_json

BASE_URL = "https://api.openai.com/v1"
FINISH_REASONS = {
    "tool_calls": "tool_call",
    "function_call": "tool_call",
}  # those that the journal words otherwise
THINKING_FIELDS = ("reasoning", "reasoning_content")  # where servers put thoughts, beside the text
THINKING_TAGS = ("<think>", "</think>")  # around thoughts that a server leaves in the text
TAGGED_THOUGHT = "content"  # the id of such a thought
EXTRA_CALL_FIELD = "extra_content"  # what Google's servers want back with a call
QUOTA_CODES = frozenset(
    (
        "insufficient_quota",
        "billing_hard_limit_reached",
        "credit_balance_exhausted",
        "organization_spend_limit_exceeded",
        "project_spend_limit_exceeded",
        "organization_usage_limit_exceeded",
    )
)
# The HTTP status of errors that stand inside a stream, by their code or type.
STATUS_BY_CODE = {
    "rate_limit_exceeded": 429,
    "rate_limit_error": 429,
    "too_many_requests": 429,
    **dict.fromkeys(QUOTA_CODES, 429),
    "context_length_exceeded": 400,
    "service_unavailable": 503,
    "service_unavailable_error": 503,
    "server_is_overloaded": 503,
    "overloaded": 503,
    "server_error": 500,
}


class OpenAIChatApi(ProviderApi):
    def __init__(self, model: str, base_url: str, api_key: str, provider_name: str) -> None:
        """`provider_name` is the name by which thoughts of this provider are stored and found again."""
        self.model = model
        self._base_url = base_url.rstrip("/")
        self._api_key = api_key
        self._provider_name = provider_name

    def must_stream(self) -> bool:
        return False

    def address(self) -> str:
        return f"{self._base_url}/chat/completions"

    def headers(self) -> Mapping[str, str]:
        named = {"OpenAI-Organization": "OPENAI_ORG_ID", "OpenAI-Project": "OPENAI_PROJECT_ID"}
        more = {header: value for header, name in named.items() if (value := os.environ.get(name))}
        return {"Authorization": f"Bearer {self._api_key}", "Accept": "application/json", **more}

    # ── requests ────────────────────────────────────────────────────────────────────────────────────────────

    def body(self, request: ModelRequest, images: LoadedImages, *, streamed: bool) -> dict[str, Any]:
        body: dict[str, Any] = {"model": self.model, "messages": self._messages(request, images)}
        if request.tools:
            body |= {"tools": [_tool(each.name, each.description, each.schema) for each in request.tools]}
            body |= {"tool_choice": "auto"}
        return body | {"stream": streamed} | ({"stream_options": {"include_usage": True}} if streamed else {})

    def _messages(self, request: ModelRequest, images: LoadedImages) -> list[dict[str, Any]]:
        ids = WireCallIds()
        messages = [{"role": "system", "content": request.system_prompt}] if request.system_prompt else []
        messages += [self._message(message, ids, images) for message in request.messages]
        _fill_in_thinking_field(messages)
        return messages

    def _message(self, message: Message, ids: WireCallIds, images: LoadedImages) -> dict[str, Any]:
        match message:
            case AssistantMessage():
                return self._assistant_message(message, ids)
            case ToolMessage(call, outcome=outcome):
                words = tool_result_words(message)
                content = words if outcome == "ok" else to_json({"error": words})
                return {"role": "tool", "tool_call_id": ids.find(call), "content": content}
            case UserMessage():
                shown = [_image_part(each.media_type, each.content) for each in shown_images(message, images)]
                words = message.text_with_files
                return {"role": "user", "content": [{"type": "text", "text": words}, *shown] if shown else words}
            case NoteMessage(text):
                return {"role": "user", "content": text}

    def _assistant_message(self, message: AssistantMessage, ids: WireCallIds) -> dict[str, Any]:
        blocks = load_blocks(message.native, self._provider_name, len(message.calls))
        blocks = plain_blocks(message.text, message.calls) if blocks is None else blocks
        wire_ids = iter([ids.assign(call.id) for call in message.calls])
        thoughts: dict[str, list[str]] = {}
        words: list[str] = []
        calls: list[dict[str, Any]] = []
        for block in blocks:
            match block:
                case TextBlock(content):
                    words.append(content)
                case ThinkingBlock(content, id=field) if field in THINKING_FIELDS:
                    thoughts.setdefault(field, []).append(content)
                case ThinkingBlock(content):
                    words.append("\n".join((THINKING_TAGS[0], content, THINKING_TAGS[1])))
                case CallBlock():
                    calls.append(_call(block, next(wire_ids)))
        written: dict[str, Any] = {"role": "assistant", **{name: "\n\n".join(thoughts[name]) for name in thoughts}}
        written["content"] = "\n\n".join(words) if words else None
        return written | ({"tool_calls": calls} if calls else {})

    # ── answers ─────────────────────────────────────────────────────────────────────────────────────────────

    def read_whole(self, answer: dict[str, Any]) -> ProviderResponse:
        choice = answer["choices"][0]
        message = choice["message"]
        usage = _usage(answer.get("usage"))
        if message.get("refusal"):
            return ProviderResponse("", finish="content_filter", usage=usage)
        reader = ChatStreamReader(self._provider_name)
        reader.usage = usage
        reader.add_message(message)
        reader.finish = choice.get("finish_reason")
        return reader.response(ended=False)

    def open_stream(self) -> StreamReader:
        return ChatStreamReader(self._provider_name)

    def refusal(self, status: int, headers: Mapping[str, str], body: Any) -> Refusal:
        error = body.get("error", body) if isinstance(body, dict) else body
        return Refusal(_failure_kind(status, error), error, status, wait_seconds=requested_wait(headers))


def _tool(name: str, description: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    parameters, strict = strict_schema(schema)
    function = {"name": name, "description": description, "parameters": parameters}
    return {"type": "function", "function": function | ({"strict": True} if strict else {})}


def _image_part(media_type: str, content: bytes) -> dict[str, Any]:
    url = f"data:{media_type};base64,{base64.b64encode(content).decode()}"
    return {"type": "image_url", "image_url": {"url": url}}


def _call(block: CallBlock, wire_id: str) -> dict[str, Any]:
    function = {"name": block.tool_name, "arguments": to_json(block.arguments)}
    extra = (block.provider_details or {}).get(EXTRA_CALL_FIELD)
    return {"id": wire_id, "type": "function", "function": function} | ({EXTRA_CALL_FIELD: extra} if extra else {})


def _fill_in_thinking_field(messages: list[dict[str, Any]]) -> None:
    """Give every message with calls behind the last user message a thinking field, if one of them has it.

    DeepSeek and its like refuse a request in which some have it and some have not.
    """
    sent = {name for message in messages for name in THINKING_FIELDS if name in message}
    if len(sent) != 1:
        return
    field = next(iter(sent))
    last = max((index for index, each in enumerate(messages) if each["role"] == "user"), default=-1)
    for message in messages[last + 1 :]:
        if message["role"] == "assistant" and "tool_calls" in message:
            message.setdefault(field, "")


# ── reading ─────────────────────────────────────────────────────────────────────────────────────────────────


class ChatStreamReader(StreamReader):
    """Puts an answer together from its deltas; one that came at once is a single delta."""

    def __init__(self, provider_name: str) -> None:
        self.finish: str | None = None
        self.usage = TokenUsage()
        self._provider_name = provider_name
        self._blocks: list[Block] = []
        self._calls: dict[Any, CallBlock] = {}  # by their index
        self._refused = False

    @property
    def text(self) -> str:
        return "".join(block.content for block in self._split_blocks() if isinstance(block, TextBlock))

    @property
    def has_end(self) -> bool:
        return False  # its end mark is no event with data

    def add(self, event: dict[str, Any]) -> None:
        if error := event.get("error"):
            raise RefusedAnswer(_stream_refusal(error))
        self.usage = _usage(event["usage"]) if event.get("usage") else self.usage
        for choice in (event.get("choices") or [])[:1]:
            self.finish = choice.get("finish_reason") or self.finish
            self.add_message(choice.get("delta") or {})

    def add_message(self, message: dict[str, Any]) -> None:
        """Add a message, or a part of it."""
        self._refused = self._refused or bool(message.get("refusal"))
        thoughts = ((name, message[name]) for name in THINKING_FIELDS if message.get(name))
        for name, thought in list(thoughts)[:1]:
            self._add_thought(name, thought)
        if words := _joined_text(message.get("content")):
            self._add_text(words)
        for number, call in enumerate(message.get("tool_calls") or []):
            self._add_call(number, call)

    def _add_thought(self, field: str, words: object) -> None:
        if not isinstance(words, str):
            return
        last = self._blocks[-1] if self._blocks else None
        if isinstance(last, ThinkingBlock) and last.id == field:
            last.content += words
        else:
            self._blocks.append(ThinkingBlock(words, field, provider_name=self._provider_name))

    def _add_text(self, words: str) -> None:
        last = self._blocks[-1] if self._blocks else None
        if isinstance(last, TextBlock):
            last.content += words
        else:
            self._blocks.append(TextBlock(words))

    def _add_call(self, number: int, call: dict[str, Any]) -> None:
        index = call.get("index", number)
        if index not in self._calls:
            self._calls[index] = CallBlock("")
            self._blocks.append(self._calls[index])
        block, function = self._calls[index], call.get("function") or {}
        name, arguments = function.get("name") or "", function.get("arguments")
        block.tool_call_id = block.tool_call_id or call.get("id") or ""
        block.tool_name += name if name != block.tool_name else ""  # some servers repeat it
        if isinstance(arguments, str):
            block.args = f"{block.args or ''}{arguments}"
        elif arguments is not None:
            block.args = dict(arguments)
        if extra := call.get(EXTRA_CALL_FIELD):
            block.provider_name, block.provider_details = self._provider_name, {EXTRA_CALL_FIELD: extra}

    def response(self, *, ended: bool) -> ProviderResponse:
        if self._refused:
            return ProviderResponse("", finish="content_filter", usage=self.usage)
        finish = self.finish or ("stop" if ended else None)
        if finish is None:
            raise incomplete_answer_error(texts.agents.NO_FINISH_REASON)
        if any(not block.tool_name for block in self._calls.values()):
            raise ValueError("a tool call has no name")
        reason = FINISH_REASONS.get(finish, finish)
        return response_from_blocks(list(self._split_blocks()), self._provider_name, reason, self.usage)

    def _split_blocks(self) -> Iterator[Block]:
        """The blocks, with thoughts that stand in the text as blocks of their own."""
        for block in self._blocks:
            if isinstance(block, TextBlock) and THINKING_TAGS[0] in block.content:
                yield from _split_thoughts(block.content, self._provider_name)
            else:
                yield block


def _split_thoughts(text: str, provider_name: str) -> Iterator[Block]:
    begin, end = THINKING_TAGS
    while text:
        before, opened, text = text.partition(begin)
        if before:
            yield TextBlock(before)
        thought, closed, rest = text.partition(end)
        if opened and closed:
            yield ThinkingBlock(thought, TAGGED_THOUGHT, provider_name=provider_name)
            text = rest
        elif opened:
            yield TextBlock(text)
            return


def _joined_text(content: object) -> str:
    """The text of a message; some servers give it as a list of parts."""
    if not isinstance(content, list):
        return content if isinstance(content, str) else ""
    parts = [
        part.get("text") if isinstance(part, dict) and part.get("type") == "text" else part for part in content
    ]
    return "".join(part for part in parts if isinstance(part, str))


def _usage(given: object) -> TokenUsage:
    counted = given if isinstance(given, dict) else {}
    return TokenUsage(*(_count(counted.get(name)) for name in ("prompt_tokens", "completion_tokens")))


def _count(given: object) -> int:
    return given if isinstance(given, int) and given > 0 else 0


# ── errors ──────────────────────────────────────────────────────────────────────────────────────────────────


def _failure_kind(status: int | None, error: Any) -> FailureKind:
    code, kind = (str(error.get(name) or "") if isinstance(error, dict) else "" for name in ("code", "type"))
    metadata = error.get("metadata") if isinstance(error, dict) else None
    if code in QUOTA_CODES or kind in QUOTA_CODES:  # under the status of a rate limit, which would pass
        return FailureKind.QUOTA_EXHAUSTED
    if says_overloaded(code, kind):
        return FailureKind.BUSY
    if code == "model_not_found":
        return FailureKind.UNKNOWN_MODEL
    if code == "invalid_api_key":
        return FailureKind.KEY_REFUSED
    if status == 403 and isinstance(metadata, dict) and {"flagged_input", "reasons"} & {*metadata}:
        return FailureKind.REJECTED  # as OpenRouter says it of words that its moderation refused
    return kind_of_status(status)


def _stream_refusal(error: Any) -> Refusal:
    """An error inside a stream, with the status that it would have outside of one."""
    code, kind = (str(error.get(name) or "") if isinstance(error, dict) else "" for name in ("code", "type"))
    status = STATUS_BY_CODE.get(code) or STATUS_BY_CODE.get(kind)
    if status is None and code.isdigit() and 400 <= int(code) < 600:
        status = int(code)
    body = error if provider_message(error) else texts.agents.STREAM_FAILED
    return Refusal(_failure_kind(status, error), body, status, in_stream=True)

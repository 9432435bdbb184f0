"""When a conversation has grown too long for its model, and where to cut it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec
from msgspec import Struct

from perdure.core import texts
from perdure.core.conversation import (
    AssistantMessage,
    Conversation,
    ConversationSegment,
    Message,
    NoteMessage,
    ToolMessage,
    UserMessage,
)
from perdure.core.tools import Tool

COMPACTION_THRESHOLD = 0.75  # of the tokens left for a conversation: a longer one is compacted
RETAINED_FRACTION = 0.25  # of the tokens left for a conversation: the newest part, which is not summarised
MAX_QUOTE_CHARACTERS = 4_000  # of one message in the text that a summary is made from
MIN_ROOM_FRACTION = 0.25  # of a window: the least that a conversation has, however long the instructions are
BYTES_PER_TOKEN = 4  # in most languages and most models


class InstructionTokens(Struct, frozen=True):
    """The tokens of the instructions and tools that every request begins with."""

    prompt: int
    tools: int
    tool_count: int  # of the tools

    @property
    def tokens(self) -> int:
        return self.prompt + self.tools

    def room(self, window: int) -> int:
        """The tokens of the window that are left for a conversation."""
        return max(window - self.tokens, int(window * MIN_ROOM_FRACTION))


def measure_instructions(system_prompt: str, tools: Sequence[Tool]) -> InstructionTokens:
    described = sum(
        _text_tokens(tool.name + tool.description) + _text_tokens(_encode_schema(tool)) for tool in tools
    )
    return InstructionTokens(_text_tokens(system_prompt), described, len(tools))


class CompactionCut(Struct, frozen=True):
    """Which part of a conversation to summarise: everything up to an entry, as one text."""

    through: int
    transcript: str


def estimate_tokens(messages: Iterable[Message]) -> int:
    """An estimate of the tokens of a conversation."""
    return sum(_message_bytes(message) // BYTES_PER_TOKEN + 4 for message in messages)


def is_full(conversation_tokens: int, room_tokens: int) -> bool:
    """Whether a conversation of so many tokens must be shortened before it is answered."""
    return conversation_tokens > room_tokens * COMPACTION_THRESHOLD


def find_cut(conversation: Conversation, room_tokens: int, readable_tokens: int) -> CompactionCut | None:
    """Where to cut a conversation, so that its newest part stays whole; None if nothing can be summarised.

    The model that writes the summary reads at most `readable_tokens` of the transcript.
    """
    segments = [*conversation.earlier, *conversation.current]
    retained_tokens, position = 0, len(segments)
    while (
        position > 0
        and (retained_tokens := retained_tokens + estimate_tokens(segments[position - 1].messages))
        <= room_tokens * RETAINED_FRACTION
    ):
        position -= 1
    readable = _readable_count(segments, conversation, readable_tokens)
    position = _last_complete(segments, min(position, readable))
    summarised = [each for each in segments[:position] if not _must_stay(each, conversation)]
    if not summarised:
        return None
    messages = [*conversation.summary, *(message for each in summarised for message in each.messages)]
    longest = min(MAX_QUOTE_CHARACTERS, readable_tokens * BYTES_PER_TOKEN // 4)
    return CompactionCut(
        segments[position - 1].seq,
        clip_to_tokens("\n\n".join(_quote(each, longest) for each in messages), readable_tokens),
    )


def clip_to_tokens(text: str, tokens: int) -> str:
    """The text, shortened to its beginning and its end if it has more than so many tokens."""
    size = _byte_length(text)
    if size <= tokens * BYTES_PER_TOKEN:
        return text
    return texts.phrases.clip(text, len(text) * tokens * BYTES_PER_TOKEN // size)


def _readable_count(segments: Sequence[ConversationSegment], conversation: Conversation, tokens: int) -> int:
    """How many of the oldest segments fit into one request for a summary; at least one, however long it is."""
    total, any_counted = estimate_tokens(conversation.summary), False
    for position, each in enumerate(segments):
        size = 0 if _must_stay(each, conversation) else estimate_tokens(each.messages)
        if any_counted and total + size > tokens:
            return position
        total, any_counted = total + size, any_counted or size > 0
    return len(segments)


def _last_complete(segments: Sequence[ConversationSegment], position: int) -> int:
    """The position behind the last complete segment: a call whose result is still to come is not summarised."""
    while position > 0 and not segments[position - 1].complete:
        position -= 1
    return position


def _must_stay(segment: ConversationSegment, conversation: Conversation) -> bool:
    return segment in conversation.current and segment.pinned


def _text_tokens(text: str) -> int:
    return _byte_length(text) // BYTES_PER_TOKEN


def _byte_length(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode(errors="replace"))


def _encode_schema(tool: Tool) -> str:
    return msgspec.json.encode(dict(tool.schema)).decode()


def _message_bytes(message: Message) -> int:
    """The bytes of a message. Tokens are estimated by bytes: a character rare to a model takes several of both."""
    if isinstance(message, UserMessage):
        return _byte_length(message.text_with_files)
    size = _byte_length(message.text)
    if isinstance(message, AssistantMessage) and message.calls:
        size += sum(_byte_length(str(call.arguments)) + len(call.tool) for call in message.calls)
    return size


def _quote(message: Message, max_characters: int) -> str:
    match message:
        case UserMessage():
            return f"User: {texts.phrases.clip(message.text_with_files, max_characters)}"
        case NoteMessage(text):
            return texts.phrases.clip(text, max_characters)
        case ToolMessage(_, tool, text, outcome):
            return f"Result of {tool} ({outcome}): {texts.phrases.clip(text, max_characters)}"
        case AssistantMessage(text, calls):
            used = [
                "[uses "
                f"{texts.phrases.clip(texts.tool_calls.format_call(call.tool, call.arguments), max_characters)}]"
                for call in calls
            ]
            return f"Assistant: {' '.join([texts.phrases.clip(text, max_characters), *used]).strip()}"

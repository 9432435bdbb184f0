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

COMPACTION_THRESHOLD = 0.75  # of the room for a conversation: beyond it the conversation is compacted
RETAINED_FRACTION = 0.25  # of the room for a conversation: the newest part, which stays as it is
MAX_QUOTE_CHARACTERS = 4_000  # characters of one message that a summary is made from
MIN_ROOM_FRACTION = (
    0.25  # of a window: how much of it a conversation has at least, however long the instructions are
)
BYTES_PER_TOKEN = 4  # in most languages and most models


class InstructionTokens(Struct, frozen=True):
    """What every request begins with, in tokens: it leaves a conversation the rest of the window."""

    prompt: int
    tools: int
    tool_count: int  # of the tools

    @property
    def tokens(self) -> int:
        return self.prompt + self.tools

    def room(self, window: int) -> int:
        """The tokens that are left for a conversation."""
        return max(window - self.tokens, int(window * MIN_ROOM_FRACTION))


def measure_instructions(system_prompt: str, tools: Sequence[Tool]) -> InstructionTokens:
    described = sum(
        _text_tokens(tool.name + tool.description) + _text_tokens(_encode_schema(tool)) for tool in tools
    )
    return InstructionTokens(_text_tokens(system_prompt), described, len(tools))


class CompactionCut(Struct, frozen=True):
    """What to summarise: everything up to an entry, told as one text."""

    through: int
    transcript: str


def estimate_tokens(messages: Iterable[Message]) -> int:
    """About how many tokens a model reads."""
    return sum(_message_bytes(message) // BYTES_PER_TOKEN + 4 for message in messages)


def is_full(conversation: Conversation, room_tokens: int) -> bool:
    return estimate_tokens(conversation.messages) > room_tokens * COMPACTION_THRESHOLD


def find_cut(conversation: Conversation, room_tokens: int, readable_tokens: int) -> CompactionCut | None:
    """Where to cut, so that the newest part stays whole; None if nothing can be left out.

    The summary is made by a model that reads so many tokens of the transcript: what is longer is cut once more.
    """
    told = [*conversation.earlier, *conversation.current]
    kept, place = 0, len(told)
    while (
        place > 0 and (kept := kept + estimate_tokens(told[place - 1].messages)) <= room_tokens * RETAINED_FRACTION
    ):
        place -= 1
    place = _last_complete(told, min(place, _readable_count(told, conversation, readable_tokens)))
    summarised = [each for each in told[:place] if not _must_stay(each, conversation)]
    if not summarised:
        return None
    messages = [*conversation.summary, *(message for each in summarised for message in each.messages)]
    longest = min(MAX_QUOTE_CHARACTERS, readable_tokens * BYTES_PER_TOKEN // 4)
    return CompactionCut(
        told[place - 1].seq,
        clip_to_tokens("\n\n".join(_quote(each, longest) for each in messages), readable_tokens),
    )


def clip_to_tokens(text: str, tokens: int) -> str:
    """The text, or as much of its beginning and its end as are so many tokens."""
    size = len(text.encode(errors="replace"))
    if size <= tokens * BYTES_PER_TOKEN:
        return text
    return texts.phrases.clip(text, len(text) * tokens * BYTES_PER_TOKEN // size)


def _readable_count(segments: Sequence[ConversationSegment], conversation: Conversation, tokens: int) -> int:
    """How many of the oldest are read at once; always one that is summed up, however long it is."""
    read, some = estimate_tokens(conversation.summary), False
    for place, each in enumerate(segments):
        size = 0 if _must_stay(each, conversation) else estimate_tokens(each.messages)
        if some and read + size > tokens:
            return place
        read, some = read + size, some or size > 0
    return len(segments)


def _last_complete(segments: Sequence[ConversationSegment], place: int) -> int:
    """A call without its result must stay: the result is still to come."""
    while place > 0 and not segments[place - 1].complete:
        place -= 1
    return place


def _must_stay(segment: ConversationSegment, conversation: Conversation) -> bool:
    return segment in conversation.current and segment.pinned


def _text_tokens(text: str) -> int:
    return len(text.encode(errors="replace")) // BYTES_PER_TOKEN


def _encode_schema(tool: Tool) -> str:
    return msgspec.json.encode(dict(tool.schema)).decode()


def _message_bytes(message: Message) -> int:
    """In bytes: letters that are rare to a model are several tokens, and several bytes."""
    calls = message.calls if isinstance(message, AssistantMessage) else ()
    text = message.text_with_files if isinstance(message, UserMessage) else message.text
    said = len(text.encode(errors="replace"))
    return said + sum(len(str(call.arguments).encode(errors="replace")) + len(call.tool) for call in calls)


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

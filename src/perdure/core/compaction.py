"""When a conversation has grown too long for its model, and where to cut it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec
from msgspec import Struct

from perdure.core import notes
from perdure.core.conversation import (
    AssistantMessage,
    Conversation,
    Message,
    NoteMessage,
    Told,
    ToolMessage,
    UserMessage,
)
from perdure.core.tools import Tool

FULL = 0.75  # of the room for a conversation: beyond it the conversation is compacted
KEPT = 0.25  # of the room for a conversation: the newest part, which stays as it is
LONGEST_QUOTE = 4_000  # characters of one message that a summary is made from
LEAST_ROOM = 0.25  # of a window: how much of it a conversation has at least, however long the instructions are
BYTES_PER_TOKEN = 4  # in most languages and most models


class Instructions(Struct, frozen=True):
    """What every request begins with, in tokens: it leaves a conversation the rest of the window."""

    prompt: int
    tools: int
    count: int  # of the tools

    @property
    def tokens(self) -> int:
        return self.prompt + self.tools

    def room(self, window: int) -> int:
        """The tokens that are left for a conversation."""
        return max(window - self.tokens, int(window * LEAST_ROOM))


def instructions(system_prompt: str, tools: Sequence[Tool]) -> Instructions:
    described = sum(_tokens(tool.name + tool.description) + _tokens(_schema(tool)) for tool in tools)
    return Instructions(_tokens(system_prompt), described, len(tools))


class Cut(Struct, frozen=True):
    """What to summarise: everything up to an entry, told as one text."""

    through: int
    transcript: str


def weight(messages: Iterable[Message]) -> int:
    """About how many tokens a model reads."""
    return sum(_length(message) // BYTES_PER_TOKEN + 4 for message in messages)


def is_full(talk: Conversation, room: int) -> bool:
    return weight(talk.messages) > room * FULL


def cut(talk: Conversation, room: int, readable: int) -> Cut | None:
    """Where to cut, so that the newest part stays whole; None if nothing can be left out.

    The summary is made by a model that reads so many tokens of the transcript: what is longer is cut once more.
    """
    told = [*talk.earlier, *talk.now]
    kept, place = 0, len(told)
    while place > 0 and (kept := kept + weight(told[place - 1].messages)) <= room * KEPT:
        place -= 1
    place = _last_whole(told, min(place, _readable(told, talk, readable)))
    summarised = [each for each in told[:place] if not _stays(each, talk)]
    if not summarised:
        return None
    messages = [*talk.summary, *(message for each in summarised for message in each.messages)]
    longest = min(LONGEST_QUOTE, readable * BYTES_PER_TOKEN // 4)
    return Cut(told[place - 1].seq, shortened("\n\n".join(_quoted(each, longest) for each in messages), readable))


def shortened(text: str, tokens: int) -> str:
    """The text, or as much of its beginning and its end as are so many tokens."""
    size = len(text.encode(errors="replace"))
    if size <= tokens * BYTES_PER_TOKEN:
        return text
    return notes.clipped(text, len(text) * tokens * BYTES_PER_TOKEN // size)


def _readable(told: Sequence[Told], talk: Conversation, tokens: int) -> int:
    """How many of the oldest are read at once; always one that is summed up, however long it is."""
    read, some = weight(talk.summary), False
    for place, each in enumerate(told):
        size = 0 if _stays(each, talk) else weight(each.messages)
        if some and read + size > tokens:
            return place
        read, some = read + size, some or size > 0
    return len(told)


def _last_whole(told: Sequence[Told], place: int) -> int:
    """A call without its result must stay: the result is still to come."""
    while place > 0 and not told[place - 1].whole:
        place -= 1
    return place


def _stays(told: Told, talk: Conversation) -> bool:
    return told in talk.now and told.stays


def _tokens(text: str) -> int:
    return len(text.encode(errors="replace")) // BYTES_PER_TOKEN


def _schema(tool: Tool) -> str:
    return msgspec.json.encode(dict(tool.schema)).decode()


def _length(message: Message) -> int:
    """In bytes: letters that are rare to a model are several tokens, and several bytes."""
    calls = message.calls if isinstance(message, AssistantMessage) else ()
    text = message.whole if isinstance(message, UserMessage) else message.text
    said = len(text.encode(errors="replace"))
    return said + sum(len(str(call.arguments).encode(errors="replace")) + len(call.tool) for call in calls)


def _quoted(message: Message, longest: int) -> str:
    match message:
        case UserMessage():
            return f"User: {notes.clipped(message.whole, longest)}"
        case NoteMessage(text):
            return notes.clipped(text, longest)
        case ToolMessage(_, tool, text, outcome):
            return f"Result of {tool} ({outcome}): {notes.clipped(text, longest)}"
        case AssistantMessage(text, calls):
            used = [f"[uses {notes.clipped(notes.call(call.tool, call.arguments), longest)}]" for call in calls]
            return f"Assistant: {' '.join([notes.clipped(text, longest), *used]).strip()}"

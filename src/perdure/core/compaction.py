"""When a conversation has grown too long for its model, and where to cut it."""

from __future__ import annotations

from collections.abc import Iterable

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

FULL = 0.75  # of what a model can read: beyond it the conversation is compacted
KEPT = 0.25  # of what a model can read: the newest part, which stays as it is
LONGEST_QUOTE = 4_000  # characters of one message that a summary is made from


class Cut(Struct, frozen=True):
    """What to summarise: everything up to an entry, told as one text."""

    through: int
    transcript: str


def weight(messages: Iterable[Message]) -> int:
    """About how many tokens a model reads. Four characters are one, in most languages and most models."""
    return sum(_length(message) // 4 + 4 for message in messages)


def is_full(talk: Conversation, window: int) -> bool:
    return weight(talk.messages) > window * FULL


def cut(talk: Conversation, window: int) -> Cut | None:
    """Where to cut, so that the newest part stays whole; None if nothing can be left out."""
    told = [*talk.earlier, *talk.now]
    kept, place = 0, len(told)
    while place > 0 and (kept := kept + weight(told[place - 1].messages)) <= window * KEPT:
        place -= 1
    while place > 0 and not _may_end(told[place - 1]):
        place -= 1
    summarised = [each for each in told[:place] if not _stays(each, talk)]
    if not summarised:
        return None
    messages = [*talk.summary, *(message for each in summarised for message in each.messages)]
    return Cut(told[place - 1].seq, "\n\n".join(_quoted(message) for message in messages))


def _may_end(told: Told) -> bool:
    """A call without its result must stay: the result is still to come."""
    return told.whole


def _stays(told: Told, talk: Conversation) -> bool:
    return told in talk.now and told.stays


def _length(message: Message) -> int:
    calls = message.calls if isinstance(message, AssistantMessage) else ()
    text = message.whole if isinstance(message, UserMessage) else message.text
    return len(text) + sum(len(str(call.arguments)) + len(call.tool) for call in calls)


def _quoted(message: Message) -> str:
    match message:
        case UserMessage():
            return f"User: {_clipped(message.whole)}"
        case NoteMessage(text):
            return _clipped(text)
        case ToolMessage(_, tool, text, outcome):
            return f"Result of {tool} ({outcome}): {_clipped(text)}"
        case AssistantMessage(text, calls):
            used = [f"[uses {_clipped(notes.call(call.tool, call.arguments))}]" for call in calls]
            return f"Assistant: {' '.join([_clipped(text), *used]).strip()}"


def _clipped(text: str) -> str:
    return notes.clipped(text, LONGEST_QUOTE)

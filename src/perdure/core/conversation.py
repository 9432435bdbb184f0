"""A session's journal as the conversation that a model reads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from perdure.core import notes
from perdure.core.journal import (
    Answered,
    Began,
    Cause,
    Joined,
    ModelAnswered,
    Noted,
    Outcome,
    Record,
    ToolCall,
    TurnView,
    fold,
)
from perdure.core.tail import is_final


class UserMessage(Struct, frozen=True):
    text: str


class AssistantMessage(Struct, frozen=True):
    text: str
    calls: tuple[ToolCall, ...] = ()


class ToolMessage(Struct, frozen=True):
    call: str
    tool: str
    text: str
    outcome: Outcome


class NoteMessage(Struct, frozen=True):
    """The gateway speaks to the model: not the user's words."""

    text: str


Message = UserMessage | AssistantMessage | ToolMessage | NoteMessage


def views(records: Iterable[tuple[str, Record]]) -> list[TurnView]:
    """The turns that a session's records tell of, in the order in which they began."""
    turns: dict[str, list[Record]] = {}
    for turn, record in records:
        turns.setdefault(turn, []).append(record)
    return [fold(of_turn) for of_turn in turns.values()]


def conversation(history: Sequence[TurnView], current: TurnView) -> list[Message]:
    """What was said and done so far, with the newest note of the current turn and no other."""
    return [*earlier_messages(history), *current_messages(current)]


def earlier_messages(history: Iterable[TurnView]) -> list[Message]:
    return [message for view in history for message in _told(view)]


def current_messages(current: TurnView) -> list[Message]:
    noted = max((record.seq for record in current.records if isinstance(record.entry, Noted)), default=None)
    return list(_told(current, noted))


def _told(view: TurnView, noted: int | None = None) -> Iterator[Message]:
    for record in view.records:
        match record.entry:
            case Began() | Joined() as entry:
                yield from (UserMessage(_worded(cause)) for cause in entry.causes if not cause.wish)
            case ModelAnswered() as entry if entry.calls or is_final(entry):
                yield AssistantMessage(entry.text, entry.calls)
                yield from _results(view, entry.calls)
            case Answered() as entry if not entry.chosen or entry.question not in view.calls:
                yield UserMessage(entry.text if entry.text.strip() else notes.wordless())
            case Noted() as entry if record.seq == noted:
                yield NoteMessage(entry.text)


def _worded(cause: Cause) -> str:
    """The message's text, or words for it where there is none: providers refuse a blank message."""
    return cause.text if cause.text.strip() else notes.wordless(*(file.name for file in cause.attachments))


def _results(view: TurnView, calls: Iterable[ToolCall]) -> Iterator[ToolMessage]:
    """The results, one per call. Providers want them right behind the calls, whatever was journalled between."""
    for call in calls:
        ended = view.calls[call.id].ended
        if ended is not None:
            yield ToolMessage(call.id, call.tool, ended.text, ended.outcome)

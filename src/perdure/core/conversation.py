"""A session's journal as the conversation that a model reads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from perdure.core.journal import (
    Answered,
    Began,
    Joined,
    ModelAnswered,
    Noted,
    Outcome,
    Record,
    ToolCall,
    ToolEnded,
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
    """What was said and done so far. Notes of earlier turns are not repeated."""
    earlier = [message for view in history for message in _told(view) if not isinstance(message, NoteMessage)]
    return [*earlier, *_told(current)]


def _told(view: TurnView) -> Iterator[Message]:
    for record in view.records:
        match record.entry:
            case Began() | Joined() as entry:
                yield from (UserMessage(cause.text) for cause in entry.causes)
            case ModelAnswered() as entry if entry.calls or is_final(entry):
                yield AssistantMessage(entry.text, entry.calls)
            case ToolEnded() as entry:
                yield ToolMessage(entry.call, view.calls[entry.call].request.tool, entry.text, entry.outcome)
            case Answered() as entry:
                yield UserMessage(entry.text)
            case Noted() as entry:
                yield NoteMessage(entry.text)

"""A session's journal as the conversation that a model reads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from msgspec import Struct

from perdure.core import notes
from perdure.core.files import shown_name
from perdure.core.journal import (
    Answered,
    Began,
    Cause,
    Compacted,
    Finished,
    Joined,
    ModelAnswered,
    Noted,
    Outcome,
    Record,
    ToolCall,
    TurnView,
    fold,
)
from perdure.core.messages import Attachment
from perdure.core.tail import is_cut_text, is_final


class GivenFile(Struct, frozen=True):
    """A file that came with a message, as the model is told of it."""

    name: str
    media_type: str
    line: str  # what is said of it
    place: str | None = None  # where it can be read; None: nowhere


class UserMessage(Struct, frozen=True):
    text: str
    files: tuple[GivenFile, ...] = ()

    @property
    def whole(self) -> str:
        """The words, and a line for each file."""
        return "\n".join([self.text, *(file.line for file in self.files)])


class AssistantMessage(Struct, frozen=True):
    text: str
    calls: tuple[ToolCall, ...] = ()
    native: dict[str, Any] | None = None  # only in the current turn: nobody wants it back later


class ToolMessage(Struct, frozen=True):
    call: str
    tool: str
    text: str
    outcome: Outcome


class NoteMessage(Struct, frozen=True):
    """The gateway speaks to the model: not the user's words."""

    text: str
    cause: bool = False  # it is news that the turn is about, and not a remark on what was cut off


Message = UserMessage | AssistantMessage | ToolMessage | NoteMessage


Find = Callable[[Attachment], str | None]


class Told(Struct, frozen=True):
    """What one entry of the journal tells a model: results stand right behind their calls, as providers want."""

    seq: int
    messages: tuple[Message, ...]
    whole: bool = True  # every call in it has its result
    stays: bool = False  # in the current turn it is never summed up: it is what is to be answered


class Conversation(Struct, frozen=True):
    """What was said and done so far, oldest first."""

    summary: tuple[Message, ...]  # stands for what was compacted
    earlier: tuple[Told, ...]
    now: tuple[Told, ...]  # the current turn

    @property
    def before(self) -> list[Message]:
        return [*self.summary, *_flat(self.earlier)]

    @property
    def messages(self) -> list[Message]:
        return [*self.before, *_flat(self.now)]


def views(records: Iterable[tuple[str, Record]]) -> list[TurnView]:
    """The turns that a session's records tell of, in the order in which they began."""
    turns: dict[str, list[Record]] = {}
    for turn, record in records:
        turns.setdefault(turn, []).append(record)
    return [fold(of_turn) for of_turn in turns.values()]


def recalled(turns: Sequence[TurnView]) -> list[TurnView]:
    """The turns that a model may know of: none that was taken back.

    A summary that was made in one of those stays, in front of the rest: it is of what came before it.
    """
    undone = [record for view in turns if view.undone for record in view.records]
    summaries = [record for record in undone if isinstance(record.entry, Compacted)]
    kept = [view for view in turns if not view.undone]
    return [TurnView(records=summaries), *kept] if summaries else kept


def conversation(history: Sequence[TurnView], current: TurnView, find: Find = lambda file: None) -> Conversation:
    """What a model reads: the newest summary, what came behind it, and the newest note of the current turn.

    `find` says where a file can be read, if it is still there.
    """
    compacted = _newest_summary([*history, current])
    through = compacted.through if compacted else 0
    summary = (NoteMessage(notes.summary(compacted.text)),) if compacted else ()
    earlier = tuple(told for view in history for told in _told(view, find) if told.seq > through)
    noted = max((record.seq for record in current.records if isinstance(record.entry, Noted)), default=None)
    now = tuple(told for told in _told(current, find, noted, native=True) if told.seq > through or told.stays)
    return Conversation(summary, earlier, now)


def _newest_summary(turns: Sequence[TurnView]) -> Compacted | None:
    found = {record.seq: record.entry for view in turns for record in view.records}
    summaries = [seq for seq, entry in found.items() if isinstance(entry, Compacted)]
    newest = found[max(summaries)] if summaries else None
    return newest if isinstance(newest, Compacted) else None


def _flat(told: Iterable[Told]) -> Iterator[Message]:
    for each in told:
        yield from each.messages


def _told(view: TurnView, find: Find, noted: int | None = None, *, native: bool = False) -> Iterator[Told]:
    for record in view.records:
        match record.entry:
            case Began() | Joined() as entry:
                told = [cause for cause in entry.causes if not cause.wish and cause.inbox not in view.returned]
                worded = tuple(_worded(cause, find) for cause in told)
                if worded:
                    yield Told(record.seq, worded, stays=True)
            case ModelAnswered() as entry if entry.calls or is_final(entry) or _was_sent(entry, view):
                said = AssistantMessage(entry.text, entry.calls, entry.native if native else None)
                results = tuple(_results(view, entry.calls))
                yield Told(record.seq, (said, *results), len(results) == len(entry.calls))
            case Answered(inbox=message) if message in view.returned:
                continue
            case Answered() as entry if entry.attachments or not entry.chosen or entry.question not in view.calls:
                yield Told(record.seq, (_said(entry.text, entry.attachments, find),), stays=True)
            case Noted() as entry if record.seq == noted:
                yield Told(record.seq, (NoteMessage(entry.text),))


def _was_sent(entry: ModelAnswered, view: TurnView) -> bool:
    """Whether a text that ends at the model's length limit was the answer of its turn."""
    return is_cut_text(entry) and isinstance(view.ended, Finished) and entry is view.responses[-1]


def _worded(cause: Cause, find: Find) -> UserMessage | NoteMessage:
    """What a cause says, or words for it where there are none: providers refuse a blank message."""
    if cause.note:
        return NoteMessage(notes.news(cause.text), cause=True)
    return _said(cause.text, cause.attachments, find)


def _said(text: str, files: Sequence[Attachment], find: Find) -> UserMessage:
    words = text if text.strip() else notes.wordless(*(file.name for file in files))
    return UserMessage(words, tuple(_given(file, find(file)) for file in files))


def _given(file: Attachment, place: str | None) -> GivenFile:
    name = shown_name(file.name)
    if file.problem is not None:
        line = notes.missing_file(name, file.problem)
    elif place is None:
        line = notes.gone_file(name, file.media_type, file.size)
    else:
        line = notes.given_file(name, file.media_type, file.size, place)
    return GivenFile(name, file.media_type, line, place)


def _results(view: TurnView, calls: Iterable[ToolCall]) -> Iterator[ToolMessage]:
    """The results, one per call, whatever was journalled between."""
    for call in calls:
        ended = view.calls[call.id].ended
        if ended is not None:
            yield ToolMessage(call.id, call.tool, ended.text, ended.outcome)

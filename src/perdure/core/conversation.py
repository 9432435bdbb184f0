"""A session's journal as the conversation that a model reads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from msgspec import Struct

from perdure.core import texts
from perdure.core.file_names import display_file_name
from perdure.core.journal import (
    Cause,
    ConversationCompacted,
    JournalRecord,
    MessagesJoined,
    ModelAnswered,
    QuestionAnswered,
    RecoveryNoted,
    ToolCall,
    ToolOutcome,
    TurnBegan,
    TurnFinished,
    TurnView,
    fold,
)
from perdure.core.messages import Attachment
from perdure.core.recovery.decision import is_final_response, is_length_limited


class AttachedFile(Struct, frozen=True):
    """A file that came with a message, as the model reads about it."""

    name: str
    media_type: str
    description: str  # the line that describes it to the model
    path: str | None = None  # where it can be read; None: nowhere


class UserMessage(Struct, frozen=True):
    text: str
    files: tuple[AttachedFile, ...] = ()

    @property
    def text_with_files(self) -> str:
        """The message's text, and a line for each of its files."""
        return "\n".join([self.text, *(file.description for file in self.files)]) if self.files else self.text


class AssistantMessage(Struct, frozen=True):
    text: str
    calls: tuple[ToolCall, ...] = ()
    native: dict[str, Any] | None = None  # only in the current turn: providers want it back in no later one


class ToolMessage(Struct, frozen=True):
    call: str
    tool: str
    text: str
    outcome: ToolOutcome


class NoteMessage(Struct, frozen=True):
    """A note of the gateway to the model; never the user's words."""

    text: str
    is_report: bool = False  # True: the turn is about this report; False: it is about an interruption


Message = UserMessage | AssistantMessage | ToolMessage | NoteMessage


FindFile = Callable[[Attachment], str | None]


class ConversationSegment(Struct, frozen=True):
    """The messages that a model reads for one journal entry; results follow their calls, as providers require."""

    seq: int
    messages: tuple[Message, ...]
    complete: bool = True  # every call in it has its result
    pinned: bool = False  # never summarised in the current turn: it holds what is to be answered


class Conversation(Struct, frozen=True):
    """A conversation so far, oldest first."""

    summary: tuple[Message, ...]  # in place of everything that was compacted
    earlier: tuple[ConversationSegment, ...]
    current: tuple[ConversationSegment, ...]  # the current turn

    @property
    def previous_messages(self) -> list[Message]:
        return [*self.summary, *_flatten(self.earlier)]

    @property
    def messages(self) -> list[Message]:
        return [*self.previous_messages, *_flatten(self.current)]


def turn_views(records: Iterable[tuple[str, JournalRecord]]) -> list[TurnView]:
    """The turns in a session's records, in the order in which they began."""
    turns: dict[str, list[JournalRecord]] = {}
    for turn, record in records:
        turns.setdefault(turn, []).append(record)
    return [fold(of_turn) for of_turn in turns.values()]


def visible_turns(turns: Sequence[TurnView]) -> list[TurnView]:
    """The turns that a model may read: none that was undone.

    A summary that was made in an undone turn stays, in front of the rest: it summarises earlier turns.
    """
    undone = [record for view in turns if view.undone for record in view.records]
    summaries = [record for record in undone if isinstance(record.entry, ConversationCompacted)]
    visible = [view for view in turns if not view.undone]
    return [TurnView(records=summaries), *visible] if summaries else visible


def build_conversation(
    history: Sequence[TurnView], current: TurnView, find_file: FindFile = lambda file: None
) -> Conversation:
    """The conversation for the model: the newest summary, everything after it, and the newest note.

    `find_file` says where a file can be read, if it is still stored.
    """
    compacted = _newest_summary([*history, current])
    through = compacted.through if compacted else 0
    summary = (NoteMessage(texts.agents.summary_note(compacted.text)),) if compacted else ()
    earlier = tuple(each for view in history for each in _turn_segments(view, find_file) if each.seq > through)
    noted = max(
        (record.seq for record in current.records if isinstance(record.entry, RecoveryNoted)), default=None
    )
    now = tuple(
        each
        for each in _turn_segments(current, find_file, noted, with_native=True)
        if each.seq > through or each.pinned
    )
    return Conversation(summary, earlier, now)


def _newest_summary(turns: Sequence[TurnView]) -> ConversationCompacted | None:
    found = {record.seq: record.entry for view in turns for record in view.records}
    summaries = [seq for seq, entry in found.items() if isinstance(entry, ConversationCompacted)]
    newest = found[max(summaries)] if summaries else None
    return newest if isinstance(newest, ConversationCompacted) else None


def _flatten(segments: Iterable[ConversationSegment]) -> Iterator[Message]:
    for each in segments:
        yield from each.messages


def _turn_segments(
    view: TurnView, find_file: FindFile, note_seq: int | None = None, *, with_native: bool = False
) -> Iterator[ConversationSegment]:
    for record in view.records:
        match record.entry:
            case TurnBegan() | MessagesJoined() as entry:
                causes = [
                    cause for cause in entry.causes if not cause.wish and cause.inbox not in view.returned_messages
                ]
                messages = tuple(_cause_message(cause, find_file) for cause in causes)
                if messages:
                    yield ConversationSegment(record.seq, messages, pinned=True)
            case ModelAnswered() as entry if entry.calls or is_final_response(entry) or _was_sent(entry, view):
                response = AssistantMessage(entry.text, entry.calls, entry.native if with_native else None)
                results = tuple(_tool_results(view, entry.calls))
                yield ConversationSegment(record.seq, (response, *results), len(results) == len(entry.calls))
            case QuestionAnswered(inbox=message) if message in view.returned_messages:
                continue
            case QuestionAnswered() as entry if (
                entry.attachments or not entry.chosen or entry.question not in view.calls
            ):
                yield ConversationSegment(
                    record.seq, (_user_message(entry.text, entry.attachments, find_file),), pinned=True
                )
            case RecoveryNoted() as entry if record.seq == note_seq:
                yield ConversationSegment(record.seq, (NoteMessage(entry.text),))


def _was_sent(entry: ModelAnswered, view: TurnView) -> bool:
    """Whether a response that ended at the model's length limit was the answer of its turn."""
    return is_length_limited(entry) and isinstance(view.ended, TurnFinished) and entry is view.responses[-1]


def _cause_message(cause: Cause, find_file: FindFile) -> UserMessage | NoteMessage:
    """The text of a cause, or a description of it if it is blank: providers refuse a blank message."""
    if cause.note:
        return NoteMessage(texts.phrases.report_note(cause.text), is_report=True)
    return _user_message(cause.text, cause.attachments, find_file)


def _user_message(text: str, files: Sequence[Attachment], find_file: FindFile) -> UserMessage:
    words = text if text.strip() else texts.files.message_without_text(*(file.name for file in files))
    return UserMessage(words, tuple(_attached_file(file, find_file(file)) for file in files))


def _attached_file(file: Attachment, path: str | None) -> AttachedFile:
    name = display_file_name(file.name)
    if file.problem is not None:
        line = texts.files.missing_attachment_line(name, file.problem)
    elif path is None:
        line = texts.files.deleted_attachment_line(name, file.media_type, file.size)
    else:
        line = texts.files.attached_line(name, file.media_type, file.size, path)
    return AttachedFile(name, file.media_type, line, path)


def _tool_results(view: TurnView, calls: Iterable[ToolCall]) -> Iterator[ToolMessage]:
    """The results of these calls, one per call, whatever was journalled between."""
    for call in calls:
        ended = view.calls[call.id].ended
        if ended is not None:
            yield ToolMessage(call.id, call.tool, ended.text, ended.outcome)

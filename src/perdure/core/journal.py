"""The journal of a turn: its facts, and their fold into a `TurnView`."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct, field
from msgspec.structs import replace

from perdure.core.entries import (
    APPROVED,
    DENIED,
    ENTRY_TYPES,
    ENTRY_UPGRADES,
    TOO_LATE,
    Cause,
    ConversationCompacted,
    Entry,
    JournalRecord,
    MessagesJoined,
    MessagesReturned,
    ModelAnswered,
    ModelAsked,
    ModelFailed,
    ObservedExit,
    QuestionAnswered,
    QuestionAsked,
    RecoveryDecided,
    RecoveryNoted,
    TokenUsage,
    ToolCall,
    ToolEnded,
    ToolOutcome,
    ToolStarted,
    TurnBegan,
    TurnCancelled,
    TurnClaimed,
    TurnFailed,
    TurnFinished,
    TurnInterrupted,
    TurnRequeued,
    TurnUndone,
    decode_entry,
    encode_entry,
    is_approval,
)
from perdure.core.messages import Sender
from perdure.core.states import INITIAL_STATE, TurnState, advance

__all__ = [
    "APPROVED",
    "DENIED",
    "ENTRY_TYPES",
    "ENTRY_UPGRADES",
    "HANDED_OVER_EVIDENCE",
    "TOO_LATE",
    "CallProgress",
    "Cause",
    "ConversationCompacted",
    "Entry",
    "Interruption",
    "JournalRecord",
    "MessagesJoined",
    "MessagesReturned",
    "ModelAnswered",
    "ModelAsked",
    "ModelFailed",
    "ObservedExit",
    "QuestionAnswered",
    "QuestionAsked",
    "RecoveryDecided",
    "RecoveryNoted",
    "TokenUsage",
    "ToolCall",
    "ToolEnded",
    "ToolOutcome",
    "ToolStarted",
    "TurnBegan",
    "TurnCancelled",
    "TurnClaimed",
    "TurnFailed",
    "TurnFinished",
    "TurnInterrupted",
    "TurnRequeued",
    "TurnUndone",
    "TurnView",
    "decode_entry",
    "encode_entry",
    "fold",
    "is_approval",
    "joined_messages",
    "return_entries",
]


HANDED_OVER_EVIDENCE = "handed_over"  # in the evidence of a decision: the interruption was a planned hand-over


class CallProgress(Struct):
    """A tool call and what became of it so far."""

    request: ToolCall
    started: ToolStarted | None = None
    ended: ToolEnded | None = None


class Interruption(Struct, frozen=True):
    reason: str
    at: int
    seq: int
    progress: bool  # whether a step was finished since the interruption before
    position: int = 0
    handed_over: bool = False  # a gateway that was stopped in order handed the turn to another one


class TurnView(Struct):
    """The state of a turn, derived from its journal. `fold()` makes it; `apply()` adds one record."""

    state: TurnState = INITIAL_STATE
    attempt: int = 0
    causes: list[Cause] = field(default_factory=list)
    responses: list[ModelAnswered] = field(default_factory=list)
    calls: dict[str, CallProgress] = field(default_factory=dict)
    question: QuestionAsked | None = None
    answer: QuestionAnswered | None = None
    verdicts: dict[str, QuestionAnswered] = field(default_factory=dict)  # verdicts on approvals, by call
    reply_to: str | None = None  # the newest message of a person, to attach the reply to
    interruptions: list[Interruption] = field(default_factory=list)
    records: list[JournalRecord] = field(default_factory=list)
    content: list[JournalRecord] = field(default_factory=list)
    content_run: str | None = None  # the run that wrote the newest content
    tokens: int = 0
    last_decision: RecoveryDecided | None = None  # about the newest interruption
    ended: TurnFinished | TurnFailed | TurnCancelled | None = None
    undone: bool = False  # a person took it back
    returned_messages: set[str] = field(default_factory=set)  # messages that had joined it, and left it again
    claimed_by: str | None = None  # the run of the newest attempt
    _has_progress: bool = False

    @property
    def open_calls(self) -> list[CallProgress]:
        """Calls that have no result yet, in the order in which the model requested them."""
        return [call for call in self.calls.values() if call.ended is None]

    @property
    def awaits_answer(self) -> bool:
        """Whether a question is open, and the turn can do nothing before its answer."""
        if self.question is None or self.answer is not None:
            return False
        return all(call.request.id == self.question.question for call in self.open_calls)

    @property
    def last_interruption(self) -> Interruption | None:
        return self.interruptions[-1] if self.interruptions else None

    @property
    def without_progress(self) -> int:
        """The number of interruptions in a row, up to the newest, without a finished step between them.

        A planned hand-over is not counted: nobody's crash, and nothing that the turn did, has caused it.
        """
        count = 0
        for interruption in reversed(self.interruptions):
            count += not interruption.handed_over
            if interruption.progress:  # a step was finished before it: the row begins here
                break
        return count

    def unreported_interruption(self) -> Interruption | None:
        """The newest interruption, if no note has told the model about it."""
        told = max((record.seq for record in self.records if isinstance(record.entry, RecoveryNoted)), default=0)
        last = self.last_interruption
        return last if last is not None and last.seq > told else None

    def apply(self, record: JournalRecord) -> None:
        """Apply one more record."""
        entry = record.entry
        if entry.move is not None:
            self.state = advance(self.state, entry.move)
        self.records.append(record)
        if entry.is_content:
            self.content.append(record)
            self.content_run = self.claimed_by
        match entry:
            case TurnBegan() | MessagesJoined():
                self.causes += entry.causes
                self.reply_to = next((one.message for one in reversed(entry.causes) if one.message), self.reply_to)
            case MessagesReturned():
                self.returned_messages |= {*entry.messages}
                self.causes = [cause for cause in self.causes if cause.inbox not in self.returned_messages]
                self.reply_to = next((one.message for one in reversed(self.causes) if one.message), None)
            case ModelAnswered():
                self.responses.append(entry)
                self.calls |= {call.id: CallProgress(call) for call in entry.calls}
                self.tokens += entry.usage.input + entry.usage.output
                self._has_progress = True
            case ConversationCompacted():
                self.tokens += entry.usage.input + entry.usage.output
            case ToolStarted():
                wish = ToolCall(entry.call, entry.tool, entry.arguments)
                self.calls.setdefault(entry.call, CallProgress(wish)).started = entry
            case ToolEnded():
                self.calls[entry.call].ended = entry
                self._has_progress = True
            case QuestionAsked():
                self.question, self.answer = entry, None
                self.verdicts.pop(entry.approves, None)  # asked again: the earlier verdict does not count
            case QuestionAnswered():
                self.answer, self.reply_to = entry, entry.message or self.reply_to
                if self.question is not None and self.question.approves:
                    self.verdicts[self.question.approves] = entry
            case TurnClaimed():
                self.attempt, self.claimed_by = entry.attempt, entry.run
                if self.content and not self.interruptions:  # the run that began the turn claimed it with that
                    self.content_run = self.content_run or entry.run
            case TurnInterrupted():
                self.interruptions.append(
                    Interruption(entry.reason, record.at, record.seq, self._has_progress, entry.position)
                )
                self._has_progress, self.last_decision = False, None
            case RecoveryDecided():
                self.last_decision = entry
                if entry.evidence.get(HANDED_OVER_EVIDENCE) and self.interruptions:
                    self.interruptions[-1] = replace(self.interruptions[-1], handed_over=True)
            case TurnFinished() | TurnFailed() | TurnCancelled():
                self.ended = entry
            case TurnUndone():
                self.undone = True


def joined_messages(view: TurnView) -> dict[str, Sender]:
    """The messages that joined the turn after it began: the sender of each, by inbox row."""
    found: dict[str, Sender] = {}
    for record in view.records:
        match record.entry:
            case MessagesJoined(causes=causes):
                found |= {cause.inbox: cause.sender for cause in causes if not (cause.wish or cause.note)}
            case QuestionAnswered(inbox=message, by=by) if message:
                found[message] = by
    return {message: by for message, by in found.items() if message not in view.returned_messages}


def return_entries(view: TurnView) -> list[MessagesReturned]:
    """The entry that returns joined messages to the queue when their turn is suspended."""
    left = tuple(joined_messages(view))
    return [MessagesReturned(left)] if left else []


def fold(records: Iterable[JournalRecord]) -> TurnView:
    """Fold the records of a turn's journal into its state."""
    view = TurnView()
    for record in records:
        view.apply(record)
    return view

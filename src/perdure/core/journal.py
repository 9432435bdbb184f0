"""The facts of a turn: the entries of the journal, versioned, and their fold into a `TurnView`.

An entry is *content* when it says what people, models and tools did, and *ours* when it says what the gateway
did with the turn. Only content is ever the tail of a turn, and only content is a sign of life.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, ClassVar, Literal

import msgspec
from msgspec import Struct, field

from perdure.core.effects import Effect
from perdure.core.messages import Attachment, Sender
from perdure.core.turn import INITIAL, Move, State, advance
from perdure.errors import NewerEntry


class Cause(Struct, frozen=True):
    """Why a turn began, or what joined it: one row of the inbox."""

    inbox: str
    text: str
    sender: Sender
    message: str  # the platform's id of the message, to attach the reply to
    sent_at: int | None = None
    attachments: tuple[Attachment, ...] = ()
    wish: bool = False  # no words: somebody wants the work to go on
    note: bool = False  # the gateway's words, of a process for one; the sender is the person whom it concerns


class ToolCall(Struct, frozen=True):
    """A model's wish to use a tool. The id is ours and unique in its turn, because providers reuse theirs."""

    id: str
    tool: str
    arguments: dict[str, Any]
    problem: str = ""  # why the wish cannot be granted as it came: the model is told, and nothing runs


class Usage(Struct, frozen=True):
    """What a model call cost, in tokens."""

    input: int = 0
    output: int = 0


# ── entries ─────────────────────────────────────────────────────────────────────────────────────────────────


class Entry(Struct, frozen=True):
    """One fact. A subclass has a kind (its word in the database), a version, and maybe a move of the turn."""

    kind: ClassVar[str]
    version: ClassVar[int] = 1
    content: ClassVar[bool] = True
    move: ClassVar[Move | None] = None
    late: ClassVar[bool] = False  # a fact that is accepted also while the turn is not running

    @property
    def is_content(self) -> bool:
        return self.content


class Began(Entry, frozen=True):
    """The turn exists. It has no cause only when it was imported for the sake of its mark."""

    kind = "began"
    causes: tuple[Cause, ...]

    @property
    def is_content(self) -> bool:
        return bool(self.causes)


class Joined(Entry, frozen=True):
    """A further message became part of the turn."""

    kind = "joined"
    causes: tuple[Cause, ...]


class ModelAsked(Entry, frozen=True):
    """The intent of a model call. Not content: a call that was cut off is simply made again."""

    kind = "model_asked"
    content = False
    step: int
    model: str


class ModelAnswered(Entry, frozen=True):
    kind = "model_answered"
    step: int
    text: str
    calls: tuple[ToolCall, ...] = ()
    finish: str | None = None
    usage: Usage = Usage()
    native: dict[str, Any] | None = None  # what the provider wants back word for word; only `agents` reads it


class Compacted(Entry, frozen=True):
    """A summary that stands, for the model, in place of everything up to an entry. Nothing is deleted."""

    kind = "compacted"
    content = False
    through: int  # the seq of the last entry that is summarised
    text: str
    usage: Usage = Usage()


class ToolStarted(Entry, frozen=True):
    """The intent of a tool call, on disk before the tool runs."""

    kind = "tool_started"
    call: str
    tool: str
    effect: Effect
    key: str  # the idempotency key, the same for every try
    arguments: dict[str, Any] = field(default_factory=dict)  # of a step that no model wished for
    where: str = ""  # the installation that alone can find again what was begun, if it outlives us
    approved_by: str = ""  # who approved it: the approval is spent with this intent


Outcome = Literal["ok", "error", "unknown", "cancelled"]


class ToolEnded(Entry, frozen=True):
    kind = "tool_ended"
    late = True
    call: str
    outcome: Outcome
    text: str


APPROVED, DENIED, LATE = "approved", "denied", "late"  # the words of a verdict


class Asked(Entry, frozen=True):
    """A question to a person; the turn waits for the answer."""

    kind = "asked"
    move = Move.ASKED
    question: str
    text: str
    options: tuple[str, ...] = ()
    position: int = 0  # how far the chat had come: only what arrives behind it can be the answer
    approves: str = ""  # the call that waits for a person's word; plain text is never that word
    until: int = 0  # when it is too late to approve; 0: never


class Answered(Entry, frozen=True):
    """What a person wrote while the turn waited for them."""

    kind = "answered"
    move = Move.ANSWERED
    question: str
    text: str
    by: Sender
    message: str = ""
    chosen: bool = True  # False: none of the options; the question is closed, and the words join the turn


def is_approval(verdict: Answered) -> bool:
    """Whether a person let a call run. That somebody happened to write the word "approved" is not enough."""
    return verdict.chosen and verdict.text == APPROVED


class Claimed(Entry, frozen=True):
    kind = "claimed"
    content = False
    move = Move.CLAIMED
    run: str
    epoch: int
    attempt: int


class Interrupted(Entry, frozen=True):
    kind = "interrupted"
    content = False
    move = Move.INTERRUPTED
    reason: str
    run: str | None = None  # the run that had the turn
    position: int = 0  # how far the chat had come: what arrives behind it joins the turn
    dated: bool = True  # False: imported, and nobody knows when the mark was made


class Decided(Entry, frozen=True):
    """What recovery decided, and on what evidence."""

    kind = "decided"
    content = False
    late = True
    decision: str
    why: str
    evidence: dict[str, Any] = field(default_factory=dict)
    rule: str = ""


class Requeued(Entry, frozen=True):
    kind = "requeued"
    content = False
    move = Move.REQUEUED


class Noted(Entry, frozen=True):
    """The note that we gave the model about an interruption: said once, and never as the user's words."""

    kind = "noted"
    content = False
    text: str


class Finished(Entry, frozen=True):
    kind = "finished"
    content = False
    move = Move.FINISHED
    text: str


class Failed(Entry, frozen=True):
    kind = "failed"
    content = False
    move = Move.FAILED
    error: str


class Cancelled(Entry, frozen=True):
    kind = "cancelled"
    content = False
    move = Move.CANCELLED
    why: str


ENTRIES: dict[str, type[Entry]] = {entry.kind: entry for entry in Entry.__subclasses__()}

# (kind, version) -> how a body of that version becomes one of the next.
UPGRADES: dict[tuple[str, int], Callable[[dict[str, Any]], dict[str, Any]]] = {}

_encoder = msgspec.json.Encoder()
_decoders = {kind: msgspec.json.Decoder(entry) for kind, entry in ENTRIES.items()}


def encode(entry: Entry) -> str:
    """The entry's body as JSON."""
    return _encoder.encode(entry).decode()


def decode(kind: str, version: int, body: str | bytes) -> Entry:
    """Read a body back, bringing an older version up to date; a newer one is refused."""
    entry = ENTRIES.get(kind)
    if entry is None or version > entry.version:
        raise NewerEntry(f"the journal has an entry {kind!r} of version {version}, which this version cannot read")
    if version == entry.version:
        return _decoders[kind].decode(body)
    older = msgspec.json.decode(body)
    for step in range(version, entry.version):
        older = UPGRADES[kind, step](older)
    return msgspec.convert(older, entry)


class Record(Struct, frozen=True):
    """An entry with its place and time in the journal."""

    seq: int
    at: int
    entry: Entry


# ── the fold ────────────────────────────────────────────────────────────────────────────────────────────────


class Call(Struct):
    """A tool call and what became of it so far."""

    request: ToolCall
    started: ToolStarted | None = None
    ended: ToolEnded | None = None


class Interruption(Struct, frozen=True):
    reason: str
    at: int
    seq: int
    progress: bool  # whether anything was finished since the one before
    position: int = 0


class TurnView(Struct):
    """A turn as its journal tells it. `fold()` makes it; `apply()` moves it on by one record."""

    state: State = INITIAL
    attempt: int = 0
    causes: list[Cause] = field(default_factory=list)
    responses: list[ModelAnswered] = field(default_factory=list)
    calls: dict[str, Call] = field(default_factory=dict)
    question: Asked | None = None
    answer: Answered | None = None
    verdicts: dict[str, Answered] = field(default_factory=dict)  # what came of approvals, by call
    anchor: str | None = None  # the newest message of a person, to attach the reply to
    interruptions: list[Interruption] = field(default_factory=list)
    records: list[Record] = field(default_factory=list)
    content: list[Record] = field(default_factory=list)
    content_run: str | None = None  # the run that wrote the newest content
    tokens: int = 0
    decided: Decided | None = None  # about the newest interruption
    ended: Finished | Failed | Cancelled | None = None
    _run: str | None = None
    _progress: bool = False

    @property
    def open_calls(self) -> list[Call]:
        """Calls that have no result yet, in the order the model wished them."""
        return [call for call in self.calls.values() if call.ended is None]

    @property
    def asks(self) -> bool:
        """Whether a question is open, and nothing else has to be done before its answer."""
        if self.question is None or self.answer is not None:
            return False
        return all(call.request.id == self.question.question for call in self.open_calls)

    @property
    def interrupted(self) -> Interruption | None:
        return self.interruptions[-1] if self.interruptions else None

    @property
    def without_progress(self) -> int:
        """How many interruptions in a row, up to the newest, have nothing newly finished between them."""
        count = 0
        for interruption in reversed(self.interruptions):
            count += 1
            if interruption.progress:  # before it something was finished: the row begins with it
                break
        return count

    def note_due(self) -> Interruption | None:
        """The newest interruption, if the model has not been told of it."""
        told = max((record.seq for record in self.records if isinstance(record.entry, Noted)), default=0)
        last = self.interrupted
        return last if last is not None and last.seq > told else None

    def apply(self, record: Record) -> None:
        """Take one more fact into account."""
        entry = record.entry
        if entry.move is not None:
            self.state = advance(self.state, entry.move)
        self.records.append(record)
        if entry.is_content:
            self.content.append(record)
            self.content_run = self._run
        match entry:
            case Began() | Joined():
                self.causes += entry.causes
                self.anchor = next((one.message for one in reversed(entry.causes) if one.message), self.anchor)
            case ModelAnswered():
                self.responses.append(entry)
                self.calls |= {call.id: Call(call) for call in entry.calls}
                self.tokens += entry.usage.input + entry.usage.output
                self._progress = True
            case Compacted():
                self.tokens += entry.usage.input + entry.usage.output
            case ToolStarted():
                wish = ToolCall(entry.call, entry.tool, entry.arguments)
                self.calls.setdefault(entry.call, Call(wish)).started = entry
            case ToolEnded():
                self.calls[entry.call].ended = entry
                self._progress = True
            case Asked():
                self.question, self.answer = entry, None
            case Answered():
                self.answer, self.anchor = entry, entry.message or self.anchor
                if self.question is not None and self.question.approves:
                    self.verdicts[self.question.approves] = entry
            case Claimed():
                self.attempt, self._run = entry.attempt, entry.run
                if self.content and not self.interruptions:  # the run that began the turn claimed it with that
                    self.content_run = self.content_run or entry.run
            case Interrupted():
                self.interruptions.append(
                    Interruption(entry.reason, record.at, record.seq, self._progress, entry.position)
                )
                self._progress, self.decided = False, None
            case Decided():
                self.decided = entry
            case Finished() | Failed() | Cancelled():
                self.ended = entry


def fold(records: Iterable[Record]) -> TurnView:
    """The turn that these records of its journal tell of."""
    view = TurnView()
    for record in records:
        view.apply(record)
    return view

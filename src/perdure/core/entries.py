"""The facts of a turn: the entries of the journal, versioned. `core.journal` folds them into a `TurnView`.

An entry is *content* when it says what people, models and tools did, and *ours* when it says what the gateway
did with the turn. Only content is ever the tail of a turn, and only content is a sign of life.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Literal

import msgspec
from msgspec import Struct, field

from perdure.core.effects import Effect
from perdure.core.messages import Attachment, Sender, SentFile
from perdure.core.storable_text import encode_storable
from perdure.core.turn import TurnMove
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


class TokenUsage(Struct, frozen=True):
    """What a model call cost, in tokens."""

    input: int = 0
    output: int = 0


# ── entries ─────────────────────────────────────────────────────────────────────────────────────────────────


class Entry(Struct, frozen=True):
    """One fact. A subclass has a kind (its word in the database), a version, and maybe a move of the turn."""

    kind: ClassVar[str]
    version: ClassVar[int] = 1
    content: ClassVar[bool] = True
    move: ClassVar[TurnMove | None] = None
    late: ClassVar[bool] = False  # a fact that is accepted also while the turn is not running

    @property
    def is_content(self) -> bool:
        return self.content


class TurnBegan(Entry, frozen=True):
    """The turn exists. It has no cause only when it was imported for the sake of its mark."""

    kind = "began"
    causes: tuple[Cause, ...]

    @property
    def is_content(self) -> bool:
        return bool(self.causes)


class MessagesJoined(Entry, frozen=True):
    """A further message became part of the turn."""

    kind = "joined"
    causes: tuple[Cause, ...]


class MessagesReturned(Entry, frozen=True):
    """Messages that had joined the turn wait again, for a turn of their own: this one was set aside."""

    kind = "returned"
    content = False
    late = True
    messages: tuple[str, ...]  # their rows of the inbox


class ModelAsked(Entry, frozen=True):
    """The intent of a model call. Not content: a call that was cut off is simply made again."""

    kind = "model_asked"
    content = False
    step: int
    model: str


class ModelFailed(Entry, frozen=True):
    """A model call that gave no answer: nothing of it counts. Not content: the same is asked again."""

    kind = "model_failed"
    content = False
    step: int
    model: str
    number: int  # which try of this step it was, over all attempts
    said: str = ""  # what the provider said, without secrets
    status: int | None = None  # the HTTP status, if one came
    wait: int | None = None  # milliseconds until the next try; None: no further try
    broke_off: bool = False  # an answer had begun, and has no end


class ModelAnswered(Entry, frozen=True):
    kind = "model_answered"
    step: int
    text: str
    calls: tuple[ToolCall, ...] = ()
    finish: str | None = None
    usage: TokenUsage = TokenUsage()
    native: dict[str, Any] | None = None  # what the provider wants back word for word; only `agents` reads it


class ConversationCompacted(Entry, frozen=True):
    """A summary that stands, for the model, in place of everything up to an entry. Nothing is deleted."""

    kind = "compacted"
    content = False
    through: int  # the seq of the last entry that is summarised
    text: str
    usage: TokenUsage = TokenUsage()


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


ToolOutcome = Literal["ok", "error", "unknown", "cancelled"]


class ObservedExit(Struct, frozen=True):
    """The end of a process in the background, as a call has seen it: whoever has is told of it no other way."""

    process: str
    lost: bool = False  # nobody can tell how it ended
    exit_code: int | None = None
    signal: int | None = None


class ToolEnded(Entry, frozen=True, omit_defaults=True):
    kind = "tool_ended"
    late = True
    call: str
    outcome: ToolOutcome
    text: str
    saw: tuple[ObservedExit, ...] = ()
    files: tuple[SentFile, ...] = ()  # owed to the chat together with this result


APPROVED, DENIED, TOO_LATE = "approved", "denied", "late"  # the words of a verdict


class QuestionAsked(Entry, frozen=True):
    """A question to a person; the turn waits for the answer."""

    kind = "asked"
    move = TurnMove.ASKED
    question: str
    text: str
    options: tuple[str, ...] = ()
    position: int = 0  # how far the chat had come: only what arrives behind it can be the answer
    approves: str = ""  # the call that waits for a person's word; plain text is never that word
    until: int = 0  # when it is too late to approve; 0: never


class QuestionAnswered(Entry, frozen=True):
    """What a person wrote while the turn waited for them."""

    kind = "answered"
    move = TurnMove.ANSWERED
    question: str
    text: str
    by: Sender
    message: str = ""
    chosen: bool = True  # False: none of the options; the question is closed, and the words join the turn
    attachments: tuple[Attachment, ...] = ()
    inbox: str = ""  # the row of the inbox, of words that joined the turn instead of being the answer


def is_approval(answer: QuestionAnswered) -> bool:
    """Whether a person let a call run. That somebody happened to write the word "approved" is not enough."""
    return answer.chosen and answer.text == APPROVED


class TurnClaimed(Entry, frozen=True):
    kind = "claimed"
    content = False
    move = TurnMove.CLAIMED
    run: str
    epoch: int
    attempt: int


class TurnInterrupted(Entry, frozen=True):
    kind = "interrupted"
    content = False
    move = TurnMove.INTERRUPTED
    reason: str
    run: str | None = None  # the run that had the turn
    position: int = 0  # how far the chat had come: what arrives behind it joins the turn
    dated: bool = True  # False: imported, and nobody knows when the mark was made


class RecoveryDecided(Entry, frozen=True):
    """What recovery decided, and on what evidence."""

    kind = "decided"
    content = False
    late = True
    decision: str
    why: str
    evidence: dict[str, Any] = field(default_factory=dict)
    rule: str = ""


class TurnRequeued(Entry, frozen=True):
    kind = "requeued"
    content = False
    move = TurnMove.REQUEUED


class RecoveryNoted(Entry, frozen=True):
    """The note that we gave the model about an interruption: said once, and never as the user's words."""

    kind = "noted"
    content = False
    text: str


class TurnFinished(Entry, frozen=True):
    kind = "finished"
    content = False
    move = TurnMove.FINISHED
    text: str


class TurnFailed(Entry, frozen=True):
    kind = "failed"
    content = False
    move = TurnMove.FAILED
    error: str


class TurnCancelled(Entry, frozen=True):
    kind = "cancelled"
    content = False
    move = TurnMove.CANCELLED
    why: str


class TurnUndone(Entry, frozen=True):
    """A person took the turn back after its end: no model sees it any more. What it did stays done."""

    kind = "undone"
    content = False
    by: str


ENTRY_TYPES: dict[str, type[Entry]] = {entry.kind: entry for entry in Entry.__subclasses__()}

# (kind, version) -> how a body of that version becomes one of the next.
ENTRY_UPGRADES: dict[tuple[str, int], Callable[[dict[str, Any]], dict[str, Any]]] = {}

_decoders = {kind: msgspec.json.Decoder(entry) for kind, entry in ENTRY_TYPES.items()}


def encode_entry(entry: Entry) -> str:
    """The entry's body as JSON."""
    return encode_storable(entry)[0]


def decode_entry(kind: str, version: int, body: str | bytes) -> Entry:
    """Read a body back, bringing an older version up to date; a newer one is refused."""
    entry = ENTRY_TYPES.get(kind)
    if entry is None or version > entry.version:
        raise NewerEntry(f"the journal has an entry {kind!r} of version {version}, which this version cannot read")
    if version == entry.version:
        return _decoders[kind].decode(body)
    older = msgspec.json.decode(body)
    for step in range(version, entry.version):
        older = ENTRY_UPGRADES[kind, step](older)
    return msgspec.convert(older, entry)


class JournalRecord(Struct, frozen=True):
    """An entry with its place and time in the journal."""

    seq: int
    at: int
    entry: Entry

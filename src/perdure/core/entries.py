"""The entries of the journal, versioned: the facts of a turn, which `core.journal` folds into a `TurnView`.

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
from perdure.core.states import TurnMove
from perdure.core.storable_text import encode_storable
from perdure.errors import NewerEntry


class Cause(Struct, frozen=True):
    """A row of the inbox that began a turn, or that joined it."""

    inbox: str
    text: str
    sender: Sender
    message: str  # the platform's id of the message, to attach the reply to
    sent_at: int | None = None
    attachments: tuple[Attachment, ...] = ()
    wish: bool = False  # it has no text: somebody asked that the turn goes on
    note: bool = False  # a report of the gateway, such as of a process; the sender is the person whom it concerns


class ToolCall(Struct, frozen=True):
    """A tool call that a model requested. The id is ours, unique in its turn: providers reuse theirs."""

    id: str
    tool: str
    arguments: dict[str, Any]
    problem: str = ""  # why the call cannot be run as requested: the model is told, and nothing runs


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
    late: ClassVar[bool] = False  # accepted also while the turn is not running

    @property
    def is_content(self) -> bool:
        return self.content


class TurnBegan(Entry, frozen=True):
    """A turn began. Only a turn that was imported because of its mark has no cause."""

    kind = "began"
    causes: tuple[Cause, ...]

    @property
    def is_content(self) -> bool:
        return bool(self.causes)


class MessagesJoined(Entry, frozen=True):
    """Further messages joined the turn."""

    kind = "joined"
    causes: tuple[Cause, ...]


class MessagesReturned(Entry, frozen=True):
    """Messages that had joined the turn wait again, for another turn: this turn was suspended."""

    kind = "returned"
    content = False
    late = True
    messages: tuple[str, ...]  # ids of their inbox rows


class ModelAsked(Entry, frozen=True):
    """The intent of a model call. Not content: an interrupted call is made again."""

    kind = "model_asked"
    content = False
    step: int
    model: str


class ModelFailed(Entry, frozen=True):
    """A model call that gave no answer. Not content: the same request is made again."""

    kind = "model_failed"
    content = False
    step: int
    model: str
    number: int  # of the try of this step, counted over all attempts
    said: str = ""  # what the provider said, without secrets
    status: int | None = None  # the HTTP status, if one came
    wait: int | None = None  # milliseconds until the next try; None: no further try
    broke_off: bool = False  # the answer had begun and was not completed


class ModelAnswered(Entry, frozen=True):
    kind = "model_answered"
    step: int
    text: str
    calls: tuple[ToolCall, ...] = ()
    finish: str | None = None
    usage: TokenUsage = TokenUsage()
    # The provider's own form, to be sent back unchanged; only `agents` reads it.
    native: dict[str, Any] | None = None


class ConversationCompacted(Entry, frozen=True):
    """A summary that the model reads in place of everything up to an entry. Nothing is deleted."""

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
    arguments: dict[str, Any] = field(default_factory=dict)  # of a step that no model requested
    where: str = ""  # of an attached call: the installation that can find it again
    approved_by: str = ""  # who approved it; an approval is good for one call


ToolOutcome = Literal["ok", "error", "unknown", "cancelled"]


class ObservedExit(Struct, frozen=True):
    """The exit of a background process that a tool result reports; no other report of it is sent."""

    process: str
    lost: bool = False  # how it ended is unknown
    exit_code: int | None = None
    signal: int | None = None


class ToolEnded(Entry, frozen=True, omit_defaults=True):
    kind = "tool_ended"
    late = True
    call: str
    outcome: ToolOutcome
    text: str
    saw: tuple[ObservedExit, ...] = ()
    files: tuple[SentFile, ...] = ()  # sent to the chat together with this result


APPROVED, DENIED, TOO_LATE = "approved", "denied", "late"  # the verdicts on an approval


class QuestionAsked(Entry, frozen=True):
    """A question to a person; the turn waits for the answer."""

    kind = "asked"
    move = TurnMove.ASKED
    question: str
    text: str
    options: tuple[str, ...] = ()
    position: int = 0  # in the chat: only a later message can be the answer
    approves: str = ""  # the call that waits for approval; plain text never approves it
    until: int = 0  # the latest time to approve; 0: none


class QuestionAnswered(Entry, frozen=True):
    """A person's answer to the question that the turn waits for."""

    kind = "answered"
    move = TurnMove.ANSWERED
    question: str
    text: str
    by: Sender
    message: str = ""
    chosen: bool = True  # False: none of the options; the question is closed and the text joins the turn
    attachments: tuple[Attachment, ...] = ()
    inbox: str = ""  # the inbox row of a text that joined the turn and was no answer
    platform: str = ""  # where a verdict was given, or an answer over HTTP; entries of 0.2.0 do not say it
    source: str = ""  # of a verdict: the platform's id of the message or press by which it came
    login: str = ""  # over HTTP: the name of the login by which it came


def is_approval(answer: QuestionAnswered) -> bool:
    """Whether a person approved the call. A text that happens to be "approved" does not."""
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
    run: str | None = None  # the run that held the turn
    position: int = 0  # in the chat: later messages join the turn
    dated: bool = True  # False: imported without the time of its mark


class RecoveryDecided(Entry, frozen=True):
    """A decision of recovery, with its evidence."""

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
    """The gateway's note to the model about an interruption: given once, and never as the user's words."""

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
    """A person took the turn back after its end: no model reads it any more. Its effects remain."""

    kind = "undone"
    content = False
    by: str


ENTRY_TYPES: dict[str, type[Entry]] = {entry.kind: entry for entry in Entry.__subclasses__()}

# The versions of all kinds are numbers of one row: a new kind, or a new version of one, takes the next number. So
# this one number says which entries a gateway can read.
NEWEST_ENTRY_VERSION = max(entry.version for entry in ENTRY_TYPES.values())

# (kind, version) -> the function that turns a body of that version into one of the next.
ENTRY_UPGRADES: dict[tuple[str, int], Callable[[dict[str, Any]], dict[str, Any]]] = {}

_decoders = {kind: msgspec.json.Decoder(entry) for kind, entry in ENTRY_TYPES.items()}


def encode_entry(entry: Entry) -> str:
    """The entry's body as JSON."""
    return encode_storable(entry)[0]


def decode_entry(kind: str, version: int, body: str | bytes) -> Entry:
    """Decode a body. An older version is upgraded; a newer one raises NewerEntry."""
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
    """An entry with its sequence number and time in the journal."""

    seq: int
    at: int
    entry: Entry

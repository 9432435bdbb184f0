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
from perdure.core.text import as_json
from perdure.core.turn import Move
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


class Sight(Struct, frozen=True):
    """The end of a process in the background, as a call has seen it: whoever has is told of it no other way."""

    process: str
    lost: bool = False  # nobody can tell how it ended
    exit_code: int | None = None
    signal: int | None = None


class ToolEnded(Entry, frozen=True, omit_defaults=True):
    kind = "tool_ended"
    late = True
    call: str
    outcome: Outcome
    text: str
    saw: tuple[Sight, ...] = ()
    files: tuple[SentFile, ...] = ()  # owed to the chat together with this result


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
    attachments: tuple[Attachment, ...] = ()


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


class Undone(Entry, frozen=True):
    """A person took the turn back after its end: no model sees it any more. What it did stays done."""

    kind = "undone"
    content = False
    by: str


ENTRIES: dict[str, type[Entry]] = {entry.kind: entry for entry in Entry.__subclasses__()}

# (kind, version) -> how a body of that version becomes one of the next.
UPGRADES: dict[tuple[str, int], Callable[[dict[str, Any]], dict[str, Any]]] = {}

_decoders = {kind: msgspec.json.Decoder(entry) for kind, entry in ENTRIES.items()}


def encode(entry: Entry) -> str:
    """The entry's body as JSON."""
    return as_json(entry)[0]


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

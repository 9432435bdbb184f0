"""Messages from and to platforms: events, senders, buttons and their questions, files and receipts."""

from __future__ import annotations

import hashlib
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from perdure.core.address import Address, join_parts
from perdure.core.queue import Fate


class Attachment(Struct, frozen=True, omit_defaults=True):
    """A file that came with a message, as the platform names it; its bytes are fetched later."""

    name: str
    reference: str
    media_type: str = "application/octet-stream"
    size: int | None = None
    path: str | None = None  # relative to the home directory, once it is fetched
    problem: str | None = None  # why it could not be fetched


class Sender(Struct, frozen=True):
    """The person who wrote, as the platform spells them."""

    id: str
    name: str = ""


class Pick(Struct, frozen=True):
    """One option of one question, as a button names it. Pressed too late, it answers no other question."""

    question: str = ""  # its id, in full or short
    option: int = 0  # counted from 0
    under: str = ""  # of a button that names no question: the message under which it stands


class Button(Struct, frozen=True):
    """A button under a message; pressing it is the same as writing its command.

    A button with a pick answers that question; the adapter passes the pick back when the button is pressed.
    """

    label: str
    command: str
    pick: Pick | None = None


class Inbound(Struct, frozen=True):
    """One event from a platform, as its adapter has read it."""

    address: Address
    message: str  # the platform's id of the message
    sender: Sender
    text: str
    account: str = "default"  # our own account on that platform
    kind: Literal["message", "button", "edit", "delete"] = "message"  # the last two are about an earlier message
    sent_at: int | None = None
    attachments: tuple[Attachment, ...] = ()
    album: str | None = None  # the platform's id of the album that it is a part of
    version: str = ""  # of an edit: distinguishes it from other edits of the same message
    pick: Pick | None = None  # of a button under a question: the option that it stands for

    @property
    def event_key(self) -> str:
        """The key of this event; the same event delivered twice has the same key."""
        address = self.address
        version = (self.version,) if self.version else ()
        return join_parts(address.platform, self.account, self.kind, address.chat, self.message, *version)

    @property
    def original_event_key(self) -> str:
        """The key of the event whose message this event edits or deletes."""
        return replace(self, kind="message", version="").event_key


class Stored(Struct, frozen=True):
    """What the store did with a received message."""

    message: str
    session: str
    key: str
    fresh: bool  # False: it was stored before, and this delivery changed nothing
    fate: Fate = Fate.WAITS
    quiet: bool = False  # more messages may belong to it: its turn begins after a quiet period
    ended: str | None = None  # the turn that it ended


class SentFile(Struct, frozen=True, omit_defaults=True):
    """A file that a turn sends, by the path of its stored copy in the home directory."""

    id: str
    name: str
    media_type: str
    size: int
    path: str
    caption: str = ""


class LocalFile(Struct, frozen=True):
    """A file on this machine that is to be sent."""

    place: str
    name: str
    media_type: str
    size: int


class Outbound(Struct, frozen=True):
    """One message to send, or one part of it."""

    address: Address
    text: str
    key: str  # the delivery key: the same for every try of the same message
    reply_to: str | None = None
    buttons: tuple[Button, ...] = ()
    file: LocalFile | None = None  # the message is a file; its text is the caption or the file's name
    preview: bool = False  # the beginning of an unfinished answer: edited as it grows, then replaced


class Receipt(Struct, frozen=True):
    """The platform's confirmation of a message, with the platform's id of it."""

    message: str


_REPLY_INFIX = ".asks."
_REPEAT_INFIX = ".again."
SHORT_ID_MARK = "#"  # begins a short id, used where the full one is too long for a button


def question_id(turn: str, question: str) -> str:
    return f"{turn}.{question}"


def question_reply_id(turn: str, question: str, times_before: int = 0) -> str:
    """The id of the reply that asks a question, after it was asked so many times before."""
    return f"{turn}{_REPLY_INFIX}{question}" + (f"{_REPEAT_INFIX}{times_before}" if times_before else "")


def question_of_reply(reply: str) -> str | None:
    """The id of the question that a reply asks; None if it asks none."""
    turn, asks, question = reply.partition(_REPLY_INFIX)
    return question_id(turn, question.partition(_REPEAT_INFIX)[0]) if asks else None


def short_question_id(name: str) -> str:
    """The short id of a question: below fifty bytes, however long the full id is."""
    turn, _, question = name.partition(".")
    return f"{turn}.{SHORT_ID_MARK}{hashlib.sha256(question.encode()).hexdigest()[:16]}"


def turn_of_question(name: str) -> str:
    """The turn that asked the question."""
    return name.partition(".")[0]


def is_id_of_question(given: str, turn: str, question: str) -> bool:
    """Whether an id, in full or short, is that of this question."""
    full = question_id(turn, question)
    return given in (full, short_question_id(full))

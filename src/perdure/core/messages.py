"""What comes in from a platform and what goes out to it."""

from __future__ import annotations

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
    path: str | None = None  # where it is in the home, once it is fetched
    problem: str | None = None  # why it could not be fetched


class Sender(Struct, frozen=True):
    """The person who wrote, as the platform spells them."""

    id: str
    name: str = ""


class Pick(Struct, frozen=True):
    """One option of one question, as a button names it: pressed too late, it is an answer to nothing else."""

    question: str = ""  # its name, or the short one
    option: int = 0  # counted from 0
    under: str = ""  # of a button that names no question: the message that it stands under


class Button(Struct, frozen=True):
    """A choice under a message; pressing it is the same as writing its command.

    With a pick, it answers that question, and an adapter brings the pick back when it is pressed.
    """

    label: str
    command: str
    pick: Pick | None = None


class Inbound(Struct, frozen=True):
    """One event from a platform, understood."""

    address: Address
    message: str  # the platform's id of the message
    sender: Sender
    text: str
    account: str = "default"  # our own account on that platform
    kind: Literal["message", "button", "edit", "delete"] = "message"  # the last two are about an earlier message
    sent_at: int | None = None
    attachments: tuple[Attachment, ...] = ()
    album: str | None = None  # the platform's id of the album that it is a part of
    version: str = ""  # of an edit: what tells it from other edits of the same message
    pick: Pick | None = None  # of a button under a question: what it stands for

    @property
    def event_key(self) -> str:
        """Names this event; the same event delivered twice has the same key."""
        place = self.address
        version = (self.version,) if self.version else ()
        return join_parts(place.platform, self.account, self.kind, place.chat, self.message, *version)

    @property
    def original_event_key(self) -> str:
        """The key of the event that brought the message which this one edits or deletes."""
        return replace(self, kind="message", version="").event_key


class Stored(Struct, frozen=True):
    """Where a received message ended up, and what became of it."""

    message: str
    session: str
    key: str
    fresh: bool  # False: it was here before, and this delivery changed nothing
    fate: Fate = Fate.WAITS
    quiet: bool = False  # more may belong to it: its turn begins when nothing more comes
    ended: str | None = None  # the turn that it ended


class SentFile(Struct, frozen=True, omit_defaults=True):
    """A file that a turn sends: the copy of it that is kept, by its path in the home."""

    id: str
    name: str
    media_type: str
    size: int
    path: str
    caption: str = ""


class LocalFile(Struct, frozen=True):
    """A file of this machine, to be sent."""

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
    file: LocalFile | None = None  # the message is a file; its text is the caption, or else its name
    preview: bool = False  # the beginning of an answer that is still growing: it is edited, then replaced


class Receipt(Struct, frozen=True):
    """The platform's word that a message is there, with its id of it."""

    message: str

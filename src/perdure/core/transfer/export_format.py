"""The format of an export: one JSON document with one session per line.

A session's line has the fields that every session has in JSON, then its turns with their journals, the messages
that were received and the replies that are owed or were sent. Times are UTC milliseconds; only the time of the
mark is text, for people to read. State that cannot be moved to another machine is exported as it would be there:
a send under way has an unknown outcome, and a fetched file is a reference again.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Raw, Struct

EXPORT_FORMAT = 1
MAX_TIME_MS = 253_402_300_799_999  # the last millisecond that can be written as a date: the end of the year 9999
_MAX_INTEGER = 2**63 - 1
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

TimestampMs = Annotated[int, Meta(ge=0, le=MAX_TIME_MS)]
NonNegative = Annotated[int, Meta(ge=0, le=_MAX_INTEGER)]
Positive = Annotated[int, Meta(ge=1, le=_MAX_INTEGER)]
NonEmptyText = Annotated[str, Meta(min_length=1)]


class ExportedEntry(Struct, frozen=True):
    """A journal entry. Its body is exported unchanged."""

    seq: Positive
    kind: NonEmptyText
    version: Positive
    body: Raw
    at: TimestampMs


class ExportedTurn(Struct, frozen=True):
    id: NonEmptyText
    key: str
    generation: NonNegative
    state: str
    epoch: NonNegative
    attempt: NonNegative
    began_at: TimestampMs
    updated_at: TimestampMs
    journal: tuple[ExportedEntry, ...]


class ExportedAttachment(Struct, frozen=True):
    id: NonEmptyText
    ordinal: NonNegative
    name: str
    reference: str
    media_type: str
    size: NonNegative | None
    state: str
    problem: str | None


class ExportedMessage(Struct, frozen=True):
    """A message of the inbox: waiting, or stored so that it takes effect only once."""

    id: NonEmptyText
    event_key: NonEmptyText
    key: str
    state: str
    turn: str | None
    body: Raw
    raw: str
    position: NonNegative
    received_at: TimestampMs
    attachments: tuple[ExportedAttachment, ...] = ()
    kind: str = "message"
    manner: str | None = None  # its queue mode; an older export has none
    sent_at: TimestampMs | None = None


class ExportedDelivery(Struct, frozen=True):
    """A row of the outbox: one part of a reply."""

    id: NonEmptyText
    delivery_key: NonEmptyText
    lane: str
    key: str
    turn: str | None
    reply: str
    part: NonNegative
    text: str
    reply_to: str | None
    state: str
    attempts: NonNegative
    due_at: TimestampMs
    receipt: str | None
    problem: str | None
    position: NonNegative | None
    created_at: TimestampMs
    updated_at: TimestampMs


class ExportedSession(Struct, frozen=True):
    """A session with its turns, messages and replies. A field with a default may be missing in older exports."""

    key: str
    id: NonEmptyText
    state: str
    created_at: TimestampMs
    updated_at: TimestampMs
    address: Any = None
    resume_pending: bool | None = None  # None: an older export
    resume_reason: str | None = None
    last_resume_marked_at: Any = None  # any value: an unreadable time is dropped with a warning
    was_auto_reset: bool | None = None
    auto_reset_reason: str | None = None
    interruptions: NonNegative | None = None
    run_generation: NonNegative = 0
    position: NonNegative = 0
    turns: tuple[ExportedTurn, ...] = ()
    inbox: tuple[ExportedMessage, ...] = ()
    outbox: tuple[ExportedDelivery, ...] = ()


# Fields that are computed from the rest, or shared with other sessions of the same key.
_DERIVED_FIELDS = frozenset(
    (
        "address",
        "resume_pending",
        "resume_reason",
        "last_resume_marked_at",
        "was_auto_reset",
        "interruptions",
        "run_generation",
        "position",
    )
)


def document_head(version: str, exported_at: int) -> dict[str, Any]:
    """The head of a document: format, version and time."""
    return {"format": EXPORT_FORMAT, "version": version, "exported_at": exported_at}


def document_start(version: str, exported_at: int) -> str:
    """The document up to its first session."""
    return f'{{"perdure":{_to_json(document_head(version, exported_at))},"sessions":['


def session_line(session: ExportedSession, *, first: bool) -> str:
    """One session of the document."""
    return f"{'' if first else ','}\n{_to_json(session)}"


def document_end() -> str:
    """The document after its last session."""
    return "\n]}\n"


def comparable_facts(session: ExportedSession) -> dict[str, Any]:
    """The facts of a session in a form that compares equal however the file spelled and ordered them."""
    facts = {
        name: value
        for name, value in msgspec.json.decode(_to_json(session)).items()
        if name not in _DERIVED_FIELDS
    }
    for name in ("turns", "inbox", "outbox"):
        facts[name].sort(key=lambda part: part["id"])
    return facts


def format_time(at: int) -> str:
    """A time as ISO 8601, in UTC, to the millisecond."""
    return (_EPOCH + timedelta(milliseconds=at)).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def parse_time(value: object) -> int | None:
    """A time in milliseconds, from ISO 8601 (UTC if it has no zone) or a number; None if it is neither."""
    if isinstance(value, str):
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            return None
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        value = (moment - _EPOCH) // timedelta(milliseconds=1)
    known = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_TIME_MS
    return value if known else None  # type: ignore[return-value]  # `known` says that it is an int


def _to_json(value: object) -> str:
    return msgspec.json.encode(value).decode()

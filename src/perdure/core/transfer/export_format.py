"""The format of an export, one JSON document with one session per line, and the reader of such a file."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Raw, Struct

from perdure.core.storable_text import repair_json
from perdure.errors import BadImport, RecordRefused

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


_NOT_AN_EXPORT_HINT = "Give it a file that `perdure export` wrote, whole and unchanged."
_BYTE_OFFSET = re.compile(r" \(byte (\d+)\)$")
_ERROR_WITH_PATH = re.compile(r"^(?P<what>.*?)(?: - at `\$(?P<place>.*)`)?$", re.DOTALL)
_MISSING_FIELD = re.compile(r"^Object missing required field `(.+)`$")
_PATH_STEP = re.compile(r"\.([^.\[]+)|\[(\d+)\]")

# The structs of the parts of a record, to find the fields that none of them has.
_NESTED_STRUCTS: dict[type[Struct], dict[str, type[Struct]]] = {
    ExportedSession: {"turns": ExportedTurn, "inbox": ExportedMessage, "outbox": ExportedDelivery},
    ExportedTurn: {"journal": ExportedEntry},
    ExportedMessage: {"attachments": ExportedAttachment},
}


# ── the document ────────────────────────────────────────────────────────────────────────────────────────────


def read_document(text: str) -> tuple[list[Raw], list[str]]:
    """The records of an export, not yet decoded, and a warning for each unknown field beside them."""
    document = _decode_document(text)
    head, sessions = _decode_plain(document.get("perdure")), document.get("sessions")
    if not isinstance(head, dict) or not isinstance(head.get("format"), int):
        raise BadImport(
            "not an export of Perdure: `perdure.format` should be a number, but is not", hint=_NOT_AN_EXPORT_HINT
        )
    if head["format"] > EXPORT_FORMAT:
        raise BadImport(
            f"the export has the format {head['format']}; this version reads formats up to {EXPORT_FORMAT}",
            hint=f"A newer Perdure wrote it ({head.get('version', 'unknown')}): import it with that version.",
        )
    try:
        records = msgspec.json.decode(sessions or b"null", type=list[Raw])
    except msgspec.ValidationError as error:
        raise BadImport(
            f"at `sessions` of the export: {lower_first(str(error))}", hint=_NOT_AN_EXPORT_HINT
        ) from None
    return records, [
        f"{name}: an unknown field, ignored" for name in document if name not in ("perdure", "sessions")
    ]


def _decode_document(text: str) -> dict[str, Raw]:
    try:
        return msgspec.json.decode(repair_json(text.encode(errors="surrogatepass")), type=dict[str, Raw])
    except msgspec.ValidationError as error:
        raise BadImport(f"not an export of Perdure: {lower_first(str(error))}", hint=_NOT_AN_EXPORT_HINT) from None
    except msgspec.DecodeError as error:
        raise BadImport(_describe_bad_json(text, str(error)), hint=_NOT_AN_EXPORT_HINT) from None
    except RecursionError:
        raise BadImport(
            "not an export of Perdure: its values are nested too deeply", hint=_NOT_AN_EXPORT_HINT
        ) from None


def _describe_bad_json(text: str, error: str) -> str:
    """Say where the text stops being JSON, by line and column as an editor counts them."""
    found, whole = _BYTE_OFFSET.search(error), text.encode()
    if found is None and not text.strip():
        return "the import is empty: expected an export of Perdure"
    before = whole[: int(found[1])].decode(errors="ignore") if found else text
    line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
    what = (
        _BYTE_OFFSET.sub("", error).removeprefix("JSON is malformed: ")
        if found
        else "it ends too early, or has half a character in it"
    )
    return f"not JSON: line {line}, column {column}: {what}"


def _decode_plain(raw: Raw | None) -> Any:
    return None if raw is None else msgspec.json.decode(raw)


# ── the fields of a record ──────────────────────────────────────────────────────────────────────────────────


def decode_session(raw: Raw) -> tuple[ExportedSession, list[str]]:
    """Decode a record whose fields all have their types; also return the paths of its unknown fields."""
    try:
        plain = msgspec.json.decode(raw)
    except msgspec.DecodeError as error:
        raise record_refusal(error) from None
    try:
        session = msgspec.json.decode(raw, type=ExportedSession)
    except msgspec.DecodeError as error:
        raise record_refusal(error, plain) from None
    return session, list(_unknown_fields(plain, ExportedSession, ""))


def record_refusal(error: msgspec.DecodeError, plain: Any = None, base_path: str = "") -> RecordRefused:
    """The refusal of a record: what was expected, what came, and at which path."""
    found = _ERROR_WITH_PATH.match(str(error))
    what, place = (found["what"], found["place"] or "") if found else (str(error), "")
    if missing := _MISSING_FIELD.match(what):
        return RecordRefused(f"{base_path}{place}.{missing[1]}", "expected this field, got none")
    if plain is not None and " got " not in what:
        what = f"{what}, got {short_json(_value_at(plain, place))}"
    return RecordRefused(base_path + place, lower_first(what))


def _unknown_fields(value: dict[str, Any], struct: type[Struct], path: str) -> Iterator[str]:
    for name in value:
        if name not in struct.__struct_fields__:
            yield f"{path}.{name}"
    for name, part in _NESTED_STRUCTS.get(struct, {}).items():
        for number, each in enumerate(value.get(name, ())):
            yield from _unknown_fields(each, part, f"{path}.{name}[{number}]")


def _value_at(value: Any, path: str) -> Any:
    for name, number in _PATH_STEP.findall(path):
        value = value[name] if name else value[int(number)]
    return value


def short_json(value: object) -> str:
    """A value as JSON, shortened to a readable length."""
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= 60 else f"{text[:60]}…"


def lower_first(sentence: str) -> str:
    """The sentence with a small first letter, to stand after a colon."""
    return sentence[:1].lower() + sentence[1:]

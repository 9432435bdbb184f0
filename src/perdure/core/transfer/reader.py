"""Reads an export file: its document, and the fields and types of each record.

A document that cannot be read is refused as a whole (`BadImport`); a record that cannot be read is refused alone
(`RecordRefused`). `validation` then accepts only a record that our own store could have written.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import Raw, Struct

from perdure.core.storable_text import repair_json
from perdure.core.transfer.export_format import (
    EXPORT_FORMAT,
    ExportedAttachment,
    ExportedDelivery,
    ExportedEntry,
    ExportedMessage,
    ExportedSession,
    ExportedTurn,
)
from perdure.errors import BadImport, RecordRefused

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

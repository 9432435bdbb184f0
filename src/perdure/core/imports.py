"""An export file, read back: what can be believed, what must be refused, and what is only worth a warning.

The document is read as a whole or refused as a whole (`BadImport`); each of its records is read, or refused alone
(`RecordRefused`). A record that is believed is one that our own store could have written.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import Raw, Struct

from perdure.core.exports import (
    FORMAT,
    ExportedAttachment,
    ExportedDelivery,
    ExportedEntry,
    ExportedMessage,
    ExportedSession,
    ExportedTurn,
)
from perdure.core.text import mended_json
from perdure.errors import BadImport, RecordRefused

_HINT = "Give it a file that `perdure export` wrote, whole and unchanged."
_BYTE = re.compile(r" \(byte (\d+)\)$")
_WHERE = re.compile(r"^(?P<what>.*?)(?: - at `\$(?P<place>.*)`)?$", re.DOTALL)
_MISSING = re.compile(r"^Object missing required field `(.+)`$")
_STEP = re.compile(r"\.([^.\[]+)|\[(\d+)\]")

# Which struct the parts of a record have, so that a field that none of them knows can be named.
_PARTS: dict[type[Struct], dict[str, type[Struct]]] = {
    ExportedSession: {"turns": ExportedTurn, "inbox": ExportedMessage, "outbox": ExportedDelivery},
    ExportedTurn: {"journal": ExportedEntry},
    ExportedMessage: {"attachments": ExportedAttachment},
}


# ── the document ────────────────────────────────────────────────────────────────────────────────────────────


def read_document(text: str) -> tuple[list[Raw], list[str]]:
    """The records of an export, each still to be read, and what beside them is not understood."""
    document = _object(text)
    head, sessions = _plain(document.get("perdure")), document.get("sessions")
    if not isinstance(head, dict) or not isinstance(head.get("format"), int):
        raise BadImport("not an export of Perdure: `perdure.format` should be a number, but is not", hint=_HINT)
    if head["format"] > FORMAT:
        raise BadImport(
            f"the export has the format {head['format']}; this version reads formats up to {FORMAT}",
            hint=f"A newer Perdure wrote it ({head.get('version', 'unknown')}): import it with that version.",
        )
    try:
        records = msgspec.json.decode(sessions or b"null", type=list[Raw])
    except msgspec.ValidationError as error:
        raise BadImport(f"at `sessions` of the export: {lowered(str(error))}", hint=_HINT) from None
    return records, [
        f"{name}: an unknown field, ignored" for name in document if name not in ("perdure", "sessions")
    ]


def _object(text: str) -> dict[str, Raw]:
    try:
        return msgspec.json.decode(mended_json(text.encode(errors="surrogatepass")), type=dict[str, Raw])
    except msgspec.ValidationError as error:
        raise BadImport(f"not an export of Perdure: {lowered(str(error))}", hint=_HINT) from None
    except msgspec.DecodeError as error:
        raise BadImport(_not_json(text, str(error)), hint=_HINT) from None
    except RecursionError:
        raise BadImport("not an export of Perdure: its values are nested too deeply", hint=_HINT) from None


def _not_json(text: str, error: str) -> str:
    """Say where the text stops being JSON, by line and column as an editor counts them."""
    found, whole = _BYTE.search(error), text.encode()
    if found is None and not text.strip():
        return "the import is empty: expected an export of Perdure"
    before = whole[: int(found[1])].decode(errors="ignore") if found else text
    line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
    what = (
        _BYTE.sub("", error).removeprefix("JSON is malformed: ")
        if found
        else "it ends too early, or has half a character in it"
    )
    return f"not JSON: line {line}, column {column}: {what}"


def _plain(raw: Raw | None) -> Any:
    return None if raw is None else msgspec.json.decode(raw)


# ── the shape of a record ───────────────────────────────────────────────────────────────────────────────────


def read_shape(raw: Raw) -> tuple[ExportedSession, list[str]]:
    """The record, if each of its fields is there and of its type, and the places of fields that nobody knows."""
    try:
        plain = msgspec.json.decode(raw)
    except msgspec.DecodeError as error:
        raise explained(error) from None
    try:
        session = msgspec.json.decode(raw, type=ExportedSession)
    except msgspec.DecodeError as error:
        raise explained(error, plain) from None
    return session, list(_unknown(plain, ExportedSession, ""))


def explained(error: msgspec.DecodeError, plain: Any = None, base: str = "") -> RecordRefused:
    """What was expected, what came, and at which place."""
    found = _WHERE.match(str(error))
    what, place = (found["what"], found["place"] or "") if found else (str(error), "")
    if missing := _MISSING.match(what):
        return RecordRefused(f"{base}{place}.{missing[1]}", "expected this field, got none")
    if plain is not None and " got " not in what:
        what = f"{what}, got {shown(_at(plain, place))}"
    return RecordRefused(base + place, lowered(what))


def _unknown(value: dict[str, Any], struct: type[Struct], place: str) -> Iterator[str]:
    for name in value:
        if name not in struct.__struct_fields__:
            yield f"{place}.{name}"
    for name, part in _PARTS.get(struct, {}).items():
        for number, each in enumerate(value.get(name, ())):
            yield from _unknown(each, part, f"{place}.{name}[{number}]")


def _at(value: Any, place: str) -> Any:
    for name, number in _STEP.findall(place):
        value = value[name] if name else value[int(number)]
    return value


def shown(value: object) -> str:
    """A value as it stands in the file, cut to a readable length."""
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= 60 else f"{text[:60]}…"


def lowered(sentence: str) -> str:
    """A sentence to go on with after a colon."""
    return sentence[:1].lower() + sentence[1:]

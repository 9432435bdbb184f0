"""Text and JSON that every database accepts: without lone surrogates and without NUL.

Such text comes from JSON that cuts an emoji in two, from names of files that are not UTF-8, and from bytes that
are no text at all. Each half and each NUL is replaced, and everything else stays as it is.
"""

from __future__ import annotations

import json
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

S = TypeVar("S", bound=Struct)

REPLACEMENT = "\N{REPLACEMENT CHARACTER}"

_encoder = msgspec.json.Encoder()
_sorted_encoder = msgspec.json.Encoder(order="deterministic")


def make_storable(text: str) -> str:
    """The text without NUL and lone surrogates; two adjacent halves become their character."""
    if "\0" in text:
        text = text.replace("\0", REPLACEMENT)
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def make_values_storable(values: dict[str, Any]) -> dict[str, Any]:
    """Make every text among a statement's values storable, in place."""
    for name, value in values.items():
        if type(value) is str and ("\0" in value or not value.isascii()):
            values[name] = make_storable(value)
    return values


def encode_storable(value: S) -> tuple[str, S]:
    """Encode a struct as storable JSON; also return the struct that this JSON decodes to."""
    try:
        encoded = _encoder.encode(value)
    except UnicodeEncodeError:
        encoded = None
    if encoded is None or b"\\u0000" in encoded:
        value = msgspec.convert(_clean(msgspec.to_builtins(value)), type(value))
        encoded = _encoder.encode(value)
    return encoded.decode(), value


def to_json(value: Any, *, ordered: bool = False) -> str:
    """Encode any value as storable JSON; `ordered` gives a set the same order every time."""
    encoder = _sorted_encoder if ordered else _encoder
    try:
        encoded = encoder.encode(value)
    except UnicodeEncodeError:
        encoded = None
    if encoded is None or b"\\u0000" in encoded:
        encoded = encoder.encode(_clean(msgspec.to_builtins(value)))
    return encoded.decode()


def validate_struct(value: S) -> S:
    """A struct from outside, with storable texts; `ValidationError` if a field has a wrong type."""
    return msgspec.json.decode(encode_storable(value)[0], type=type(value))


def repair_json(body: bytes) -> bytes:
    """JSON with its lone surrogates replaced, so that it can be decoded; anything else is returned as it is."""
    if b"\\ud" not in body.lower():
        return body
    try:
        return make_storable(json.dumps(json.loads(body), ensure_ascii=False)).encode()
    except (ValueError, RecursionError):
        return body


def _clean(value: Any) -> Any:
    match value:
        case str():
            return make_storable(value)
        case list() | tuple():
            return [_clean(each) for each in value]
        case dict():
            return {_clean(name): _clean(each) for name, each in value.items()}
        case _:
            return value

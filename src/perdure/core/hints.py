"""Hints: what one gateway tells another on the same database so that it need not wait for its next look.

A hint is small, may be lost, and is never believed: whoever gets one looks into the database. Only previews and
notices, which are not in the database, are in the hint itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec
from msgspec import Struct

MAX_HINT_BYTES = 7_900  # PostgreSQL takes less than 8,000
MAX_KEYS_BYTES = 7_000  # of the keys in one hint
PIECE_CHARACTERS = 1_200  # of a preview: a character takes up to six bytes
MAX_PREVIEW_CHARACTERS = 60_000  # what comes behind them is seen in the answer


class Hint(Struct, frozen=True, tag_field="hint"):
    """The base of all hints."""


class WakeHint(Hint, frozen=True, tag="wake"):
    """A chat that the receiver holds, or may claim, has something for these loops."""

    key: str
    loops: tuple[str, ...]


class ChangeHint(Hint, frozen=True, tag="change"):
    """Something about these chats has changed that the receiver shows to somebody."""

    keys: tuple[str, ...]


class WatchHint(Hint, frozen=True, tag="watch"):
    """The run shows these chats to somebody; `fresh`: it has seen nothing of them yet."""

    run: str
    keys: tuple[str, ...] = ()
    fresh: bool = True


class StopHint(Hint, frozen=True, tag="stop"):
    """Somebody has ended a turn whose attempt may run at the receiver; `run` wants to know when it has ended."""

    turn: str
    run: str = ""


class StoppedHint(Hint, frozen=True, tag="stopped"):
    """The attempt at a turn, and its commands, no longer run at the sender."""

    turn: str


class PreviewHint(Hint, frozen=True, tag="preview"):
    """A piece of a growing answer, which stands behind its first `at` characters."""

    key: str
    turn: str
    at: int
    text: str


class NoticeHint(Hint, frozen=True, tag="notice"):
    """A notice for whoever follows a chat at the moment."""

    key: str
    text: str


AnyHint = WakeHint | ChangeHint | WatchHint | StopHint | StoppedHint | PreviewHint | NoticeHint
_decoder: msgspec.json.Decoder[AnyHint] = msgspec.json.Decoder(AnyHint)
_encoder = msgspec.json.Encoder()


def encode_hint(hint: Hint) -> str | None:
    """Return the hint as text; None: it does not fit, and is left out."""
    encoded = _encoder.encode(hint)
    return encoded.decode() if len(encoded) <= MAX_HINT_BYTES else None


def decode_hint(payload: str) -> AnyHint | None:
    """Return the hint in a payload; None: it is of a newer version, or of somebody else."""
    try:
        return _decoder.decode(payload)
    except (msgspec.MsgspecError, UnicodeEncodeError):
        return None


def batches(keys: Iterable[str]) -> Iterator[tuple[str, ...]]:
    """Cut keys into groups that fit into one hint each."""
    group: list[str] = []
    size = 0
    for key in keys:
        length = len(key.encode()) + 3  # with the quotes and the comma
        if group and size + length > MAX_KEYS_BYTES:
            yield tuple(group)
            group, size = [], 0
        group.append(key)
        size += length
    if group:
        yield tuple(group)


def preview_pieces(key: str, turn: str, sent: str, text: str) -> Iterator[PreviewHint]:
    """Return the pieces that make the preview `sent` into `text`."""
    start, end = len(sent) if text.startswith(sent) else 0, min(len(text), MAX_PREVIEW_CHARACTERS)
    for at in range(start, end, PIECE_CHARACTERS):
        yield PreviewHint(key, turn, at, text[at : min(end, at + PIECE_CHARACTERS)])


def add_piece(known: str, piece: PreviewHint) -> str | None:
    """Return the preview with a piece; None: a piece before it is missing."""
    return None if piece.at > len(known) else known[: piece.at] + piece.text

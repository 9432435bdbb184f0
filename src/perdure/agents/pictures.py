"""Pictures that came with messages, for models that see: read when they are asked, never kept."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

from msgspec import Struct

from perdure.core.conversation import Message, UserMessage

SEEN = frozenset(("image/jpeg", "image/png", "image/gif", "image/webp"))
LARGEST = 5_000_000  # bytes; providers take no more
MOST = 8  # pictures in one request: the newest


class Picture(Struct, frozen=True):
    place: str
    media_type: str
    content: bytes


def shown(messages: Sequence[Message], without: Collection[str] = ()) -> list[tuple[str, str]]:
    """Places and types of the pictures that a model may see in a conversation, the newest first."""
    files = [file for message in messages if isinstance(message, UserMessage) for file in message.files]
    seen = [(file.place, file.media_type) for file in reversed(files) if file.place and file.media_type in SEEN]
    return [(place, media_type) for place, media_type in seen if place not in without]


def pictures(wanted: Sequence[tuple[str, str]]) -> dict[str, Picture]:
    """The first of these pictures, by their places; what is too large, or gone, is left to words."""
    found: dict[str, Picture] = {}
    for place, media_type in wanted:
        content = _read(place) if len(found) < MOST else b""
        if content:
            found[place] = Picture(place, media_type, content)
    return found


def _read(place: str) -> bytes:
    try:
        with Path(place).open("rb") as file:
            content = file.read(LARGEST + 1)
    except OSError:
        return b""
    return content if len(content) <= LARGEST else b""

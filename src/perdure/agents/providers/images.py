"""Pictures that came with messages, for models that see: read when they are asked, never kept."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

from msgspec import Struct

from perdure.core.conversation import Message, UserMessage

IMAGE_TYPES = frozenset(("image/jpeg", "image/png", "image/gif", "image/webp"))
MAX_IMAGE_BYTES = 5_000_000  # bytes; providers take no more
MAX_IMAGES = 8  # pictures in one request: the newest


class LoadedImage(Struct, frozen=True):
    path: str
    media_type: str
    content: bytes


def visible_images(messages: Sequence[Message], excluded: Collection[str] = ()) -> list[tuple[str, str]]:
    """Places and types of the pictures that a model may see in a conversation, the newest first."""
    files = [file for message in messages if isinstance(message, UserMessage) for file in message.files]
    seen = [
        (file.path, file.media_type) for file in reversed(files) if file.path and file.media_type in IMAGE_TYPES
    ]
    return [(place, media_type) for place, media_type in seen if place not in excluded]


def load_images(wanted: Sequence[tuple[str, str]]) -> dict[str, LoadedImage]:
    """The first of these pictures, by their places; what is too large, or gone, is left to words."""
    found: dict[str, LoadedImage] = {}
    for place, media_type in wanted:
        content = _read(place) if len(found) < MAX_IMAGES else b""
        if content:
            found[place] = LoadedImage(place, media_type, content)
    return found


def _read(path: str) -> bytes:
    try:
        with Path(path).open("rb") as file:
            content = file.read(MAX_IMAGE_BYTES + 1)
    except OSError:
        return b""
    return content if len(content) <= MAX_IMAGE_BYTES else b""

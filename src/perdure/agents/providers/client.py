"""The contract of a client, which speaks the API of one provider, and what all clients make of a request."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from perdure.agents.api import ModelRequest, PreviewCallback
from perdure.core import texts
from perdure.core.context_window import ContextRefusal
from perdure.core.conversation import Message, ToolMessage, UserMessage
from perdure.core.journal import ModelAnswered

IMAGE_TYPES = frozenset(("image/jpeg", "image/png", "image/gif", "image/webp"))
MAX_IMAGE_BYTES = 5_000_000  # providers take no more
MAX_IMAGES = 8  # in one request: the newest
MAX_ANSWER_CHARS = 400_000  # a longer answer is not read further


class LoadedImage(Struct, frozen=True):
    """A picture that came with a message, read for one request to a model and never kept."""

    path: str
    media_type: str
    content: bytes


LoadedImages = Mapping[str, LoadedImage]  # by path


class RequestTooLong(Exception):
    """A provider refused a request because the model cannot read so much."""

    def __init__(self, refusal: ContextRefusal) -> None:
        super().__init__("the request is longer than the model's context window")
        self.refusal = refusal


class ModelClient(ABC):
    """Asks one model of one provider."""

    context_window: int | None = None  # in tokens, if the model is a known one

    @abstractmethod
    async def ask(
        self,
        request: ModelRequest,
        images: LoadedImages,
        show_preview: PreviewCallback | None,
        silence_seconds: float,
    ) -> ModelAnswered:
        """Ask once, and return the complete answer.

        `silence_seconds` is the longest pause in which nothing comes. `ModelCallFailed` says why there is no
        answer, `RequestTooLong` that the model cannot read so much.
        """

    @abstractmethod
    async def close(self) -> None:
        """Close every connection."""


class WireCallIds:
    """Ids of calls for the provider. Ours are unique in their turn only, and some providers need short ones."""

    def __init__(self) -> None:
        self._count = 0
        self._open: dict[str, str] = {}

    def assign(self, call: str) -> str:
        self._count += 1
        self._open[call] = f"call{self._count:05}"
        return self._open[call]

    def find(self, call: str) -> str:
        return self._open[call]


def tool_result_words(message: ToolMessage) -> str:
    """The result of a call; providers refuse one without words."""
    return message.text if message.text.strip() else texts.phrases.NO_OUTPUT


# ── pictures ────────────────────────────────────────────────────────────────────────────────────────────────


def shown_images(message: UserMessage, images: LoadedImages) -> list[LoadedImage]:
    """The pictures that came with a message and go out with it."""
    return [images[file.path] for file in message.files if file.path and file.path in images]


def visible_images(messages: Sequence[Message], excluded: Collection[str] = ()) -> list[tuple[str, str]]:
    """The paths and types of the pictures in a conversation that a model may see, the newest first."""
    files = [file for message in messages if isinstance(message, UserMessage) for file in message.files]
    images = [
        (file.path, file.media_type) for file in reversed(files) if file.path and file.media_type in IMAGE_TYPES
    ]
    return [(path, media_type) for path, media_type in images if path not in excluded]


def load_images(wanted: Sequence[tuple[str, str]]) -> dict[str, LoadedImage]:
    """Read the first of these pictures, by their paths, without those that are too large or gone."""
    found: dict[str, LoadedImage] = {}
    for path, media_type in wanted:
        content = _read_image(path) if len(found) < MAX_IMAGES else b""
        if content:
            found[path] = LoadedImage(path, media_type, content)
    return found


def _read_image(path: str) -> bytes:
    try:
        with Path(path).open("rb") as file:
            content = file.read(MAX_IMAGE_BYTES + 1)
    except OSError:
        return b""
    return content if len(content) <= MAX_IMAGE_BYTES else b""

"""Uploads files to Telegram: chooses the method, and streams the file in a multipart form."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from perdure.core.messages import LocalFile

MAX_FILE_BYTES = 50_000_000  # of one file that a bot sends
MAX_PHOTO_BYTES = 10_000_000
MAX_CAPTION_UNITS = 1024  # in UTF-16
CHUNK_BYTES = 65536

_PHOTOS = frozenset(("image/jpeg", "image/png", "image/webp"))


def upload_method(file: LocalFile) -> tuple[str, str]:
    """The method that shows a file as a photo, voice message or document, and the name of its parameter."""
    if file.media_type in _PHOTOS and file.size <= MAX_PHOTO_BYTES:
        return "sendPhoto", "photo"
    if file.media_type == "audio/ogg":
        return "sendVoice", "voice"
    return DOCUMENT_METHOD


DOCUMENT_METHOD = ("sendDocument", "document")


class MultipartForm(Struct, frozen=True):
    """The body of a request that uploads a file."""

    content_type: str
    head: bytes
    file: LocalFile
    tail: bytes

    @property
    def size(self) -> int:
        return len(self.head) + self.file.size + len(self.tail)

    async def pieces(self) -> AsyncGenerator[bytes]:
        """The bytes of the body. If the file has changed its size, the server refuses the body."""
        yield self.head
        source = await asyncio.to_thread(Path(self.file.place).open, "rb")
        with source:
            while piece := await asyncio.to_thread(source.read, CHUNK_BYTES):
                yield piece
        yield self.tail


def build_form(params: dict[str, Any], field: str, file: LocalFile) -> MultipartForm:
    """The parameters of a call as a multipart form, with the file last."""
    boundary = secrets.token_hex(16)
    parts = [
        _part(boundary, f'name="{name}"', _text(value)) for name, value in params.items() if value is not None
    ]
    name = file.name.translate({ord(mark): "_" for mark in '"\\\r\n'})
    head = _part(boundary, f'name="{field}"; filename="{name}"\r\nContent-Type: {file.media_type}', b"")
    body = b"".join([*parts, head.removesuffix(b"\r\n")])
    return MultipartForm(
        f"multipart/form-data; boundary={boundary}", body, file, f"\r\n--{boundary}--\r\n".encode()
    )


def _part(boundary: str, named: str, value: bytes) -> bytes:
    head = f"--{boundary}\r\nContent-Disposition: form-data; {named}\r\n\r\n"
    return head.encode() + value + b"\r\n"


def _text(value: Any) -> bytes:
    return value.encode() if isinstance(value, str) else msgspec.json.encode(value)

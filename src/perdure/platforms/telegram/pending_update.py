"""Updates on their way in: which number each has, whether it is fit to be read, and whether it is stored."""

from __future__ import annotations

import asyncio
import hashlib
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from perdure.core import texts

MAX_UPDATE_BYTES = 1 << 20  # bytes of one update; what people can write there needs far less
MAX_STORED_CHARS = 10_000  # characters that are kept of one that is larger


class _Numbered(Struct, frozen=True):
    update_id: Annotated[int, Meta(ge=0)]


class PendingUpdate:
    """An update that was handed over: whether it is stored, once that is known."""

    def __init__(self, raw: msgspec.Raw, account: str) -> None:
        self.raw = raw
        self.number = _number(raw)  # None: it has none, and cannot be confirmed by itself
        self.stored: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self.text = bytes(raw).decode(errors="replace")
        self.key = f"telegram:{account}:update:{self._key_suffix}"

    @property
    def _key_suffix(self) -> str:
        """What has no number is named by what it says, so that it is kept once, however often it comes."""
        return hashlib.sha256(self.raw).hexdigest()[:32] if self.number is None else str(self.number)

    @property
    def problem(self) -> str | None:
        """Why it is not even read."""
        if self.number is None:
            return texts.telegram.UPDATE_WITHOUT_ID
        size = len(self.raw)
        return texts.telegram.update_too_large(size, MAX_UPDATE_BYTES) if size > MAX_UPDATE_BYTES else None

    def settle(self, stored: bool) -> None:
        if not self.stored.done():
            self.stored.set_result(stored)


def _number(raw: msgspec.Raw) -> int | None:
    try:
        return msgspec.json.decode(raw, type=_Numbered).update_id
    except (msgspec.MsgspecError, RecursionError):
        return None

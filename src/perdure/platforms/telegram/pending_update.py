"""An update on its way into the store: its number, its key, and whether it is stored."""

from __future__ import annotations

import asyncio
import hashlib
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from perdure.core import texts

MAX_UPDATE_BYTES = 1 << 20  # what people can write needs far less
MAX_STORED_CHARS = 10_000  # of a larger update


class _Numbered(Struct, frozen=True):
    update_id: Annotated[int, Meta(ge=0)]


class PendingUpdate:
    """An update that was handed over, and a future that says whether it is stored."""

    def __init__(self, raw: msgspec.Raw, account: str) -> None:
        self.raw = raw
        self.number = _number(raw)  # None: it cannot be confirmed by itself
        self.stored: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self.text = bytes(raw).decode(errors="replace")
        self.key = f"telegram:{account}:update:{self._key_suffix}"

    @property
    def _key_suffix(self) -> str:
        """The number, or else a hash of the update, so that it is stored once however often it comes."""
        return hashlib.sha256(self.raw).hexdigest()[:32] if self.number is None else str(self.number)

    @property
    def problem(self) -> str | None:
        """Why the update is not even decoded; None if it is."""
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

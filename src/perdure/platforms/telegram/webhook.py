"""Receives the updates that Telegram posts: checks its secret, and confirms an update once it is stored."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct

from perdure.core import texts
from perdure.errors import NotConnected
from perdure.platforms.api import Event
from perdure.platforms.telegram.updates import PendingUpdate

WEBHOOK_PATH = "/hooks/telegram"
SECRET_HEADER = "x-telegram-bot-api-secret-token"  # noqa: S105 reason: the name of a header
MAX_CONNECTIONS = 1  # several would bring the messages of one chat in any order
CHECK_SECONDS = 60.0  # between two checks that Telegram still posts to us


class WebhookInfo(Struct, frozen=True):
    """The webhook that is registered with Telegram, as Telegram reports it."""

    url: str = ""
    pending_update_count: int = 0
    last_error_date: int = 0
    last_error_message: str = ""


class Webhook:
    """The URL to which Telegram posts, and the posted updates that are not stored yet."""

    def __init__(self, public_url: str, token: str, check_seconds: float = CHECK_SECONDS) -> None:
        self.url = f"{public_url.rstrip('/')}{WEBHOOK_PATH}"
        # Derived from the token: nothing has to be stored, and every gateway of this bot has the same secret.
        self._secret = hmac.new(token.encode(), b"perdure: webhook", hashlib.sha256).hexdigest()
        self._events: asyncio.Queue[Event] = asyncio.Queue()
        self._pending: set[PendingUpdate] = set()
        self._open = False
        self._check_seconds = check_seconds

    def registration(self, wanted: tuple[str, ...]) -> dict[str, Any]:
        """The parameters that register this webhook with Telegram."""
        params = {"url": self.url, "secret_token": self._secret, "allowed_updates": wanted}
        return params | {"max_connections": MAX_CONNECTIONS}

    def is_authentic(self, headers: Mapping[str, str]) -> bool:
        """Whether a post comes from Telegram, by its secret; compared in constant time."""
        return hmac.compare_digest(headers.get(SECRET_HEADER, "").encode(), self._secret.encode())

    def open(self) -> None:
        """Accept updates from now on."""
        self._open = True

    def close(self) -> None:
        """Accept no more updates. Those that are not stored yet count as failed, and Telegram posts them again."""
        self._open = False
        self._events = asyncio.Queue()
        for update in self._pending:
            update.settle(False)

    async def submit(self, event: Event, update: PendingUpdate) -> bool:
        """Hand an update over, and wait until it is stored. False: it was not."""
        if not self._open:
            return False
        self._pending.add(update)
        try:
            self._events.put_nowait(event)
            return await update.stored
        finally:
            self._pending.discard(update)

    def check_registration(self, info: msgspec.Raw) -> None:
        """Raise `NotConnected` if Telegram no longer posts to this webhook, or cannot."""
        found = msgspec.json.decode(info, type=WebhookInfo)
        if found.url != self.url:
            raise NotConnected(texts.platforms.WEBHOOK_TAKEN)
        if found.pending_update_count and found.last_error_message:
            raise NotConnected(texts.platforms.webhook_fails(self.url, found.last_error_message))

    async def next_event(self) -> Event | None:
        """The next update; None if none came for `check_seconds`."""
        try:
            async with asyncio.timeout(self._check_seconds):
                return await self._events.get()
        except TimeoutError:
            return None

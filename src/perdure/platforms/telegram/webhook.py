"""Updates that Telegram posts to us: it knows a secret, and hears of success once an update is stored."""

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
from perdure.platforms.telegram.pending_update import PendingUpdate

WEBHOOK_PATH = "/hooks/telegram"
SECRET_HEADER = "x-telegram-bot-api-secret-token"  # noqa: S105 reason: the name of a header
MAX_CONNECTIONS = 1  # at once: several would bring the messages of one chat in any order
CHECK_SECONDS = 60.0  # seconds between two looks at whether Telegram still posts to us


class WebhookInfo(Struct, frozen=True):
    """What Telegram says of the webhook that it knows."""

    url: str = ""
    pending_update_count: int = 0
    last_error_date: int = 0
    last_error_message: str = ""


class Webhook:
    """Where Telegram posts, and what it has posted that is not stored yet."""

    def __init__(self, public_url: str, token: str, check_seconds: float = CHECK_SECONDS) -> None:
        self.url = f"{public_url.rstrip('/')}{WEBHOOK_PATH}"
        # Made from the token: nothing has to be kept, and every gateway of this bot has the same.
        self._secret = hmac.new(token.encode(), b"perdure: webhook", hashlib.sha256).hexdigest()
        self._events: asyncio.Queue[Event] = asyncio.Queue()
        self._pending: set[PendingUpdate] = set()
        self._open = False
        self._check_seconds = check_seconds

    def registration(self, wanted: tuple[str, ...]) -> dict[str, Any]:
        """What Telegram must know to post to us."""
        asked = {"url": self.url, "secret_token": self._secret, "allowed_updates": wanted}
        return asked | {"max_connections": MAX_CONNECTIONS}

    def is_authentic(self, headers: Mapping[str, str]) -> bool:
        """Whether it is Telegram who posts; compared in constant time."""
        return hmac.compare_digest(headers.get(SECRET_HEADER, "").encode(), self._secret.encode())

    def open(self) -> None:
        """From now on somebody takes what is posted."""
        self._open = True

    def close(self) -> None:
        """Nobody does any more. What is under way is not stored, as far as Telegram hears, and comes again."""
        self._open = False
        self._events = asyncio.Queue()
        for taken in self._pending:
            taken.settle(False)

    async def submit(self, event: Event, update: PendingUpdate) -> bool:
        """Hand an update over. True: it is stored."""
        if not self._open:
            return False
        self._pending.add(update)
        try:
            self._events.put_nowait(event)
            return await update.stored
        finally:
            self._pending.discard(update)

    def check_registration(self, info: msgspec.Raw) -> None:
        """Raise `NotConnected` if Telegram does not post to us any more, or cannot."""
        found = msgspec.json.decode(info, type=WebhookInfo)
        if found.url != self.url:
            raise NotConnected(texts.telegram.WEBHOOK_TAKEN)
        if found.pending_update_count and found.last_error_message:
            raise NotConnected(texts.telegram.webhook_fails(self.url, found.last_error_message))

    async def next_event(self) -> Event | None:
        """The next update; None if there was none for a while."""
        try:
            async with asyncio.timeout(self._check_seconds):
                return await self._events.get()
        except TimeoutError:
            return None

"""Posts updates to the webhook of a bot, in order, each until the answer is a success."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct

from perdure.errors import NotConnected, SendUnknown
from perdure.platforms.telegram.bot_api import HttpClient

ANSWER_TIMEOUT_SECONDS = 10.0  # seconds to wait for the answer to a post
REPOST_SECONDS = 0.2  # seconds before an update is posted again; far shorter than the service's


class WebhookDelivery(Struct):
    """A post to the webhook, and the status of its answer; 0: no answer came."""

    update: Any
    status: int = 0
    headers: dict[str, str] = {}


class WebhookPoster:
    """Runs on the server's event loop. `published` maps a public URL to its address on this machine."""

    def __init__(self, updates: list[dict[str, Any]]) -> None:
        self._updates = updates
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.url = ""
        self.secret = ""
        self.published: dict[str, str] = {}
        self.deliveries: list[WebhookDelivery] = []
        self.lose_answers = 0  # switch: how many answers are lost
        self.notify_lost: Callable[[], None] = lambda: None  # called for each lost answer
        self.problem: tuple[int, str] | None = None  # time and reason of the last failed post

    def set_webhook(self, url: str, secret: str) -> None:
        """Post to this URL from now on; an empty URL stops the posts."""
        self.url, self.secret, self.problem = url, secret, None
        if self._task is not None:
            self._task.cancel()
        self._task = asyncio.get_running_loop().create_task(self._run()) if url else None

    def wake(self) -> None:
        self._wake.set()

    def info(self) -> dict[str, Any]:
        known = {"url": self.url, "has_custom_certificate": False, "pending_update_count": len(self._updates)}
        failed = (
            {"last_error_date": self.problem[0], "last_error_message": self.problem[1]} if self.problem else {}
        )
        return known | failed

    async def _run(self) -> None:
        while True:
            self._wake.clear()
            if not self._updates:
                await self._wake.wait()
            elif await self._post(update := self._updates[0]):
                self._updates[:] = [each for each in self._updates if each is not update]
            else:
                await asyncio.sleep(REPOST_SECONDS)

    async def _post(self, update: dict[str, Any]) -> bool:
        parts = urlsplit(self.url)
        public = f"{parts.scheme}://{parts.netloc}"
        headers = {"X-Telegram-Bot-Api-Secret-Token": self.secret} if self.secret else {}
        delivery = WebhookDelivery(update, headers=headers)
        self.deliveries.append(delivery)
        http = HttpClient(self.published.get(public, public))
        try:
            body = json.dumps(update).encode()
            status, _ = await http.post(parts.path, body, ANSWER_TIMEOUT_SECONDS, list(headers.items()))
        except (NotConnected, SendUnknown) as error:
            return self._record_failure(error.message)
        finally:
            await http.close()
        if self.lose_answers:
            self.lose_answers -= 1
            self.notify_lost()
            return self._record_failure("Connection reset by peer")
        delivery.status = status
        return status < 300 or self._record_failure(f"Wrong response from the webhook: {status}")

    def _record_failure(self, problem: str) -> bool:
        self.problem = (int(time.time()), problem)
        return False

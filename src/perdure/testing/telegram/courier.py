"""Posts updates to the webhook of a bot, in order, each until it is answered with success."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct

from perdure.errors import NotConnected, SendUnknown
from perdure.platforms.telegram.http import Http

ANSWERING = 10.0  # seconds that a post waits for its answer
AGAIN = 0.2  # seconds before an update is posted again; the service takes its time, tests have none


class Delivery(Struct):
    """A post to the webhook, and what became of it; 0: no answer came."""

    update: Any
    status: int = 0
    headers: dict[str, str] = {}


class Courier:
    """Lives on the server's loop. `published` says where an address of the world outside leads on this machine."""

    def __init__(self, updates: list[dict[str, Any]]) -> None:
        self._updates = updates
        self._looking = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.url = ""
        self.secret = ""
        self.published: dict[str, str] = {}
        self.deliveries: list[Delivery] = []
        self.losing = 0  # switch: how many answers are lost on their way
        self.lost: Callable[[], None] = lambda: None  # called whenever one was
        self.problem: tuple[int, str] | None = None  # when the last post failed, and how

    def begin(self, url: str, secret: str) -> None:
        """Post to this address from now on; to an empty one, not at all."""
        self.url, self.secret, self.problem = url, secret, None
        if self._task is not None:
            self._task.cancel()
        self._task = asyncio.get_running_loop().create_task(self._work()) if url else None

    def look(self) -> None:
        self._looking.set()

    def info(self) -> dict[str, Any]:
        known = {"url": self.url, "has_custom_certificate": False, "pending_update_count": len(self._updates)}
        failed = (
            {"last_error_date": self.problem[0], "last_error_message": self.problem[1]} if self.problem else {}
        )
        return known | failed

    async def _work(self) -> None:
        while True:
            self._looking.clear()
            if not self._updates:
                await self._looking.wait()
            elif await self._post(update := self._updates[0]):
                self._updates[:] = [each for each in self._updates if each is not update]
            else:
                await asyncio.sleep(AGAIN)

    async def _post(self, update: dict[str, Any]) -> bool:
        parts = urlsplit(self.url)
        public = f"{parts.scheme}://{parts.netloc}"
        headers = {"X-Telegram-Bot-Api-Secret-Token": self.secret} if self.secret else {}
        delivery = Delivery(update, headers=headers)
        self.deliveries.append(delivery)
        http = Http(self.published.get(public, public))
        try:
            body = json.dumps(update).encode()
            status, _ = await http.post(parts.path, body, ANSWERING, list(headers.items()))
        except (NotConnected, SendUnknown) as error:
            return self._failed(error.message)
        finally:
            await http.close()
        if self.losing:
            self.losing -= 1
            self.lost()
            return self._failed("Connection reset by peer")
        delivery.status = status
        return status < 300 or self._failed(f"Wrong response from the webhook: {status}")

    def _failed(self, problem: str) -> bool:
        self.problem = (int(time.time()), problem)
        return False

"""The stage of a simulated platform that posts its events to a webhook."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from itertools import count

import msgspec

from perdure.core.address import Address
from perdure.core.messages import Inbound, Sender, Stored
from perdure.errors import NotConnected, PerdureError, SendUnknown
from perdure.platforms.api import Adapter, Capabilities, Event, WebhookResponse
from perdure.platforms.telegram.bot_api import HttpClient
from perdure.testing import SimulatedPlatform
from perdure.testing.simulated_platform import SimulatedAdapter
from support.platform_stages import SimulatedStage

HEADER, SECRET = "x-secret", "only the platform knows"
REPOST_SECONDS = 0.05  # seconds before a rejected event is posted again
ANSWER_TIMEOUT_SECONDS = 60.0  # seconds to wait for the answer to a post


class WebhookAdapter(SimulatedAdapter):
    """Takes posted events, and answers with success once an event is stored."""

    def __init__(self, platform: SimulatedPlatform) -> None:
        super().__init__(platform)
        self._numbers = count()
        self._posted: dict[str, Event] = {}
        self._outcomes: set[asyncio.Future[bool]] = set()
        self._receiving = False

    @property
    def takes_posts(self) -> bool:
        return True

    def is_authentic(self, headers: Mapping[str, str]) -> bool:
        return headers.get(HEADER) == SECRET

    async def take_post(self, headers: Mapping[str, str], body: bytes) -> WebhookResponse:
        if not self.is_authentic(headers):
            return WebhookResponse(401)
        if not self._receiving:
            return WebhookResponse(503)
        stored = await self.hand_over(body)
        return WebhookResponse(200 if stored else 503)

    async def hand_over(self, body: bytes) -> bool:
        """Hand a posted event over; tell whether it was stored."""
        outcome: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        number = f"{next(self._numbers)}"
        self._outcomes.add(outcome)
        self._posted[number] = self._parse_event(body, outcome)
        self.wake()
        try:
            return await outcome
        finally:
            self._outcomes.discard(outcome)
            del self._posted[number]

    def _parse_event(self, body: bytes, outcome: asyncio.Future[bool]) -> Event:
        async def ack(_: Stored | None) -> None:
            _set_outcome(outcome, True)

        async def fail(_: PerdureError) -> None:
            _set_outcome(outcome, False)

        try:
            inbound = msgspec.json.decode(body, type=Inbound)
        except msgspec.MsgspecError as error:
            return Event(body.decode(), f"garbled:{body!r}", problem=str(error), ack=ack, fail=fail)
        return Event(body.decode(), inbound.event_key, inbound, ack=ack, fail=fail)

    def _pending(self) -> list[tuple[str, Event]]:
        return list(self._posted.items())

    async def receive(self) -> AsyncGenerator[Event]:
        self._receiving = True
        try:
            async for event in super().receive():
                yield event
        finally:
            self._receiving = False
            for outcome in self._outcomes:
                _set_outcome(outcome, False)


def _set_outcome(outcome: asyncio.Future[bool], stored: bool) -> None:
    if not outcome.done():
        outcome.set_result(stored)


class WebhookStage(SimulatedStage):
    """Posts one event after the other, each until the answer is a success."""

    def __init__(self, capabilities: Capabilities) -> None:
        super().__init__(capabilities)
        self._http: HttpClient
        self._posting_task: asyncio.Task[None] | None = None

    def adapter(self) -> Adapter:
        return WebhookAdapter(self.platform)

    async def publish(self, url: str) -> None:
        self._http = HttpClient(url)
        self._posting_task = asyncio.create_task(self._run())

    async def close(self) -> None:
        if self._posting_task is not None:
            self._posting_task.cancel()
            await asyncio.wait({self._posting_task})
            await self._http.close()

    async def _run(self) -> None:
        while True:
            if not self.platform.reachable or not await self._post_next():
                await asyncio.sleep(REPOST_SECONDS)

    async def _post_next(self) -> bool:
        """Post the first event; tell whether it was accepted."""
        for raw in self.platform.garbled_events()[:1]:
            if taken := await self._post(raw.encode(), SECRET) == 200:
                self.platform.mailbox.acknowledge_garbled(raw)
            return taken
        for inbound in self.platform.pending()[:1]:
            if taken := await self._post(msgspec.json.encode(inbound), SECRET) == 200:
                self.platform.mailbox.acknowledge(inbound)
            return taken
        return False

    async def _post(self, body: bytes, *secrets: str) -> int:
        """Post a body; return the status of the answer, 0 if none came."""
        headers = [(HEADER, secret) for secret in secrets]
        try:
            status, _ = await self._http.post(
                f"/hooks/{self.platform.name}", body, ANSWER_TIMEOUT_SECONDS, headers
            )
        except (NotConnected, SendUnknown):
            return 0
        return status

    async def forge(self, text: str, chat: str = "ann") -> list[int]:
        said = Inbound(Address(self.platform.name, "dm", chat), "forged", Sender(chat), text)
        body = msgspec.json.encode(said)
        return [await self._post(body), await self._post(body, ""), await self._post(body, "wrong")]

"""The simulated platform, posting what happens to us instead of waiting to be asked."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from itertools import count

import msgspec

from perdure.core.address import Address
from perdure.core.messages import Inbound, Sender, Stored
from perdure.errors import NotConnected, PerdureError, SendUnknown
from perdure.platforms.api import Adapter, Answered, Capabilities, Event
from perdure.platforms.telegram.http import Http
from perdure.testing import SimulatedPlatform
from perdure.testing.platform import SimulatedAdapter
from support.staging import SimulatedStage

HEADER, SECRET = "x-secret", "only the platform knows"
AGAIN = 0.05  # seconds before the platform posts again what was not taken
ANSWERING = 60.0  # seconds that a post waits for its answer


class PostingAdapter(SimulatedAdapter):
    """Takes what the platform posts, and says that it has it once it is stored."""

    def __init__(self, platform: SimulatedPlatform) -> None:
        super().__init__(platform)
        self._numbers = count()
        self._posted: dict[str, Event] = {}
        self._outcomes: set[asyncio.Future[bool]] = set()
        self._receiving = False

    @property
    def takes_posts(self) -> bool:
        return True

    def knows(self, headers: Mapping[str, str]) -> bool:
        return headers.get(HEADER) == SECRET

    async def take_post(self, headers: Mapping[str, str], body: bytes) -> Answered:
        if not self.knows(headers):
            return Answered(401)
        if not self._receiving:
            return Answered(503)
        stored = await self.hand_over(body)
        return Answered(200 if stored else 503)

    async def hand_over(self, body: bytes) -> bool:
        """Hand over what was posted; whether it was stored."""
        outcome: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        number = f"{next(self._numbers)}"
        self._outcomes.add(outcome)
        self._posted[number] = self._read(body, outcome)
        self.look()
        try:
            return await outcome
        finally:
            self._outcomes.discard(outcome)
            del self._posted[number]

    def _read(self, body: bytes, outcome: asyncio.Future[bool]) -> Event:
        async def ack(_: Stored | None) -> None:
            _settle(outcome, True)

        async def fail(_: PerdureError) -> None:
            _settle(outcome, False)

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
                _settle(outcome, False)


def _settle(outcome: asyncio.Future[bool], stored: bool) -> None:
    if not outcome.done():
        outcome.set_result(stored)


class PostingStage(SimulatedStage):
    """Posts one thing after the other, each until it is answered with success."""

    def __init__(self, capabilities: Capabilities) -> None:
        super().__init__(capabilities)
        self._door: Http
        self._posting: asyncio.Task[None] | None = None

    def adapter(self) -> Adapter:
        return PostingAdapter(self.platform)

    async def publish(self, url: str) -> None:
        self._door = Http(url)
        self._posting = asyncio.create_task(self._work())

    async def close(self) -> None:
        if self._posting is not None:
            self._posting.cancel()
            await asyncio.wait({self._posting})
            await self._door.close()

    async def _work(self) -> None:
        while True:
            if not self.platform.reachable or not await self._post_next():
                await asyncio.sleep(AGAIN)

    async def _post_next(self) -> bool:
        """Post what is first; whether it was taken."""
        for raw in self.platform.garbage()[:1]:
            if taken := await self._post(raw.encode(), SECRET) == 200:
                self.platform.discard(raw)
            return taken
        for inbound in self.platform.pending()[:1]:
            if taken := await self._post(msgspec.json.encode(inbound), SECRET) == 200:
                self.platform.confirm(inbound)
            return taken
        return False

    async def _post(self, body: bytes, *secrets: str) -> int:
        """The status of the answer; 0 if none came."""
        headers = [(HEADER, secret) for secret in secrets]
        try:
            status, _ = await self._door.post(f"/hooks/{self.platform.name}", body, ANSWERING, headers)
        except (NotConnected, SendUnknown):
            return 0
        return status

    async def forge(self, text: str, chat: str = "ann") -> list[int]:
        said = Inbound(Address(self.platform.name, "dm", chat), "forged", Sender(chat), text)
        body = msgspec.json.encode(said)
        return [await self._post(body), await self._post(body, ""), await self._post(body, "wrong")]

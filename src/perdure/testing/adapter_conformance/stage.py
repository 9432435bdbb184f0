"""The stage of an adapter under test: what its author provides, a server for webhooks, a spy on its calls."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import aclosing, contextmanager
from enum import StrEnum

import msgspec
from msgspec import Struct
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from perdure.core.address import Address
from perdure.core.messages import Outbound, Receipt, Stored
from perdure.errors import NotConnected, PerdureError
from perdure.platforms.api import Adapter, Checkpoint, Event, WebhookResponse
from perdure.testing.local_server import CloseConnection, LocalServer

NO_GATEWAY = WebhookResponse(502, "nobody is behind this door")


class WebhookPost(Struct):
    """A post, and the status of the adapter's answer."""

    status: int | None = None


class WebhookServer(LocalServer):
    """A proxy before the gateways; it answers by itself while no gateway runs."""

    def __init__(self) -> None:
        super().__init__("conformance-door")
        self.posts: list[WebhookPost] = []  # posts that were passed to an adapter
        self.lose_answers = 0  # switch: how many answers are lost
        self._adapter_loop = asyncio.get_running_loop()
        self._adapter: Adapter | None = None
        self._pending_answers: set[asyncio.Task[WebhookResponse]] = set()
        self._listening_started = False

    async def open(self) -> None:
        self._listening_started = True
        await asyncio.to_thread(self.__enter__)

    async def close(self) -> None:
        self.route_to(None)
        if self._listening_started:
            await asyncio.to_thread(self.__exit__, None, None, None)

    def route_to(self, adapter: Adapter | None) -> None:
        """Pass posts to this adapter; unanswered posts to the adapter before it are disconnected."""
        self._adapter = adapter
        for task in self._pending_answers:
            task.cancel()

    def _app(self, close_connection: CloseConnection) -> Starlette:
        return Starlette(routes=[Route("/hooks/{platform}", self._receive_post, methods=["POST"])])

    async def _receive_post(self, request: Request) -> Response:
        """Pass a post from the thread of the server to the event loop of the adapter."""
        handing = self._forward(request.path_params["platform"], dict(request.headers), await request.body())
        answered = await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(handing, self._adapter_loop))
        return Response(answered.body, answered.status, media_type=answered.media_type)

    async def _forward(self, platform: str, headers: Mapping[str, str], body: bytes) -> WebhookResponse:
        if self._adapter is None:
            return NO_GATEWAY
        if self._adapter.name != platform:
            return WebhookResponse(404, f"nobody here is called {platform}")
        self.posts.append(post := WebhookPost())
        answered = await self._answer(self._adapter, headers, body)
        post.status = answered.status
        if self.lose_answers:
            self.lose_answers -= 1
            return NO_GATEWAY
        return answered

    async def _answer(self, adapter: Adapter, headers: Mapping[str, str], body: bytes) -> WebhookResponse:
        """Return the adapter's answer; None if the adapter is killed or fails."""
        task = asyncio.ensure_future(adapter.take_post(headers, body))
        self._pending_answers.add(task)
        await asyncio.wait({task})
        self._pending_answers.discard(task)
        if task.cancelled():
            return NO_GATEWAY
        error = task.exception()
        return task.result() if error is None else WebhookResponse(500, repr(error))


class Seen(Struct, frozen=True):
    """A message of the gateway, as people see it now."""

    text: str
    buttons: tuple[str, ...] = ()  # the label of each
    file: bytes | None = None  # the content, if the message is a file


class Mishap(StrEnum):
    """What happens to the next message that the gateway sends, once."""

    LOST_ANSWER = "it arrives, and the platform's answer gets lost"
    WAIT = "it is not taken now: the platform wants us to wait, for a second at most"
    REFUSED = "it is not taken, and never will be"


class PlatformStage(ABC):
    """A platform with people, for one check. It outlives the gateways that connect to it, as real platforms do.

    The chats are "ann" and "bob", the threads "tea" and "rain": create each at its first use. A method for a
    capability is called only if the adapter claims that capability.
    """

    settings: Mapping[str, str] = {}  # settings of the gateway, spelled as in the environment, without `PERDURE_`

    async def open(self) -> None:  # noqa: B027 reason: a folder needs no server
        """Start the platform: called once, before everything else."""

    async def close(self) -> None:  # noqa: B027 reason: the same
        """Stop the platform: called once, after everything else."""

    @abstractmethod
    def adapter(self) -> Adapter:
        """Return a new adapter, as after a restart: it shares no state with earlier ones."""

    # ── people ──────────────────────────────────────────────────────────────────────────────────────────────

    @abstractmethod
    async def write(self, text: str, chat: str = "ann", thread: str | None = None) -> None:
        """Let a person write in a chat; there may be no connected gateway."""

    @abstractmethod
    async def seen(self, chat: str = "ann", thread: str | None = None) -> list[Seen]:
        """Return the gateway's messages in a chat or thread, in the order in which people see them."""

    async def share(self, name: str, chat: str = "ann") -> bytes | None:
        """Let a person send a file of that name; return its content, or None if the platform has no files."""
        return None

    async def press(self, label: str, chat: str = "ann") -> None:
        """Let a person press the newest button with this label. Called only where `buttons` is claimed."""
        raise NotImplementedError("the adapter claims `buttons`, so its stage needs `press`")

    async def glimpses(self, chat: str = "ann") -> list[str]:
        """Return the texts of all previews so far. Called only where `live` is claimed."""
        raise NotImplementedError("the adapter claims `live`, so its stage needs `glimpses`")

    async def typed(self, chat: str = "ann", thread: str | None = None) -> int:
        """Count how often typing was shown there. Called only where `typing_every` is claimed."""
        raise NotImplementedError("the adapter claims `typing_every`, so its stage needs `typed`")

    # ── the platform ────────────────────────────────────────────────────────────────────────────────────────

    async def unconfirmed(self) -> int:
        """Count the unacknowledged events. Called only where `keeps_missed` is claimed."""
        raise NotImplementedError("the adapter claims `keeps_missed`, so its stage needs `unconfirmed`")

    async def publish(self, url: str) -> None:
        """Post to this URL from now on, which leads to every gateway. Called only where `takes_posts` is true."""
        raise NotImplementedError("the adapter takes posts, so its stage needs `publish`")

    async def forge(self, text: str, chat: str = "ann") -> list[int]:
        """Post this message of a person without being the platform; return the status of each attempt.

        Try without the secret, with a wrong one, and with any other forgery you think of. Called only where
        `takes_posts` is true.
        """
        raise NotImplementedError("the adapter takes posts, so its stage needs `forge`")

    @abstractmethod
    async def garble(self) -> bool:
        """Let an unreadable event arrive. Return False if that is impossible on this platform."""

    @abstractmethod
    async def befall(self, mishap: Mishap) -> bool:
        """Let the next message of the gateway meet a mishap. Return False if that is impossible here."""

    @abstractmethod
    async def cut(self) -> None:
        """Close every connection, and refuse new ones."""

    @abstractmethod
    async def mend(self) -> None:
        """Accept connections again."""

    async def died(self, adapter: Adapter) -> None:  # noqa: B027 reason: most adapters keep no connection
        """Close the connections of an adapter, as the kernel does for a killed process, and do no more."""


class SendCall(Struct):
    """One attempt to send a message, and its outcome."""

    outbound: Outbound
    receipt: Receipt | None = None
    error: Exception | None = None


class HaltPoint(StrEnum):
    """The calls at which a gateway can be halted."""

    BEFORE_STORE = "an event is handed over"
    BEFORE_ACK = "an event is stored"
    BEFORE_SEND = "a message is about to be sent"
    AFTER_SEND = "a message was sent"


class HaltSwitch:
    """A switch that halts every call at one point for ever, as before a crash."""

    def __init__(self) -> None:
        self.armed = False
        self.reached = asyncio.Event()

    async def wait_if_armed(self) -> None:
        if self.armed:
            self.reached.set()
            await asyncio.Event().wait()


class SpyAdapter(Adapter):
    """The adapter under test, as the gateway sees it."""

    def __init__(self, inner: Adapter) -> None:
        self.inner = inner
        self.name, self.account, self.capabilities = inner.name, inner.account, inner.capabilities
        self.handed: list[Event] = []
        self.acknowledged: list[Event] = []
        self.failed: list[Event] = []  # events that could not be stored
        self.send_calls: list[SendCall] = []
        self.glimpsed: list[str] = []
        self.typing_requests = 0  # how often
        self.typing_shown = 0  # how often it said that it has
        self.violations: list[str] = []
        self.connected = False  # whether the last attempt to connect succeeded
        self.connection_losses: list[NotConnected] = []
        self.halts = {place: HaltSwitch() for place in HaltPoint}
        for each in dir(Adapter):
            if not each.startswith("_") and each not in vars(SpyAdapter) and callable(getattr(inner, each)):
                setattr(self, each, getattr(inner, each))  # every other method of the contract

    def has_tried_connecting(self) -> bool:
        """Tell whether the gateway has tried to connect."""
        return self.connected or bool(self.connection_losses) or bool(self.violations)

    @property
    def takes_posts(self) -> bool:
        return self.inner.takes_posts

    async def open(self) -> None:
        with self._record_violations("open"):
            await self.inner.open()
            self.connected = True

    @property
    def receives_by_lease(self) -> bool:
        return self.inner.receives_by_lease

    async def receive(self) -> AsyncGenerator[Event | Checkpoint]:
        async with aclosing(self.inner.receive()) as events:
            with self._record_violations("receive"):
                async for event in events:
                    if isinstance(event, Checkpoint):
                        yield event
                        continue
                    self.handed.append(event)
                    await self.halts[HaltPoint.BEFORE_STORE].wait_if_armed()
                    yield self._wrap_event(event)

    @contextmanager
    def _record_violations(self, where: str) -> Iterator[None]:
        """Record every error except `NotConnected`."""
        try:
            yield
        except NotConnected as loss:
            self.connection_losses.append(loss)
            raise
        except Exception as error:
            self.violations.append(
                f"{where} raised {error!r}; only NotConnected says that a platform is not there"
            )
            raise

    def _wrap_event(self, event: Event) -> Event:
        async def ack(stored: Stored | None) -> None:
            await self.halts[HaltPoint.BEFORE_ACK].wait_if_armed()
            await event.ack(stored)
            self.acknowledged.append(event)

        async def fail(error: PerdureError) -> None:
            await event.fail(error)
            self.failed.append(event)

        return msgspec.structs.replace(event, ack=ack, fail=fail)

    async def send(self, outbound: Outbound) -> Receipt:
        sending = SendCall(outbound)
        self.send_calls.append(sending)
        await self.halts[HaltPoint.BEFORE_SEND].wait_if_armed()
        try:
            sending.receipt = await self.inner.send(outbound)
        except Exception as error:
            sending.error = error
            raise
        await self.halts[HaltPoint.AFTER_SEND].wait_if_armed()
        return sending.receipt

    async def glimpse(self, address: Address, turn: str, text: str) -> None:
        await self.inner.glimpse(address, turn, text)
        self.glimpsed.append(text)

    async def typing(self, address: Address) -> None:
        self.typing_requests += 1
        await self.inner.typing(address)
        self.typing_shown += 1

"""The contract between the gateway and a chat platform.

An adapter only translates: it hands events to the gateway, and sends the messages that the gateway gives it. It
keeps nothing that must survive a crash, decides nothing, and never answers by itself.
"""

from __future__ import annotations

import secrets
import warnings
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from typing import Any, ClassVar

from msgspec import Struct

from perdure.core import texts
from perdure.core.address import Address
from perdure.core.messages import Inbound, Outbound, Receipt, Stored
from perdure.errors import FetchRefused, PerdureError, SendRefused


class MenuEntry(Struct, frozen=True):
    """A chat command, for a platform that shows a menu of commands."""

    name: str  # without the slash
    usage: str
    summary: str


class Capabilities(Struct, frozen=True):
    """What a platform can do, as its adapter claims.

    The conformance suite proves these claims. `grows`, `edit_every`, `show_after` and the seconds of
    `typing_every` ask nothing of the adapter: they say when the gateway calls `edit` and `typing`.
    """

    idempotent_send: bool = False  # the same delivery key twice is one message
    read_back: bool = False  # `find_sent` can tell whether a delivery key was sent
    keeps_missed: bool = False  # events that were not acknowledged come again
    threads: bool = False  # a chat has threads, each a conversation of its own
    buttons: bool = False  # choices can be shown under a message
    edit: bool = False  # a message can be edited
    grows: bool = True  # with `edit`: people see an answer grow, and the model streams
    edit_every: float = 1.5  # seconds before a growing answer is edited again
    show_after: float = 0.0  # seconds before people see an answer grow
    typing_every: float | None = None  # `typing` shows that we type, for so many seconds; None: never
    live: bool = False  # `glimpse` shows a growing answer, and leaves nothing behind
    files: bool = False  # a message can be a file
    max_file: int | None = None  # bytes; the gateway never sends a larger file
    max_length: int | None = None  # of one message, in UTF-16 units


async def _nothing(_: Stored | None) -> None: ...


async def _ignore(_: PerdureError) -> None: ...


class Event(Struct, frozen=True):
    """One event of the platform: its raw text and, where the adapter could read it, its message."""

    raw: str
    key: str  # the same for every delivery of the same event
    inbound: Inbound | None = None
    problem: str | None = None  # why it could not be read
    ack: Callable[[Stored | None], Awaitable[None]] = _nothing  # called once the event is stored, never before
    fail: Callable[[PerdureError], Awaitable[None]] = _ignore  # called if it could not be stored


class Checkpoint(Struct, frozen=True):
    """Yielded by `receive` before each request that asks the platform for events or confirms some.

    The gateway goes on with `receive` only while it holds the lease of the account: one that was frozen, and was
    taken for dead meanwhile, asks and confirms nothing any more.
    """


CHECKPOINT = Checkpoint()


class WebhookResponse(Struct, frozen=True):
    """The answer to a platform that has posted an event."""

    status: int = 200
    body: str = ""
    media_type: str = "text/plain"


class Adapter(ABC):
    """One account on one platform."""

    name: str
    account: str = ""  # names the account; gateways that share a database have the same one
    opens_apart: ClassVar[bool] = True  # false for an adapter of 0.2.0, whose `connect` may receive already
    capabilities: Capabilities = Capabilities()

    def __init_subclass__(cls, **options: Any) -> None:
        """Take the `connect` of an adapter that was written for 0.2.0 for its `open`, and say what to change."""
        super().__init_subclass__(**options)
        if "open" in vars(cls):
            cls.opens_apart = True
        elif "connect" in vars(cls):
            warnings.warn(texts.platforms.connect_is_open(cls.__name__), DeprecationWarning, stacklevel=2)
            cls.open = vars(cls)["connect"]  # type: ignore[method-assign]
            cls.opens_apart = False

    @abstractmethod
    async def open(self) -> None:
        """Reach the platform, or raise `NotConnected`.

        After return: everything but `receive` may be called. A gateway that stands by opens the platform too, and
        again every minute, to see whether it is there: `open` receives, confirms and takes away nothing.
        """

    @abstractmethod
    def receive(self) -> AsyncGenerator[Event | Checkpoint]:
        """Yield events as they come; raise `NotConnected` when the connection is lost.

        Called after `open`, by one gateway at a time where `receives_by_lease` is true. The gateway closes the
        generator before it lets another one receive: whatever receives must have ended by then.
        If we die inside: whatever was not acknowledged comes again, if the platform keeps it.
        """

    @property
    def receives_by_lease(self) -> bool:
        """Whether one gateway at a time may receive, as where `receive` polls or holds a socket.

        Posts are taken by any gateway. An adapter that was written for 0.2.0 does not tell opening from receiving:
        each gateway does both, as it was then.
        """
        return self.opens_apart and not self.takes_posts

    @abstractmethod
    async def send(self, outbound: Outbound) -> Receipt:
        """Send one message.

        After return: it is on the platform. Otherwise one of the `SendError`s says what is known; any other
        error is taken to mean that nothing is known.
        If we die inside: it may be there or not; the same delivery key will be used again.
        """

    async def edit(self, receipt: Receipt, outbound: Outbound) -> None:
        """Replace a message that was sent; called only where `edit` is claimed.

        After return: the new message is there. The same edit again changes nothing. `SendRefused`: it cannot be
        edited.
        """
        raise SendRefused(f"{self.name} cannot edit messages")

    async def glimpse(self, address: Address, turn: str, text: str) -> None:  # noqa: B027 reason: most have none
        """Show the answer so far, without storing it; called only where `live` is claimed."""

    async def typing(self, address: Address) -> None:  # noqa: B027 reason: most platforms show none
        """Show, for a few seconds, that an answer is under way; called only where `typing_every` is claimed.

        The gateway calls it again until the answer is there. It does not wait for it, and ignores its failure.
        """

    async def notice(self, address: Address, text: str) -> None:
        """Show a text that is not in the outbox; its failure is ignored."""
        await self.send(Outbound(address, text, f"notice:{secrets.token_hex(8)}"))

    async def menu(self, commands: Sequence[MenuEntry]) -> None:  # noqa: B027 reason: most platforms show none
        """Publish the menu of commands; called once, after the first `open`; the gateway does not wait."""

    @property
    def takes_posts(self) -> bool:
        """Whether the platform posts events to `/hooks/<name of the adapter>` on the gateway's web server."""
        return False

    async def take_post(self, headers: Mapping[str, str], body: bytes) -> WebhookResponse:
        """Take a posted event, if the platform itself posted it; called only where `takes_posts` is true.

        The names of the headers are in lower case. After return with a status below 300: the event is stored.
        If we die inside: it may be stored, and the platform posts it again.
        """
        return WebhookResponse(404)

    async def find_sent(self, key: str) -> Receipt | None:
        """The receipt of a delivery key that was sent; called only where `read_back` is claimed."""
        return None

    async def fetch(self, reference: str) -> AsyncGenerator[bytes]:
        """Yield the bytes of a file that came with a message, as they arrive.

        `FetchRefused`: the file will never be available. After any other error the gateway may fetch it again.
        """
        raise FetchRefused(texts.files.PLATFORM_CANNOT_FETCH)
        yield b""  # makes this function a generator

    async def close(self) -> None:  # noqa: B027 reason: most platforms have nothing to release
        """Release the connections to the platform."""


def __getattr__(name: str) -> Any:
    """Keep `Answered`, the name of `WebhookResponse` in 0.2.0, working for one version."""
    if name == "Answered":
        warnings.warn(
            "perdure.platforms.api.Answered goes away in the next version: import WebhookResponse from"
            " perdure.platforms.",
            DeprecationWarning,
            stacklevel=2,
        )
        return WebhookResponse
    raise AttributeError(f"module 'perdure.platforms.api' has no attribute {name!r}")

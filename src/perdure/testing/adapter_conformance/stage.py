"""What the author of an adapter tells the suite: how the platform is played, and what people see on it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct

from perdure.platforms.api import Adapter


class Seen(Struct, frozen=True):
    """A message of ours, as people see it now."""

    text: str
    buttons: tuple[str, ...] = ()  # the words on each
    file: bytes | None = None  # what it is, if it is a file


class Mishap(StrEnum):
    """What befalls the next message that we send, once."""

    LOST_ANSWER = "it arrives, and the platform's answer gets lost"
    WAIT = "it is not taken now: the platform wants us to wait, for a second at most"
    REFUSED = "it is not taken, and never will be"


class PlatformStage(ABC):
    """A platform with people on it, for one check. It outlives the gateways that connect to it, as real ones do.

    Chats are called "ann" and "bob", and threads "tea" and "rain": make them when they are first spoken of. What
    is asked only where something is claimed need not be there otherwise.
    """

    settings: Mapping[str, str] = {}  # of the gateway, spelled as in the environment, without `PERDURE_`

    async def open(self) -> None:  # noqa: B027 reason: a folder needs no server
        """Be there: called once, before everything else."""

    async def close(self) -> None:  # noqa: B027 reason: the same
        """Be gone: called once, after everything else."""

    @abstractmethod
    def adapter(self) -> Adapter:
        """A new adapter, as after a restart: it knows nothing of those before it."""

    # ── people ──────────────────────────────────────────────────────────────────────────────────────────────

    @abstractmethod
    async def write(self, text: str, chat: str = "ann", thread: str | None = None) -> None:
        """Somebody writes to us in a chat. Nobody may be connected."""

    @abstractmethod
    async def seen(self, chat: str = "ann", thread: str | None = None) -> list[Seen]:
        """Our messages there, in the order in which people see them; a chat's own are not those of its threads."""

    async def share(self, name: str, chat: str = "ann") -> bytes | None:
        """Somebody sends us a file of that name; its content. None: here nobody can."""
        return None

    async def press(self, label: str, chat: str = "ann") -> None:
        """Somebody presses the newest button with these words. Asked only where `buttons` is claimed."""
        raise NotImplementedError("the adapter claims `buttons`, so its stage needs `press`")

    async def glimpses(self, chat: str = "ann") -> list[str]:
        """What was shown of growing answers so far. Asked only where `live` is claimed."""
        raise NotImplementedError("the adapter claims `live`, so its stage needs `glimpses`")

    async def typed(self, chat: str = "ann", thread: str | None = None) -> int:
        """How often people there were shown that we type. Asked only where `typing_every` is claimed."""
        raise NotImplementedError("the adapter claims `typing_every`, so its stage needs `typed`")

    # ── the platform ────────────────────────────────────────────────────────────────────────────────────────

    async def unconfirmed(self) -> int:
        """How many events the platform would hand over again. Asked only where `keeps_missed` is claimed."""
        raise NotImplementedError("the adapter claims `keeps_missed`, so its stage needs `unconfirmed`")

    async def publish(self, url: str) -> None:
        """Post to this address from now on, which leads to every gateway. Asked only where `takes_posts` is so."""
        raise NotImplementedError("the adapter takes posts, so its stage needs `publish`")

    async def forge(self, text: str, chat: str = "ann") -> list[int]:
        """Somebody who is not the platform posts that a person has written this; the status of each try.

        Try without the secret, with a wrong one, and whatever else comes to your mind. Asked only where
        `takes_posts` is so.
        """
        raise NotImplementedError("the adapter takes posts, so its stage needs `forge`")

    @abstractmethod
    async def garble(self) -> bool:
        """Something arrives that makes no sense. False: here that cannot be."""

    @abstractmethod
    async def befall(self, mishap: Mishap) -> bool:
        """Let the next message of ours meet a mishap, once. False: here that cannot be."""

    @abstractmethod
    async def cut(self) -> None:
        """Lose every connection, and let nobody connect."""

    @abstractmethod
    async def mend(self) -> None:
        """Let everybody connect again."""

    async def died(self, adapter: Adapter) -> None:  # noqa: B027 reason: most adapters keep no connection
        """Do what a kernel does for a process that was killed: close the connections of its adapter, no more."""

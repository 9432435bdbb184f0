"""The stage of a platform, which the author of an adapter writes for the suite: people, connections and faults."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct

from perdure.platforms.api import Adapter


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

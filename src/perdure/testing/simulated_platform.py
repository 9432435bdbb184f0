"""A simulated chat platform, in process, with switches for everything that real ones do to a gateway.

The platform outlives the gateways that connect to it, as a real one does: it keeps what was not acknowledged,
remembers what was sent, and can lose answers, refuse, redeliver and cut the line.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from perdure.core.address import Address
from perdure.core.delivery import fitting_length
from perdure.core.messages import Attachment, Button, Inbound, Outbound, Receipt, Sender, Stored
from perdure.errors import FetchRefused, NotConnected, PerdureError, SendRefused, SendRetry, SendUnknown
from perdure.platforms.api import Adapter, Capabilities, Event, MenuEntry


class PostedMessage(Struct, frozen=True):
    """A message of ours as the platform shows it."""

    address: Address
    text: str
    key: str
    reply_to: str | None
    buttons: tuple[Button, ...] = ()
    preview: bool = False  # it still grows
    file: bytes | None = None  # what it is, if it is a file


class SimulatedPlatform:
    """The service itself. `adapter()` makes a connection to it for one gateway."""

    def __init__(self, name: str = "simulated", *, capabilities: Capabilities | None = None) -> None:
        self.name = name
        self.capabilities = capabilities or Capabilities(idempotent_send=True, keeps_missed=True)
        self.posted: list[PostedMessage] = []
        self.drafts: list[str] = []  # every text that was shown of growing answers
        self.glimpses: list[tuple[Address, str]] = []
        self.typings: list[Address] = []  # where it was shown that we type
        self.acknowledged: list[str] = []
        self.menus: list[tuple[MenuEntry, ...]] = []  # as each gateway has published it
        self.turned_away: list[str] = []  # handed over, and not taken
        self.reachable = True  # switch: the platform is down
        self.groups: set[str] = set()  # switch: chats that several people share
        self.refusals: set[str] = set()  # switch: chats that take no message
        self.longest: int | None = None  # switch: longer messages are refused
        self.wait = 0  # switch: how many sends are told to wait for a second
        self.refuse = 0  # switch: how many sends are refused
        self.lose_answers = 0  # switch: how many sends take place without an answer
        self.missing: set[str] = set()  # switch: files, by name, that nobody gets
        self.redeliver = 0  # switch: how many events are handed over a second time
        self._unacknowledged: list[Inbound] = []  # handed over to nobody yet, or not acknowledged
        self._garbled: list[str] = []
        self._adapters: list[SimulatedAdapter] = []
        self._count = 0

    def write(
        self,
        text: str,
        *,
        chat: str = "1",
        thread: str | None = None,
        sender: str = "ann",
        album: str | None = None,
        sent_at: int | None = None,
        files: Sequence[str] = (),
    ) -> str:
        """A person writes, and may add files, of which there are the names; the id of the message."""
        address, attached = self._address(chat, thread), tuple(Attachment(name, f"file:{name}") for name in files)
        said = Inbound(address, self._next_id(), Sender(sender), text, album=album, sent_at=sent_at)
        return self._add_event(msgspec.structs.replace(said, attachments=attached))

    def edit(
        self, message: str, text: str, *, chat: str = "1", thread: str | None = None, sender: str = "ann"
    ) -> str:
        """A person gives a message other words; the id of that event."""
        return self._add_change(Inbound(self._address(chat, thread), message, Sender(sender), text, kind="edit"))

    def delete(self, message: str, *, chat: str = "1", thread: str | None = None, sender: str = "ann") -> str:
        """A person takes a message away; the id of that event."""
        return self._add_change(Inbound(self._address(chat, thread), message, Sender(sender), "", kind="delete"))

    def press(self, command: str, *, chat: str = "1", thread: str | None = None, sender: str = "ann") -> str:
        """A person presses the newest button of a command; the id of that event."""
        address = self._address(chat, thread)
        shown = [button for posted in self.posted if posted.address == address for button in posted.buttons]
        pick = next((button.pick for button in reversed(shown) if button.command == command), None)
        return self._add_event(
            Inbound(address, self._next_id(), Sender(sender), command, kind="button", pick=pick)
        )

    def _address(self, chat: str, thread: str | None) -> Address:
        return Address(self.name, "group" if chat in self.groups else "dm", chat, thread)

    def _next_id(self) -> str:
        self._count += 1
        return f"m{self._count}"

    def _add_change(self, inbound: Inbound) -> str:
        return self._add_event(msgspec.structs.replace(inbound, version=self._next_id()))

    def _add_event(self, inbound: Inbound) -> str:
        self._unacknowledged.append(inbound)
        for adapter in self._adapters:
            adapter.wake()
        return inbound.version or inbound.message

    def garble(self, raw: str) -> None:
        """Something arrives that no adapter can understand."""
        self._garbled.append(raw)
        for adapter in self._adapters:
            adapter.wake()

    def disconnect(self) -> None:
        """Cut every connection."""
        for adapter in self._adapters:
            adapter.cut()

    def adapter(self) -> SimulatedAdapter:
        return SimulatedAdapter(self)

    def replies(self, chat: str = "1") -> list[str]:
        """What people in a chat see of us."""
        return [posted.text for posted in self.posted if posted.address.chat == chat]

    def attach(self, adapter: SimulatedAdapter) -> None:
        if not self.reachable:
            raise NotConnected("the simulated platform is down")
        self._adapters.append(adapter)

    def file_content(self, reference: str) -> bytes:
        """The content of a file: its name, for want of anything else."""
        name = reference.removeprefix("file:")
        if not self.reachable:
            raise NotConnected("the simulated platform is down")
        if name in self.missing:
            raise FetchRefused(f"there is no {name}")
        return name.encode()

    def detach(self, adapter: SimulatedAdapter) -> None:
        if adapter in self._adapters:
            self._adapters.remove(adapter)

    def pending(self) -> list[Inbound]:
        """Messages that nobody has acknowledged."""
        return list(self._unacknowledged)

    def garbled_events(self) -> list[str]:
        """Garbled events that nobody has acknowledged."""
        return list(self._garbled)

    def discard_garbled(self, raw: str) -> None:
        self._garbled.remove(raw)

    def acknowledge(self, event: Inbound) -> None:
        self.acknowledged.append(event.version or event.message)
        self._unacknowledged = [
            inbound for inbound in self._unacknowledged if inbound.event_key != event.event_key
        ]

    def deliver(self, outbound: Outbound) -> Receipt:
        """Take a message of ours, as far as the switches let it through."""
        if not self.reachable:
            raise NotConnected("the simulated platform is down")
        self._maybe_refuse(outbound)
        known = self.find(outbound.key)
        if known is None or not self.capabilities.idempotent_send:
            self.posted.append(_posted_message(outbound))
        self._record_draft(outbound)
        self._maybe_lose_answer()
        return Receipt(outbound.key)

    def _maybe_refuse(self, outbound: Outbound) -> None:
        if self.wait:
            self.wait -= 1
            raise SendRetry("the simulated platform wants us to wait", after=1)
        if outbound.address.chat in self.refusals or self.refuse:
            self.refuse = max(0, self.refuse - 1)
            raise SendRefused(f"chat {outbound.address.chat} takes no messages")
        if self.longest is not None and fitting_length(outbound.text, self.longest) < len(outbound.text):
            raise SendRefused(f"the longest message has {self.longest} characters")

    def replace(self, receipt: Receipt, outbound: Outbound) -> None:
        """Put a message of ours in the place of an earlier one."""
        if not self.reachable:
            raise NotConnected("the simulated platform is down")
        places = [place for place, posted in enumerate(self.posted) if posted.key == receipt.message]
        if not places or outbound.address.chat in self.refusals:
            raise SendRefused(f"there is no message {receipt.message} to edit")
        # As on a real platform, an edit changes the words, and neither the id nor what is answered.
        self.posted[places[0]] = msgspec.structs.replace(
            self.posted[places[0]], text=outbound.text, buttons=outbound.buttons, preview=outbound.preview
        )
        self._record_draft(outbound)
        self._maybe_lose_answer()

    def _record_draft(self, outbound: Outbound) -> None:
        if outbound.preview:
            self.drafts.append(outbound.text)

    def _maybe_lose_answer(self) -> None:
        if self.lose_answers:
            self.lose_answers -= 1
            raise SendUnknown("the answer was lost")

    def find(self, key: str) -> Receipt | None:
        return Receipt(key) if any(posted.key == key for posted in self.posted) else None


def _posted_message(outbound: Outbound) -> PostedMessage:
    return PostedMessage(
        outbound.address,
        outbound.text,
        outbound.key,
        outbound.reply_to,
        outbound.buttons,
        outbound.preview,
        Path(outbound.file.place).read_bytes() if outbound.file else None,
    )


class SimulatedAdapter(Adapter):
    """One gateway's connection to the simulated platform."""

    def __init__(self, platform: SimulatedPlatform) -> None:
        self._platform = platform
        self.name = platform.name
        self.capabilities = platform.capabilities
        self._woken = asyncio.Event()
        self._cut = False

    async def connect(self) -> None:
        self._cut = False
        self._platform.attach(self)

    def wake(self) -> None:
        self._woken.set()

    def cut(self) -> None:
        self._cut = True
        self._woken.set()

    async def receive(self) -> AsyncGenerator[Event]:
        """Hand over what nobody has acknowledged; after a new connection, all of it again."""
        handed: set[str] = set()
        try:
            while True:
                self._woken.clear()
                if self._cut:
                    raise NotConnected("the simulated platform cut the line")
                for event_key, event in self._pending():
                    if event_key not in handed:
                        handed.add(event_key)
                        for _ in range(self._delivery_count()):
                            yield event
                await self._woken.wait()
        finally:
            self._platform.detach(self)

    def _pending(self) -> list[tuple[str, Event]]:
        events = [self._event(inbound) for inbound in self._platform.pending()]
        events += [self._garbled_event(raw) for raw in self._platform.garbled_events()]
        return [(event.key, event) for event in events]

    def _delivery_count(self) -> int:
        if self._platform.redeliver:
            self._platform.redeliver -= 1
            return 2
        return 1

    def _event(self, inbound: Inbound) -> Event:
        async def ack(_: Stored | None) -> None:
            self._platform.acknowledge(inbound)

        async def fail(_: PerdureError) -> None:
            self._platform.turned_away.append(inbound.message)

        return Event(msgspec.json.encode(inbound).decode(), inbound.event_key, inbound, ack=ack, fail=fail)

    def _garbled_event(self, raw: str) -> Event:
        async def ack(_: Stored | None) -> None:
            self._platform.discard_garbled(raw)

        return Event(raw, f"{self.name}:garbled:{raw}", problem="this is no message", ack=ack)

    async def send(self, outbound: Outbound) -> Receipt:
        if self._cut:
            raise NotConnected("the simulated platform cut the line")
        return self._platform.deliver(outbound)

    async def edit(self, receipt: Receipt, outbound: Outbound) -> None:
        if self._cut:
            raise NotConnected("the simulated platform cut the line")
        self._platform.replace(receipt, outbound)

    async def fetch(self, reference: str) -> AsyncGenerator[bytes]:
        yield self._platform.file_content(reference)

    async def glimpse(self, address: Address, turn: str, text: str) -> None:
        self._platform.glimpses.append((address, text))

    async def typing(self, address: Address) -> None:
        self._platform.typings.append(address)

    async def menu(self, commands: Sequence[MenuEntry]) -> None:
        self._platform.menus.append(tuple(commands))

    async def find_sent(self, key: str) -> Receipt | None:
        return self._platform.find(key)

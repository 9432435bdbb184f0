"""A simulated chat platform inside the test's process, with switches for the faults of real platforms.

The platform outlives the gateways that connect to it: it keeps the events that no gateway has acknowledged,
remembers the messages that gateways sent, and can lose answers, refuse messages, redeliver events and disconnect.
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
    """A message of the gateway as the platform shows it."""

    address: Address
    text: str
    key: str
    reply_to: str | None
    buttons: tuple[Button, ...] = ()
    preview: bool = False  # an unfinished answer that is still being edited
    file: bytes | None = None  # the content, if the message is a file


class Mailbox:
    """The events that no gateway has acknowledged, and the adapters that wait for events."""

    def __init__(self) -> None:
        self.acknowledged: list[str] = []  # ids of messages, edits, deletions and button presses
        self._pending: list[Inbound] = []
        self._garbled: list[str] = []
        self._adapters: list[SimulatedAdapter] = []
        self._count = 0

    def next_id(self) -> str:
        self._count += 1
        return f"m{self._count}"

    def add(self, inbound: Inbound) -> str:
        """Add an event and wake the adapters; an edit or a deletion gets an id of its own. Return the id."""
        if inbound.kind in ("edit", "delete"):
            inbound = msgspec.structs.replace(inbound, version=self.next_id())
        self._pending.append(inbound)
        self._wake_adapters()
        return inbound.version or inbound.message

    def add_garbled(self, raw: str) -> None:
        self._garbled.append(raw)
        self._wake_adapters()

    def pending(self) -> list[Inbound]:
        return list(self._pending)

    def garbled_events(self) -> list[str]:
        return list(self._garbled)

    def acknowledge(self, event: Inbound) -> None:
        self.acknowledged.append(event.version or event.message)
        self._pending = [inbound for inbound in self._pending if inbound.event_key != event.event_key]

    def acknowledge_garbled(self, raw: str) -> None:
        self._garbled.remove(raw)

    def attach(self, adapter: SimulatedAdapter) -> None:
        self._adapters.append(adapter)

    def detach(self, adapter: SimulatedAdapter) -> None:
        if adapter in self._adapters:
            self._adapters.remove(adapter)

    def cut_adapters(self) -> None:
        for adapter in self._adapters:
            adapter.cut()

    def _wake_adapters(self) -> None:
        for adapter in self._adapters:
            adapter.wake()


class SimulatedPlatform:
    """The chat service. `adapter()` makes a connection to the service for one gateway."""

    def __init__(self, name: str = "simulated", *, capabilities: Capabilities | None = None) -> None:
        self.name = name
        self.capabilities = capabilities or Capabilities(idempotent_send=True, keeps_missed=True)
        self.posted: list[PostedMessage] = []
        self.drafts: list[str] = []  # every text of every preview
        self.glimpses: list[tuple[Address, str]] = []
        self.typings: list[Address] = []  # where the typing indicator was shown
        self.mailbox = Mailbox()
        self.acknowledged = self.mailbox.acknowledged
        self.menus: list[tuple[MenuEntry, ...]] = []  # the menu that each gateway published
        self.turned_away: list[str] = []  # ids of messages that a gateway failed to store
        self.reachable = True  # switch: the platform is down
        self.groups: set[str] = set()  # switch: chats that several people share
        self.refusals: set[str] = set()  # switch: chats that take no message
        self.longest: int | None = None  # switch: longer messages are refused
        self.wait = 0  # switch: how many sends are told to wait for a second
        self.refuse = 0  # switch: how many sends are refused
        self.lose_answers = 0  # switch: how many sends are recorded without an answer
        self.missing: set[str] = set()  # switch: names of files that cannot be fetched
        self.redeliver = 0  # switch: how many events are handed over a second time

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
        """Let a person write a message, with files of these names; return the id of the message."""
        address, attached = self._address(chat, thread), tuple(Attachment(name, f"file:{name}") for name in files)
        inbound = Inbound(address, self.mailbox.next_id(), Sender(sender), text, album=album, sent_at=sent_at)
        return self.mailbox.add(msgspec.structs.replace(inbound, attachments=attached))

    def edit(
        self, message: str, text: str, *, chat: str = "1", thread: str | None = None, sender: str = "ann"
    ) -> str:
        """Let a person edit a message; return the id of the edit."""
        return self.mailbox.add(Inbound(self._address(chat, thread), message, Sender(sender), text, kind="edit"))

    def delete(self, message: str, *, chat: str = "1", thread: str | None = None, sender: str = "ann") -> str:
        """Let a person delete a message; return the id of the deletion."""
        return self.mailbox.add(Inbound(self._address(chat, thread), message, Sender(sender), "", kind="delete"))

    def press(self, command: str, *, chat: str = "1", thread: str | None = None, sender: str = "ann") -> str:
        """Let a person press the newest button of a command; return the id of the press."""
        address = self._address(chat, thread)
        shown = [button for posted in self.posted if posted.address == address for button in posted.buttons]
        pick = next((button.pick for button in reversed(shown) if button.command == command), None)
        return self.mailbox.add(
            Inbound(address, self.mailbox.next_id(), Sender(sender), command, kind="button", pick=pick)
        )

    def _address(self, chat: str, thread: str | None) -> Address:
        return Address(self.name, "group" if chat in self.groups else "dm", chat, thread)

    def garble(self, raw: str) -> None:
        """Let an event arrive that no adapter can read."""
        self.mailbox.add_garbled(raw)

    def disconnect(self) -> None:
        """Cut every connection."""
        self.mailbox.cut_adapters()

    def adapter(self) -> SimulatedAdapter:
        return SimulatedAdapter(self)

    def replies(self, chat: str = "1") -> list[str]:
        """Return the texts of the gateway that people see in a chat."""
        return [posted.text for posted in self.posted if posted.address.chat == chat]

    def file_content(self, reference: str) -> bytes:
        """Return the content of a file, which is its name."""
        name = reference.removeprefix("file:")
        self.check_reachable()
        if name in self.missing:
            raise FetchRefused(f"there is no {name}")
        return name.encode()

    def pending(self) -> list[Inbound]:
        """Return the events that no gateway has acknowledged."""
        return self.mailbox.pending()

    def garbled_events(self) -> list[str]:
        """Return the garbled events that no gateway has acknowledged."""
        return self.mailbox.garbled_events()

    def check_reachable(self) -> None:
        """Raise `NotConnected` while the platform is down."""
        if not self.reachable:
            raise NotConnected("the simulated platform is down")

    def deliver(self, outbound: Outbound) -> Receipt:
        """Post a message of the gateway, unless a switch refuses it."""
        self.check_reachable()
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
        """Edit a message of the gateway."""
        self.check_reachable()
        indexes = [index for index, posted in enumerate(self.posted) if posted.key == receipt.message]
        if not indexes or outbound.address.chat in self.refusals:
            raise SendRefused(f"there is no message {receipt.message} to edit")
        # As on a real platform, an edit keeps the id of the message and the message that it replies to.
        self.posted[indexes[0]] = msgspec.structs.replace(
            self.posted[indexes[0]], text=outbound.text, buttons=outbound.buttons, preview=outbound.preview
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

    async def open(self) -> None:
        self._cut = False
        self._platform.check_reachable()

    def wake(self) -> None:
        self._woken.set()

    def cut(self) -> None:
        self._cut = True
        self._woken.set()

    async def receive(self) -> AsyncGenerator[Event]:
        """Hand over the unacknowledged events; a new connection hands all of them over again."""
        handed: set[str] = set()
        self._platform.check_reachable()
        self._platform.mailbox.attach(self)
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
            self._platform.mailbox.detach(self)

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
            self._platform.mailbox.acknowledge(inbound)

        async def fail(_: PerdureError) -> None:
            self._platform.turned_away.append(inbound.message)

        return Event(msgspec.json.encode(inbound).decode(), inbound.event_key, inbound, ack=ack, fail=fail)

    def _garbled_event(self, raw: str) -> Event:
        async def ack(_: Stored | None) -> None:
            self._platform.mailbox.acknowledge_garbled(raw)

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

"""Adapters and platforms with one fault each, which the adapter suite must find."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from pathlib import Path

import msgspec

from perdure.core import texts
from perdure.core.address import Address
from perdure.core.messages import Inbound, LocalFile, Outbound, Receipt, Stored
from perdure.errors import NotConnected, SendError, SendRefused, SendRetry, SendUnknown
from perdure.platforms.api import Adapter, Capabilities, Event, WebhookResponse
from perdure.testing import SimulatedPlatform
from perdure.testing.simulated_platform import SimulatedAdapter
from support.platform_stages import SimulatedStage
from support.webhook_stage import HEADER, SECRET, WebhookAdapter, WebhookStage


async def _no_ack(_: Stored | None) -> None: ...


class FaultyAdapter(SimulatedAdapter):
    """An adapter that keeps all of its claims but one."""

    def __init__(self, platform: SimulatedPlatform, fault: str) -> None:
        super().__init__(platform)
        self._fault = fault
        self._bundle: list[Outbound] = []
        self._stubborn = fault == "cannot be stopped"
        self._leftover_task: asyncio.Task[None] | None = None
        self._has_received = False

    async def open(self) -> None:
        if self._fault == "throws out whoever receives when it is opened":
            self._platform.disconnect()
        try:
            await super().open()
        except NotConnected:
            if self._fault == "cannot say that the platform is down":
                raise ConnectionRefusedError("nobody there") from None
            if self._fault != "does not see that the platform is down":
                raise

    def cut(self) -> None:
        if self._fault != "does not see that the line is lost":
            super().cut()

    async def receive(self) -> AsyncGenerator[Event]:
        self._has_received = True
        while True:
            try:
                async for event in super().receive():
                    for each in await self._distort_event(event):
                        yield each
            except asyncio.CancelledError:
                if not self._stubborn:
                    raise
                self._stubborn = False  # one fault is enough

    async def _distort_event(self, event: Event) -> list[Event]:
        """Return the event that the faulty adapter hands over instead."""
        inbound, replace = event.inbound, msgspec.structs.replace
        match self._fault:
            case "acknowledges too early":
                await event.ack(None)
            case "never acknowledges":
                return [replace(event, ack=_no_ack)]
            case "names events anew every time" if inbound is not None:
                return [replace(event, inbound=replace(inbound, message=f"{inbound.message}.{id(self)}"))]
            case "names events by their words" if inbound is not None:
                return [replace(event, inbound=replace(inbound, message=inbound.text))]
            case "passes over what makes no sense":
                return [event] if inbound is not None else []
            case "hears threads as the chat" if inbound is not None:
                return [replace(event, inbound=_without_thread(inbound))]
        return [event]

    async def send(self, outbound: Outbound) -> Receipt:
        replace, place = msgspec.structs.replace, outbound.address
        match self._fault:
            case "answers beside the thread":
                outbound = replace(outbound, address=Address(place.platform, place.kind, place.chat))
            case "sends only where it receives" if not self._has_received:
                raise NotConnected("it does not receive")
            case "sends no files":
                outbound = replace(outbound, file=None)
            case "spoils files" if outbound.file is not None:
                outbound = replace(outbound, file=_corrupted_copy(outbound.file))
            case "types behind its answers":
                receipt = await super().send(outbound)
                await super().typing(place)
                return receipt
            case "shows no buttons":
                outbound = replace(outbound, buttons=())
            case "answers everybody":
                outbound = replace(outbound, address=Address(place.platform, place.kind, "ann", place.thread))
            case "sends in bundles, the newest first":
                return await self._send_in_bundles(outbound)
            case "passes over notices" if outbound.text == texts.delivery.REPLY_DROPPED:
                return Receipt(outbound.key)
        try:
            return await super().send(outbound)
        except SendError as error:
            raise self._distort_error(error) from error

    def _distort_error(self, error: SendError) -> Exception:
        """Return the error that the faulty adapter raises instead."""
        match self._fault, error:
            case "takes a lost answer for a lost message", SendUnknown():
                return NotConnected("lost")
            case "takes a wait for a refusal", SendRetry():
                return SendRefused("no")
            case "takes a wait for a mystery", SendRetry():
                return RuntimeError("429")
            case "takes a refusal for a wait", SendRefused():
                return SendRetry("perhaps later")
        return error

    async def _send_in_bundles(self, outbound: Outbound) -> Receipt:
        self._bundle.append(outbound)
        if len(self._bundle) == 5:
            for each in reversed(self._bundle):
                await super().send(each)
        return Receipt(outbound.key)

    async def edit(self, receipt: Receipt, outbound: Outbound) -> None:
        match self._fault:
            case "edits nothing":
                return
            case "edits by sending again":
                await super().send(msgspec.structs.replace(outbound, key=f"{outbound.key}+"))
            case "cannot edit":
                raise SendRefused("no")
            case _:
                await super().edit(receipt, outbound)

    async def find_sent(self, key: str) -> Receipt | None:
        match self._fault:
            case "finds nothing":
                return None
            case "finds everything":
                return Receipt(key)
        return await super().find_sent(key)

    async def fetch(self, reference: str) -> AsyncGenerator[bytes]:
        if self._fault == "fetches something else":
            yield b"something else"
            return
        async for piece in super().fetch(reference):
            yield piece

    async def glimpse(self, address: Address, turn: str, text: str) -> None:
        if self._fault == "glimpses that stay":
            await super().send(Outbound(address, text, f"{turn}:glimpse"))
        if self._fault != "no glimpses":
            await super().glimpse(address, turn, text)

    async def typing(self, address: Address) -> None:
        match self._fault:
            case "never types":
                return
            case "types beside the thread":
                address = Address(address.platform, address.kind, address.chat)
            case "types for everybody":
                await super().typing(Address(address.platform, address.kind, "bob"))
            case "types in words":
                await super().send(Outbound(address, "…", f"typing:{id(address)}"))
        await super().typing(address)

    async def close(self) -> None:
        if self._fault == "leaves something running":
            self._leftover_task = asyncio.create_task(asyncio.sleep(3600))


def _without_thread(inbound: Inbound) -> Inbound:
    place = inbound.address
    return msgspec.structs.replace(inbound, address=Address(place.platform, place.kind, place.chat))


def _corrupted_copy(file: LocalFile) -> LocalFile:
    """Return a copy of the file with its line endings changed."""
    spoilt = Path(file.place).with_suffix(".spoilt")
    spoilt.write_bytes(Path(file.place).read_bytes().replace(b"\r", b"\n"))
    return msgspec.structs.replace(file, place=str(spoilt))


class FaultyPlatform(SimulatedPlatform):
    """A platform that does not keep missed events, or does not know delivery keys, although it claims to."""

    def __init__(self, capabilities: Capabilities, fault: str) -> None:
        super().__init__(capabilities=capabilities)
        self._fault = fault

    def adapter(self) -> SimulatedAdapter:
        if self._fault == "keeps nothing":
            for inbound in self.pending():
                self.mailbox.acknowledge(inbound)
        return FaultyAdapter(self, self._fault)

    def deliver(self, outbound: Outbound) -> Receipt:
        if self._fault == "knows no keys" and self.find(outbound.key):
            self.posted.append(msgspec.structs.replace(self.posted[-1], key="again"))
        if self._fault == "takes smaller files than it says" and _is_large(outbound):
            raise SendRefused("the largest file has a million bytes")
        return super().deliver(outbound)


def _is_large(outbound: Outbound) -> bool:
    return outbound.file is not None and outbound.file.size > 1_000_000


class FaultyStage(SimulatedStage):
    def __init__(self, capabilities: Capabilities, fault: str) -> None:
        super().__init__(capabilities)
        longest, self.platform = self.platform.longest, FaultyPlatform(capabilities, fault)
        self.platform.longest = 400 if fault == "takes less than it says" else longest
        if fault == "leaves no room for a mark":
            self.platform.longest = capabilities.max_length

    def adapter(self) -> Adapter:
        return self.platform.adapter()


class FaultyWebhookAdapter(WebhookAdapter):
    """An adapter with a faulty webhook."""

    def __init__(self, platform: SimulatedPlatform, fault: str) -> None:
        super().__init__(platform)
        self._fault = fault
        self._known: set[bytes] = set()
        self._left: list[asyncio.Task[bool]] = []

    async def take_post(self, headers: Mapping[str, str], body: bytes) -> WebhookResponse:
        match self._fault:
            case "takes posts of everybody":
                headers = {HEADER: SECRET}
            case "refuses posts of others and keeps them" if not self.is_authentic(headers):
                await self.hand_over(body)
            case "answers posts before they are stored" if self.is_authentic(headers):
                self._left.append(asyncio.create_task(self.hand_over(body)))
                return WebhookResponse()
            case "refuses posts that it knows" if body in self._known:
                return WebhookResponse(409)
            case "names posts anew every time" if self.is_authentic(headers):
                body = body.replace(b'"message":"', b'"message":"again-', body in self._known)
        self._known.add(body)
        return await super().take_post(headers, body)


class FaultyWebhookStage(WebhookStage):
    def __init__(self, capabilities: Capabilities, fault: str) -> None:
        super().__init__(capabilities)
        self._fault = fault

    def adapter(self) -> Adapter:
        return FaultyWebhookAdapter(self.platform, self._fault)

"""The suite for adapters itself: whatever an adapter claims and does not keep is found by the fitting check."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path

import msgspec
import pytest

from perdure.core import notes
from perdure.core.address import Address
from perdure.core.messages import Inbound, Outbound, Receipt, Stored
from perdure.errors import NotConnected, SendError, SendRefused, SendRetry, SendUnknown
from perdure.platforms.api import Adapter, Capabilities, Event
from perdure.testing import AdapterConformance, PlatformStage, SimulatedPlatform
from perdure.testing.platform import SimulatedAdapter
from support.staging import SimulatedStage

NEVER = "never came true"  # what is missing can only be waited for
SHORT = 4.0

HONEST = Capabilities(keeps_missed=True, threads=True, buttons=True, edit=True, max_length=500)
TESTS = {name for name in dir(AdapterConformance) if name.startswith("test_")}


async def _no_ack(_: Stored | None) -> None: ...


class Liar(SimulatedAdapter):
    """Keeps all that it claims but for its fault."""

    def __init__(self, platform: SimulatedPlatform, fault: str) -> None:
        super().__init__(platform)
        self._fault = fault
        self._bundle: list[Outbound] = []
        self._stubborn = fault == "cannot be stopped"
        self._left: asyncio.Task[None] | None = None

    async def connect(self) -> None:
        try:
            await super().connect()
        except NotConnected:
            if self._fault == "cannot say that the platform is down":
                raise ConnectionRefusedError("nobody there") from None
            if self._fault != "does not see that the platform is down":
                raise

    def cut(self) -> None:
        if self._fault != "does not see that the line is lost":
            super().cut()

    async def receive(self) -> AsyncGenerator[Event]:
        while True:
            try:
                async for event in super().receive():
                    for each in await self._distorted(event):
                        yield each
            except asyncio.CancelledError:
                if not self._stubborn:
                    raise
                self._stubborn = False  # once is enough to be found out

    async def _distorted(self, event: Event) -> list[Event]:
        """What is handed over in place of an event."""
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
                return [replace(event, inbound=_in_the_chat(inbound))]
        return [event]

    async def send(self, outbound: Outbound) -> Receipt:
        replace, place = msgspec.structs.replace, outbound.address
        match self._fault:
            case "answers beside the thread":
                outbound = replace(outbound, address=Address(place.platform, place.kind, place.chat))
            case "sends no files":
                outbound = replace(outbound, file=None)
            case "shows no buttons":
                outbound = replace(outbound, buttons=())
            case "answers everybody":
                outbound = replace(outbound, address=Address(place.platform, place.kind, "ann", place.thread))
            case "sends in bundles, the newest first":
                return await self._sent_in_bundles(outbound)
            case "passes over notices" if outbound.text == notes.DROPPED_REPLY:
                return Receipt(outbound.key)
        try:
            return await super().send(outbound)
        except SendError as error:
            raise self._said(error) from error

    def _said(self, error: SendError) -> Exception:
        """What it makes of what the platform said."""
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

    async def _sent_in_bundles(self, outbound: Outbound) -> Receipt:
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

    async def close(self) -> None:
        if self._fault == "leaves something running":
            self._left = asyncio.create_task(asyncio.sleep(3600))


def _in_the_chat(inbound: Inbound) -> Inbound:
    place = inbound.address
    return msgspec.structs.replace(inbound, address=Address(place.platform, place.kind, place.chat))


class Forgetful(SimulatedPlatform):
    """Claims to keep what nobody fetched, or to know what it was sent, and does neither."""

    def __init__(self, capabilities: Capabilities, fault: str) -> None:
        super().__init__(capabilities=capabilities)
        self._fault = fault

    def adapter(self) -> SimulatedAdapter:
        if self._fault == "keeps nothing":
            for inbound in self.pending():
                self.confirm(inbound)
        return Liar(self, self._fault)

    def deliver(self, outbound: Outbound) -> Receipt:
        if self._fault == "knows no keys" and self.find(outbound.key):
            self.posted.append(msgspec.structs.replace(self.posted[-1], key="again"))
        return super().deliver(outbound)


class LyingStage(SimulatedStage):
    def __init__(self, capabilities: Capabilities, fault: str) -> None:
        super().__init__(capabilities)
        longest, self.platform = self.platform.longest, Forgetful(capabilities, fault)
        self.platform.longest = 400 if fault == "takes less than it says" else longest
        if fault == "leaves no room for a mark":
            self.platform.longest = capabilities.max_length

    def adapter(self) -> Adapter:
        return self.platform.adapter()


class Suite(AdapterConformance):
    def __init__(self, fault: str, says: str = "", **claims: bool) -> None:
        self.patience = SHORT if says == NEVER else AdapterConformance.patience
        self._fault = fault
        self._claims = msgspec.structs.replace(HONEST, **claims)

    def stage(self, folder: Path) -> PlatformStage:
        return LyingStage(self._claims, self._fault)


def test_honest_adapter_is_accepted() -> None:
    suite = Suite("")
    for name in sorted(TESTS):
        getattr(suite, name)()


LIES = [
    ("acknowledges too early", {}, "test_nothing_is_acknowledged_before_it_is_stored", "before it was stored"),
    ("acknowledges too early", {}, "test_message_that_could_not_be_stored_comes_again", "could not be stored"),
    ("never acknowledges", {}, "test_each_message_is_answered_once_in_its_chat", NEVER),
    ("names events anew every time", {}, "test_message_that_is_handed_over_again_is_one_turn", "two turns"),
    ("names events by their words", {}, "test_each_message_is_answered_once_in_its_chat", "people see"),
    ("keeps nothing", {}, "test_messages_written_while_nobody_was_there_are_answered_in_order", "people see"),
    (
        "passes over what makes no sense",
        {},
        "test_event_that_makes_no_sense_is_kept_as_rejected_and_acknowledged",
        "problem",
    ),
    ("fetches something else", {}, "test_file_that_somebody_sends_can_be_fetched", "not what was sent"),
    ("sends no files", {"files": True}, "test_file_arrives_as_it_is", "a file of"),
    ("hears threads as the chat", {}, "test_each_thread_is_a_conversation_of_its_own", "people see"),
    ("answers beside the thread", {}, "test_each_thread_is_a_conversation_of_its_own", "people see"),
    ("answers everybody", {}, "test_each_message_is_answered_once_in_its_chat", "people see"),
    ("shows no buttons", {}, "test_question_is_answered_by_a_button_after_a_death", "has the buttons"),
    (
        "does not see that the platform is down",
        {},
        "test_platform_that_is_down_at_the_start_is_connected_to_later",
        "returned",
    ),
    (
        "cannot say that the platform is down",
        {},
        "test_platform_that_is_down_at_the_start_is_connected_to_later",
        "only NotConnected",
    ),
    (
        "does not see that the line is lost",
        {},
        "test_what_runs_when_the_line_is_lost_is_answered_once_it_is_back",
        NEVER,
    ),
    (
        "passes over notices",
        {},
        "test_answer_is_given_up_with_a_notice_when_the_operator_prefers_that",
        "people see",
    ),
    ("cannot be stopped", {}, "test_adapter_lets_go_when_it_is_told_to", "when it was cancelled"),
    ("leaves something running", {}, "test_adapter_lets_go_when_it_is_told_to", NEVER),
    (
        "takes a lost answer for a lost message",
        {},
        "test_answer_comes_once_or_marked_when_its_receipt_is_lost",
        "says it is not",
    ),
    (
        "knows no keys",
        {"idempotent_send": True},
        "test_answer_comes_once_or_marked_when_the_gateway_dies_after_sending",
        "people see",
    ),
    (
        "finds nothing",
        {"read_back": True},
        "test_answer_comes_once_or_marked_when_the_gateway_dies_after_sending",
        "people see",
    ),
    (
        "finds everything",
        {"read_back": True},
        "test_answer_comes_once_when_the_gateway_dies_before_sending",
        "people see",
    ),
    (
        "finds everything",
        {"read_back": True, "idempotent_send": True},
        "test_sent_message_can_be_looked_up_by_its_delivery_key",
        "never sent",
    ),
    ("takes a wait for a refusal", {}, "test_answer_waits_when_the_platform_says_so", "it is to wait"),
    ("takes a wait for a mystery", {}, "test_answer_waits_when_the_platform_says_so", "it is to wait"),
    ("takes a refusal for a wait", {}, "test_refused_answer_is_given_up_and_the_next_one_comes", "it was refused"),
    ("sends in bundles, the newest first", {}, "test_answers_keep_their_order", "people see"),
    ("takes less than it says", {}, "test_long_answer_arrives_whole", "people see"),
    ("leaves no room for a mark", {}, "test_long_answer_arrives_whole", "people see"),
    ("cannot edit", {}, "test_answer_grows_in_one_message", "people see"),
    ("edits nothing", {}, "test_answer_grows_in_one_message", "people see"),
    ("edits by sending again", {}, "test_answer_grows_in_one_message", "people s[ae]"),
    ("no glimpses", {"live": True}, "test_glimpse_of_an_answer_leaves_nothing_behind", "people saw"),
    ("glimpses that stay", {"live": True}, "test_glimpse_of_an_answer_leaves_nothing_behind", "people saw"),
]


@pytest.mark.parametrize(("fault", "claims", "found", "says"), LIES, ids=[f"{lie[0]}-{lie[2]}" for lie in LIES])
def test_b74_lie_is_found_when_an_adapter(fault: str, claims: dict[str, bool], found: str, says: str) -> None:
    with pytest.raises(AssertionError, match=says):
        getattr(Suite(fault, says, **claims), found)()


def test_every_check_finds_a_lie() -> None:
    assert {found for _, _, found, _ in LIES} == TESTS

"""Whatever one turn, agent, tool, adapter, event or row does ends at most itself (B59).

Drives `containment` and `runtime/tasks`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import pytest
from msgspec.structs import replace

from perdure.agents.api import ModelRequest, PreviewCallback, Reply, TurnContext
from perdure.agents.builtin_agent import BuiltinAgent
from perdure.core import texts
from perdure.core.effects import Effect
from perdure.core.journal import ModelAnswered, ToolCall
from perdure.core.messages import Inbound, Outbound, Receipt
from perdure.core.tools import Tool, Use
from perdure.errors import StoreUnreachable
from perdure.platforms.api import Capabilities, Event
from perdure.store.database import Database, Transaction
from perdure.testing import FaultyDatabase, SimulatedPlatform, gateways
from perdure.testing.simulated_platform import SimulatedAdapter
from support.inprocess import crashing_at_the_end, serving
from support.newer_version import write_newer_entry
from support.waiting import eventually

pytestmark = pytest.mark.anyio

RAISED: dict[str, Callable[[], BaseException]] = {
    "RuntimeError": lambda: RuntimeError("a defect"),
    "OSError": lambda: OSError(24, "too many open files"),
    "CancelledError": asyncio.CancelledError,
    "SystemExit": lambda: SystemExit(3),
    "KeyboardInterrupt": KeyboardInterrupt,
    "GeneratorExit": GeneratorExit,
    "MemoryError": MemoryError,
    "ExceptionGroup": lambda: ExceptionGroup("several", [ValueError("a"), OSError("b")]),
    "BaseExceptionGroup": lambda: BaseExceptionGroup("several", [SystemExit(3), ValueError("a")]),
}
every_class = pytest.mark.parametrize("raised", list(RAISED.values()), ids=list(RAISED))


async def replies(platform: SimulatedPlatform, *texts: str, chat: str = "1") -> None:
    await eventually(f"chat {chat} sees {texts}", lambda: platform.replies(chat) == list(texts))


class Own:
    """An agent that greets chat 2, and does something else in chat 1."""

    def __init__(self, answer: Callable[[TurnContext], Awaitable[Reply]]) -> None:
        self._answer = answer

    async def run(self, context: TurnContext) -> Reply:
        greets = context.view.causes[-1].text == "hello"
        return Reply("hello") if greets else await self._answer(context)


async def neighbours_are_served(*platforms: SimulatedPlatform, chat: str = "2") -> None:
    for platform in platforms:
        platform.write("hello", chat=chat)
    for platform in platforms:
        await eventually(f"{platform.name} is answered", partial(platform.replies, chat))


# ── agents and tools ────────────────────────────────────────────────────────────────────────────────────────


@every_class
async def test_b59_whatever_an_agent_raises_fails_its_turn_alone(
    tmp_path: Path, raised: Callable[[], BaseException]
) -> None:
    async def fails(context: TurnContext) -> Reply:
        raise raised()

    platform, other = SimulatedPlatform(), SimulatedPlatform("other")
    async with serving(tmp_path, platform, other, agent=Own(fails)):
        platform.write("hi")
        await replies(platform, texts.turns.failed(texts.turns.AGENT_CRASHED))
        await neighbours_are_served(platform, other)


@every_class
async def test_b59_whatever_a_task_of_an_agent_raises_fails_its_turn_alone(
    tmp_path: Path, raised: Callable[[], BaseException]
) -> None:
    async def fails() -> None:
        await asyncio.sleep(0)
        raise raised()

    async def answer(context: TurnContext) -> Reply:
        await asyncio.create_task(fails())
        raise AssertionError("its task has not failed")

    platform, other = SimulatedPlatform(), SimulatedPlatform("other")
    async with serving(tmp_path, platform, other, agent=Own(answer)):
        platform.write("hi")
        await replies(platform, texts.turns.failed(texts.turns.AGENT_CRASHED))
        await neighbours_are_served(platform, other)


class UsesOnce:
    """A model that uses a tool once, and then says what it has read."""

    name = "scripted"
    window = 100_000

    async def close(self) -> None: ...

    async def respond(self, request: ModelRequest, show_preview: PreviewCallback | None = None) -> ModelAnswered:
        if "hello" in str(request.messages):
            return ModelAnswered(1, "hello", (), "stop")
        if request.step == 1:
            return ModelAnswered(1, "", (ToolCall("c1", "look", {}),), "tool_calls")
        return ModelAnswered(2, f"read: {request.messages[-1]}", (), "stop")


@every_class
async def test_b59_whatever_a_tool_raises_is_its_result(
    tmp_path: Path, raised: Callable[[], BaseException]
) -> None:
    async def look(use: Use) -> str:
        raise raised()

    agent = BuiltinAgent(UsesOnce(), [Tool("look", "looks", look, Effect.PURE, {"type": "object"})])
    platform, other = SimulatedPlatform(), SimulatedPlatform("other")
    async with serving(tmp_path, platform, other, agent=agent):
        platform.write("hi")
        await eventually("the model has read the failure", lambda: platform.replies())
        assert type(raised()).__name__ in platform.replies()[0]
        await neighbours_are_served(platform, other)


# ── adapters and events ─────────────────────────────────────────────────────────────────────────────────────


class FailingAdapter(SimulatedAdapter):
    """Raises once, at the call of a name, for chat 1."""

    def __init__(self, platform: SimulatedPlatform, call: str, raised: Callable[[], BaseException]) -> None:
        super().__init__(platform)
        self._raised = raised
        self._call = call

    def _maybe_raise(self, call: str) -> None:
        if call == self._call:
            self._call = ""
            raise self._raised()

    async def open(self) -> None:
        self._maybe_raise("connect")
        await super().open()

    async def send(self, outbound: Outbound) -> Receipt:
        self._maybe_raise("send")
        receipt = await super().send(outbound)
        self._maybe_raise("sent")
        return receipt

    async def edit(self, receipt: Receipt, outbound: Outbound) -> None:
        self._maybe_raise("edit")
        await super().edit(receipt, outbound)

    async def find_sent(self, key: str) -> Receipt | None:
        self._maybe_raise("find_sent")
        return await super().find_sent(key)

    def _event(self, inbound: Inbound) -> Event:
        event = super()._event(inbound)

        async def ack(stored: object) -> None:
            self._maybe_raise("ack")
            await event.ack(stored)  # type: ignore[arg-type]

        return replace(event, ack=ack)

    async def typing(self, address: object) -> None:
        self._maybe_raise("typing")

    async def menu(self, commands: object) -> None:
        self._maybe_raise("menu")

    async def close(self) -> None:
        self._maybe_raise("close")


READ_BACK = Capabilities(read_back=True, keeps_missed=True, edit=True)


@every_class
@pytest.mark.parametrize("call", ["connect", "send", "sent", "ack", "menu", "close"])
async def test_b59_whatever_an_adapter_raises_ends_one_try(
    tmp_path: Path, call: str, raised: Callable[[], BaseException]
) -> None:
    platform, other = SimulatedPlatform(), SimulatedPlatform("other")
    adapters = [FailingAdapter(platform, call, raised), other.adapter()]
    async with gateways.serving(tmp_path, adapters):
        platform.write("say: hi")
        other.write("say: hi")
        await replies(platform, "hi")
        await replies(other, "hi")


@every_class
async def test_b59_find_sent_that_raises_is_asked_again(
    tmp_path: Path, raised: Callable[[], BaseException]
) -> None:
    platform, other = SimulatedPlatform(capabilities=READ_BACK), SimulatedPlatform("other")
    platform.lose_answers = 1
    adapters = [FailingAdapter(platform, "find_sent", raised), other.adapter()]
    async with gateways.serving(tmp_path, adapters) as gateway:
        platform.write("say: hi")
        other.write("say: hi")
        await replies(other, "hi")
        await eventually("it is known to be sent", lambda: _nothing_open(gateway.store.database))
    assert platform.replies() == ["hi"]


async def _nothing_open(database: Database) -> bool:
    sql = "SELECT 1 FROM outbox WHERE state IN ('owed', 'sending', 'unknown')"
    return await database.read(lambda tx: tx.one(sql)) is None


class CarelessAdapter(SimulatedAdapter):
    """Hands over events whose fields it has not filled."""

    changes: dict[str, object]

    def _event(self, inbound: Inbound) -> Event:
        event = super()._event(inbound)
        if inbound.address.chat == "2":
            return event
        return replace(event, inbound=replace(inbound, **self.changes))


@pytest.mark.parametrize("field", ["text", "sender", "address", "message", "attachments"])
async def test_b59_event_with_a_field_of_none_is_rejected_and_acknowledged(tmp_path: Path, field: str) -> None:
    platform = SimulatedPlatform()
    adapter = CarelessAdapter(platform)
    adapter.changes = {field: None}
    async with gateways.serving(tmp_path, [adapter]) as gateway:
        platform.write("say: hi")
        platform.write("say: hi", chat="2")
        await replies(platform, "hi", chat="2")
        await eventually("it is acknowledged", lambda: not platform.pending())
        [(problem,)] = await gateway.store.database.read(
            lambda tx: tx.all("SELECT problem FROM inbox WHERE state = 'rejected'")
        )
    assert "$" in problem or "object" in problem


# ── entries of a newer version ──────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("state", ["done", "running"])
async def test_b59_entry_of_a_newer_version_leaves_one_conversation_alone(tmp_path: Path, state: str) -> None:
    platform = SimulatedPlatform()
    await write_newer_entry(tmp_path, platform, state)
    async with serving(tmp_path, platform):
        platform.write("say: again")
        await eventually("its chat is told", lambda: texts.turns.NEWER_ENTRY in platform.replies())
        await neighbours_are_served(platform)
        platform.write("/why")
        told = [texts.turns.NEWER_ENTRY] * 2
        await eventually("it is told once, and as an answer", lambda: platform.replies()[-2:] == told)
        await neighbours_are_served(platform, chat="3")
    assert platform.replies()[-2:] == told
    assert platform.replies().count(texts.turns.NEWER_ENTRY) == 2


# ── the store ───────────────────────────────────────────────────────────────────────────────────────────────


class AwayAtFirst(FaultyDatabase):
    """A database that is away for the first calls that a gateway makes."""

    left = 8

    async def write(self, transaction: Transaction, *, key: str = "", at: int | None = None) -> object:  # type: ignore[override, type-arg]
        self._miss()
        return await super().write(transaction, key=key, at=at)

    async def read(self, transaction: Transaction, *, at: int | None = None) -> object:  # type: ignore[override, type-arg]
        self._miss()
        return await super().read(transaction, at=at)

    def _miss(self) -> None:
        if self.left:
            self.left -= 1
            raise StoreUnreachable("the database server does not answer")


async def test_b59_store_that_is_away_during_the_start_is_waited_for(tmp_path: Path) -> None:
    platform = SimulatedPlatform()
    platform.write("say: hi")
    async with serving(tmp_path, platform, wrap=AwayAtFirst):
        await replies(platform, "hi")


class FirstRecoveryFails(FaultyDatabase):
    """Raises at the first reading of the interrupted turns: the recovery of one platform fails."""

    failed = False

    async def read(self, transaction: Transaction, *, at: int | None = None) -> object:  # type: ignore[override, type-arg]
        if not self.failed and transaction.__qualname__.startswith("Turns.interrupted"):
            self.failed = True
            raise RuntimeError("a defect")
        return await super().read(transaction, at=at)


async def test_b59_recovery_of_a_platform_is_retried_though_that_of_another_succeeded(tmp_path: Path) -> None:
    platforms = SimulatedPlatform(), SimulatedPlatform("other")
    log = tmp_path / "rehearsal.log"  # a line for each run of a step
    async with crashing_at_the_end(tmp_path, *platforms):
        for platform in platforms:
            platform.write("step wait 600s\nsay: done")
        await eventually("both steps run", lambda: log.exists() and log.read_text().count("wait ") == 2)
    async with serving(tmp_path, *platforms, wrap=FirstRecoveryFails) as gateway:
        await eventually("both turns were resumed", lambda: log.read_text().count("wait ") == 4)
        assert gateway.store.database.failed  # type: ignore[attr-defined]
        for platform in platforms:
            platform.write("/stop")
        await eventually("both were stopped", lambda: not gateway.loops.runner.running)


async def test_gateways_that_crash_in_one_loop_leave_its_task_factory_as_they_found_it(tmp_path: Path) -> None:
    loop, platform = asyncio.get_running_loop(), SimulatedPlatform()
    before = loop.get_task_factory()
    factories = []
    for _ in range(2):
        async with crashing_at_the_end(tmp_path, platform):
            factories.append(loop.get_task_factory())
    async with serving(tmp_path, platform), serving(tmp_path / "other", SimulatedPlatform("other")):
        factories.append(loop.get_task_factory())
    assert None not in factories
    assert loop.get_task_factory() is before

"""One check of an adapter: a stage, a home, an agent, and the real gateways that serve it, one after the other."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

from perdure.agents.custom.function import FunctionAgent
from perdure.agents.custom.steps import StepContext
from perdure.core.delivery import fitting_length
from perdure.platforms.api import Adapter
from perdure.runtime.gateway import Gateway
from perdure.store.audit import StoreAudit
from perdure.store.database import Database
from perdure.testing.adapter_conformance.spy_adapter import HaltPoint, SpyAdapter
from perdure.testing.adapter_conformance.stage import PlatformStage
from perdure.testing.adapter_conformance.webhook_server import WebhookServer
from perdure.testing.faults import FaultyDatabase
from perdure.testing.gateways import crashing_at_the_end, serving
from perdure.testing.waiting import eventually

COLOURS = ("red", "blue")
PREVIEW_TEXT = "It grows"
HOLD, GROW, ASK, LONG = "hold", "grow", "ask", "long"

Probe = Callable[[], Awaitable[object]] | Callable[[], object]
T = TypeVar("T")


def answer_to(text: str) -> str:
    """What the agent of the suite answers."""
    return f"You said: {text}"


def unique_words(length: int) -> str:
    """A text of at most so many UTF-16 units, in which no word stands twice."""
    text = " ".join(f"word{number}\N{LEAF FLUTTERING IN WIND}" for number in range(length))
    return text[: fitting_length(text, length)].rstrip()


def normalize_spaces(text: str) -> str:
    """The text, however its blanks are spelled."""
    return " ".join(text.split())


class EchoAgent:
    """The agent. It says your words back, and can be held while it thinks; `long 900` answers at length."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, str]] = []  # each turn, and what it was to answer
        self.calls = 0
        self.is_holding, self.release = asyncio.Event(), asyncio.Event()
        self.agent = FunctionAgent(self.answer)

    async def answer(self, context: StepContext) -> str:
        self.calls += 1
        if (context.turn, context.message) not in self.heard:
            self.heard.append((context.turn, context.message))
        first, _, rest = context.message.partition(" ")
        if first == ASK:
            return answer_to(await context.ask("Which colour?", COLOURS))
        if first == LONG:
            return unique_words(int(rest))
        if first == GROW:
            context.say(PREVIEW_TEXT)
        if first in (HOLD, GROW):
            self.is_holding.set()
            await self.release.wait()
        return answer_to(context.message)


class CheckContext:
    """What a check works with."""

    def __init__(self, stage: PlatformStage, home: Path, patience: float) -> None:
        self.stage = stage
        self.home = home
        self.patience = patience
        self.echo_agent = EchoAgent()
        self.spies: list[SpyAdapter] = []
        self.webhook_server = WebhookServer()
        self._unused_adapter = stage.adapter()
        self.capabilities = self._unused_adapter.capabilities
        self.takes_posts = self._unused_adapter.takes_posts

    async def open_webhook(self) -> None:
        """Open the door to which the platform posts, if it does."""
        if self.takes_posts:
            await self.webhook_server.open()
            await self.stage.publish(self.webhook_server.url)

    async def close(self) -> None:
        """See that nothing was raised that must not be, and let go of what is left of those who died."""
        await self.webhook_server.close()
        for adapter in [self._unused_adapter, *(seam.inner for seam in self.spies)]:
            await adapter.close()
        offences = [offence for seam in self.spies for offence in seam.violations]
        expect(not offences, f"{offences}")

    # ── gateways ────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def spy(self) -> SpyAdapter:
        """That of the gateway which runs now, or ran last."""
        return self.spies[-1]

    def _adapters(self, halt: HaltPoint | None = None) -> list[Adapter]:
        self.spies.append(SpyAdapter(self.stage.adapter()))
        self.webhook_server.route_to(self.spy)
        if halt is not None:
            self.spy.halts[halt].armed = True
        return [self.spy]

    def _options(self, options: dict[str, Any]) -> dict[str, Any]:
        return {"agent": self.echo_agent.agent, **self.stage.settings, **options}

    @asynccontextmanager
    async def serving(self, *, reached: bool = True, **options: Any) -> AsyncIterator[Gateway]:
        """A gateway that has reached the platform, and is stopped in an orderly way at the end."""
        async with serving(self.home, self._adapters(), **self._options(options)) as gateway:
            if reached:
                await self.wait_until_connected()
            yield gateway
        self.webhook_server.route_to(None)

    @asynccontextmanager
    async def serving_with_faulty_disk(self) -> AsyncIterator[tuple[Gateway, FaultyDatabase]]:
        """The same, and its disk, which can be filled and mended."""
        databases: list[FaultyDatabase] = []

        def wrap(database: Database) -> Database:
            databases.append(FaultyDatabase(database))
            return databases[0]

        async with self.serving(wrap=wrap) as gateway:
            yield gateway, databases[0]

    @asynccontextmanager
    async def crashing(self, halt: HaltPoint | None = None) -> AsyncIterator[Gateway]:
        """A gateway that is killed at the end. Whatever comes to a place of its seam stands still there."""
        async with crashing_at_the_end(self.home, self._adapters(halt), **self._options({})) as gateway:
            await self.wait_until_connected()
            yield gateway
        self.webhook_server.route_to(None)
        await self.stage.died(self.spy.inner)

    # ── what happens ────────────────────────────────────────────────────────────────────────────────────────

    async def say(self, text: str, chat: str = "ann", thread: str | None = None) -> str:
        """Somebody writes; what they are to be answered."""
        await self.stage.write(text, chat, thread)
        return answer_to(text)

    async def wait_until(self, fact: str, probe: Probe) -> None:
        """Wait for a fact."""
        await eventually(fact, probe, self.patience)

    async def wait_until_connected(self) -> None:
        """Wait until the gateway that runs now has reached the platform: what is said now, it can hear."""
        await self.wait_until("the platform is connected to", lambda: self.spy.connected)

    async def wait_for_halt(self, point: HaltPoint) -> None:
        """Wait until something stands still there."""
        await self.wait_until(f"{point.value}", self.spy.halts[point].reached.is_set)

    async def wait_until_quiet(self, gateway: Gateway, *texts: str) -> None:
        """Wait until somebody's words have begun a turn, and nothing is under way any more: now all has come."""
        for text in texts:
            await self.wait_until(f"a turn begins with {text!r}", lambda text=text: self.turn_count(text))
        await self.wait_until("nothing is under way any more", StoreAudit(gateway.store.database).is_idle)

    async def wait_for_receipts(self, gateway: Gateway) -> None:
        """Wait until every message that was sent has its receipt: a death before that would leave it unknown."""

        async def nothing_owed() -> bool:
            return not await gateway.store.outbox.open_deliveries()

        await self.wait_until("every message has its receipt", nothing_owed)

    async def converse(self, gateway: Gateway, text: str, chat: str = "ann", thread: str | None = None) -> str:
        """Somebody writes, and all that is to come of it has come; what they were to be answered."""
        answer = await self.say(text, chat, thread)
        await self.wait_until_quiet(gateway, text)
        return answer

    async def wait_until_confirmed(self) -> None:
        """Wait until the platform keeps nothing for us, if it claims to keep things."""

        async def nothing() -> bool:
            return await self.stage.unconfirmed() == 0

        if self.capabilities.keeps_missed:
            await self.wait_until("what is stored is acknowledged, and would not be handed over again", nothing)

    # ── what is there ───────────────────────────────────────────────────────────────────────────────────────

    def turn_count(self, text: str) -> int:
        """How many turns were begun with these words."""
        return sum(message == text for _, message in self.echo_agent.heard)

    async def texts(self, chat: str = "ann", thread: str | None = None) -> list[str]:
        return [normalize_spaces(seen.text) for seen in await self.stage.seen(chat, thread)]

    async def expect_messages(self, *texts: str, chat: str = "ann", thread: str | None = None) -> None:
        """See that these are our messages there, in this order."""
        there, wanted = await self.texts(chat, thread), [normalize_spaces(text) for text in texts]
        where = chat if thread is None else f"thread {thread} of {chat}"
        expect(there == wanted, f"in {where} people see {there}; expected {wanted}")


def expect(holds: bool, otherwise: str) -> None:
    if not holds:
        raise AssertionError(otherwise)


def require(value: T | None, otherwise: str) -> T:
    """The value, which is expected to be there."""
    if value is None:
        raise AssertionError(otherwise)
    return value

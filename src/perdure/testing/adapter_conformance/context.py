"""Runs one check of the adapter suite on a stage of its own, as a plain test method."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
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
from perdure.testing.adapter_conformance.stage import HaltPoint, PlatformStage, SpyAdapter, WebhookServer
from perdure.testing.faults import FaultyDatabase
from perdure.testing.gateways import crashing_at_the_end, serving
from perdure.testing.waiting import eventually

CLEANUP_SECONDS = 5.0  # seconds that leftover tasks have to end
DEFAULT_PATIENCE_SECONDS = 60.0  # seconds to wait for a promised fact


class AdapterChecks:
    """The base of all parts of the suite."""

    patience = DEFAULT_PATIENCE_SECONDS

    def stage(self, folder: Path) -> PlatformStage:
        """Return a new platform for one check, with nobody connected. The folder is empty and temporary."""
        raise NotImplementedError("give your class a `stage` that makes your platform")


S = TypeVar("S", bound=AdapterChecks)


def adapter_check(body: Callable[[S, CheckContext], Awaitable[None]]) -> Callable[[S], None]:
    """Make a test method of a check."""

    def test(self: S) -> None:
        with tempfile.TemporaryDirectory(prefix="perdure-conformance-") as folder:
            _run_and_clean_up(_run_check(self, body, Path(folder)))

    # By hand: what functools.wraps leaves behind would have pytest look for a fixture named `play`.
    test.__name__, test.__doc__ = body.__name__, body.__doc__
    return test


def _run_and_clean_up(coroutine: Coroutine[None, None, None]) -> None:
    """Run a check and cancel the tasks it left; unlike `asyncio.run`, wait for them a limited time only."""
    loop = asyncio.new_event_loop()
    try:
        loop.run_until_complete(coroutine)
    finally:
        left = asyncio.all_tasks(loop)
        for task in left:
            task.cancel()
        if left:
            loop.run_until_complete(asyncio.wait(left, timeout=CLEANUP_SECONDS))
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()


async def _run_check(suite: S, body: Callable[[S, CheckContext], Awaitable[None]], folder: Path) -> None:
    platform, home = folder / "platform", folder / "home"
    platform.mkdir()
    stage = suite.stage(platform)
    await stage.open()
    try:
        play = CheckContext(stage, home, suite.patience)
        try:
            await play.open_webhook()
            await body(suite, play)
        finally:
            await play.close()
    finally:
        await stage.close()


COLOURS = ("red", "blue")
PREVIEW_TEXT = "It grows"
HOLD, GROW, ASK, LONG = "hold", "grow", "ask", "long"

Probe = Callable[[], Awaitable[object]] | Callable[[], object]
T = TypeVar("T")


def answer_to(text: str) -> str:
    """Return the answer of the suite's agent to a text."""
    return f"You said: {text}"


def unique_words(length: int) -> str:
    """Return a text of at most so many UTF-16 units in which no word occurs twice."""
    text = " ".join(f"word{number}\N{LEAF FLUTTERING IN WIND}" for number in range(length))
    return text[: fitting_length(text, length)].rstrip()


def normalize_spaces(text: str) -> str:
    """Collapse the white space of a text."""
    return " ".join(text.split())


class EchoAgent:
    """The suite's agent. It echoes the text, can be held before it answers, and obeys `long 900`."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, str]] = []  # each turn, and its text
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
    """The stage, the home, the agent and the gateways of one check."""

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
        """Open the webhook server, if the platform posts its events."""
        if self.takes_posts:
            await self.webhook_server.open()
            await self.stage.publish(self.webhook_server.url)

    async def close(self) -> None:
        """Check that no adapter raised an unexpected error, and clean up after crashed gateways."""
        await self.webhook_server.close()
        for adapter in [self._unused_adapter, *(seam.inner for seam in self.spies)]:
            await adapter.close()
        offences = [offence for seam in self.spies for offence in seam.violations]
        expect(not offences, f"{offences}")

    # ── gateways ────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def spy(self) -> SpyAdapter:
        """Return the spy of the newest gateway."""
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
        """Run a gateway, wait until it is connected, and stop it in an orderly way at the end."""
        async with serving(self.home, self._adapters(), **self._options(options)) as gateway:
            if reached:
                await self.wait_until_connected()
            yield gateway
        self.webhook_server.route_to(None)

    @asynccontextmanager
    async def serving_with_faulty_disk(self) -> AsyncIterator[tuple[Gateway, FaultyDatabase]]:
        """Run such a gateway on a database that can be filled and mended."""
        databases: list[FaultyDatabase] = []

        def wrap(database: Database) -> Database:
            databases.append(FaultyDatabase(database))
            return databases[0]

        async with self.serving(wrap=wrap) as gateway:
            yield gateway, databases[0]

    @asynccontextmanager
    async def crashing(self, halt: HaltPoint | None = None) -> AsyncIterator[Gateway]:
        """Run a gateway that is killed at the end. Every call that reaches the halt point stops there."""
        async with crashing_at_the_end(self.home, self._adapters(halt), **self._options({})) as gateway:
            await self.wait_until_connected()
            yield gateway
        self.webhook_server.route_to(None)
        await self.stage.died(self.spy.inner)

    # ── what happens ────────────────────────────────────────────────────────────────────────────────────────

    async def say(self, text: str, chat: str = "ann", thread: str | None = None) -> str:
        """Let a person write a message; return the expected answer."""
        await self.stage.write(text, chat, thread)
        return answer_to(text)

    async def wait_until(self, fact: str, probe: Probe) -> None:
        """Wait for a fact."""
        await eventually(fact, probe, self.patience)

    async def wait_until_connected(self) -> None:
        """Wait until the newest gateway is connected and can receive events."""
        await self.wait_until("the platform is connected to", lambda: self.spy.connected)

    async def wait_for_halt(self, point: HaltPoint) -> None:
        """Wait until a call has stopped at the halt point."""
        await self.wait_until(f"{point.value}", self.spy.halts[point].reached.is_set)

    async def wait_until_quiet(self, gateway: Gateway, *texts: str) -> None:
        """Wait until a message has begun a turn and the store has nothing left to do."""
        for text in texts:
            await self.wait_until(f"a turn begins with {text!r}", lambda text=text: self.turn_count(text))
        await self.wait_until("nothing is under way any more", StoreAudit(gateway.store.database).is_idle)

    async def wait_for_receipts(self, gateway: Gateway) -> None:
        """Wait until every sent message has its receipt: a crash before would leave its outcome unknown."""

        async def nothing_owed() -> bool:
            return not await gateway.store.outbox.open_deliveries()

        await self.wait_until("every message has its receipt", nothing_owed)

    async def converse(self, gateway: Gateway, text: str, chat: str = "ann", thread: str | None = None) -> str:
        """Let a person write, and wait until the gateway is idle; return the expected answer."""
        answer = await self.say(text, chat, thread)
        await self.wait_until_quiet(gateway, text)
        return answer

    async def wait_until_confirmed(self) -> None:
        """Wait until the platform has no unacknowledged event, if it claims to keep missed events."""

        async def nothing() -> bool:
            return await self.stage.unconfirmed() == 0

        if self.capabilities.keeps_missed:
            await self.wait_until("what is stored is acknowledged, and would not be handed over again", nothing)

    # ── what is there ───────────────────────────────────────────────────────────────────────────────────────

    def turn_count(self, text: str) -> int:
        """Count the turns that began with this text."""
        return sum(message == text for _, message in self.echo_agent.heard)

    async def texts(self, chat: str = "ann", thread: str | None = None) -> list[str]:
        return [normalize_spaces(seen.text) for seen in await self.stage.seen(chat, thread)]

    async def expect_messages(self, *texts: str, chat: str = "ann", thread: str | None = None) -> None:
        """Expect exactly these messages of the gateway in a chat, in this order."""
        there, wanted = await self.texts(chat, thread), [normalize_spaces(text) for text in texts]
        where = chat if thread is None else f"thread {thread} of {chat}"
        expect(there == wanted, f"in {where} people see {there}; expected {wanted}")


def expect(holds: bool, otherwise: str) -> None:
    if not holds:
        raise AssertionError(otherwise)


def require(value: T | None, otherwise: str) -> T:
    """Return the value; fail if it is None."""
    if value is None:
        raise AssertionError(otherwise)
    return value

"""Helpers of the shutdown tests: held agents, hanging platforms, and crashes at a fact."""

from __future__ import annotations

import asyncio
import threading
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

from perdure.agents.api import Reply, TurnContext
from perdure.core.address import Address
from perdure.core.messages import Outbound, Receipt
from perdure.runtime.gateway import Gateway
from perdure.store.api import Store
from perdure.store.backends.read_only import open_read_only
from perdure.store.database import Database, Transaction
from perdure.testing import Crash, CrashingDatabase, SimulatedPlatform
from perdure.testing.simulated_platform import SimulatedAdapter
from support.gateway import Person
from support.inprocess import make_gateway
from support.waiting import eventually, wait_for

T = TypeVar("T")


class HeldAgent:
    """An agent that answers a message when the test releases it; it outlives its gateways."""

    def __init__(self) -> None:
        self.started_texts: list[str] = []
        self.seen_texts: list[list[str]] = []  # all texts of people at the beginning of each attempt
        self._gates: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)

    async def run(self, context: TurnContext) -> Reply:
        causes = [cause for view in (*context.history, context.view) for cause in view.causes]
        text = causes[-1].text
        self.seen_texts.append([cause.text for cause in causes])
        self.started_texts.append(text)
        await self._gates[text].wait()
        return Reply(f"{text}: done")

    def release(self, *texts: str) -> None:
        for text in texts:
            self._gates[text].set()

    async def wait_until_started(self, *texts: str) -> None:
        """Wait until the agent has begun to answer all of these."""
        await eventually(f"{texts} are being answered", lambda: set(texts) <= set(self.started_texts))


async def wait_until_stopped(gateway: Gateway) -> None:
    await eventually("the gateway has stopped", lambda: gateway.phase == "stopped")


# ── platforms that hang ─────────────────────────────────────────────────────────────────────────────────────


class HangingPlatform(SimulatedPlatform):
    """A platform with switches: notices and `close` hang or fail, sends hang before or after they take place."""

    def __init__(self, name: str = "simulated", **options: Any) -> None:
        super().__init__(name, **options)
        self.notice_hangs = False
        self.notice_fails: Exception | None = None
        self.close_hangs = False
        self.close_fails: Exception | None = None
        self.hold = ""  # "before" or "after": where a send waits for `send_released`
        self.send_released = asyncio.Event()
        self.notice_texts: list[str] = []
        self.send_texts: list[str] = []

    def adapter(self) -> SimulatedAdapter:
        return _HangingAdapter(self)


class _HangingAdapter(SimulatedAdapter):
    def __init__(self, platform: HangingPlatform) -> None:
        super().__init__(platform)
        self._switches = platform

    async def notice(self, address: Address, text: str) -> None:
        self._switches.notice_texts.append(text)
        if self._switches.notice_fails is not None:
            raise self._switches.notice_fails
        if self._switches.notice_hangs:
            await asyncio.Event().wait()
        await super().notice(address, text)

    async def send(self, outbound: Outbound) -> Receipt:
        self._switches.send_texts.append(outbound.text)
        if self._switches.hold == "before":
            await self._switches.send_released.wait()
        receipt = await super().send(outbound)
        if self._switches.hold == "after":
            await self._switches.send_released.wait()
        return receipt

    async def close(self) -> None:
        if self._switches.close_fails is not None:
            raise self._switches.close_fails
        if self._switches.close_hangs:
            await asyncio.Event().wait()


# ── crashes at a fact ───────────────────────────────────────────────────────────────────────────────────────


class FactCrashingDatabase(CrashingDatabase):
    """Crashes after the first write that makes a fact true: a query then returns a row."""

    def __init__(self, database: Database, fact: str) -> None:
        super().__init__(database)
        self._fact = fact

    async def write(self, transaction: Transaction[T], *, key: str = "", at: int | None = None) -> T:
        result = await super().write(transaction, key=key, at=at)
        if await self.beneath.read(lambda tx: tx.one(self._fact)) is not None:
            self._die()
        return result


@asynccontextmanager
async def crashing_at_fact(
    home: Path, *platforms: SimulatedPlatform, fact: str, **options: Any
) -> AsyncIterator[Gateway]:
    """Run a gateway that crashes at a fact, and wait for the crash at the end."""
    gateway = make_gateway(home, *platforms, wrap=lambda database: FactCrashingDatabase(database, fact), **options)
    running = asyncio.create_task(gateway.run())
    await eventually("the gateway is ready", lambda: running.done() or gateway.phase == "ready")
    try:
        yield gateway
        await eventually(f"the gateway was killed when: {fact}", running.done)
    finally:
        running.cancel()
        await asyncio.wait({running})
    assert isinstance(running.exception(), Crash)


@asynccontextmanager
async def read_only_store(home: Path) -> AsyncIterator[Store]:
    """Open the store of a stopped gateway read-only."""
    store = Store(await open_read_only(f"sqlite:///{home / 'perdure.db'}"))
    try:
        yield store
    finally:
        await store.close()


# ── real processes ──────────────────────────────────────────────────────────────────────────────────────────


class ChatFollower:
    """Follows a chat in the background until the stream ends."""

    def __init__(self, person: Person) -> None:
        self.events: list[tuple[str, str, dict[str, Any]]] = []
        self._thread = threading.Thread(target=self._read, args=(person,), daemon=True)
        self._thread.start()
        wait_for("the stream begins", lambda: self.events)

    def _read(self, person: Person) -> None:
        for event in person.events():
            self.events.append(event)

    def notices(self) -> list[str]:
        return [data["text"] for _, name, data in self.events if name == "notice"]

    def wait_for_end(self) -> None:
        wait_for("the stream ends", lambda: not self._thread.is_alive())

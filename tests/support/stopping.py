"""What the tests of stopping share: agents that wait to be let go of, platforms that hang, crashes at a fact."""

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
from perdure.store.database import Database, Work
from perdure.store.reader import open_reader
from perdure.testing import Crash, CrashingDatabase, SimulatedPlatform
from perdure.testing.platform import SimulatedAdapter
from support.gateway import Person
from support.inprocess import make_gateway
from support.waiting import eventually, wait_for

T = TypeVar("T")


class Held:
    """An agent that answers a message only when it is let go of; it outlives its gateways."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.seen: list[list[str]] = []  # what people had said so far, at the beginning of each attempt
        self._gates: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)

    async def run(self, context: TurnContext) -> Reply:
        causes = [cause for view in (*context.history, context.view) for cause in view.causes]
        text = causes[-1].text
        self.seen.append([cause.text for cause in causes])
        self.begun.append(text)
        await self._gates[text].wait()
        return Reply(f"{text}: done")

    def let_go(self, *texts: str) -> None:
        for text in texts:
            self._gates[text].set()

    async def has(self, *texts: str) -> None:
        """Wait until all of these have been begun."""
        await eventually(f"{texts} are being answered", lambda: set(texts) <= set(self.begun))


async def stopped(gateway: Gateway) -> None:
    await eventually("the gateway has stopped", lambda: gateway.phase == "stopped")


# ── platforms that hang ─────────────────────────────────────────────────────────────────────────────────────


class HangingPlatform(SimulatedPlatform):
    """Its switches make notices hang or fail, sends hang before or after they take place, and closing fail."""

    def __init__(self, name: str = "simulated", **options: Any) -> None:
        super().__init__(name, **options)
        self.notice_hangs = False
        self.notice_fails: Exception | None = None
        self.close_hangs = False
        self.close_fails: Exception | None = None
        self.hold = ""  # "before" or "after": where a send waits for `let_go`
        self.let_go = asyncio.Event()
        self.noticing: list[str] = []
        self.sending: list[str] = []

    def adapter(self) -> SimulatedAdapter:
        return _HangingAdapter(self)


class _HangingAdapter(SimulatedAdapter):
    def __init__(self, platform: HangingPlatform) -> None:
        super().__init__(platform)
        self._switches = platform

    async def notice(self, address: Address, text: str) -> None:
        self._switches.noticing.append(text)
        if self._switches.notice_fails is not None:
            raise self._switches.notice_fails
        if self._switches.notice_hangs:
            await asyncio.Event().wait()
        await super().notice(address, text)

    async def send(self, outbound: Outbound) -> Receipt:
        self._switches.sending.append(outbound.text)
        if self._switches.hold == "before":
            await self._switches.let_go.wait()
        receipt = await super().send(outbound)
        if self._switches.hold == "after":
            await self._switches.let_go.wait()
        return receipt

    async def close(self) -> None:
        if self._switches.close_fails is not None:
            raise self._switches.close_fails
        if self._switches.close_hangs:
            await asyncio.Event().wait()


# ── crashes at a fact ───────────────────────────────────────────────────────────────────────────────────────


class DyingDatabase(CrashingDatabase):
    """Dies right after the first write that makes a fact true: a query then gives a row."""

    def __init__(self, database: Database, fact: str) -> None:
        super().__init__(database)
        self._fact = fact

    async def write(self, work: Work[T], *, key: str = "") -> T:
        result = await super().write(work, key=key)
        if await self.beneath.read(lambda tx: tx.one(self._fact)) is not None:
            self.kill()
            raise Crash
        return result


@asynccontextmanager
async def dying(home: Path, *platforms: SimulatedPlatform, fact: str, **options: Any) -> AsyncIterator[Gateway]:
    """A gateway that is killed by a fact; at the end we wait for that."""
    gateway = make_gateway(home, *platforms, wrap=lambda database: DyingDatabase(database, fact), **options)
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
async def looking_at(home: Path) -> AsyncIterator[Store]:
    """The store of a gateway that is gone, opened only to be read."""
    store = Store(await open_reader(f"sqlite:///{home / 'perdure.db'}"))
    try:
        yield store
    finally:
        await store.close()


# ── real processes ──────────────────────────────────────────────────────────────────────────────────────────


class Watch:
    """Follows a chat in the background until the stream ends."""

    def __init__(self, person: Person) -> None:
        self.told: list[tuple[str, str, dict[str, Any]]] = []
        self._thread = threading.Thread(target=self._read, args=(person,), daemon=True)
        self._thread.start()
        wait_for("the stream begins", lambda: self.told)

    def _read(self, person: Person) -> None:
        for event in person.events():
            self.told.append(event)

    def notices(self) -> list[str]:
        return [data["text"] for _, name, data in self.told if name == "notice"]

    def end(self) -> None:
        wait_for("the stream ends", lambda: not self._thread.is_alive())

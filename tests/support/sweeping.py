"""Sweeps over scenes with people in them: crash at the n-th store call, before and after it, for every n.

A scene knows what people write, how they answer what they are asked, and what they must have seen at the end. Each
point opens the same home in a new gateway, which must bring everything to its end by itself.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from perdure.agents.api import Agent
from perdure.config import load
from perdure.core.journal import Entry, ToolEnded, TurnView, fold
from perdure.core.turn import FINAL
from perdure.errors import Unavailable
from perdure.platforms.api import Capabilities
from perdure.runtime.gateway import Gateway
from perdure.store.api import Store
from perdure.store.database import Database
from perdure.testing import Crash, CrashingDatabase, SettableClock, SimulatedPlatform
from perdure.testing.crashes import crashing
from support.shelling import Commands
from support.waiting import eventually

E = TypeVar("E", bound=Entry)


class World:
    """What outlives a crash: the home, the platform and the people. Subclasses say what happens in it."""

    writes: tuple[str, ...] = ()
    sees: tuple[str, ...] = ()
    turns: int | None = None  # how many there are at the end; None: one for each of the writes
    some = False  # how many there are depends on the instant of the crash
    answers: ClassVar[dict[str, str]] = {}  # what a person writes, by how that begins which they were told
    can = Capabilities(idempotent_send=True, keeps_missed=True)
    settings: ClassVar[dict[str, str]] = {}

    def __init__(self, home: Path) -> None:
        self.home = home
        self.clock = SettableClock()
        self.commands = Commands(home)
        self.platform = SimulatedPlatform(capabilities=self.can)
        self._answered: set[str] = set()
        for text in self.writes:
            self.platform.write(text)

    def agent(self) -> Agent | None:
        """An agent of one's own; None: the built-in one."""
        return None

    def react(self) -> None:
        """People answer what they were asked, each question once; what is lost on the way comes again."""
        for posted in list(self.platform.posted):
            for asked, answer in self.answers.items():
                if posted.text.startswith(asked) and posted.key not in self._answered:
                    self._answered.add(posted.key)
                    self.answer(answer, [button.command for button in posted.buttons])

    def answer(self, words: str, buttons: list[str]) -> None:
        """Write an answer; `#1` presses the first button."""
        if words.startswith("#"):
            self.platform.press(buttons[int(words[1:]) - 1])
        else:
            self.platform.write(words)

    def has_seen(self) -> bool:
        """Whether people see what they must see at the end."""
        return self.platform.replies() == list(self.sees)

    def check(self, views: list[TurnView]) -> None:
        """What else must be true at the end."""

    # ── gateways ────────────────────────────────────────────────────────────────────────────────────────────

    async def run(self, wrap: Callable[[Database], Database] = CrashingDatabase) -> bool:
        """Run a gateway until it crashes (False) or has nothing left to do (True)."""
        self.clock.move(600)  # so that a few crashes are no crash loop
        names = {"RECOVERY__MAX_WITHOUT_PROGRESS": "9", **self.settings}
        settings = load(self.home, {f"PERDURE_{name}": value for name, value in names.items()})
        options: dict[str, Any] = {"wrap": wrap, "clock": self.clock, "agent": self.agent()}
        gateway = Gateway(settings, adapters=[self.platform.adapter()], **options)
        running = asyncio.create_task(gateway.run())
        settled = asyncio.create_task(eventually("everything is answered", lambda: self._settled(gateway)))
        await asyncio.wait({running, settled}, return_when=asyncio.FIRST_COMPLETED)
        if not running.done():
            await self._until_settled(settled)
            gateway.stop()
        else:
            settled.cancel()
        try:
            await running
        except Crash:
            return False
        return True

    async def _until_settled(self, settled: asyncio.Task[bool]) -> None:
        try:
            await settled
        except AssertionError as error:
            raise AssertionError(f"people see {self.platform.replies()}") from error

    async def _settled(self, gateway: Gateway) -> bool:
        self.react()
        if not self.has_seen() or gateway.phase != "ready" or self.platform.pending():
            return False
        # Asked of the database beneath the wrapper: looking at the gateway is no call of the gateway's.
        try:
            return not await open_work(Store(gateway.store.database.beneath))  # type: ignore[attr-defined]
        except Unavailable:
            return False  # it has just crashed

    async def verify(self) -> None:
        """Everything was answered once, and the store tells so."""
        assert self.has_seen(), self.platform.replies()
        gateway = Gateway(load(self.home, {}), adapters=[], clock=self.clock)
        running = asyncio.create_task(gateway.run())
        await eventually("the store is open", lambda: gateway.phase == "ready")
        views = await turns_of(gateway.store)
        gateway.stop()
        await running
        wanted = len(self.writes) if self.turns is None else self.turns
        assert self.some or len(views) == wanted, "a phantom turn"
        for view in views:
            check_turn(view)
        self.check(views)


def check_turn(view: TurnView) -> None:
    """A turn is at its end, and each of its calls has one result."""
    assert view.state in FINAL
    assert not view.open_calls, "a call without result"
    results = Counter(entry.call for entry in entries_of(view, ToolEnded))
    assert all(count == 1 for count in results.values()), "a call with two results"
    for call in view.calls.values():
        assert call.started is not None, "a result of a call that was never begun"


def entries_of(view: TurnView, kind: type[E]) -> list[E]:
    return [record.entry for record in view.records if isinstance(record.entry, kind)]


async def turns_of(store: Store) -> list[TurnView]:
    return [
        fold(await store.journal.of_turn(turn.session, turn.id))
        for session in await store.sessions.page()
        for turn in await store.turns.of_session(session.id)
    ]


async def open_work(store: Store) -> list[str]:
    """Whatever is not at its end."""
    turns = [turn for session in await store.sessions.page() for turn in await store.turns.of_session(session.id)]
    return [
        *(row.id for row in await store.outbox.open()),
        *(turn.id for turn in turns if turn.state not in FINAL),
    ]


async def sweep(make: Callable[[str], World], sides: Sequence[bool] = (False, True)) -> int:
    """Crash before (False) or after each call until a run survives; how many points there were."""
    points = 0
    for after in sides:
        at = 1
        while True:
            world = make(f"{'after' if after else 'before'}-{at}")
            survived = await world.run(crashing(at, after=after))
            if not survived:
                assert await world.run()
            await world.verify()
            if survived:
                break
            points += 1
            at += 1
    return points

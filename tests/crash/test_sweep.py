"""The sweep: crash at the n-th store call, before and after, for every n until a run survives.

Each point opens the same database file in a new gateway, which must bring everything to its end by itself:
nothing lost, nothing repeated, no phantom turn, every turn final.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

import pytest
from msgspec import Struct

from perdure.config import load
from perdure.core.effects import Effect
from perdure.core.journal import Entry, ToolEnded, TurnView, fold
from perdure.core.turn import FINAL
from perdure.errors import Unavailable
from perdure.platforms.api import Capabilities
from perdure.runtime.gateway import Gateway
from perdure.store.api import Store
from perdure.store.database import Database
from perdure.testing import Crash, CrashingDatabase, SettableClock, SimulatedPlatform
from perdure.testing.crashes import crashing
from support.stopping import DyingDatabase
from support.waiting import eventually

E = TypeVar("E", bound=Entry)

# How many calls a scenario makes depends a little on how its tasks are scheduled: the floor is a fifth lower.
RECORDED = json.loads(Path(__file__).with_name("points.json").read_text())


class Scenario(Struct, frozen=True):
    """What people write, and what they must see: per chat, in order."""

    name: str
    writes: tuple[tuple[str, str], ...]
    sees: dict[str, list[str]]
    max_length: int | None = None
    redeliver: int = 0


SCENARIOS = [
    Scenario("plain", (("1", "say: hello"),), {"1": ["hello"]}),
    Scenario("steps", (("1", "step a 0s\nonce b 0s\nsay: done"),), {"1": ["done"]}),
    Scenario("parallel", (("1", "parallel: a, b, c\nsay: done"),), {"1": ["done"]}),
    Scenario("failure", (("1", "step a 0s\nfail: no credit"),), {"1": ["I could not finish this: no credit"]}),
    Scenario("a queue", (("1", "say: one"), ("1", "once b 0s\nsay: two")), {"1": ["one", "two"]}),
    Scenario("two sessions", (("1", "once b 0s\nsay: one"), ("2", "say: two")), {"1": ["one"], "2": ["two"]}),
    Scenario("parts", (("1", "say: one two three"),), {"1": ["one", "two", "three"]}, max_length=5),
    Scenario("redelivery", (("1", "say: hello"),), {"1": ["hello"]}, redeliver=1),
]


class World:
    """What outlives a crash: the home directory and the platform."""

    def __init__(self, home: Path, scenario: Scenario) -> None:
        self.home = home
        self.scenario = scenario
        self.clock = SettableClock()
        can = Capabilities(idempotent_send=True, keeps_missed=True, max_length=scenario.max_length)
        self.platform = SimulatedPlatform(capabilities=can)
        self.platform.redeliver = scenario.redeliver
        for chat, text in scenario.writes:
            self.platform.write(text, chat=chat)

    async def run(self, wrap: Callable[[Database], Database] = CrashingDatabase) -> bool:
        """Run a gateway until it crashes (False) or has nothing left to do (True)."""
        self.clock.move(600)  # so that a few crashes are no crash loop
        settings = load(self.home, {"PERDURE_RECOVERY__MAX_WITHOUT_PROGRESS": "9"})
        gateway = Gateway(settings, adapters=[self.platform.adapter()], wrap=wrap, clock=self.clock)
        running = asyncio.create_task(gateway.run())
        settled = asyncio.create_task(eventually("everything is answered", lambda: self.settled(gateway)))
        await asyncio.wait({running, settled}, return_when=asyncio.FIRST_COMPLETED)
        if not running.done():
            await settled
            gateway.stop()
        else:
            settled.cancel()
        try:
            await running
        except Crash:
            return False
        return True

    async def settled(self, gateway: Gateway) -> bool:
        """People see what they must see, and the gateway has nothing left to do."""
        seen = {chat: self.platform.replies(chat) for chat in self.scenario.sees}
        if seen != self.scenario.sees or gateway.phase != "ready" or self.platform.pending():
            return False
        # Asked of the database beneath the wrapper: looking at the gateway is no call of the gateway's.
        try:
            return not await open_work(Store(gateway.store.database.beneath))  # type: ignore[attr-defined]
        except Unavailable:
            return False  # it has just crashed

    async def check(self) -> None:
        """Everything was answered once, and the store tells so."""
        for chat, texts in self.scenario.sees.items():
            assert self.platform.replies(chat) == texts
        assert not self.platform.pending(), "a message was never acknowledged"
        gateway = Gateway(load(self.home, {}), adapters=[], clock=self.clock)
        running = asyncio.create_task(gateway.run())
        await eventually("the store is open", lambda: gateway.phase == "ready")
        await self._check_store(gateway.store)
        gateway.stop()
        await running

    def _runs(self) -> Counter[str]:
        """How often each call really ran, by its key."""
        trace = self.home / "rehearsal.log"
        return Counter(line.split()[1] for line in (trace.read_text() if trace.exists() else "").splitlines())

    async def _check_store(self, store: Store) -> None:
        turns = [
            turn for session in await store.sessions.page() for turn in await store.turns.of_session(session.id)
        ]
        assert len(turns) == len(self.scenario.writes), "a phantom turn"
        assert not await store.outbox.open()
        for turn in turns:
            view = fold(await store.journal.of_turn(turn.session, turn.id))
            assert view.state == turn.state, "the row is not the fold of its journal"
            assert turn.state in FINAL
            assert not view.open_calls, "a call without result"
            results = Counter(entry.call for entry in entries_of(view, ToolEnded))
            assert all(count == 1 for count in results.values()), "a call with two results"
            for call in view.calls.values():
                assert call.started is not None
                assert call.ended is not None
                ran = self._runs()[call.started.key]
                assert ran >= (call.ended.outcome == "ok"), "a result of a call that never ran"
                if call.started.effect is Effect.ONCE:
                    assert ran <= 1, "a `once` call ran twice"


def entries_of(view: TurnView, kind: type[E]) -> list[E]:
    return [record.entry for record in view.records if isinstance(record.entry, kind)]


async def open_work(store: Store) -> list[str]:
    """Whatever is not at its end."""
    turns = [turn for session in await store.sessions.page() for turn in await store.turns.of_session(session.id)]
    return [
        *(row.id for row in await store.outbox.open()),
        *(turn.id for turn in turns if turn.state not in FINAL),
    ]


async def sweep(make: Callable[[str], World], before: Sequence[str] = ()) -> int:
    """Crash at every point until a run survives, after crashes by the given facts; how many points there were."""
    points = 0
    for after in (False, True):
        at = 1
        while True:
            world = make(f"{'after' if after else 'before'}-{at}")
            for fact in before:
                assert not await world.run(partial(DyingDatabase, fact=fact))
            survived = await world.run(crashing(at, after=after))
            if not survived:
                assert await world.run()
            await world.check()
            if survived:
                break
            points += 1
            at += 1
    return points


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_nothing_is_lost_or_repeated_when_killed_at_any_store_call(scenario: Scenario, tmp_path: Path) -> None:
    """B40, B46, B60, B62, B64, B70, B71, B73, B75: one scenario, every point."""
    points = asyncio.run(sweep(lambda name: World(tmp_path / name, scenario)))
    print(f"sweep {scenario.name}: {points} points")
    assert points >= RECORDED[scenario.name], "the sweep lost points: it no longer reaches what it did"


IN_A_STEP = "SELECT 1 FROM journal WHERE kind = 'tool_started'"
GOING_ON = "SELECT 1 FROM turns WHERE state = 'running' AND attempt = 2"


@pytest.mark.parametrize(
    ("name", "before"),
    [
        pytest.param("recovery", [IN_A_STEP], id="recovery"),
        pytest.param("recovery of the recovery", [IN_A_STEP, GOING_ON], id="recovery of the recovery"),
    ],
)
def test_nothing_is_lost_or_repeated_when_killed_again_while_recovering(
    name: str, before: list[str], tmp_path: Path
) -> None:
    points = asyncio.run(sweep(lambda place: World(tmp_path / place, SCENARIOS[1]), before))
    print(f"sweep {name}: {points} points")
    assert points >= RECORDED[name]

"""The crash sweep: crashes a scenario before and after every call to the store, the platform and the model.

A scenario defines what people write, how they answer questions, and what they must have seen at the end.
After each crash a new gateway opens the same home and must finish everything by itself:
nothing lost, nothing repeated, no phantom turn, every turn final.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import ClassVar, TypeVar

from msgspec import Struct, field

from perdure.agents.api import Agent
from perdure.config import load_settings
from perdure.core import texts
from perdure.core.effects import Effect
from perdure.core.journal import Entry, ToolEnded, TurnView, fold
from perdure.core.states import FINAL_STATES
from perdure.errors import Unavailable
from perdure.platforms.api import Capabilities
from perdure.runtime.gateway import Gateway
from perdure.store.api import Store
from perdure.testing import Crash, SettableClock, SimulatedPlatform
from support.crash_moment import CrashMoment, crash_moment_of
from support.fault_injection import CrashInjector, InterceptedAdapter, InterceptedDatabase, InterceptedModel
from support.shell_commands import ShellCommands
from support.shutdown import read_only_store
from support.waiting import eventually

E = TypeVar("E", bound=Entry)

KILL_NOTICE_SECONDS = 10.0  # seconds after which a crashed gateway is cancelled
DUPLICATE_MARK = texts.delivery.maybe_duplicate("").strip()


class CrashScenario:
    """The home, the platform and the people, which outlive a crash. Subclasses define the messages and checks."""

    name: ClassVar[str]
    writes: tuple[str, ...] = ()
    sees: tuple[str, ...] = ()
    turns: int | None = None  # number of turns at the end; None: one for each message
    any_turn_count = False  # the number of turns depends on the moment of the crash
    answers: ClassVar[dict[str, str]] = {}  # answers of people, by the beginning of the question
    can = Capabilities(idempotent_send=True, keeps_missed=True)
    settings: ClassVar[dict[str, str]] = {}
    quiet = True  # without a crash, nothing is noticed
    earlier_crash_facts: tuple[str, ...] = ()  # facts at which earlier gateways crash, one after the other

    def __init__(self, home: Path) -> None:
        self.home = home
        self.clock = SettableClock()
        self.commands = ShellCommands(home)
        self.platform = SimulatedPlatform(capabilities=self.can)
        self._answered: set[str] = set()
        self._gateway: Gateway | None = None
        self.begin()

    @classmethod
    @contextmanager
    def scenario_factory(cls, folder: Path) -> Iterator[Callable[[str], CrashScenario]]:
        """Yield a function that makes the scenario in a subfolder, with the servers that it needs."""
        yield lambda name: cls(folder / name)

    def begin(self) -> None:
        """Let people write their messages."""
        for text in self.writes:
            self.platform.write(text)

    def agent(self) -> Agent | None:
        """Return a custom agent, or None for the built-in one."""
        return None

    @property
    def gateway(self) -> Gateway:
        assert self._gateway is not None, "no gateway runs"
        return self._gateway

    def react(self) -> None:
        """Let people answer the questions, each once; a lost answer is repeated."""
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
        """Tell whether people see the expected replies."""
        return self.platform.replies() == list(self.sees)

    async def is_over(self, store: Store) -> bool:
        """Tell whether the store has nothing left to do."""
        return not await open_rows(store)

    def check(self, views: list[TurnView]) -> None:
        """Check more facts about the turns at the end."""

    async def check_store(self, store: Store) -> None:
        """Check more facts about the store at the end."""

    # ── gateways ────────────────────────────────────────────────────────────────────────────────────────────

    async def run(self, injector: CrashInjector) -> bool:
        """Run a gateway until it crashes, is stopped, or is idle (True)."""
        self.clock.move(600)  # so that a few crashes are no crash loop
        self._gateway = self._make_gateway(injector)
        running = asyncio.create_task(self.gateway.run())
        settled = asyncio.create_task(eventually("everything is answered", self.is_settled))
        burnt = asyncio.create_task(injector.triggered.wait())
        await asyncio.wait({running, settled, burnt}, return_when=asyncio.FIRST_COMPLETED)
        over = settled.done() and not injector.triggered.is_set()
        if over:
            self.gateway.stop()
        settled.cancel()
        burnt.cancel()
        if injector.triggered.is_set() and not (await asyncio.wait({running}, timeout=KILL_NOTICE_SECONDS))[0]:
            running.cancel()  # end a gateway that waits for something
            await asyncio.wait({running})
            await self.gateway.store.close()  # close its files, as the kernel would
        try:
            await running
        except (Crash, asyncio.CancelledError):
            over = False
        if over and settled.exception() is not None:
            raise AssertionError(f"people see {self.platform.replies()}") from settled.exception()
        return over

    def _make_gateway(self, injector: CrashInjector) -> Gateway:
        names = {"RECOVERY__MAX_WITHOUT_PROGRESS": "9", **self.settings}
        settings = load_settings(self.home, {f"PERDURE_{name}": value for name, value in names.items()})
        return Gateway(
            settings,
            adapters=[InterceptedAdapter(self.platform, injector)],
            agent=self.agent(),
            clock=self.clock,
            wrap=lambda database: InterceptedDatabase(database, injector),
            wrap_model=lambda model: InterceptedModel(model, injector),
        )

    async def is_settled(self) -> bool:
        self.react()
        if not self.has_seen() or self.gateway.phase != "ready" or self.platform.pending():
            return False
        # Read from the database beneath the injector: this read is no call of the gateway.
        try:
            return await self.is_over(Store(self.gateway.store.database.beneath))  # type: ignore[attr-defined]
        except Unavailable:
            return False  # it has just crashed

    # ── afterwards ──────────────────────────────────────────────────────────────────────────────────────────

    def runs(self) -> Counter[str]:
        """Count the runs of each step, by the key of its call."""
        trace = self.home / "rehearsal.log"
        return Counter(line.split()[1] for line in (trace.read_text() if trace.exists() else "").splitlines())

    async def verify(self) -> list[TurnView]:
        """Check that everything was answered once, in the chats and in the store."""
        assert self.has_seen(), self.platform.replies()
        assert not self.platform.pending(), "a message was never acknowledged"
        self._check_deliveries()
        async with read_only_store(self.home) as store:
            views = await all_turn_views(store)
            assert not await store.outbox.open_deliveries(), "something is still owed"
            await self.check_store(store)
        wanted = len(self.writes) if self.turns is None else self.turns
        assert self.any_turn_count or len(views) == wanted, "a phantom turn"
        for view in views:
            check_turn(view)
            self._check_runs(view)
        self.check(views)
        return views

    def _check_deliveries(self) -> None:
        """Check that each delivery key occurs once, or again with a mark where duplicates go undetected."""
        for key, count in Counter(posted.key for posted in self.platform.posted).items():
            texts = [posted.text for posted in self.platform.posted if posted.key == key]
            can_tell = self.can.idempotent_send or self.can.read_back
            assert count == 1 or not can_tell, f"{texts} were delivered with one key"
            assert sum(DUPLICATE_MARK not in text for text in texts) <= 1, f"{texts} are not marked"

    def _check_runs(self, view: TurnView) -> None:
        runs = self.runs()
        for call in view.calls.values():
            if call.request.tool in ("step", "once") and call.started and call.ended:
                ran = runs[call.started.key]
                assert ran >= (call.ended.outcome == "ok"), "a result of a call that never ran"
                assert ran <= 1 or call.started.effect is not Effect.ONCE, "a `once` call ran twice"

    def noticed(self, views: list[TurnView]) -> set[str]:
        """Return what a person, the model or a tool can notice of the crash."""
        ends = [entry for view in views for entry in entries_of(view, ToolEnded)]
        found = {
            "unknown": any(entry.outcome == "unknown" for entry in ends),
            "again": any(count > 1 for count in self.runs().values()),
            "marked": any(DUPLICATE_MARK in posted.text for posted in self.platform.posted),
        }
        return {name for name, true in found.items() if true}


def check_turn(view: TurnView) -> None:
    """Check that a turn is final, and that each of its calls has one result."""
    assert view.state in FINAL_STATES
    assert not view.open_calls, "a call without result"
    results = Counter(entry.call for entry in entries_of(view, ToolEnded))
    assert all(count == 1 for count in results.values()), "a call with two results"
    for call in view.calls.values():
        assert call.started is not None, "a result of a call that was never begun"


def entries_of(view: TurnView, kind: type[E]) -> list[E]:
    return [record.entry for record in view.records if isinstance(record.entry, kind)]


async def all_turn_views(store: Store) -> list[TurnView]:
    """Return every turn; check that each row equals the fold of its journal."""
    views = []
    for session in await store.sessions.page():
        for turn in await store.turns.of_session(session.id):
            views.append(fold(await store.journal.of_turn(turn.session, turn.id)))
            assert views[-1].state == turn.state, "the row is not the fold of its journal"
    return views


async def open_rows(store: Store) -> list[str]:
    """Return the ids of unsent replies and unfinished turns."""
    turns = [turn for session in await store.sessions.page() for turn in await store.turns.of_session(session.id)]
    return [
        *(row.id for row in await store.outbox.open_deliveries()),
        *(turn.id for turn in turns if turn.state not in FINAL_STATES),
    ]


# ── the sweep itself ────────────────────────────────────────────────────────────────────────────────────────

MAX_RESTARTS = 2  # restarts that a planned stop after the crash needs


class SweepResult(Struct):
    """The counts of a sweep."""

    calls: dict[str, int] = field(default_factory=dict)  # calls of a gateway without a crash, by kind
    moments: Counter[CrashMoment] = field(default_factory=Counter)  # number of points at each moment
    # Number of points at which something was noticed.
    noticed: dict[str, Counter[CrashMoment]] = field(default_factory=dict)

    @property
    def points(self) -> int:
        return self.moments.total()


async def run_crash_points(make: Callable[[str], CrashScenario], *, every: int = 1, first: int = 0) -> SweepResult:
    """Crash at every n-th point, until a run survives."""
    swept = SweepResult(calls=await _count_calls(make("unharmed")))
    # Before and after each call; the number of calls depends a little on the scheduling of tasks.
    point = first
    while await _crash_at_point(
        make(f"point-{point}"), CrashInjector(1 + point // 2, after=bool(point % 2)), swept
    ):
        point += every
    return swept


async def _count_calls(scenario: CrashScenario) -> dict[str, int]:
    """Count the calls of a gateway that is not crashed."""
    await _run_earlier_crashes(scenario)
    injector = CrashInjector()
    await _run_to_end(scenario, over=await scenario.run(injector))
    noticed = scenario.noticed(await scenario.verify())
    assert not (noticed and scenario.quiet) or scenario.earlier_crash_facts, (
        "something was noticed, and nothing happened"
    )
    return dict(Counter(injector.calls))


async def _crash_at_point(scenario: CrashScenario, injector: CrashInjector, result: SweepResult) -> bool:
    """Crash at one point; False if the gateway finished before it."""
    await _run_earlier_crashes(scenario)
    over = await scenario.run(injector)
    crashed = injector.triggered.is_set()
    moment = await crash_moment_of(scenario.home) if crashed else CrashMoment.OVER
    try:
        await _run_to_end(scenario, over=over)
        views = await scenario.verify()
    except AssertionError as error:
        error.add_note(
            f"killed at call {len(injector.calls)} ({injector.calls[-1]}) of {scenario.home.name}: {moment}"
        )
        raise
    if crashed:
        result.moments[moment] += 1
        for noticed in scenario.noticed(views):
            result.noticed.setdefault(noticed, Counter())[moment] += 1
    return crashed


async def _run_to_end(scenario: CrashScenario, *, over: bool) -> None:
    """Start gateways without crashes until everything is done; people may stop one of them."""
    for _ in range(MAX_RESTARTS):
        over = over or await scenario.run(CrashInjector())
    assert over, "it was not brought to its end"


async def _run_earlier_crashes(scenario: CrashScenario) -> None:
    for fact in scenario.earlier_crash_facts:
        injector = CrashInjector(fact=fact)
        await scenario.run(injector)
        assert injector.triggered.is_set(), f"never came true: {fact}"


def run_sweep(scenario: type[CrashScenario], folder: Path, *, every: int = 1, first: int = 0) -> SweepResult:
    """Run the sweep over a scenario."""
    with scenario.scenario_factory(folder) as make:
        return asyncio.run(partial(run_crash_points, make, every=every, first=first)())

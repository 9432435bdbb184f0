"""Long work and long silence: people hear that it goes on, are warned when nothing is heard, and it is ended.

Drives `runtime/inactivity_watch` and `core/inactivity`.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from perdure.agents.api import Reply, TurnContext
from perdure.agents.builtin_agent import BuiltinAgent
from perdure.agents.offline_model import OfflineModel
from perdure.core import texts
from perdure.core.address import Address
from perdure.core.effects import Effect
from perdure.core.journal import ModelAnswered, ToolCall, ToolEnded, ToolStarted, TurnFailed
from perdure.core.states import TurnState
from perdure.core.tools import Tool, Use
from perdure.platforms.api import Capabilities
from perdure.runtime.gateway import Gateway
from perdure.store.database import Database
from perdure.testing import FaultyDatabase, SettableClock, SimulatedPlatform
from perdure.testing.simulated_platform import SimulatedAdapter
from support.chat_folders import chat_workspace
from support.inprocess import crashing_at_the_end, serving
from support.recovery import key_of, last_turn, turn_views
from support.waiting import eventually

pytestmark = pytest.mark.anyio

PERIOD, WARNING, LIMIT = 180, 900, 1800
STILL = "I am still working on it: the step dig for {}."


class Digger:
    """An agent in a long step: it goes on, gives signs of life and ends when it is told to."""

    def __init__(self) -> None:
        self.digging: list[TurnContext] = []
        self._ends: asyncio.Queue[str] = asyncio.Queue()

    async def run(self, context: TurnContext) -> Reply:
        if "dig" not in context.view.calls:
            wish = ModelAnswered(1, "", (ToolCall("dig", "dig", {}),), "tool_calls")
            await context.append(wish, ToolStarted("dig", "dig", Effect.ONCE, "k"))
        self.digging.append(context)
        text = await self._ends.get()
        if not context.view.calls["dig"].ended:
            await context.append(ToolEnded("dig", "ok", "a hole"))
        return Reply(text)

    def finish(self, text: str = "dug") -> None:
        self._ends.put_nowait(text)

    async def digs(self, times: int = 1) -> TurnContext:
        await eventually(f"attempt {times} digs", lambda: len(self.digging) == times)
        return self.digging[-1]


def editing() -> SimulatedPlatform:
    return SimulatedPlatform(capabilities=Capabilities(idempotent_send=True, keeps_missed=True, edit=True))


async def sees(platform: SimulatedPlatform, *texts: str) -> None:
    await eventually(f"the chat sees {texts}", lambda: platform.replies() == list(texts))


class Clocks:
    """One clock for both: what time it is, and how much has passed."""

    def __init__(self) -> None:
        self.clock = SettableClock()
        self.options = {"clock": self.clock, "steady": self.clock}

    def move(self, seconds: float) -> None:
        self.clock.move(seconds)


# ── it still works ──────────────────────────────────────────────────────────────────────────────────────────


async def test_b82_notice_is_edited_in_place_where_the_platform_can(tmp_path: Path) -> None:
    platform, agent, clocks = editing(), Digger(), Clocks()
    async with serving(tmp_path, platform, agent=agent, **clocks.options):
        platform.write("dig")
        context = await agent.digs()
        for minutes in (3, 6, 9):
            clocks.move(PERIOD)
            await sees(platform, STILL.format(f"{minutes} min"))
            context.alive()
        agent.finish()
        await sees(platform, STILL.format("9 min"), "dug")


async def test_b82_notice_comes_once_a_period_where_nothing_can_be_edited(tmp_path: Path) -> None:
    platform, agent, clocks = SimulatedPlatform(), Digger(), Clocks()
    async with serving(tmp_path, platform, agent=agent, **clocks.options):
        platform.write("dig")
        await agent.digs()
        clocks.move(PERIOD)
        await sees(platform, STILL.format("3 min"))
        clocks.move(PERIOD)
        await sees(platform, STILL.format("3 min"), STILL.format("6 min"))
        agent.finish()
        await sees(platform, STILL.format("3 min"), STILL.format("6 min"), "dug")


async def test_b82_nothing_is_stored_of_a_notice(tmp_path: Path) -> None:
    platform, agent, clocks = editing(), Digger(), Clocks()
    async with serving(tmp_path, platform, agent=agent, **clocks.options) as gateway:
        platform.write("dig")
        await agent.digs()
        clocks.move(PERIOD)
        await sees(platform, STILL.format("3 min"))
        assert await gateway.store.outbox.open_deliveries() == []
        assert len(await gateway.store.inbox.chat_messages(key_of(platform), 0)) == 1
        agent.finish()
        await sees(platform, STILL.format("3 min"), "dug")


async def test_b82_new_turn_has_a_notice_of_its_own(tmp_path: Path) -> None:
    """The one of the turn that was replaced says nothing more, though its code goes on."""
    platform, clocks = editing(), Clocks()
    stubborn = Stubborn()
    async with serving(tmp_path, platform, agent=stubborn, **clocks.options):
        platform.write("first")
        await eventually("the first runs", lambda: len(stubborn.running) == 1)
        clocks.move(PERIOD)
        await eventually("it has its notice", lambda: len(platform.replies()) == 1)
        platform.write("/stop")
        platform.write("second")
        await eventually("the second runs", lambda: len(stubborn.running) == 2, timeout=60)
        first, *others = platform.replies()
        assert others == ["Stopped."]
        clocks.move(PERIOD)
        await eventually("the second has its notice", lambda: len(platform.replies()) == 3)
        assert platform.replies()[:2] == [first, "Stopped."]
        stubborn.over.set()
        await eventually("the second is answered", lambda: platform.replies()[-1:] == ["second"])


class Stubborn:
    """An agent that does not let itself be stopped."""

    def __init__(self) -> None:
        self.running: list[TurnContext] = []
        self.over = asyncio.Event()

    async def run(self, context: TurnContext) -> Reply:
        self.running.append(context)
        while not self.over.is_set():
            try:
                await self.over.wait()
            except asyncio.CancelledError:
                continue
        return Reply(context.view.causes[0].text)


async def test_b82_next_attempt_has_a_notice_of_its_own_after_a_crash(tmp_path: Path) -> None:
    platform, agent, clocks = editing(), Digger(), Clocks()
    async with crashing_at_the_end(tmp_path, platform, agent=agent, **clocks.options):
        platform.write("dig")
        await agent.digs()
        clocks.move(PERIOD)
        await sees(platform, STILL.format("3 min"))
    async with serving(tmp_path, platform, agent=agent, **clocks.options):
        await agent.digs(2)
        clocks.move(PERIOD)
        await eventually("it has a notice again", lambda: len(platform.replies()) == 2)
        agent.finish()
        await eventually("it is answered", lambda: platform.replies()[2:] == ["dug"])


async def test_b82_notice_begins_anew_when_the_old_one_was_deleted(tmp_path: Path) -> None:
    platform, agent, clocks = editing(), Digger(), Clocks()
    async with serving(tmp_path, platform, agent=agent, **clocks.options) as gateway:
        platform.write("dig")
        context = await agent.digs()
        clocks.move(PERIOD)
        await sees(platform, STILL.format("3 min"))
        platform.posted.clear()
        for seen in ([], [STILL.format("9 min")]):  # the first try finds out that it is not there
            context.alive()
            clocks.move(PERIOD)
            await look(gateway)
            assert platform.replies() == seen
        agent.finish()
        await sees(platform, STILL.format("9 min"), "dug")


async def test_b82_answer_waits_for_a_notice_under_way_and_not_for_one_that_hangs(tmp_path: Path) -> None:
    platform, agent, clocks = SimulatedPlatform(), Digger(), Clocks()
    asked = asyncio.Event()

    class Hanging(SimulatedAdapter):
        async def notice(self, address: Address, text: str) -> None:
            asked.set()
            await asyncio.Event().wait()

    platform.adapter = lambda: Hanging(platform)  # type: ignore[method-assign]  # the platform as this test sees it
    async with serving(tmp_path, platform, agent=agent, **clocks.options):
        platform.write("dig")
        await agent.digs()
        clocks.move(PERIOD)
        await eventually("the notice hangs", asked.is_set)
        agent.finish()
        await sees(platform, "dug")


async def test_b82_nothing_is_said_of_a_turn_that_has_ended(tmp_path: Path) -> None:
    platform, agent, clocks = SimulatedPlatform(), Digger(), Clocks()
    async with serving(tmp_path, platform, agent=agent, **clocks.options) as gateway:
        platform.write("dig")
        await agent.digs()
        agent.finish()
        await sees(platform, "dug")
        clocks.move(LIMIT)
        await look(gateway)
        assert platform.replies() == ["dug"]


async def test_b82_b83_nothing_is_said_or_ended_when_all_is_switched_off(tmp_path: Path) -> None:
    platform, agent, clocks = SimulatedPlatform(), Digger(), Clocks()
    off = {"NOTIFY__STILL_WORKING": "0", "TURN__INACTIVITY_WARNING": "0", "TURN__INACTIVITY_LIMIT": "0"}
    async with serving(tmp_path, platform, agent=agent, **clocks.options, **off) as gateway:
        platform.write("dig")
        await agent.digs()
        clocks.move(100 * LIMIT)
        await look(gateway)
        agent.finish()
        await sees(platform, "dug")


async def look(gateway: Gateway) -> None:
    """Let the watchers look now, and say what they have to say."""
    gateway.loops.inactivity_watch.check()
    attempts = [running.attempt for running in gateway.loops.runner.running.values()]
    await eventually("it is said", lambda: not any(each.display.notice_under_way for each in attempts))


# ── nothing is heard of it ──────────────────────────────────────────────────────────────────────────────────

WARNED = texts.turns.inactivity_warning(WARNING * 1000, LIMIT * 1000)
ENDED = texts.turns.failed(texts.turns.ended_by_inactivity(["dig"], LIMIT * 1000))
QUIET = {"NOTIFY__STILL_WORKING": "0"}


async def test_b83_silence_warns_once_and_then_ends_the_turn(tmp_path: Path) -> None:
    platform, agent, clocks = SimulatedPlatform(), Digger(), Clocks()
    async with serving(tmp_path, platform, agent=agent, **clocks.options, **QUIET) as gateway:
        platform.write("dig")
        await agent.digs()
        clocks.move(WARNING)
        await sees(platform, WARNED)
        clocks.move(LIMIT - WARNING - 10)
        await look(gateway)
        assert platform.replies() == [WARNED]
        clocks.move(10)
        await sees(platform, WARNED, ENDED)
        turn = await last_turn(gateway.store, key_of(platform))
        assert (turn.state, turn.ended) == (
            TurnState.FAILED,
            TurnFailed(texts.turns.ended_by_inactivity(["dig"], LIMIT * 1000)),
        )
        ended = turn.calls["dig"].ended
        assert ended is not None
        assert ended.outcome == "cancelled", "a call without a result"
        platform.write("dig again")
        await agent.digs(2)
        agent.finish("dug after all")
        await sees(platform, WARNED, ENDED, "dug after all")


@pytest.mark.parametrize("sign", ["journal", "answer", "output"])
async def test_b83_any_sign_of_life_begins_the_silence_anew(tmp_path: Path, sign: str) -> None:
    """Elapsed time alone ends nothing: this turn takes five hours."""
    platform, agent, clocks = SimulatedPlatform(), Digger(), Clocks()
    async with serving(tmp_path, platform, agent=agent, **clocks.options, **QUIET) as gateway:
        platform.write("dig")
        context = await agent.digs()
        for step in range(20):
            clocks.move(WARNING - 10)
            await look(gateway)
            match sign:
                case "journal":
                    await context.append(ToolStarted(f"look{step}", "look", Effect.PURE, "k"))
                case "answer":
                    context.show(f"so far {step}")
                case _:
                    context.alive()
        agent.finish()
        await sees(platform, "dug")


async def test_b83_new_silence_is_warned_of_again(tmp_path: Path) -> None:
    platform, agent, clocks = SimulatedPlatform(), Digger(), Clocks()
    async with serving(tmp_path, platform, agent=agent, **clocks.options, **QUIET):
        platform.write("dig")
        context = await agent.digs()
        clocks.move(WARNING)
        await sees(platform, WARNED)
        context.alive()
        clocks.move(WARNING)
        await sees(platform, WARNED, WARNED)
        agent.finish()
        await sees(platform, WARNED, WARNED, "dug")


async def test_b83_output_of_a_tool_is_a_sign_of_life(tmp_path: Path) -> None:
    platform, clocks, bench = SimulatedPlatform(), Clocks(), Talkative()
    async with serving(tmp_path, platform, agent=bench.agent, **clocks.options, **QUIET) as gateway:
        platform.write("step talk 0s")
        await eventually("the tool runs", lambda: bench.uses)
        for _ in range(5):
            clocks.move(LIMIT - 10)
            bench.uses[0].alive()
            await look(gateway)
        bench.done.set()
        await sees(platform, "talked")


class Talkative:
    """The offline model with a tool that talks while it works."""

    def __init__(self) -> None:
        self.uses: list[Use] = []
        self.done = asyncio.Event()
        self.agent = BuiltinAgent(OfflineModel(), [Tool("step", "talks", self._talk, Effect.PURE)])

    async def _talk(self, use: Use) -> str:
        self.uses.append(use)
        await self.done.wait()
        return "talked"


async def test_b83_waiting_for_a_person_is_not_inactivity(tmp_path: Path) -> None:
    platform, clocks = SimulatedPlatform(), Clocks()
    async with serving(tmp_path, platform, **clocks.options) as gateway:
        platform.write("ask: What is your name?")
        await sees(platform, "What is your name?")
        clocks.move(100 * LIMIT)
        await look(gateway)
        platform.write("Ann")
        await sees(platform, "What is your name?", "Ann")


async def test_b83_clock_that_is_set_ends_nothing(tmp_path: Path) -> None:
    """What counts is how much time has passed, and not what time it is."""
    platform, agent, clock = SimulatedPlatform(), Digger(), SettableClock()
    async with serving(tmp_path, platform, agent=agent, clock=clock) as gateway:
        platform.write("dig")
        await agent.digs()
        clock.move(100 * LIMIT)
        await look(gateway)
        agent.finish()
        await sees(platform, "dug")


async def test_b83_output_of_a_command_is_a_sign_of_life(tmp_path: Path) -> None:
    platform, clocks = SimulatedPlatform(), Clocks()
    async with serving(tmp_path, platform, **clocks.options, **QUIET) as gateway:
        go_on = chat_workspace(tmp_path, key_of(platform)) / "go-on"
        platform.write(f"run: echo begun; while [ ! -e {go_on} ]; do sleep 0.1; done")
        await eventually("it runs", lambda: gateway.loops.runner.running)
        [attempt] = [running.attempt for running in gateway.loops.runner.running.values()]
        await eventually("the command runs", lambda: attempt.view.open_calls)
        clocks.move(WARNING - 10)
        before = attempt.active_at
        await eventually("its output was heard", lambda: attempt.active_at > before, timeout=60)
        go_on.touch()
        await eventually("it is over", lambda: "begun" in "".join(platform.replies()))


async def test_b83_store_that_hangs_is_not_inactivity(tmp_path: Path) -> None:
    platform, agent, clocks = SimulatedPlatform(), Digger(), Clocks()
    databases: list[FaultyDatabase] = []

    def wrap(database: Database) -> Database:
        databases.append(FaultyDatabase(database))
        return databases[0]

    async with serving(tmp_path, platform, agent=agent, wrap=wrap, **clocks.options, **QUIET) as gateway:
        platform.write("dig")
        context = await agent.digs()
        databases[0].fill()
        heard = context.active_at  # type: ignore[attr-defined]  # the context is an attempt
        agent.finish()
        clocks.move(LIMIT - 10)
        await eventually("it waits for the store", lambda: context.active_at > heard + 1000)  # type: ignore[attr-defined]
        clocks.move(LIMIT - 10)
        await look(gateway)
        databases[0].mend()
        await eventually("it is answered", lambda: platform.replies()[-1:] == ["dug"])
        assert ENDED not in platform.replies()


async def test_b83_turn_that_was_ended_stays_ended_when_its_code_goes_on(tmp_path: Path) -> None:
    platform, agent, clocks = SimulatedPlatform(), Stubborn(), Clocks()
    ended = texts.turns.failed(texts.turns.ended_by_inactivity([], LIMIT * 1000))
    async with serving(tmp_path, platform, agent=agent, **clocks.options, **QUIET) as gateway:
        platform.write("first")
        await eventually("it runs", lambda: agent.running)
        clocks.move(LIMIT)
        await sees(platform, ended)
        agent.over.set()
        platform.write("second")
        await sees(platform, ended, "second")
        states = [turn.state for turn in await turn_views(gateway.store, key_of(platform))]
    assert states == [TurnState.FAILED, TurnState.DONE]


async def test_b83_turn_that_was_ended_is_not_taken_up_after_a_crash(tmp_path: Path) -> None:
    platform, agent, clocks = SimulatedPlatform(), Digger(), Clocks()
    async with crashing_at_the_end(tmp_path, platform, agent=agent, **clocks.options, **QUIET) as gateway:
        platform.write("dig")
        await agent.digs()
        platform.reachable = False
        clocks.move(LIMIT)
        await eventually("the failure is owed", gateway.store.outbox.open_deliveries)
    platform.reachable = True
    async with serving(tmp_path, platform, agent=agent, **clocks.options, **QUIET):
        await sees(platform, ENDED)
    assert len(agent.digging) == 1

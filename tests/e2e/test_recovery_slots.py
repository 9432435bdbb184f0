"""Slots: nobody waits behind other people's recoveries, and who only waits holds none.

Drives `runtime/recovery`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from perdure.agents.builtin_agent import BuiltinAgent
from perdure.core import texts
from perdure.core.effects import Effect
from perdure.core.states import TurnState
from perdure.core.tools import Tool, Use
from perdure.runtime.gateway import Gateway
from support.recovery import AgentHarness, decided_rules
from support.recovery_scenario import RecoveryScenario
from support.waiting import eventually

pytestmark = pytest.mark.anyio


def script(chat: str) -> str:
    return f"step s{chat}\nsay: done {chat}"


class Three:
    """Three chats whose turns were cut off in a step; after the restart one of them has the slot and hangs."""

    def __init__(self, scenario: RecoveryScenario) -> None:
        self.scenario = scenario
        self.first, self.second, self.third = "", "", ""  # chats, in the order in which they get the slot

    async def meet(self) -> None:
        """Wait until one has the slot, and the others wait for it."""
        self.first = await self._next(len(self.scenario.agent_harness.hung_steps) + 1)
        self.second, self.third = sorted({"1", "2", "3"} - {self.first})
        await self.wait_in_line(self.second, self.third)
        self.scenario.agent_harness.stuck = {f"s{self.first}"}

    async def _next(self, hung: int) -> str:
        await self.scenario.agent_harness.wait_until_hanging(hung)
        return self.scenario.agent_harness.hung_steps[-1].removeprefix("s")

    async def wait_in_line(self, *chats: str) -> None:
        for chat in chats:
            assert (await self.scenario.wait_for_rule("resume", chat)).state is TurnState.INTERRUPTED

    async def say_why(self, chat: str) -> str:
        return await asked(self.scenario, chat)


async def three_cut_off(home: Path, crashes: int = 1) -> Three:
    scenario = RecoveryScenario(
        home, "s1", "s2", "s3", RECOVERY__MAX_WITHOUT_PROGRESS="9", RECOVERY__CONCURRENCY="1"
    )
    async with scenario.crashing():
        for number, chat in enumerate("123", 1):
            scenario.platform.write(script(chat), chat=chat)
            await scenario.agent_harness.wait_until_hanging(number)
    for _ in range(crashes - 1):
        before = len(scenario.agent_harness.hung_steps)
        async with scenario.crashing():
            await scenario.agent_harness.wait_until_hanging(before + 1)
    return Three(scenario)


async def asked(scenario: RecoveryScenario, chat: str) -> str:
    """What `/why` says in a chat."""
    before = len(scenario.platform.replies(chat))
    scenario.platform.write("/why", chat=chat)
    await eventually("it is explained", lambda: len(scenario.platform.replies(chat)) > before)
    return scenario.platform.replies(chat)[-1]


async def test_b58_message_takes_the_turn_that_waits_for_a_slot_at_once(tmp_path: Path) -> None:
    """B49 holds for it: one turn, and the message joins the unfinished work. B51: the other one still waits."""
    three = await three_cut_off(tmp_path)
    scenario = three.scenario
    async with scenario.serving():
        await three.meet()
        scenario.platform.write("say: more", chat=three.third)
        await eventually("it is answered", lambda: scenario.platform.replies(three.third))
        [view] = await scenario.turns(three.third)
        assert (view.state, decided_rules(view)) == (TurnState.DONE, ["resume", "message"])
        assert [cause.text for cause in view.causes] == [script(three.third), "say: more"]
        await three.wait_in_line(three.second)
        scenario.agent_harness.release()
        for chat in (three.first, three.second):
            await scenario.wait_for_replies(f"done {chat}", chat=chat)
    assert scenario.agent_harness.run_counts == {"s1": 2, "s2": 2, "s3": 2}


async def test_b58_why_says_that_a_slot_is_awaited_and_how_many_are_ahead(tmp_path: Path) -> None:
    three = await three_cut_off(tmp_path)
    async with three.scenario.serving():
        await three.meet()
        assert texts.recovery.waits_for_slot(0, alone=False) in await three.say_why(three.second)
        assert texts.recovery.waits_for_slot(1, alone=False) in await three.say_why(three.third)
        assert "waits for a slot" not in await three.say_why(three.first)
        three.scenario.agent_harness.release()
        await three.scenario.wait_for_last_reply(f"done {three.third}", chat=three.third)


async def test_b58_b52_message_brings_its_turn_to_the_head_of_the_line_while_recoveries_run_one_at_a_time(
    tmp_path: Path,
) -> None:
    three = await three_cut_off(tmp_path, crashes=2)
    scenario = three.scenario
    async with scenario.serving(RECOVERY__CONCURRENCY="4"):
        await three.meet()
        assert texts.recovery.waits_for_slot(1, alone=True) in await three.say_why(three.third)
        scenario.platform.write("say: more", chat=three.third)
        await eventually("it is stored", lambda: not scenario.platform.pending())
        assert texts.recovery.waits_for_slot(0, alone=True) in await three.say_why(three.third)
        await three.wait_in_line(three.second, three.third)
        hung = len(scenario.agent_harness.hung_steps)
        scenario.agent_harness.release()
        scenario.agent_harness.stuck = {f"s{three.second}", f"s{three.third}"}
        await scenario.agent_harness.wait_until_hanging(hung + 1)
        assert scenario.agent_harness.hung_steps[-1] == f"s{three.third}"
        assert decided_rules(await scenario.turn(three.third))[-1] == "message"
        await three.wait_in_line(three.second)
        scenario.agent_harness.release()
        await scenario.wait_for_last_reply(f"done {three.second}", chat=three.second)


# ── what only waits ─────────────────────────────────────────────────────────────────────────────────────────


class Attached(AgentHarness):
    """A harness with a command that outlives gateways, and ends when it is told to."""

    def __init__(self, *stuck: str) -> None:
        super().__init__(*stuck)
        self.attached = 0
        self.ended = asyncio.Event()
        shell = Tool("shell", "outlives us", self._attach, Effect.ATTACHED)
        step = Tool("step", "may be repeated", self._run_step, Effect.PURE)
        self.agent = BuiltinAgent(self, [shell, step])

    async def _attach(self, use: Use) -> str:
        self.attached += 1
        await self.ended.wait()
        return "exit code 0"


@pytest.fixture
def commands(tmp_path: Path) -> Iterator[RecoveryScenario]:
    scenario = RecoveryScenario(tmp_path, RECOVERY__CONCURRENCY="1")
    scenario.agent_harness = Attached("hang")
    yield scenario


async def cut_at_commands(scenario: RecoveryScenario) -> Attached:
    """Cut off the turns of chats 1 and 2 while they wait for commands, and the one of chat 3 in a step."""
    harness = scenario.agent_harness
    assert isinstance(harness, Attached)
    async with scenario.crashing():
        for chat in "12":
            scenario.platform.write("run: sleep\nsay: ended", chat=chat)
        await eventually("both commands run", lambda: harness.attached == 2)
        scenario.platform.write("step hang\nsay: done", chat="3")
        await harness.wait_until_hanging()
    return harness


async def test_b58_turn_that_only_waits_for_a_command_holds_no_slot(commands: RecoveryScenario) -> None:
    harness = await cut_at_commands(commands)
    harness.release()
    async with commands.serving():
        await eventually("both are attached to again", lambda: harness.attached == 4)
        await commands.wait_for_replies("done", chat="3")
        harness.ended.set()
        for chat in "12":
            await commands.wait_for_replies("ended", chat=chat)


async def states(gateway: Gateway, scenario: RecoveryScenario) -> list[TurnState]:
    return [(await scenario.turn(chat)).state for chat in "123"]


async def test_b51_b58_turn_whose_command_has_ended_waits_for_a_slot_until_somebody_writes(
    commands: RecoveryScenario,
) -> None:
    harness = await cut_at_commands(commands)
    async with commands.serving() as gateway:
        await eventually("both are attached to again", lambda: harness.attached == 4)
        await harness.wait_until_hanging(2)
        asked_before = len(harness.requests)
        harness.ended.set()
        await eventually("both wait for a slot", lambda: wait_for_slots(commands, "1", "2"))
        assert await states(gateway, commands) == [TurnState.RUNNING] * 3
        assert len(harness.requests) == asked_before, "a third recovery went on beside the one that has the slot"
        assert "waits for a slot" in await asked(commands, "2")
        commands.platform.write("say: more", chat="2")
        await eventually("it goes on", lambda: "ended" in commands.platform.replies("2"))
        assert (await commands.turn("1")).state is TurnState.RUNNING
        harness.release()
        await commands.wait_for_replies("ended", chat="1")


async def wait_for_slots(scenario: RecoveryScenario, *chats: str) -> bool:
    return all([(await scenario.turn(chat)).records[-1].entry.kind == "decided" for chat in chats])

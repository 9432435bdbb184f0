"""Work that keeps being cut off: when it is set aside, when automatic resume is paused, and what ends it.

Drives `runtime/recovery` and `core/recovery/decision`.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from perdure.agents.api import Reply, TurnContext
from perdure.core import texts
from perdure.core.journal import TurnCancelled
from perdure.core.states import SessionState, TurnState
from perdure.runtime.gateway import Gateway
from support.recovery import (
    AnsweringAgent,
    HangingAgent,
    decided_rules,
    interruption_reasons,
    was_interrupted_in_step,
)
from support.recovery_scenario import (
    SCRIPT,
    RecoveryScenario,
    scenario_crashed_in_step,
    scenario_crashed_three_times,
)
from support.waiting import eventually

pytestmark = pytest.mark.anyio

LATER = 600  # seconds: crashes so far apart are no crash loop


async def state_of(scenario: RecoveryScenario) -> SessionState:
    return (await scenario.gateway.store.sessions.of_key(scenario.key()))[-1].state


def said(scenario: RecoveryScenario, chat: str = "1") -> list[str]:
    """What the chat sees, without the banners of orderly stops."""
    return [text for text in scenario.platform.replies(chat) if text != texts.recovery.banner(restart=False)]


async def sees(scenario: RecoveryScenario, *texts: str, chat: str = "1") -> None:
    await eventually(f"chat {chat} sees {texts}", lambda: said(scenario, chat) == list(texts))


# ── set aside ───────────────────────────────────────────────────────────────────────────────────────────────

THREE_TIMES = texts.recovery.suspended("it was interrupted 3 times in a row without progress")


async def test_b52_session_is_set_aside_after_three_interruptions_without_progress(tmp_path: Path) -> None:
    """By a mix of crash and drain deadline; the user is told, and /resume brings it back to its end."""
    scenario = await scenario_crashed_in_step(tmp_path, "step a\nstep b\nstep c\nsay: done")  # progress: a
    await scenario.run_into_the_deadline()
    await scenario.crash_in_step()
    async with scenario.serving_released():
        await sees(scenario, THREE_TIMES)
        [view] = await scenario.turns()
        assert was_interrupted_in_step(view)
        assert interruption_reasons(view) == ["restart_interrupted", "shutdown_timeout", "restart_interrupted"]
        assert await state_of(scenario) is SessionState.SUSPENDED
        assert "3 times in a row without progress" in await scenario.why()
        scenario.platform.write("/resume")
        await sees(scenario, THREE_TIMES, texts.chat_commands.RESUME_ANSWERS["session"], "done")
        assert await state_of(scenario) is SessionState.OPEN
    assert scenario.agent_harness.run_counts == {"a": 1, "b": 4, "c": 1}


async def test_b52_suspended_session_stays_silent_through_restarts(tmp_path: Path) -> None:
    scenario, halting = RecoveryScenario(tmp_path), HangingAgent()
    await crash_again_and_again(scenario, halting, times=3)
    for _ in range(2):
        async with scenario.serving(agent=halting):
            await sees(scenario, THREE_TIMES)
            view = await scenario.turn()
            assert (view.state, decided_rules(view)[-1]) == (TurnState.CANCELLED, "no_progress")
    assert halting.attempts == 3


async def crash_again_and_again(scenario: RecoveryScenario, agent: HangingAgent, times: int) -> None:
    """Write, and kill one gateway after the other while the agent hangs."""
    scenario.platform.write("hello")
    for _ in range(times):
        await scenario.crash_when_hanging(agent)
        scenario.clock.move(LATER)


async def test_b52_progress_sets_the_count_back(tmp_path: Path) -> None:
    scenario = await scenario_crashed_in_step(tmp_path, "step a\nstep b\nstep c\nsay: done")
    for stuck in ("b", "c", "c"):  # nothing, then a step, then nothing
        scenario.clock.move(LATER)
        scenario.agent_harness.stuck = {stuck}
        await scenario.crash_in_step()
    scenario.clock.move(LATER)
    async with scenario.serving_released():
        await scenario.wait_for_replies("done")
        view = await scenario.turn()
    assert was_interrupted_in_step(view)
    assert [mark.progress for mark in view.interruptions] == [True, False, True, False]


async def test_b52_completed_turn_sets_the_count_to_zero(tmp_path: Path) -> None:
    scenario = RecoveryScenario(tmp_path)
    for answered in range(1, 3):
        await crash_again_and_again(scenario, HangingAgent(), times=2)
        async with scenario.serving(agent=AnsweringAgent()):
            await scenario.wait_for_replies(*["answered"] * answered)
            view = await scenario.turn()
            assert (view.without_progress, view.state) == (2, TurnState.DONE)


async def test_b52_ten_interruptions_in_all_end_it_too(tmp_path: Path) -> None:
    scenario = RecoveryScenario(tmp_path)
    scenario.platform.write("\n".join(f"step s{n}" for n in range(12)))
    for crash in range(10):
        scenario.agent_harness.stuck = {f"s{crash}"}
        await scenario.crash_in_step()
        scenario.clock.move(LATER)
    async with scenario.serving():
        await sees(scenario, texts.recovery.suspended("it was interrupted 10 times in all"))
        view = await scenario.turn()
    assert was_interrupted_in_step(view)
    assert all(mark.progress for mark in view.interruptions)
    assert scenario.agent_harness.run_counts["s9"] == 1


class Crasher:
    """In chat `bad` it hangs until the gateway dies; elsewhere it takes its time, and knows who runs beside it."""

    def __init__(self) -> None:
        self.inside: set[str] = set()
        self.most = 0
        self.slow = asyncio.Event()

    async def runs(self, *texts: str) -> None:
        await eventually(f"{texts} run", lambda: self.inside == set(texts))

    async def run(self, context: TurnContext) -> Reply:
        text = context.view.causes[0].text
        self.inside.add(text)
        self.most = max(self.most, len(self.inside))
        try:
            await (asyncio.Event() if text == "bad" else self.slow).wait()
        finally:
            self.inside.discard(text)
        return Reply("fine")


async def test_b52_neighbour_is_not_punished_for_anothers_crashes(tmp_path: Path) -> None:
    """After two unclean starts in a row recoveries run one at a time; a crash then counts for that one alone."""
    scenario, agent = RecoveryScenario(tmp_path), Crasher()
    scenario.platform.write("bad", chat="bad")
    scenario.platform.write("good", chat="good")
    for _ in range(2):
        async with scenario.crashing(agent=agent):
            await agent.runs("bad", "good")
        scenario.clock.move(LATER)
    agent.slow.set()
    agent.most = 0
    async with scenario.crashing(agent=agent):
        await agent.runs("bad")  # before or after its neighbour, and never beside it
    scenario.clock.move(LATER)
    async with scenario.serving(agent=agent):
        await scenario.wait_for_replies("fine", chat="good")
        await sees(scenario, THREE_TIMES, chat="bad")
        assert len(interruption_reasons(await scenario.turn("bad"))) == 3
        assert len(interruption_reasons(await scenario.turn("good"))) == 2
    assert agent.most == 1


# ── paused ──────────────────────────────────────────────────────────────────────────────────────────────────

PAUSED = "automatic resume is paused: the gateway keeps crashing"
TOLD = texts.recovery.not_resumed(PAUSED)


def paused(gateway: Gateway) -> bool:
    return texts.recovery.RESUME_PAUSED in gateway.describe()


async def test_b53_three_unclean_starts_pause_automatic_resume_and_everybody_is_served(tmp_path: Path) -> None:
    scenario = await scenario_crashed_three_times(tmp_path)
    async with scenario.serving() as gateway:
        view = await scenario.wait_for_rule("paused")
        assert (was_interrupted_in_step(view), len(scenario.agent_harness.hung_steps)) == (True, 3)
        assert paused(gateway)
        await scenario.wait_for_replies(TOLD)
        scenario.platform.write("say: hello", chat="2")
        await scenario.wait_for_replies("hello", chat="2")
        scenario.platform.write("/status", chat="2")
        await eventually(
            "/status says so", lambda: texts.recovery.RESUME_PAUSED in "".join(scenario.platform.replies("2")[-1:])
        )
        assert PAUSED in await scenario.why()
        scenario.agent_harness.release()
        assert await gateway.operator_verbs.lift_recovery_pause()
        await scenario.wait_for_replies(TOLD, "done")
        assert not paused(gateway)
        assert not await gateway.operator_verbs.lift_recovery_pause(), "it is lifted already"


async def test_b53_one_person_may_go_on_while_the_others_are_paused(tmp_path: Path) -> None:
    scenario = await scenario_crashed_three_times(tmp_path)
    async with scenario.serving_released() as gateway:
        await scenario.wait_for_replies(TOLD)
        scenario.platform.write("/resume")
        await scenario.wait_for_replies(TOLD, texts.chat_commands.RESUME_ANSWERS["turn"], "done")
        assert paused(gateway)


@pytest.mark.parametrize("crashes", [2, 3], ids=["two crashes", "three crashes"])
async def test_b53_nothing_is_paused_after_fewer_crashes_or_without_work(tmp_path: Path, crashes: int) -> None:
    scenario = RecoveryScenario(tmp_path, "b")
    for _ in range(crashes - 2):
        async with scenario.crashing() as gateway:
            assert not paused(gateway)
    await scenario.crash_in_step(SCRIPT)
    async with scenario.crashing() as gateway:
        await scenario.agent_harness.wait_until_hanging(2)  # it goes on, and hangs again
        assert not paused(gateway)
        scenario.agent_harness.release()
        await scenario.wait_for_replies("done")
    async with scenario.serving() as gateway:
        assert not paused(gateway), "there is nothing to resume"


async def test_b53_crashes_far_apart_pause_nothing(tmp_path: Path) -> None:
    scenario = await scenario_crashed_three_times(tmp_path, seconds_between=301)
    scenario.clock.move(301)
    async with scenario.serving_released() as gateway:
        assert not paused(gateway)
        await scenario.wait_for_replies("done")


# ── stopped for good ────────────────────────────────────────────────────────────────────────────────────────


async def nothing_comes_back(scenario: RecoveryScenario, *seen: str) -> None:
    """Through a crash and two restarts the chat stays as it is, while its neighbour is served."""
    agent = AnsweringAgent()
    for start in range(3):
        scenario.clock.move(LATER)
        opened = scenario.serving if start else scenario.crashing
        async with opened(agent=agent):
            scenario.platform.write("hello", chat=f"n{start}")
            await scenario.wait_for_replies("answered", chat=f"n{start}")
            view = await scenario.turn()
            assert (view.state, view.ended) == (TurnState.CANCELLED, TurnCancelled("stopped"))
            assert await state_of(scenario) is SessionState.OPEN
    assert said(scenario) == list(seen)
    assert agent.attempts == 3


STOPPED = "Stopped."


async def test_b54_stop_is_final_in_a_turn_that_was_never_cut_off(tmp_path: Path) -> None:
    scenario = RecoveryScenario(tmp_path, "b")
    async with scenario.crashing():
        scenario.platform.write(SCRIPT)
        await scenario.agent_harness.wait_until_hanging()
        scenario.platform.write("/stop")
        await sees(scenario, STOPPED)
    await nothing_comes_back(scenario, STOPPED)


async def test_b54_stop_is_final_in_a_recovered_turn(tmp_path: Path) -> None:
    scenario = await scenario_crashed_in_step(tmp_path)
    async with scenario.crashing():
        await scenario.agent_harness.wait_until_hanging(2)  # in its recovery
        assert was_interrupted_in_step(await scenario.turn())
        scenario.platform.write("/stop")
        await sees(scenario, STOPPED)
    await nothing_comes_back(scenario, STOPPED)


async def test_b54_stop_is_final_in_a_turn_that_was_held_back(tmp_path: Path) -> None:
    scenario = await scenario_crashed_in_step(tmp_path)
    off = texts.recovery.not_resumed("automatic resume is switched off here")
    async with scenario.crashing(RECOVERY__POLICY="off"):
        await sees(scenario, off)
        assert was_interrupted_in_step(await scenario.turn())
        scenario.platform.write("/stop")
        await sees(scenario, off, STOPPED)
    await nothing_comes_back(scenario, off, STOPPED)


async def test_b54_stop_that_was_written_while_the_gateway_was_down_is_final(tmp_path: Path) -> None:
    scenario = await scenario_crashed_in_step(tmp_path)
    scenario.platform.write("/stop")
    async with scenario.crashing():
        await sees(scenario, STOPPED)
    await nothing_comes_back(scenario, STOPPED)


async def test_b54_waiting_messages_stay_unless_all_is_said(tmp_path: Path) -> None:
    scenario = RecoveryScenario(tmp_path, "b")
    async with scenario.crashing():
        scenario.platform.write(SCRIPT)
        await scenario.agent_harness.wait_until_hanging()
        scenario.platform.write("step b\nsay: two")
        scenario.platform.write("say: three")
        scenario.platform.write("/stop")
        await sees(scenario, "Stopped. 2 messages are still waiting; /stop all drops them too.")
        await scenario.agent_harness.wait_until_hanging(2)  # in the turn of the second message
        scenario.platform.write("/stop all")
        await eventually("all is dropped", lambda: len(said(scenario)) == 2)
    assert said(scenario)[-1] == "Stopped. 1 message that waited was dropped."
    async with scenario.serving():
        scenario.platform.write("say: four")
        await eventually("the next message is answered", lambda: said(scenario)[2:] == ["four"])
        assert len(await scenario.turns()) == 3

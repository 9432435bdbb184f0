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
from perdure.core.session import SessionState
from perdure.core.turn import TurnState
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


async def state_of(scene: RecoveryScenario) -> SessionState:
    return (await scene.gateway.store.sessions.of_key(scene.key()))[-1].state


def said(scene: RecoveryScenario, chat: str = "1") -> list[str]:
    """What the chat sees, without the banners of orderly stops."""
    return [text for text in scene.platform.replies(chat) if text != texts.recovery.banner(restart=False)]


async def sees(scene: RecoveryScenario, *texts: str, chat: str = "1") -> None:
    await eventually(f"chat {chat} sees {texts}", lambda: said(scene, chat) == list(texts))


# ── set aside ───────────────────────────────────────────────────────────────────────────────────────────────

THREE_TIMES = texts.recovery.suspended("it was cut off 3 times in a row without progress")


async def test_b52_session_is_set_aside_after_three_interruptions_without_progress(tmp_path: Path) -> None:
    """By a mix of crash and drain deadline; the user is told, and /resume brings it back to its end."""
    scene = await scenario_crashed_in_step(tmp_path, "step a\nstep b\nstep c\nsay: done")  # progress: a
    await scene.run_into_the_deadline()
    await scene.crash_in_step()
    async with scene.serving_released():
        await sees(scene, THREE_TIMES)
        [view] = await scene.turns()
        assert was_interrupted_in_step(view)
        assert interruption_reasons(view) == ["restart_interrupted", "shutdown_timeout", "restart_interrupted"]
        assert await state_of(scene) is SessionState.SUSPENDED
        assert "3 times in a row without progress" in await scene.why()
        scene.platform.write("/resume")
        await sees(scene, THREE_TIMES, texts.chat_commands.RESUME_ANSWERS["session"], "done")
        assert await state_of(scene) is SessionState.OPEN
    assert scene.agent_harness.run_counts == {"a": 1, "b": 4, "c": 1}


async def test_b52_suspended_session_stays_silent_through_restarts(tmp_path: Path) -> None:
    scene, halting = RecoveryScenario(tmp_path), HangingAgent()
    await crash_again_and_again(scene, halting, times=3)
    for _ in range(2):
        async with scene.serving(agent=halting):
            await sees(scene, THREE_TIMES)
            view = await scene.turn()
            assert (view.state, decided_rules(view)[-1]) == (TurnState.CANCELLED, "no_progress")
    assert halting.attempts == 3


async def crash_again_and_again(scene: RecoveryScenario, agent: HangingAgent, times: int) -> None:
    """Write, and kill one gateway after the other while the agent hangs."""
    scene.platform.write("hello")
    for _ in range(times):
        await scene.crash_when_hanging(agent)
        scene.clock.move(LATER)


async def test_b52_progress_sets_the_count_back(tmp_path: Path) -> None:
    scene = await scenario_crashed_in_step(tmp_path, "step a\nstep b\nstep c\nsay: done")
    for stuck in ("b", "c", "c"):  # nothing, then a step, then nothing
        scene.clock.move(LATER)
        scene.agent_harness.stuck = {stuck}
        await scene.crash_in_step()
    scene.clock.move(LATER)
    async with scene.serving_released():
        await scene.wait_for_replies("done")
        view = await scene.turn()
    assert was_interrupted_in_step(view)
    assert [mark.progress for mark in view.interruptions] == [True, False, True, False]


async def test_b52_completed_turn_sets_the_count_to_zero(tmp_path: Path) -> None:
    scene = RecoveryScenario(tmp_path)
    for answered in range(1, 3):
        await crash_again_and_again(scene, HangingAgent(), times=2)
        async with scene.serving(agent=AnsweringAgent()):
            await scene.wait_for_replies(*["answered"] * answered)
            view = await scene.turn()
            assert (view.without_progress, view.state) == (2, TurnState.DONE)


async def test_b52_ten_interruptions_in_all_end_it_too(tmp_path: Path) -> None:
    scene = RecoveryScenario(tmp_path)
    scene.platform.write("\n".join(f"step s{n}" for n in range(12)))
    for crash in range(10):
        scene.agent_harness.stuck = {f"s{crash}"}
        await scene.crash_in_step()
        scene.clock.move(LATER)
    async with scene.serving():
        await sees(scene, texts.recovery.suspended("it was cut off 10 times in all"))
        view = await scene.turn()
    assert was_interrupted_in_step(view)
    assert all(mark.progress for mark in view.interruptions)
    assert scene.agent_harness.run_counts["s9"] == 1


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
    scene, agent = RecoveryScenario(tmp_path), Crasher()
    scene.platform.write("bad", chat="bad")
    scene.platform.write("good", chat="good")
    for _ in range(2):
        async with scene.crashing(agent=agent):
            await agent.runs("bad", "good")
        scene.clock.move(LATER)
    agent.slow.set()
    agent.most = 0
    async with scene.crashing(agent=agent):
        await agent.runs("bad")  # before or after its neighbour, and never beside it
    scene.clock.move(LATER)
    async with scene.serving(agent=agent):
        await scene.wait_for_replies("fine", chat="good")
        await sees(scene, THREE_TIMES, chat="bad")
        assert len(interruption_reasons(await scene.turn("bad"))) == 3
        assert len(interruption_reasons(await scene.turn("good"))) == 2
    assert agent.most == 1


# ── paused ──────────────────────────────────────────────────────────────────────────────────────────────────

PAUSED = "automatic resume is paused: the gateway keeps crashing"
TOLD = texts.recovery.not_resumed(PAUSED)


def paused(gateway: Gateway) -> bool:
    return texts.recovery.RESUME_PAUSED in gateway.describe()


async def test_b53_three_unclean_starts_pause_automatic_resume_and_everybody_is_served(tmp_path: Path) -> None:
    scene = await scenario_crashed_three_times(tmp_path)
    async with scene.serving() as gateway:
        view = await scene.wait_for_rule("paused")
        assert (was_interrupted_in_step(view), len(scene.agent_harness.hung_steps)) == (True, 3)
        assert paused(gateway)
        await scene.wait_for_replies(TOLD)
        scene.platform.write("say: hello", chat="2")
        await scene.wait_for_replies("hello", chat="2")
        scene.platform.write("/status", chat="2")
        await eventually(
            "/status says so", lambda: texts.recovery.RESUME_PAUSED in "".join(scene.platform.replies("2")[-1:])
        )
        assert PAUSED in await scene.why()
        scene.agent_harness.release()
        assert await gateway.operator_verbs.lift_recovery_pause()
        await scene.wait_for_replies(TOLD, "done")
        assert not paused(gateway)
        assert not await gateway.operator_verbs.lift_recovery_pause(), "it is lifted already"


async def test_b53_one_person_may_go_on_while_the_others_are_paused(tmp_path: Path) -> None:
    scene = await scenario_crashed_three_times(tmp_path)
    async with scene.serving_released() as gateway:
        await scene.wait_for_replies(TOLD)
        scene.platform.write("/resume")
        await scene.wait_for_replies(TOLD, texts.chat_commands.RESUME_ANSWERS["turn"], "done")
        assert paused(gateway)


@pytest.mark.parametrize("crashes", [2, 3], ids=["two crashes", "three crashes"])
async def test_b53_nothing_is_paused_after_fewer_crashes_or_without_work(tmp_path: Path, crashes: int) -> None:
    scene = RecoveryScenario(tmp_path, "b")
    for _ in range(crashes - 2):
        async with scene.crashing() as gateway:
            assert not paused(gateway)
    await scene.crash_in_step(SCRIPT)
    async with scene.crashing() as gateway:
        await scene.agent_harness.wait_until_hanging(2)  # it goes on, and hangs again
        assert not paused(gateway)
        scene.agent_harness.release()
        await scene.wait_for_replies("done")
    async with scene.serving() as gateway:
        assert not paused(gateway), "there is nothing to resume"


async def test_b53_crashes_far_apart_pause_nothing(tmp_path: Path) -> None:
    scene = await scenario_crashed_three_times(tmp_path, seconds_between=301)
    scene.clock.move(301)
    async with scene.serving_released() as gateway:
        assert not paused(gateway)
        await scene.wait_for_replies("done")


# ── stopped for good ────────────────────────────────────────────────────────────────────────────────────────


async def nothing_comes_back(scene: RecoveryScenario, *seen: str) -> None:
    """Through a crash and two restarts the chat stays as it is, while its neighbour is served."""
    agent = AnsweringAgent()
    for start in range(3):
        scene.clock.move(LATER)
        opened = scene.serving if start else scene.crashing
        async with opened(agent=agent):
            scene.platform.write("hello", chat=f"n{start}")
            await scene.wait_for_replies("answered", chat=f"n{start}")
            view = await scene.turn()
            assert (view.state, view.ended) == (TurnState.CANCELLED, TurnCancelled("stopped"))
            assert await state_of(scene) is SessionState.OPEN
    assert said(scene) == list(seen)
    assert agent.attempts == 3


STOPPED = "Stopped."


async def test_b54_stop_is_final_in_a_turn_that_was_never_cut_off(tmp_path: Path) -> None:
    scene = RecoveryScenario(tmp_path, "b")
    async with scene.crashing():
        scene.platform.write(SCRIPT)
        await scene.agent_harness.wait_until_hanging()
        scene.platform.write("/stop")
        await sees(scene, STOPPED)
    await nothing_comes_back(scene, STOPPED)


async def test_b54_stop_is_final_in_a_recovered_turn(tmp_path: Path) -> None:
    scene = await scenario_crashed_in_step(tmp_path)
    async with scene.crashing():
        await scene.agent_harness.wait_until_hanging(2)  # in its recovery
        assert was_interrupted_in_step(await scene.turn())
        scene.platform.write("/stop")
        await sees(scene, STOPPED)
    await nothing_comes_back(scene, STOPPED)


async def test_b54_stop_is_final_in_a_turn_that_was_held_back(tmp_path: Path) -> None:
    scene = await scenario_crashed_in_step(tmp_path)
    off = texts.recovery.not_resumed("automatic resume is switched off here")
    async with scene.crashing(RECOVERY__POLICY="off"):
        await sees(scene, off)
        assert was_interrupted_in_step(await scene.turn())
        scene.platform.write("/stop")
        await sees(scene, off, STOPPED)
    await nothing_comes_back(scene, off, STOPPED)


async def test_b54_stop_that_was_written_while_the_gateway_was_down_is_final(tmp_path: Path) -> None:
    scene = await scenario_crashed_in_step(tmp_path)
    scene.platform.write("/stop")
    async with scene.crashing():
        await sees(scene, STOPPED)
    await nothing_comes_back(scene, STOPPED)


async def test_b54_waiting_messages_stay_unless_all_is_said(tmp_path: Path) -> None:
    scene = RecoveryScenario(tmp_path, "b")
    async with scene.crashing():
        scene.platform.write(SCRIPT)
        await scene.agent_harness.wait_until_hanging()
        scene.platform.write("step b\nsay: two")
        scene.platform.write("say: three")
        scene.platform.write("/stop")
        await sees(scene, "Stopped. 2 messages are still waiting; /stop all drops them too.")
        await scene.agent_harness.wait_until_hanging(2)  # in the turn of the second message
        scene.platform.write("/stop all")
        await eventually("all is dropped", lambda: len(said(scene)) == 2)
    assert said(scene)[-1] == "Stopped. 1 message that waited was dropped."
    async with scene.serving():
        scene.platform.write("say: four")
        await eventually("the next message is answered", lambda: said(scene)[2:] == ["four"])
        assert len(await scene.turns()) == 3

"""What a person asked for while the gateway drained, or just before it died, is carried out after the restart.

Drives `core/recovery/decision` and `runtime/recovery`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from perdure.core import texts
from perdure.core.journal import TurnView
from perdure.core.states import TurnState
from perdure.runtime.gateway import Gateway
from perdure.testing import SimulatedPlatform
from support.approvals import DONE, ApprovalScenario
from support.recovery import interruption_reasons
from support.recovery_scenario import SCRIPT, RecoveryScenario, scenario_crashed_in_step, web_platform
from support.shell_commands import home_without_commands
from support.shutdown import wait_until_stopped
from support.waiting import eventually

pytestmark = pytest.mark.anyio

ASK = "ask: Which way? | Left | Right\nstep go"
QUESTION = "Which way?\n(Left / Right)"
ANSWER = "Left\ngo: done"
QUEUED = "SELECT 1 FROM turns WHERE state = 'queued'"
KEPT = texts.recovery.message_stored(restart=False)
every_policy = pytest.mark.parametrize("policy", ["auto", "ask", "off"])


async def is_queued(scenario: RecoveryScenario) -> bool:
    return (await scenario.turn()).state is TurnState.QUEUED


@asynccontextmanager
async def draining(scenario: RecoveryScenario, **settings: str) -> AsyncIterator[Gateway]:
    """A gateway that drains for as long as a step hangs in chat 9; at the end it is made to stop."""
    scenario.agent_harness.stuck.add("long")
    before = len(scenario.agent_harness.hung_steps)
    async with scenario.serving(DRAIN__DEADLINE="1h", **settings) as gateway:
        scenario.platform.write("step long", chat="9")
        await scenario.agent_harness.wait_until_hanging(before + 1)
        yield gateway
        gateway.stop()
        await wait_until_stopped(gateway)


async def start_to_drain(scenario: RecoveryScenario) -> None:
    scenario.gateway.stop()
    await eventually("it drains", lambda: scenario.gateway.phase == "draining")


async def asked_and_pressed_in_a_drain(home: Path, **settings: str) -> RecoveryScenario:
    """A scenario in which a question was answered by its button while the gateway drained."""
    scenario = RecoveryScenario(home, platform=web_platform(), **settings)
    async with draining(scenario):
        scenario.platform.write(ASK)
        await scenario.wait_for_replies(QUESTION)
        await start_to_drain(scenario)
        scenario.platform.press("Left")
        await eventually("the answer is taken", lambda: is_queued(scenario))
    return scenario


def labels(scenario: RecoveryScenario) -> list[str]:
    """The buttons of the newest message in chat 1."""
    posted = [each for each in scenario.platform.posted if each.address.chat == "1"]
    return [button.label for button in posted[-1].buttons]


def unmarked(view: TurnView) -> bool:
    return view.state is TurnState.DONE and not view.interruptions and view.last_decision is None


@every_policy
async def test_b32_answer_that_was_pressed_in_a_drain_is_carried_out(tmp_path: Path, policy: str) -> None:
    scenario = await asked_and_pressed_in_a_drain(tmp_path, RECOVERY__POLICY=policy)
    async with scenario.serving():
        await scenario.wait_for_replies(QUESTION, KEPT, ANSWER)
        assert unmarked(await scenario.turn())
    assert scenario.agent_harness.run_counts["go"] == 1


@every_policy
async def test_b32_answer_is_carried_out_when_the_crash_comes_before_its_claim(
    tmp_path: Path, policy: str
) -> None:
    scenario = RecoveryScenario(tmp_path, platform=web_platform(), RECOVERY__POLICY=policy)
    async with scenario.crashing_at_fact(QUEUED):
        scenario.platform.write(ASK)
        await scenario.wait_for_replies(QUESTION)
        scenario.platform.press("Left")
    async with scenario.serving():
        await scenario.wait_for_replies(QUESTION, ANSWER)
        assert unmarked(await scenario.turn())
    assert scenario.agent_harness.run_counts["go"] == 1


async def test_b32_answer_is_carried_out_while_automatic_resume_is_paused(tmp_path: Path) -> None:
    scenario = await scenario_crashed_in_step(tmp_path, RECOVERY__MAX_WITHOUT_PROGRESS="9")
    await scenario.crash_in_step()
    async with scenario.crashing_at_fact(f"{QUEUED} AND key LIKE '%:2'"):
        scenario.platform.write(ASK, chat="2")
        await scenario.wait_for_replies(QUESTION, chat="2")
        scenario.platform.press("Left", chat="2")
    async with scenario.serving() as gateway:
        assert gateway.loops.recoverer.paused
        await scenario.wait_for_replies(QUESTION, ANSWER, chat="2")
        assert unmarked(await scenario.turn("2"))
        assert (await scenario.wait_for_rule("paused")).state is TurnState.INTERRUPTED


@every_policy
async def test_b32_resume_that_was_accepted_in_a_drain_is_carried_out(tmp_path: Path, policy: str) -> None:
    scenario = await scenario_crashed_in_step(tmp_path, platform=web_platform(), RECOVERY__POLICY=policy)
    async with draining(scenario, RECOVERY__POLICY="off"):
        await scenario.wait_for_rule("off")
        await start_to_drain(scenario)
        scenario.platform.write("/resume")
        await eventually("it is queued", lambda: is_queued(scenario))
    async with scenario.serving_released():
        await scenario.wait_for_last_reply("done")
        view = await scenario.turn()
    assert (interruption_reasons(view), view.last_decision and view.last_decision.rule) == (
        ["restart_interrupted"],
        "person",
    )


async def test_b32_resume_of_somebody_who_may_no_longer_is_not_carried_out(tmp_path: Path) -> None:
    scenario = await scenario_crashed_in_step(tmp_path, platform=web_platform(), PLATFORMS__WEB__ALLOW="ann")
    async with draining(scenario, RECOVERY__POLICY="off", PLATFORMS__WEB__ALLOW="ann,bob"):
        await scenario.wait_for_rule("off")
        await start_to_drain(scenario)
        scenario.platform.write("/resume", sender="bob")
        await eventually("it is queued", lambda: is_queued(scenario))
    async with scenario.serving_released(RECOVERY__POLICY="ask"):
        view = await scenario.wait_for_rule("ask")
        await eventually("the chat is asked", lambda: labels(scenario) == ["Resume", "Drop"])
    assert (view.state, scenario.agent_harness.run_counts["b"]) == (TurnState.INTERRUPTED, 1)


# ── asked again ─────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("why", ["stale", "removed"])
async def test_b32_question_is_asked_again_when_its_answer_no_longer_counts(tmp_path: Path, why: str) -> None:
    """It has its buttons, nothing is marked, and no step runs before the new answer."""
    scenario = await asked_and_pressed_in_a_drain(tmp_path, PLATFORMS__WEB__ALLOW="ann,bob")
    if why == "stale":
        scenario.clock.move(3605)
    async with scenario.serving(PLATFORMS__WEB__ALLOW="bob" if why == "removed" else "ann,bob"):
        again = f"{texts.recovery.ask_again(fresh=why == 'removed')}\n\n{QUESTION}"
        await scenario.wait_for_replies(QUESTION, KEPT, again)
        view = await scenario.turn()
        assert (view.state, view.interruptions, scenario.agent_harness.run_counts["go"]) == (
            TurnState.WAITING,
            [],
            0,
        )
        assert labels(scenario) == ["Left", "Right"]
        scenario.platform.press("Right", sender="bob")
        went = texts.tool_calls.not_permitted("step", None) if why == "removed" else "go: done"
        await scenario.wait_for_replies(QUESTION, KEPT, again, f"Right\n{went}")


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    yield from home_without_commands(tmp_path)


@pytest.mark.parametrize("late", [False, True], ids=["fresh", "stale"])
async def test_b32_approval_just_before_a_crash_is_carried_out_once_or_asked_again(home: Path, late: bool) -> None:
    scenario = ApprovalScenario(home, SimulatedPlatform(), RECOVERY__POLICY="off")
    async with scenario.crashing_at_fact(QUEUED):
        approve, _ = await scenario.ask()
        scenario.platform.press(approve.command)
    scenario.clock.move(3605 if late else 0)
    async with scenario.serving():
        if late:
            again = texts.recovery.ask_again(fresh=False)
            await eventually("it is asked again", lambda: again in scenario.platform.replies()[-1])
            assert scenario.runs() == 0
            scenario.platform.press(approve.command)
        await scenario.wait_for_replies(DONE)
        assert not (await scenario.last_turn_view()).interruptions
    assert scenario.runs() == 1


async def test_b32_turn_that_nobody_asked_for_is_marked_though_it_was_only_queued(tmp_path: Path) -> None:
    """A turn that recovery itself put back in the queue, and nobody has claimed, is marked once more."""
    scenario = await scenario_crashed_in_step(tmp_path, SCRIPT)
    async with scenario.crashing_at_fact(QUEUED):
        pass
    async with scenario.serving_released():
        await scenario.wait_for_replies("done")
        assert interruption_reasons(await scenario.turn()) == ["restart_interrupted"] * 2

"""A message that joined a turn is not set aside with it: it waits again, and is answered by itself.

Drives `store/session_verbs` and `runtime/recovery`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from perdure.core import texts
from perdure.core.journal import TurnCancelled, TurnView
from perdure.core.states import SessionState, TurnState
from support.recovery_scenario import RecoveryScenario, scenario_crashed_in_step, web_platform
from support.waiting import eventually

pytestmark = pytest.mark.anyio

OFF = {"RECOVERY__POLICY": "off"}
WRITTEN = "say: hello"


async def joined_and_cut_again(home: Path, *texts: str, **settings: str) -> RecoveryScenario:
    """A scenario in which a message joined a turn that had been cut off, and the turn was cut off once more."""
    scenario = await scenario_crashed_in_step(home, *texts, platform=web_platform(), **settings)
    async with scenario.crashing(**OFF):
        await scenario.wait_for_rule("off")
        scenario.platform.write(WRITTEN)
        await scenario.agent_harness.wait_until_hanging(2)
        assert [cause.text for cause in (await scenario.turn()).causes][1:] == [WRITTEN]
    return scenario


def causes(view: TurnView) -> list[str]:
    return [cause.text for cause in view.causes]


async def test_b16_joined_message_is_answered_in_the_fresh_session_when_its_turn_is_suspended(
    tmp_path: Path,
) -> None:
    scenario = await joined_and_cut_again(tmp_path, RECOVERY__MAX_WITHOUT_PROGRESS="2")
    async with scenario.serving() as gateway:
        await scenario.wait_for_last_reply("hello")
        old, fresh = await gateway.store.sessions.of_key(scenario.key())
        assert (old.state, fresh.state) == (SessionState.CLOSED, SessionState.OPEN)
        cut, answered = await scenario.turns()
        assert cut.ended == TurnCancelled("suspended")
        assert (WRITTEN not in causes(cut), causes(answered)) == (True, [WRITTEN])
        assert texts.recovery.new_session_after_suspension(old.id) in scenario.platform.replies()
        scenario.agent_harness.release()
        scenario.platform.write(f"/resume {old.id}")
        await scenario.wait_for_last_reply("done")
    assert not any(WRITTEN in text for text in scenario.agent_harness.request_texts()[-1]), (
        "the old turn came back with it"
    )
    assert scenario.platform.replies().count("hello") == 1


async def test_b16_joined_message_takes_the_place_of_a_turn_that_has_grown_too_old(tmp_path: Path) -> None:
    scenario = await joined_and_cut_again(tmp_path)
    scenario.clock.move(3605)
    async with scenario.serving():
        await scenario.wait_for_last_reply("hello")
        old, fresh = await scenario.turns()
    assert (old.ended, causes(fresh)) == (TurnCancelled("superseded"), [WRITTEN])
    assert scenario.platform.replies()[-2].endswith("I continue with what you wrote since.")
    assert scenario.agent_harness.run_counts["b"] == 2


async def test_b16_joined_message_takes_the_place_of_a_turn_over_its_cost_limit(tmp_path: Path) -> None:
    scenario = await joined_and_cut_again(tmp_path)
    async with scenario.serving(RECOVERY__MAX_TOKENS="2"):
        await scenario.wait_for_last_reply("hello")
        old, fresh = await scenario.turns()
    assert (old.ended, causes(fresh)) == (TurnCancelled("superseded"), [WRITTEN])


async def test_b16_joined_message_is_answered_after_a_recovery_that_stops_at_its_cost_limit(
    tmp_path: Path,
) -> None:
    scenario = await joined_and_cut_again(tmp_path, "step a\nstep b\nstep c\nstep d\nsay: done")
    async with scenario.serving_released(RECOVERY__MAX_TOKENS="5"):
        await scenario.wait_for_last_reply("hello")
        old, fresh = await scenario.turns()
    assert (old.state, causes(fresh)) == (TurnState.FAILED, [WRITTEN])


async def test_b16_message_of_somebody_who_may_no_longer_talk_does_not_wait_again(tmp_path: Path) -> None:
    scenario = await joined_and_cut_again(tmp_path)
    scenario.clock.move(3605)
    async with scenario.serving(PLATFORMS__WEB__ALLOW="bob") as gateway:
        await scenario.wait_for_rule("unauthorised")
        assert await gateway.store.inbox.count_waiting(scenario.key()) == 0
    assert scenario.platform.replies()[-1:] != ["hello"]


async def test_b16_joined_message_is_answered_when_an_operator_sets_its_session_aside(tmp_path: Path) -> None:
    scenario = await scenario_crashed_in_step(tmp_path)
    async with scenario.serving(**OFF) as gateway:
        await scenario.wait_for_rule("off")
        scenario.platform.write(WRITTEN)
        await scenario.agent_harness.wait_until_hanging(2)
        [session] = await gateway.store.sessions.of_key(scenario.key())
        assert await gateway.operator_verbs.suspend(session)
        await scenario.wait_for_last_reply("hello")
        old, fresh = await scenario.turns()
    assert (old.ended, causes(fresh)) == (TurnCancelled("suspended"), [WRITTEN])


async def test_b16_words_that_closed_a_question_are_answered_when_its_turn_is_suspended(tmp_path: Path) -> None:
    scenario = RecoveryScenario(tmp_path, "b", RECOVERY__MAX_WITHOUT_PROGRESS="1")
    async with scenario.crashing():
        scenario.platform.write("ask: Which way? | Left | Right\nstep b")
        await eventually("it asks", lambda: scenario.platform.replies())
        scenario.platform.write(f"step b\n{WRITTEN}")
        await scenario.agent_harness.wait_until_hanging()
    async with scenario.serving_released():
        await scenario.wait_for_last_reply("hello")
        old, fresh = await scenario.turns()
    assert (old.ended, causes(fresh)) == (TurnCancelled("suspended"), [f"step b\n{WRITTEN}"])

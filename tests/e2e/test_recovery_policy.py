"""Whether an interrupted turn goes on: every condition, reached through a real gateway and told in words.

Drives `core/recovery/decision` and `runtime/recovery`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from perdure.core import texts
from perdure.core.effects import Effect
from perdure.core.journal import Entry, ModelAnswered, TokenUsage, ToolCall, ToolEnded, ToolStarted, TurnCancelled
from perdure.core.states import TurnState
from perdure.testing import SimulatedPlatform
from support.recovery import (
    AnsweringAgent,
    GatedPlatform,
    HangingAgent,
    decided_rules,
    interruption_reasons,
    key_of,
    view_before_interruption,
    wait_for_replies,
    wait_for_rule,
    was_interrupted_in_step,
)
from support.recovery_scenario import (
    SCRIPT,
    RecoveryScenario,
    move_session,
    scenario_crashed_in_step,
    web_platform,
)
from support.waiting import eventually

pytestmark = pytest.mark.anyio


# ── each refusal is recorded, told and shown ────────────────────────────────────────────────────────────────


async def test_b42_sender_who_is_no_longer_authorised_is_not_resumed(tmp_path: Path) -> None:
    """B101 too. The chat hears nothing: that person may not talk to us."""
    scenario = await scenario_crashed_in_step(tmp_path, platform=web_platform())
    async with scenario.serving(PLATFORMS__WEB__ALLOW="bob"):
        view = await scenario.wait_for_rule("unauthorised")
        assert "no longer authorised" in await scenario.why()
    assert was_interrupted_in_step(view)
    assert (scenario.agent_harness.run_counts["b"], scenario.platform.replies()) == (1, [])


async def test_b42_stale_turn_is_not_resumed(tmp_path: Path) -> None:
    scenario = await scenario_crashed_in_step(tmp_path)
    scenario.clock.move(3605)
    async with scenario.serving():
        view = await scenario.wait_for_rule("stale")
        await eventually("the chat is told", lambda: scenario.platform.replies())
        assert "it is too old" in await scenario.why()
    assert was_interrupted_in_step(view)
    assert scenario.agent_harness.run_counts["b"] == 1
    [told] = scenario.platform.replies()
    assert told.startswith("My work here was interrupted, and I do not continue by myself, because it is too old")
    assert "/resume" in told


async def test_b42_b56_turn_over_its_cost_limit_is_not_resumed_and_says_so(tmp_path: Path) -> None:
    scenario = await scenario_crashed_in_step(tmp_path, RECOVERY__MAX_TOKENS="4")
    async with scenario.serving_released():
        view = await scenario.wait_for_rule("tokens")
        await scenario.wait_for_replies(texts.recovery.not_resumed("its cost limit is reached: 4 of 4 tokens"))
        assert "4 of 4 tokens" in await scenario.why()
        assert (was_interrupted_in_step(view), scenario.agent_harness.run_counts["b"]) == (True, 1)
        scenario.platform.write("/resume")
        await scenario.wait_for_last_reply("done")  # it goes on because a person says so


async def test_b56_recovery_stops_on_its_way_at_the_cost_limit_and_says_so(tmp_path: Path) -> None:
    script = "step a\nstep b\nstep c\nstep d\nsay: done"
    scenario = await scenario_crashed_in_step(tmp_path, script, RECOVERY__MAX_TOKENS="5")
    async with scenario.serving_released():
        told = texts.turns.failed(texts.turns.recovery_tokens_spent(6, 5))
        await scenario.wait_for_replies(told)
        view = await scenario.turn()
        assert (was_interrupted_in_step(view), view.state, view.tokens) == (True, TurnState.FAILED, 6)
        assert "has used 6 tokens" in await scenario.why()
        scenario.platform.write("step e\nstep f\nstep g\nsay: more")
        await scenario.wait_for_replies(told, "more")  # a message of one's own knows no such limit
    assert list(scenario.agent_harness.run_counts) == ["a", "b", "c", "e", "f", "g"]


async def test_b42_b55_turn_is_not_resumed_where_the_policy_is_off(tmp_path: Path) -> None:
    """Per platform: the other one goes on by itself."""
    off, auto = web_platform(), SimulatedPlatform("other")
    scenario = RecoveryScenario(tmp_path, "b", platform=off)
    async with scenario.crashing(auto):
        off.write(SCRIPT)
        auto.write(SCRIPT)
        await scenario.agent_harness.wait_until_hanging(2)
    async with scenario.serving_released(auto, PLATFORMS__WEB__RECOVERY="off"):
        await wait_for_replies(auto, "done")
        view = await scenario.wait_for_rule("off")
        await scenario.wait_for_replies(texts.recovery.not_resumed("automatic resume is switched off here"))
        assert "switched off here" in await scenario.why()
    assert was_interrupted_in_step(view)
    assert scenario.agent_harness.run_counts["b"] == 3


async def test_b42_turn_without_an_address_is_not_resumed(tmp_path: Path) -> None:
    """Its platform is no longer one of this gateway's; once it is again, the turn goes on."""
    scenario = await scenario_crashed_in_step(tmp_path, platform=(gone := SimulatedPlatform("gone")))
    elsewhere = RecoveryScenario(tmp_path)
    async with elsewhere.serving() as gateway:
        view = await wait_for_rule(gateway.store, key_of(gone), "no_address")
        assert "no address to answer to" in await scenario.why()
        assert not await gateway.store.outbox.open_deliveries(), "nobody is told where nobody is"
    assert (
        was_interrupted_in_step(view),
        scenario.agent_harness.run_counts["b"],
        elsewhere.agent_harness.run_counts,
    ) == (True, 1, {})
    async with scenario.serving_released():
        await scenario.wait_for_replies("done")


async def test_b42_unknown_reason_is_skipped_and_no_error(tmp_path: Path) -> None:
    scenario = await scenario_crashed_in_step(tmp_path / "before")
    await move_session(scenario, tmp_path / "home", resume_pending=True, resume_reason="solar_flare")
    async with scenario.serving_released():
        view = await scenario.wait_for_rule("reason")
        await eventually("the chat is told", lambda: scenario.platform.replies())
        assert was_interrupted_in_step(view)
        assert (interruption_reasons(view), scenario.agent_harness.run_counts["b"]) == (["solar_flare"], 1)
        assert "solar_flare" in await scenario.why()
        scenario.platform.write("/resume")
        await scenario.wait_for_last_reply("done")  # a person may still let it go on


@pytest.mark.parametrize(
    ("reason", "recorded"),
    [
        pytest.param("solar_flare", "solar_flare", id="of another version"),
        pytest.param(None, "unknown", id="none"),
    ],
)
async def test_b42_b49_message_joins_the_turn_whose_reason_is_unknown(
    tmp_path: Path, reason: str | None, recorded: str
) -> None:
    """One turn, one note that names an interruption, unfinished work first, then the message."""
    scenario = await scenario_crashed_in_step(tmp_path / "before")
    await move_session(scenario, tmp_path / "home", resume_pending=True, resume_reason=reason)
    async with scenario.serving_released():
        await scenario.wait_for_rule("reason")
        await eventually("the chat is told", lambda: scenario.platform.replies())
        assert "a new message goes on with it" in await scenario.why()
        scenario.platform.write("say: and that")
        await scenario.wait_for_last_reply("done\nand that")
        [view] = await scenario.turns()
    assert (interruption_reasons(view), decided_rules(view)) == ([recorded], ["reason", "message"])
    assert (view.state, scenario.agent_harness.run_counts) == (TurnState.DONE, {"a": 1, "b": 2})
    [note] = scenario.agent_harness.request_notes()[-1]
    assert "cut off by a gateway interruption and now goes on" in note


async def test_b49_message_supersedes_old_work_also_when_its_reason_is_unknown(tmp_path: Path) -> None:
    scenario = await scenario_crashed_in_step(tmp_path / "before")
    await move_session(scenario, tmp_path / "home", resume_pending=True, resume_reason="solar_flare")
    scenario.clock.move(7200)
    async with scenario.serving_released():
        await scenario.wait_for_rule("stale")
        scenario.platform.write("say: new")
        await scenario.wait_for_last_reply("new")
        old, _ = await scenario.turns()
    assert (old.ended, scenario.agent_harness.run_counts["b"]) == (TurnCancelled("superseded"), 1)


async def test_b42_suspended_session_is_not_resumed(tmp_path: Path) -> None:
    scenario = await scenario_crashed_in_step(tmp_path / "before")
    fields = {"state": "suspended", "resume_pending": True, "resume_reason": "restart_timeout"}
    await move_session(scenario, tmp_path / "home", **fields)
    async with scenario.serving_released():
        view = await scenario.wait_for_rule("not_open")
        assert "the session is suspended" in await scenario.why()
    assert was_interrupted_in_step(view)
    assert (scenario.agent_harness.run_counts["b"], scenario.platform.replies()) == (1, [])


async def test_b42_operators_wish_needs_no_entry_in_the_list_of_people(tmp_path: Path) -> None:
    """A session that the operator brought back goes on after a crash, though no person wrote in its turn."""
    scenario = RecoveryScenario(tmp_path, "b", "c", platform=web_platform(), PLATFORMS__WEB__ALLOW="ann")
    async with scenario.crashing() as gateway:
        scenario.platform.write("step a\nstep b\nstep c\nsay: done")
        await scenario.agent_harness.wait_until_hanging()
        [session] = await gateway.store.sessions.page()
        assert await gateway.operator_verbs.suspend(session)
        [session] = await gateway.store.sessions.page()
        assert await gateway.operator_verbs.resume(session)
        await scenario.agent_harness.wait_until_hanging(2)  # in its new turn
    async with scenario.serving_released():
        await scenario.wait_for_last_reply("done")
        assert was_interrupted_in_step(await scenario.turn())


# ── freshness ───────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("seconds", "settings"),
    [
        pytest.param(3500, {}, id="within the hour"),
        pytest.param(-7200, {}, id="the clock went backwards"),
        pytest.param(30 * 86400, {"RECOVERY__FRESHNESS": "0"}, id="a month later, with the check switched off"),
        pytest.param(7000, {"RECOVERY__FRESHNESS": "2h"}, id="within the configured window"),
    ],
)
async def test_b43_turn_goes_on_while_it_is_fresh(tmp_path: Path, seconds: int, settings: dict[str, str]) -> None:
    scenario = await scenario_crashed_in_step(tmp_path)
    scenario.clock.move(seconds)
    async with scenario.serving_released(**settings):
        await scenario.wait_for_replies("done")
        assert was_interrupted_in_step(await scenario.turn())


async def test_b43_repeated_restarts_and_fresh_marks_do_not_refresh_it(tmp_path: Path) -> None:
    """A crash, then an attempt that adds nothing and runs into a drain deadline: all of it is as old as before."""
    scenario = await scenario_crashed_in_step(tmp_path)
    scenario.clock.move(1900)
    await scenario.run_into_the_deadline()
    scenario.clock.move(1900)
    async with scenario.serving():
        view = await scenario.wait_for_rule("stale")
    assert interruption_reasons(view) == ["restart_interrupted", "shutdown_timeout"]
    assert was_interrupted_in_step(view)
    assert view.last_decision is not None
    assert 3_800_000 <= view.last_decision.evidence["age_ms"] < 3_900_000
    assert scenario.agent_harness.run_counts["b"] == 2


async def test_b43_new_content_refreshes_it(tmp_path: Path) -> None:
    scenario = await scenario_crashed_in_step(tmp_path, stuck="a")
    scenario.clock.move(1900)
    scenario.agent_harness.stuck = {"b"}
    await scenario.crash_in_step()
    scenario.clock.move(1900)
    async with scenario.serving_released():
        await scenario.wait_for_replies("done")


# ── the tail decides ────────────────────────────────────────────────────────────────────────────────────────


async def not_pending(scenario: RecoveryScenario) -> bool:
    sessions = scenario.gateway.store.sessions
    [session] = await sessions.page()
    return not (await sessions.recovery(session.id)).resume_pending


def said(finish: str | None, *calls: ToolCall) -> ModelAnswered:
    return ModelAnswered(1, "the answer", calls, finish, TokenUsage(1, 1))


LOOK = ToolCall("c1.1", "look", {})
BEGUN = ToolStarted("c1.1", "look", Effect.PURE, "k")


@pytest.mark.parametrize("finish", ["stop", "end", "completed", "end_turn", "STOP", "stop_sequence"])
async def test_b44_b45_final_answer_is_delivered_and_nothing_is_run_again(tmp_path: Path, finish: str) -> None:
    scenario, again = RecoveryScenario(tmp_path), AnsweringAgent()
    written = await scenario.crash_when_hanging(HangingAgent(said(finish)), "hello")
    scenario.clock.move(7200)  # however stale: nothing is run, so nothing can be too old to run
    for _ in range(2):
        async with scenario.serving(agent=again):
            await scenario.wait_for_replies("the answer")
            [view] = await scenario.turns()
            assert view_before_interruption(view).state is TurnState.RUNNING
            assert (view.state, decided_rules(view), again.attempts) == (TurnState.DONE, ["final_answer"], 0)
            await eventually("the mark is cleared", lambda: not_pending(scenario))
    assert [posted.reply_to for posted in scenario.platform.posted] == written


@pytest.mark.parametrize(
    "entries",
    [
        pytest.param((), id="an unanswered message"),
        pytest.param((said("length"),), id="a response cut off by its length"),
        pytest.param((said("error"),), id="a response cut off by an error"),
        pytest.param((said(None),), id="a response without a finish"),
        pytest.param((said("stop", LOOK),), id="a tool call that was not begun"),
        pytest.param((said("tool_calls", LOOK), BEGUN), id="a tool call without result"),
        pytest.param((said("tool_calls", LOOK), BEGUN, ToolEnded("c1.1", "ok", "seen")), id="a result"),
    ],
)
async def test_b44_b45_turn_goes_on_when_its_tail_is_not_final(tmp_path: Path, entries: tuple[Entry, ...]) -> None:
    scenario, again = RecoveryScenario(tmp_path), AnsweringAgent()
    await scenario.crash_when_hanging(HangingAgent(*entries), "hello")
    async with scenario.serving(agent=again):
        await scenario.wait_for_replies("answered")
        [view] = await scenario.turns()
    assert view_before_interruption(view).state is TurnState.RUNNING
    assert (again.attempts, view.attempt) == (1, 2)


async def test_b44_b57_turn_with_nothing_in_it_is_cleared_in_silence(tmp_path: Path) -> None:
    """A mark that came without a turn, by an import: there is nothing to go on with."""
    scenario, again = RecoveryScenario(tmp_path / "before"), AnsweringAgent()
    async with scenario.serving(agent=again):
        scenario.platform.write("hello")
        await scenario.wait_for_replies("answered")
    await move_session(scenario, tmp_path / "home", resume_pending=True, resume_reason="restart_timeout")
    for _ in range(2):
        async with scenario.serving(agent=again):
            view = await scenario.wait_for_rule("nothing_done")
            assert (view.state, again.attempts) == (TurnState.CANCELLED, 1)
            assert await not_pending(scenario)
    assert scenario.platform.replies() == ["answered"]


async def test_b44_question_that_was_never_delivered_waits_for_its_answer(tmp_path: Path) -> None:
    platform, asked = GatedPlatform(), "Which way?\n(Left / Right)"
    scenario = RecoveryScenario(tmp_path, platform=platform)
    async with scenario.crashing() as gateway:
        platform.write("ask: Which way? | Left | Right\nstep go 0s\nsay: gone")
        await platform.wait_for_sends(1)
        [owed] = await gateway.store.outbox.open_deliveries()
    assert (owed.text, platform.posted) == (asked, [])
    platform.gate.set()
    for _ in range(2):
        async with scenario.serving():
            await scenario.wait_for_replies(asked)
            view = await scenario.turn()
            assert (view.state, interruption_reasons(view), view.attempt) == (TurnState.WAITING, [], 1)
    async with scenario.serving():
        platform.write("Left")
        await scenario.wait_for_replies(asked, "gone")

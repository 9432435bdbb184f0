"""Starting again: what was cut off is found and goes on, and what was finished stays finished.

Drives `runtime/recovery` and `store/turns`.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from perdure.agents.api import Reply, TurnContext
from perdure.core.journal import RecoveryDecided, TurnView
from perdure.core.states import TurnState
from perdure.store.api import Store
from perdure.store.runs import Run
from perdure.testing import SimulatedPlatform
from support.recovery import (
    AnsweringAgent,
    GatedPlatform,
    HangingAgent,
    decided_rules,
    interruption_reasons,
    key_of,
    last_turn,
    view_before_interruption,
    wait_for_replies,
    was_interrupted_in_step,
)
from support.recovery_scenario import (
    SCRIPT,
    RecoveryScenario,
    scenario_crashed_in_step,
    scenario_with_open_delivery,
)
from support.waiting import eventually

pytestmark = pytest.mark.anyio


# ── found and marked ────────────────────────────────────────────────────────────────────────────────────────


async def test_b40_b41_turn_is_marked_and_goes_on_by_itself_when_killed_in_a_step(tmp_path: Path) -> None:
    scenario = await scenario_crashed_in_step(tmp_path)
    async with scenario.serving_released():
        await scenario.wait_for_replies("done")
        [view] = await scenario.turns()
    assert was_interrupted_in_step(view)
    assert interruption_reasons(view) == ["restart_interrupted"]
    assert (view.state, view.attempt, decided_rules(view)) == (TurnState.DONE, 2, ["resume"])


async def test_b40_turn_goes_on_however_long_it_had_been_running(tmp_path: Path) -> None:
    """B43 too: the heartbeat of the run that wrote the newest content is a sign of life."""
    scenario = RecoveryScenario(tmp_path, "b")
    async with scenario.crashing():
        scenario.platform.write(SCRIPT)
        await scenario.agent_harness.wait_until_hanging()
        await two_hours_with_a_heartbeat(scenario)
    async with scenario.serving_released():
        await scenario.wait_for_replies("done")
        view = await scenario.turn()
    assert was_interrupted_in_step(view)
    assert age_at_the_decision(view) < 60_000


async def test_b40_turn_goes_on_however_long_its_first_answer_was_awaited(tmp_path: Path) -> None:
    """The message itself was written by a run that lived on: its heartbeats count from the first moment."""
    scenario, slow = RecoveryScenario(tmp_path), HangingAgent()
    async with scenario.crashing(agent=slow):
        scenario.platform.write("a hard question")
        await eventually("the agent thinks", lambda: slow.hang_count)
        await two_hours_with_a_heartbeat(scenario)
    async with scenario.serving(agent=AnsweringAgent()):
        await scenario.wait_for_replies("answered")
        view = await scenario.turn()
    assert not view_before_interruption(view).responses
    assert age_at_the_decision(view) < 60_000


async def two_hours_with_a_heartbeat(scenario: RecoveryScenario) -> None:
    store = scenario.gateway.store
    began = await newest_run(store)
    scenario.clock.move(7200)
    await eventually("the gateway says that it is alive", lambda: _beaten(store, began))


async def _beaten(store: Store, began: Run) -> bool:
    return (await newest_run(store)).heartbeat_at >= began.heartbeat_at + 7_200_000


async def newest_run(store: Store) -> Run:
    rows = await store.database.read(lambda tx: tx.all("SELECT max(id) FROM runs"))
    run = await store.runs.get(rows[0][0])
    assert run is not None
    return run


def age_at_the_decision(view: TurnView) -> int:
    [evidence] = [record.entry.evidence for record in view.records if isinstance(record.entry, RecoveryDecided)]
    age: int = evidence["age_ms"]
    return age


# ── finished chats stay silent ──────────────────────────────────────────────────────────────────────────────


async def test_b40_chat_that_finished_one_second_before_gets_no_turn(tmp_path: Path) -> None:
    scenario = RecoveryScenario(tmp_path, "b")
    async with scenario.crashing() as gateway:
        scenario.platform.write(SCRIPT, chat="2")
        await scenario.agent_harness.wait_until_hanging()
        scenario.platform.write("say: hello")
        await scenario.wait_for_replies("hello")
        await nothing_owed(gateway.store)
        scenario.clock.move(1)
    async with scenario.serving_released():
        await scenario.wait_for_replies("done", chat="2")
        assert was_interrupted_in_step(await scenario.turn("2"))
        [view] = await scenario.turns()
    assert (view.attempt, interruption_reasons(view)) == (1, [])
    assert scenario.platform.replies() == ["hello"]


async def test_b40_finished_chat_stays_silent_through_ten_crashes_and_three_restarts(tmp_path: Path) -> None:
    scenario = RecoveryScenario(tmp_path, "b")
    async with scenario.serving():
        scenario.platform.write("step a\nsay: hello")
        await scenario.wait_for_replies("hello")
        written = await whole_journal(scenario)
    for crash in range(10):
        await scenario.crash_in_step(SCRIPT, chat=f"n{crash}")
    for restart in range(3):
        scenario.clock.move(600)
        async with scenario.serving_released() as gateway:
            scenario.platform.write("say: new", chat=f"r{restart}")
            await scenario.wait_for_replies("new", chat=f"r{restart}")
            await eventually("nothing is under way", lambda: nothing_begun(gateway.store))
            assert await whole_journal(scenario) == written
    assert scenario.platform.replies() == ["hello"]


async def whole_journal(scenario: RecoveryScenario) -> list[object]:
    return [record for view in await scenario.turns() for record in view.records]


async def nothing_owed(store: Store) -> None:
    await eventually("nothing is owed", lambda: _nothing_open(store))


async def _nothing_open(store: Store) -> bool:
    return not await store.outbox.open_deliveries()


async def nothing_begun(store: Store) -> bool:
    """Nothing runs or is about to; what was held back or set aside stays so."""
    turns = [turn for session in await store.sessions.page() for turn in await store.turns.of_session(session.id)]
    return not [turn for turn in turns if turn.state in ("queued", "running")]


# ── platform by platform ────────────────────────────────────────────────────────────────────────────────────


async def test_b41_platform_that_connects_late_resumes_then_and_only_its_own(tmp_path: Path) -> None:
    early, late = SimulatedPlatform("early"), SimulatedPlatform("late")
    scenario = RecoveryScenario(tmp_path, "b", platform=early)
    async with scenario.crashing(late):
        early.write(SCRIPT)
        late.write(SCRIPT)
        await scenario.agent_harness.wait_until_hanging(2)
    late.reachable = False
    async with scenario.serving_released(late) as gateway:
        await scenario.wait_for_replies("done")
        await nothing_owed(gateway.store)
        waiting = await last_turn(gateway.store, key_of(late))
        assert was_interrupted_in_step(waiting)
        assert (waiting.state, decided_rules(waiting), scenario.agent_harness.run_counts["b"]) == (
            TurnState.INTERRUPTED,
            [],
            3,
        )
        ended = await whole_journal(scenario)
        late.reachable = True
        await wait_for_replies(late, "done")
        assert await whole_journal(scenario) == ended
    assert early.replies() == ["done"]


async def test_b41_owed_replies_go_before_recoveries(tmp_path: Path) -> None:
    platform = GatedPlatform()
    scenario = await scenario_with_open_delivery(tmp_path, platform)
    async with scenario.serving_released():
        await platform.wait_for_sends(2)
        waiting = await scenario.turn()
        assert was_interrupted_in_step(waiting)
        assert (waiting.state, decided_rules(waiting)) == (TurnState.INTERRUPTED, [])
        platform.gate.set()
        await scenario.wait_for_replies("done")
    assert [posted.text for posted in platform.posted] == ["owed", "done"]


async def test_b41_platform_that_reconnects_resumes_then(tmp_path: Path) -> None:
    """It was lost again before its recoveries began, while a reply that was owed was on its way."""
    platform = GatedPlatform()
    scenario = await scenario_with_open_delivery(tmp_path, platform)
    async with scenario.serving_released() as gateway:
        await platform.wait_for_sends(2)
        platform.reachable = False
        platform.disconnect()
        await eventually("the platform is gone", lambda: not gateway.loops.connections.connected)
        platform.gate.set()
        view = await scenario.wait_for_rule("not_connected")
        assert was_interrupted_in_step(view)
        assert (view.state, scenario.agent_harness.run_counts["b"]) == (TurnState.INTERRUPTED, 1)
        platform.reachable = True
        await scenario.wait_for_replies("done")
        await scenario.wait_for_replies("owed", chat="2")


# ── going on ────────────────────────────────────────────────────────────────────────────────────────────────


async def test_b46_finished_steps_are_not_run_again_and_their_results_are_used(tmp_path: Path) -> None:
    scenario = await scenario_crashed_in_step(tmp_path, "step a\nonce x\nstep b\nstep c")
    async with scenario.serving_released():
        await scenario.wait_for_replies("a: done\nx: done\nb: done\nc: done")
        assert was_interrupted_in_step(await scenario.turn())
    assert scenario.agent_harness.run_counts == {"a": 1, "x": 1, "b": 2, "c": 1}


async def test_b46_agent_of_ones_own_is_called_again_with_its_journal(tmp_path: Path) -> None:
    scenario, seen = await scenario_crashed_in_step(tmp_path), list[TurnView]()

    class Own:
        async def run(self, context: TurnContext) -> Reply:
            seen.append(context.view)
            return Reply("mine")

    async with scenario.serving(agent=Own()):
        await scenario.wait_for_replies("mine")
    assert [view.attempt for view in seen] == [2]
    assert {call.request.id for call in seen[0].calls.values() if call.ended} == {"c1.1", "c2.1"}


async def test_b50_message_during_its_recovery_is_answered_once_in_order(tmp_path: Path) -> None:
    scenario = await scenario_crashed_in_step(tmp_path)
    async with scenario.serving():
        await scenario.agent_harness.wait_until_hanging(2)  # again, in its recovery
        scenario.platform.write("say: two")
        scenario.platform.write("say: three")
        scenario.platform.write("say: other", chat="2")
        await scenario.wait_for_replies("other", chat="2")  # at once: the recovery is still under way
        [view] = await scenario.turns()
        assert was_interrupted_in_step(view)
        assert (view.state, view.attempt) == (TurnState.RUNNING, 2)
        scenario.agent_harness.release()
        await scenario.wait_for_replies("done", "two", "three")
        assert [turn.attempt for turn in await scenario.turns()] == [2, 1, 1]


async def test_b51_only_so_many_recoveries_run_at_the_same_time(tmp_path: Path) -> None:
    scenario, crowd, chats = RecoveryScenario(tmp_path, "b"), Crowd(), "1234567"
    await scenario.crash_in_every_chat(chats)
    async with scenario.serving(agent=crowd):
        await eventually("four run", lambda: crowd.inside == 4)
        scenario.platform.write("say: new", chat="new")
        await scenario.wait_for_replies("answered", chat="new")  # nobody new waits for a place
        states = [(await scenario.turn(chat)).state for chat in chats]
        assert sorted(states) == [TurnState.INTERRUPTED] * 3 + [TurnState.RUNNING] * 4
        crowd.gate.set()
        for chat in chats:
            await scenario.wait_for_replies("answered", chat=chat)
    assert crowd.most == 4


async def test_b51_number_of_recoveries_is_a_setting(tmp_path: Path) -> None:
    scenario, crowd = RecoveryScenario(tmp_path, "b"), Crowd()
    await scenario.crash_in_every_chat("123")
    async with scenario.serving(agent=crowd, RECOVERY__CONCURRENCY="1"):
        crowd.gate.set()
        for chat in "123":
            await scenario.wait_for_replies("answered", chat=chat)
    assert crowd.most == 1


class Crowd:
    """An agent that counts how many recoveries are inside at once, and keeps them until its gate is opened."""

    def __init__(self) -> None:
        self.inside = 0
        self.most = 0
        self.gate = asyncio.Event()

    async def run(self, context: TurnContext) -> Reply:
        if context.view.attempt == 1:
            return Reply("answered")
        self.inside += 1
        self.most = max(self.most, self.inside)
        await self.gate.wait()
        self.inside -= 1
        return Reply("answered")


async def test_b51_stop_ends_in_time_while_recoveries_wait_for_a_place(tmp_path: Path) -> None:
    """B21 too: those that had no place yet are found again, and the stop does not wait for them."""
    scenario = RecoveryScenario(tmp_path, "b")
    await scenario.crash_in_every_chat("123")
    async with scenario.serving(RECOVERY__CONCURRENCY="1", DRAIN__DEADLINE="0s") as gateway:
        await scenario.agent_harness.wait_until_hanging(4)  # one recovery has its place
        gateway.stop()
        await eventually("the gateway has stopped", lambda: gateway.phase == "stopped")
    async with scenario.serving_released():
        for chat in "123":
            await scenario.wait_for_last_reply("done", chat=chat)
        marks = [interruption_reasons(await scenario.turn(chat)) for chat in "123"]
    crashed, stopped = "restart_interrupted", "shutdown_timeout"
    assert sorted(marks, key=len) == [[crashed], [crashed], [crashed, stopped]]

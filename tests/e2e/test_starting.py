"""Starting again: what was cut off is found and goes on, and what was finished stays finished."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from perdure.agents.api import Reply, TurnContext
from perdure.core.journal import Decided, TurnView
from perdure.core.turn import State
from perdure.runtime.gateway import Gateway
from perdure.store.api import Store
from perdure.store.runs import Run
from perdure.testing import SettableClock, SimulatedPlatform
from support.inprocess import crashing_at_the_end, serving
from support.recovering import (
    Answering,
    Bench,
    Gated,
    Halting,
    before_the_cut,
    crash_in_a_step,
    decided,
    key_of,
    last_turn,
    reasons,
    replies,
    rules,
    turns_in,
    was_cut_in_a_step,
)
from support.waiting import eventually

pytestmark = pytest.mark.anyio

SCRIPT = "step a\nstep b\nsay: done"


# ── found and marked ────────────────────────────────────────────────────────────────────────────────────────


async def test_b40_b41_turn_is_marked_and_goes_on_by_itself_when_killed_in_a_step(tmp_path: Path) -> None:
    platform, bench = SimulatedPlatform(), Bench("b")
    await crash_in_a_step(tmp_path, platform, bench, SCRIPT)
    bench.release()
    async with serving(tmp_path, platform, agent=bench.agent) as gateway:
        await replies(platform, "done")
        [view] = await turns_in(gateway.store, key_of(platform))
    assert was_cut_in_a_step(view)
    assert reasons(view) == ["restart_interrupted"]
    assert (view.state, view.attempt, rules(view)) == (State.DONE, 2, ["resume"])


async def test_b40_turn_goes_on_however_long_it_had_been_running(tmp_path: Path) -> None:
    """B43 too: the heartbeat of the run that wrote the newest content is a sign of life."""
    platform, bench, clock = SimulatedPlatform(), Bench("b"), SettableClock()
    async with crashing_at_the_end(tmp_path, platform, agent=bench.agent, clock=clock) as gateway:
        platform.write(SCRIPT)
        await eventually("the step hangs", lambda: bench.hanging)
        await two_hours_with_a_heartbeat(gateway, clock)
    bench.release()
    async with serving(tmp_path, platform, agent=bench.agent, clock=clock) as gateway:
        await replies(platform, "done")
        view = await last_turn(gateway.store, key_of(platform))
    assert was_cut_in_a_step(view)
    assert age_at_the_decision(view) < 60_000


async def test_b40_turn_goes_on_however_long_its_first_answer_was_awaited(tmp_path: Path) -> None:
    """The message itself was written by a run that lived on: its heartbeats count from the first moment."""
    platform, clock, slow = SimulatedPlatform(), SettableClock(), Halting()
    async with crashing_at_the_end(tmp_path, platform, agent=slow, clock=clock) as gateway:
        platform.write("a hard question")
        await eventually("the agent thinks", lambda: slow.hangs)
        await two_hours_with_a_heartbeat(gateway, clock)
    async with serving(tmp_path, platform, agent=Answering(), clock=clock) as gateway:
        await replies(platform, "answered")
        view = await last_turn(gateway.store, key_of(platform))
    assert not before_the_cut(view).responses
    assert age_at_the_decision(view) < 60_000


async def two_hours_with_a_heartbeat(gateway: Gateway, clock: SettableClock) -> None:
    began = await newest_run(gateway.store)
    clock.move(7200)
    await eventually("the gateway says that it is alive", lambda: _beaten(gateway.store, began))


async def _beaten(store: Store, began: Run) -> bool:
    return (await newest_run(store)).heartbeat_at >= began.heartbeat_at + 7_200_000


async def newest_run(store: Store) -> Run:
    rows = await store.database.read(lambda tx: tx.all("SELECT max(id) FROM runs"))
    run = await store.runs.get(rows[0][0])
    assert run is not None
    return run


def age_at_the_decision(view: TurnView) -> int:
    [evidence] = [record.entry.evidence for record in view.records if isinstance(record.entry, Decided)]
    age: int = evidence["age_ms"]
    return age


# ── finished chats stay silent ──────────────────────────────────────────────────────────────────────────────


async def test_b40_chat_that_finished_one_second_before_gets_no_turn(tmp_path: Path) -> None:
    platform, bench, clock = SimulatedPlatform(), Bench("b"), SettableClock()
    async with crashing_at_the_end(tmp_path, platform, agent=bench.agent, clock=clock) as gateway:
        platform.write(SCRIPT, chat="2")
        await eventually("the neighbour is in its second step", lambda: bench.hanging)
        platform.write("say: hello")
        await replies(platform, "hello")
        await nothing_owed(gateway.store)
        clock.move(1)
    bench.release()
    async with serving(tmp_path, platform, agent=bench.agent, clock=clock) as gateway:
        await replies(platform, "done", chat="2")
        assert was_cut_in_a_step(await last_turn(gateway.store, key_of(platform, "2")))
        [view] = await turns_in(gateway.store, key_of(platform))
    assert (view.attempt, reasons(view)) == (1, [])
    assert platform.replies() == ["hello"]


async def test_b40_finished_chat_stays_silent_through_ten_crashes_and_three_restarts(tmp_path: Path) -> None:
    platform, bench, clock = SimulatedPlatform(), Bench("b"), SettableClock()
    async with serving(tmp_path, platform, agent=bench.agent, clock=clock) as gateway:
        platform.write("step a\nsay: hello")
        await replies(platform, "hello")
        written = await whole_journal(gateway.store, key_of(platform))
    for crash in range(10):
        await crash_in_a_step(tmp_path, platform, bench, SCRIPT, chat=f"n{crash}", clock=clock)
    bench.release()
    for restart in range(3):
        clock.move(600)
        async with serving(tmp_path, platform, agent=bench.agent, clock=clock) as gateway:
            platform.write("say: new", chat=f"r{restart}")
            await replies(platform, "new", chat=f"r{restart}")
            await eventually("nothing is under way", lambda: nothing_begun(gateway.store))
            assert await whole_journal(gateway.store, key_of(platform)) == written
    assert platform.replies() == ["hello"]


async def whole_journal(store: Store, key: str) -> list[object]:
    return [record for view in await turns_in(store, key) for record in view.records]


async def nothing_owed(store: Store) -> None:
    await eventually("nothing is owed", lambda: _nothing_open(store))


async def _nothing_open(store: Store) -> bool:
    return not await store.outbox.open()


async def nothing_begun(store: Store) -> bool:
    """Nothing runs or is about to; what was held back or set aside stays so."""
    turns = [turn for session in await store.sessions.page() for turn in await store.turns.of_session(session.id)]
    return not [turn for turn in turns if turn.state in ("queued", "running")]


# ── platform by platform ────────────────────────────────────────────────────────────────────────────────────


async def test_b41_platform_that_connects_late_resumes_then_and_only_its_own(tmp_path: Path) -> None:
    early, late = SimulatedPlatform("early"), SimulatedPlatform("late")
    bench = Bench("b")
    async with crashing_at_the_end(tmp_path, early, late, agent=bench.agent):
        early.write(SCRIPT)
        late.write(SCRIPT)
        await eventually("both are in their second step", lambda: len(bench.hanging) == 2)
    bench.release()
    late.reachable = False
    async with serving(tmp_path, early, late, agent=bench.agent) as gateway:
        await replies(early, "done")
        await nothing_owed(gateway.store)
        waiting = await last_turn(gateway.store, key_of(late))
        assert was_cut_in_a_step(waiting)
        assert (waiting.state, rules(waiting), bench.ran["b"]) == (State.INTERRUPTED, [], 3)
        ended = await whole_journal(gateway.store, key_of(early))
        late.reachable = True
        await replies(late, "done")
        assert await whole_journal(gateway.store, key_of(early)) == ended
    assert early.replies() == ["done"]


async def test_b41_owed_replies_go_before_recoveries(tmp_path: Path) -> None:
    platform, bench = Gated(), Bench("b")
    async with crashing_at_the_end(tmp_path, platform, agent=bench.agent) as gateway:
        platform.write(SCRIPT)
        platform.write("say: owed", chat="2")
        await eventually("a step hangs, and a send", lambda: bench.hanging and platform.held)
        [owed] = await gateway.store.outbox.open()
    assert owed.text == "owed"
    bench.release()
    async with serving(tmp_path, platform, agent=bench.agent) as gateway:
        await eventually("the reply is being sent", lambda: platform.held == 2)
        waiting = await last_turn(gateway.store, key_of(platform))
        assert was_cut_in_a_step(waiting)
        assert (waiting.state, rules(waiting)) == (State.INTERRUPTED, [])
        platform.gate.set()
        await replies(platform, "done")
    assert [posted.text for posted in platform.posted] == ["owed", "done"]


async def test_b41_platform_that_reconnects_resumes_then(tmp_path: Path) -> None:
    """It was lost again before its recoveries began, while a reply that was owed was on its way."""
    platform, bench = Gated(), Bench("b")
    async with crashing_at_the_end(tmp_path, platform, agent=bench.agent):
        platform.write(SCRIPT)
        platform.write("say: owed", chat="2")
        await eventually("a step hangs, and a send", lambda: bench.hanging and platform.held)
    bench.release()
    async with serving(tmp_path, platform, agent=bench.agent) as gateway:
        await eventually("the reply is being sent", lambda: platform.held == 2)
        platform.reachable = False
        platform.disconnect()
        await eventually("the platform is gone", lambda: not gateway.loops.connections.connected)
        platform.gate.set()
        view = await decided(gateway.store, key_of(platform), "not_connected")
        assert was_cut_in_a_step(view)
        assert (view.state, bench.ran["b"]) == (State.INTERRUPTED, 1)
        platform.reachable = True
        await replies(platform, "done")
        await replies(platform, "owed", chat="2")


# ── going on ────────────────────────────────────────────────────────────────────────────────────────────────


async def test_b46_finished_steps_are_not_run_again_and_their_results_are_used(tmp_path: Path) -> None:
    platform, bench = SimulatedPlatform(), Bench("b")
    await crash_in_a_step(tmp_path, platform, bench, "step a\nonce x\nstep b\nstep c")
    bench.release()
    async with serving(tmp_path, platform, agent=bench.agent) as gateway:
        await replies(platform, "a: done\nx: done\nb: done\nc: done")
        assert was_cut_in_a_step(await last_turn(gateway.store, key_of(platform)))
    assert bench.ran == {"a": 1, "x": 1, "b": 2, "c": 1}


async def test_b46_agent_of_ones_own_is_called_again_with_its_journal(tmp_path: Path) -> None:
    platform, bench, seen = SimulatedPlatform(), Bench("b"), list[TurnView]()
    await crash_in_a_step(tmp_path, platform, bench, SCRIPT)

    class Own:
        async def run(self, context: TurnContext) -> Reply:
            seen.append(context.view)
            return Reply("mine")

    async with serving(tmp_path, platform, agent=Own()):
        await replies(platform, "mine")
    assert [view.attempt for view in seen] == [2]
    assert {call.request.id for call in seen[0].calls.values() if call.ended} == {"c1.1", "c2.1"}


async def test_b50_message_during_its_recovery_is_answered_once_in_order(tmp_path: Path) -> None:
    platform, bench = SimulatedPlatform(), Bench("b")
    await crash_in_a_step(tmp_path, platform, bench, SCRIPT)
    async with serving(tmp_path, platform, agent=bench.agent) as gateway:
        await eventually("the step hangs again, in its recovery", lambda: len(bench.hanging) == 2)
        platform.write("say: two")
        platform.write("say: three")
        platform.write("say: other", chat="2")
        await replies(platform, "other", chat="2")  # at once: the recovery is still under way
        [view] = await turns_in(gateway.store, key_of(platform))
        assert was_cut_in_a_step(view)
        assert (view.state, view.attempt) == (State.RUNNING, 2)
        bench.release()
        await replies(platform, "done", "two", "three")
        assert [turn.attempt for turn in await turns_in(gateway.store, key_of(platform))] == [2, 1, 1]


async def test_b51_only_so_many_recoveries_run_at_the_same_time(tmp_path: Path) -> None:
    platform, bench = SimulatedPlatform(), Bench("b")
    chats = [str(n) for n in range(7)]
    async with crashing_at_the_end(tmp_path, platform, agent=bench.agent):
        for chat in chats:
            platform.write(SCRIPT, chat=chat)
        await eventually("every chat is in its second step", lambda: len(bench.hanging) == 7)
    async with serving(tmp_path, platform, agent=(crowd := Crowd())) as gateway:
        await eventually("four run", lambda: crowd.inside == 4)
        platform.write("say: new", chat="new")
        await replies(platform, "answered", chat="new")  # nobody new waits for a place
        states = [(await last_turn(gateway.store, key_of(platform, chat))).state for chat in chats]
        assert sorted(states) == [State.INTERRUPTED] * 3 + [State.RUNNING] * 4
        crowd.gate.set()
        for chat in chats:
            await replies(platform, "answered", chat=chat)
    assert crowd.most == 4


async def test_b51_number_of_recoveries_is_a_setting(tmp_path: Path) -> None:
    platform, bench, one = SimulatedPlatform(), Bench("b"), {"RECOVERY__CONCURRENCY": "1"}
    async with crashing_at_the_end(tmp_path, platform, agent=bench.agent):
        for chat in "123":
            platform.write(SCRIPT, chat=chat)
        await eventually("every chat is in its second step", lambda: len(bench.hanging) == 3)
    async with serving(tmp_path, platform, agent=(crowd := Crowd()), **one):
        crowd.gate.set()
        for chat in "123":
            await replies(platform, "answered", chat=chat)
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
    platform, bench = SimulatedPlatform(), Bench("b")
    options = {"RECOVERY__CONCURRENCY": "1", "DRAIN__DEADLINE": "0s"}
    async with crashing_at_the_end(tmp_path, platform, agent=bench.agent):
        for chat in "123":
            platform.write(SCRIPT, chat=chat)
        await eventually("every chat is in its second step", lambda: len(bench.hanging) == 3)
    async with serving(tmp_path, platform, agent=bench.agent, **options) as gateway:
        await eventually("one recovery has its place", lambda: len(bench.hanging) == 4)
        gateway.stop()
        await eventually("the gateway has stopped", lambda: gateway.phase == "stopped")
    bench.release()
    async with serving(tmp_path, platform, agent=bench.agent) as gateway:
        await eventually("everybody is answered", lambda: all(platform.replies(n)[-1:] == ["done"] for n in "123"))
        marks = [reasons(await last_turn(gateway.store, key_of(platform, chat))) for chat in "123"]
    crashed, stopped = "restart_interrupted", "shutdown_timeout"
    assert sorted(marks, key=len) == [[crashed], [crashed], [crashed, stopped]]

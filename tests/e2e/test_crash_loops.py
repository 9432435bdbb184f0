"""Work that keeps being cut off: when it is set aside, when automatic resume is paused, and what ends it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from perdure.agents.api import Reply, TurnContext
from perdure.core import notes
from perdure.core.session import SessionState
from perdure.core.turn import State
from perdure.runtime.gateway import Gateway
from perdure.store.api import Store
from perdure.testing import SettableClock, SimulatedPlatform
from support.inprocess import crashing_at_the_end, serving
from support.recovering import (
    Answering,
    Bench,
    Halting,
    crash_in_a_step,
    decided,
    key_of,
    last_turn,
    perdure,
    reasons,
    replies,
    rules,
    turns_in,
    was_cut_in_a_step,
)
from support.waiting import eventually

pytestmark = pytest.mark.anyio

SCRIPT = "step a\nstep b\nsay: done"
LATER = 600  # seconds: crashes so far apart are no crash loop


async def run_into_the_deadline(
    home: Path, platform: SimulatedPlatform, bench: Bench, clock: SettableClock
) -> None:
    """Let a gateway take the work up again, and stop it while a step hangs."""
    before = len(bench.hanging)
    async with serving(home, platform, agent=bench.agent, clock=clock, DRAIN__DEADLINE="0"):
        await eventually("a step hangs", lambda: len(bench.hanging) > before)


async def tried(agent: Halting, times: int) -> None:
    await eventually(f"it was tried {times} times", lambda: agent.hangs == times)


async def state_of(store: Store, key: str) -> SessionState:
    return (await store.sessions.of_key(key))[-1].state


def said(platform: SimulatedPlatform, chat: str = "1") -> list[str]:
    """What the chat sees, without the banners of orderly stops."""
    return [text for text in platform.replies(chat) if text != notes.banner(restart=False)]


async def sees(platform: SimulatedPlatform, *texts: str, chat: str = "1") -> None:
    await eventually(f"chat {chat} sees {texts}", lambda: said(platform, chat) == list(texts))


# ── set aside ───────────────────────────────────────────────────────────────────────────────────────────────

THREE_TIMES = notes.suspended("it was cut off 3 times in a row without progress")


async def test_b52_session_is_set_aside_after_three_interruptions_without_progress(tmp_path: Path) -> None:
    """By a mix of crash and drain deadline; the user is told, and /resume brings it back to its end."""
    platform, bench, clock = SimulatedPlatform(), Bench("b"), SettableClock()
    await crash_in_a_step(
        tmp_path, platform, bench, "step a\nstep b\nstep c\nsay: done", clock=clock
    )  # progress: a
    await run_into_the_deadline(tmp_path, platform, bench, clock)
    await crash_in_a_step(tmp_path, platform, bench, clock=clock)
    bench.release()
    async with serving(tmp_path, platform, agent=bench.agent, clock=clock) as gateway:
        await sees(platform, THREE_TIMES)
        [view] = await turns_in(gateway.store, key_of(platform))
        assert was_cut_in_a_step(view)
        assert reasons(view) == ["restart_interrupted", "shutdown_timeout", "restart_interrupted"]
        assert await state_of(gateway.store, key_of(platform)) is SessionState.SUSPENDED
        assert "3 times in a row without progress" in await perdure(tmp_path, "why", key_of(platform))
        platform.write("/resume")
        await sees(platform, THREE_TIMES, notes.RESUMED["session"], "done")
        assert await state_of(gateway.store, key_of(platform)) is SessionState.OPEN
    assert bench.ran == {"a": 1, "b": 4, "c": 1}


async def test_b52_suspended_session_stays_silent_through_restarts(tmp_path: Path) -> None:
    platform, halting, clock = SimulatedPlatform(), Halting(), SettableClock()
    platform.write("hello")
    for crash in range(1, 4):
        async with crashing_at_the_end(tmp_path, platform, agent=halting, clock=clock):
            await tried(halting, crash)
        clock.move(LATER)
    for _ in range(2):
        async with serving(tmp_path, platform, agent=halting, clock=clock) as gateway:
            await sees(platform, THREE_TIMES)
            view = await last_turn(gateway.store, key_of(platform))
            assert (view.state, rules(view)[-1]) == (State.CANCELLED, "no_progress")
    assert halting.attempts == 3


async def test_b52_progress_sets_the_count_back(tmp_path: Path) -> None:
    platform, bench, clock = SimulatedPlatform(), Bench("b"), SettableClock()
    await crash_in_a_step(tmp_path, platform, bench, "step a\nstep b\nstep c\nsay: done", clock=clock)
    for stuck in ("b", "c", "c"):  # nothing, then a step, then nothing
        clock.move(LATER)
        bench.stuck = {stuck}
        await crash_in_a_step(tmp_path, platform, bench, clock=clock)
    bench.release()
    clock.move(LATER)
    async with serving(tmp_path, platform, agent=bench.agent, clock=clock) as gateway:
        await replies(platform, "done")
        view = await last_turn(gateway.store, key_of(platform))
    assert was_cut_in_a_step(view)
    assert [mark.progress for mark in view.interruptions] == [True, False, True, False]


async def test_b52_completed_turn_sets_the_count_to_zero(tmp_path: Path) -> None:
    platform, clock = SimulatedPlatform(), SettableClock()
    for answered in range(1, 3):
        halting = Halting()
        platform.write("hello")
        for crash in range(1, 3):
            async with crashing_at_the_end(tmp_path, platform, agent=halting, clock=clock):
                await tried(halting, crash)
            clock.move(LATER)
        async with serving(tmp_path, platform, agent=Answering(), clock=clock) as gateway:
            await replies(platform, *["answered"] * answered)
            view = await last_turn(gateway.store, key_of(platform))
            assert (view.without_progress, view.state) == (2, State.DONE)


async def test_b52_ten_interruptions_in_all_end_it_too(tmp_path: Path) -> None:
    platform, bench, clock = SimulatedPlatform(), Bench("s0"), SettableClock()
    platform.write("\n".join(f"step s{n}" for n in range(12)))
    for crash in range(10):
        bench.stuck = {f"s{crash}"}
        await crash_in_a_step(tmp_path, platform, bench, clock=clock)
        clock.move(LATER)
    async with serving(tmp_path, platform, agent=bench.agent, clock=clock) as gateway:
        await sees(platform, notes.suspended("it was cut off 10 times in all"))
        view = await last_turn(gateway.store, key_of(platform))
    assert was_cut_in_a_step(view)
    assert all(mark.progress for mark in view.interruptions)
    assert bench.ran["s9"] == 1


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
    platform, agent, clock = SimulatedPlatform(), Crasher(), SettableClock()
    platform.write("bad", chat="bad")
    platform.write("good", chat="good")
    for _ in range(2):
        async with crashing_at_the_end(tmp_path, platform, agent=agent, clock=clock):
            await agent.runs("bad", "good")
        clock.move(LATER)
    agent.slow.set()
    agent.most = 0
    async with crashing_at_the_end(tmp_path, platform, agent=agent, clock=clock):
        await agent.runs("bad")  # before or after its neighbour, and never beside it
    clock.move(LATER)
    async with serving(tmp_path, platform, agent=agent, clock=clock) as gateway:
        await replies(platform, "fine", chat="good")
        await sees(platform, THREE_TIMES, chat="bad")
        assert len(reasons(await last_turn(gateway.store, key_of(platform, "bad")))) == 3
        assert len(reasons(await last_turn(gateway.store, key_of(platform, "good")))) == 2
    assert agent.most == 1


# ── paused ──────────────────────────────────────────────────────────────────────────────────────────────────

PAUSED = "automatic resume is paused: the gateway keeps crashing"


PATIENT = {"RECOVERY__MAX_WITHOUT_PROGRESS": "9"}  # so that the session is not set aside first


async def crash_three_times(home: Path, platform: SimulatedPlatform, bench: Bench) -> None:
    await crash_in_a_step(home, platform, bench, SCRIPT, **PATIENT)
    for _ in range(2):
        await crash_in_a_step(home, platform, bench, **PATIENT)


async def test_b53_three_unclean_starts_pause_automatic_resume_and_everybody_is_served(tmp_path: Path) -> None:
    platform, bench = SimulatedPlatform(), Bench("b")
    await crash_three_times(tmp_path, platform, bench)
    async with serving(tmp_path, platform, agent=bench.agent, **PATIENT) as gateway:
        view = await decided(gateway.store, key_of(platform), "paused")
        assert (was_cut_in_a_step(view), len(bench.hanging)) == (True, 3)
        assert notes.RESUME_PAUSED in gateway.describe()
        await replies(platform, notes.will_not_go_on(PAUSED))
        platform.write("say: hello", chat="2")
        await replies(platform, "hello", chat="2")
        platform.write("/status", chat="2")
        await eventually("/status says so", lambda: notes.RESUME_PAUSED in platform.replies("2")[-1])
        assert PAUSED in await perdure(tmp_path, "why", key_of(platform))
        bench.release()
        assert await gateway.operators.resume_all()
        await replies(platform, notes.will_not_go_on(PAUSED), "done")
        assert notes.RESUME_PAUSED not in gateway.describe()
        assert not await gateway.operators.resume_all(), "it is lifted already"


async def test_b53_one_person_may_go_on_while_the_others_are_paused(tmp_path: Path) -> None:
    platform, bench = SimulatedPlatform(), Bench("b")
    await crash_three_times(tmp_path, platform, bench)
    bench.release()
    async with serving(tmp_path, platform, agent=bench.agent, **PATIENT) as gateway:
        await replies(platform, notes.will_not_go_on(PAUSED))
        platform.write("/resume")
        await replies(platform, notes.will_not_go_on(PAUSED), notes.RESUMED["turn"], "done")
        assert notes.RESUME_PAUSED in gateway.describe()


@pytest.mark.parametrize("crashes", [2, 3], ids=["two crashes", "three crashes"])
async def test_b53_nothing_is_paused_after_fewer_crashes_or_without_work(tmp_path: Path, crashes: int) -> None:
    platform, bench = SimulatedPlatform(), Bench("b")
    for _ in range(crashes - 2):
        async with crashing_at_the_end(tmp_path, platform, agent=bench.agent, **PATIENT) as gateway:
            assert not paused(gateway)
    await crash_in_a_step(tmp_path, platform, bench, SCRIPT, **PATIENT)
    async with crashing_at_the_end(tmp_path, platform, agent=bench.agent, **PATIENT) as gateway:
        await eventually("it goes on, and hangs again", lambda: len(bench.hanging) == 2)
        assert not paused(gateway)
        bench.release()
        await replies(platform, "done")
    async with serving(tmp_path, platform, agent=bench.agent, **PATIENT) as gateway:
        assert not paused(gateway), "there is nothing to resume"


def paused(gateway: Gateway) -> bool:
    return notes.RESUME_PAUSED in gateway.describe()


async def test_b53_crashes_far_apart_pause_nothing(tmp_path: Path) -> None:
    platform, bench, clock = SimulatedPlatform(), Bench("b"), SettableClock()
    await crash_in_a_step(tmp_path, platform, bench, SCRIPT, clock=clock, **PATIENT)
    for _ in range(2):
        clock.move(301)
        await crash_in_a_step(tmp_path, platform, bench, clock=clock, **PATIENT)
    clock.move(301)
    bench.release()
    async with serving(tmp_path, platform, agent=bench.agent, clock=clock, **PATIENT) as gateway:
        assert not paused(gateway)
        await replies(platform, "done")


# ── stopped for good ────────────────────────────────────────────────────────────────────────────────────────


async def nothing_comes_back(home: Path, platform: SimulatedPlatform, clock: SettableClock, *seen: str) -> None:
    """Through a crash and two restarts the chat stays as it is, while its neighbour is served."""
    agent = Answering()
    for start in range(3):
        clock.move(LATER)
        opened = serving if start else crashing_at_the_end
        async with opened(home, platform, agent=agent, clock=clock) as gateway:
            platform.write("hello", chat=f"n{start}")
            await replies(platform, "answered", chat=f"n{start}")
            view = await last_turn(gateway.store, key_of(platform))
            assert (view.state, view.ended.why if view.ended else None) == (State.CANCELLED, "stopped")  # type: ignore[union-attr]
            assert await state_of(gateway.store, key_of(platform)) is SessionState.OPEN
    assert said(platform) == list(seen)
    assert agent.attempts == 3


STOPPED = "Stopped."


async def test_b54_stop_is_final_in_a_turn_that_was_never_cut_off(tmp_path: Path) -> None:
    platform, bench, clock = SimulatedPlatform(), Bench("b"), SettableClock()
    async with crashing_at_the_end(tmp_path, platform, agent=bench.agent, clock=clock):
        platform.write(SCRIPT)
        await eventually("the step hangs", lambda: bench.hanging)
        platform.write("/stop")
        await sees(platform, STOPPED)
    await nothing_comes_back(tmp_path, platform, clock, STOPPED)


async def test_b54_stop_is_final_in_a_recovered_turn(tmp_path: Path) -> None:
    platform, bench, clock = SimulatedPlatform(), Bench("b"), SettableClock()
    await crash_in_a_step(tmp_path, platform, bench, SCRIPT, clock=clock)
    async with crashing_at_the_end(tmp_path, platform, agent=bench.agent, clock=clock) as gateway:
        await eventually("its recovery hangs", lambda: len(bench.hanging) == 2)
        assert was_cut_in_a_step(await last_turn(gateway.store, key_of(platform)))
        platform.write("/stop")
        await sees(platform, STOPPED)
    await nothing_comes_back(tmp_path, platform, clock, STOPPED)


async def test_b54_stop_is_final_in_a_turn_that_was_held_back(tmp_path: Path) -> None:
    platform, bench, clock = SimulatedPlatform(), Bench("b"), SettableClock()
    await crash_in_a_step(tmp_path, platform, bench, SCRIPT, clock=clock)
    off = notes.will_not_go_on("automatic resume is switched off here")
    async with crashing_at_the_end(
        tmp_path, platform, agent=bench.agent, clock=clock, RECOVERY__POLICY="off"
    ) as gateway:
        await sees(platform, off)
        assert was_cut_in_a_step(await last_turn(gateway.store, key_of(platform)))
        platform.write("/stop")
        await sees(platform, off, STOPPED)
    await nothing_comes_back(tmp_path, platform, clock, off, STOPPED)


async def test_b54_stop_that_was_written_while_the_gateway_was_down_is_final(tmp_path: Path) -> None:
    platform, bench, clock = SimulatedPlatform(), Bench("b"), SettableClock()
    await crash_in_a_step(tmp_path, platform, bench, SCRIPT, clock=clock)
    platform.write("/stop")
    async with crashing_at_the_end(tmp_path, platform, agent=bench.agent, clock=clock):
        await sees(platform, STOPPED)
    await nothing_comes_back(tmp_path, platform, clock, STOPPED)


async def test_b54_waiting_messages_stay_unless_all_is_said(tmp_path: Path) -> None:
    platform, bench = SimulatedPlatform(), Bench("b")
    async with crashing_at_the_end(tmp_path, platform, agent=bench.agent):
        platform.write(SCRIPT)
        await eventually("the step hangs", lambda: bench.hanging)
        platform.write("step b\nsay: two")
        platform.write("say: three")
        platform.write("/stop")
        await sees(platform, "Stopped. 2 messages are still waiting; /stop all drops them too.")
        await eventually("the second message has its turn", lambda: len(bench.hanging) == 2)
        platform.write("/stop all")
        await eventually("all is dropped", lambda: len(said(platform)) == 2)
    assert said(platform)[-1] == "Stopped. 1 message that waited was dropped."
    async with serving(tmp_path, platform, agent=bench.agent) as gateway:
        platform.write("say: four")
        await eventually("the next message is answered", lambda: said(platform)[2:] == ["four"])
        assert len(await turns_in(gateway.store, key_of(platform))) == 3

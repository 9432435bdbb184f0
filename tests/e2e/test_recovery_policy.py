"""Whether an interrupted turn goes on: every condition, reached through a real gateway and told in words."""

from __future__ import annotations

from pathlib import Path

import pytest

from perdure.core import notes
from perdure.core.effects import Effect
from perdure.core.journal import Entry, ModelAnswered, ToolCall, ToolEnded, ToolStarted, Usage
from perdure.core.turn import State
from perdure.store.api import Store
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
    marked,
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


def web() -> SimulatedPlatform:
    """A platform that obeys the settings of the web."""
    return SimulatedPlatform("web")


# ── each refusal is recorded, told and shown ────────────────────────────────────────────────────────────────


async def test_b42_sender_who_is_no_longer_authorised_is_not_resumed(tmp_path: Path) -> None:
    """B101 too. The chat hears nothing: that person may not talk to us."""
    platform, bench = web(), Bench("b")
    await crash_in_a_step(tmp_path, platform, bench, SCRIPT)
    async with serving(tmp_path, platform, agent=bench.agent, PLATFORMS__WEB__ALLOW="bob") as gateway:
        view = await decided(gateway.store, key_of(platform), "unauthorised")
        assert "no longer authorised" in await perdure(tmp_path, "why", key_of(platform))
    assert was_cut_in_a_step(view)
    assert (bench.ran["b"], platform.replies()) == (1, [])


async def test_b42_stale_turn_is_not_resumed(tmp_path: Path) -> None:
    platform, bench, clock = SimulatedPlatform(), Bench("b"), SettableClock()
    await crash_in_a_step(tmp_path, platform, bench, SCRIPT, clock=clock)
    clock.move(3605)
    async with serving(tmp_path, platform, agent=bench.agent, clock=clock) as gateway:
        view = await decided(gateway.store, key_of(platform), "stale")
        await eventually("the chat is told", lambda: platform.replies())
        assert "it is too old" in await perdure(tmp_path, "why", key_of(platform))
    assert was_cut_in_a_step(view)
    assert bench.ran["b"] == 1
    [told] = platform.replies()
    assert told.startswith(
        "What I was doing here was cut off, and I do not go on by myself, because it is too old"
    )
    assert "/resume" in told


async def test_b42_b56_turn_over_its_cost_limit_is_not_resumed_and_says_so(tmp_path: Path) -> None:
    platform, bench, limit = SimulatedPlatform(), Bench("b"), {"RECOVERY__MAX_TOKENS": "4"}
    await crash_in_a_step(tmp_path, platform, bench, SCRIPT, **limit)
    bench.release()
    async with serving(tmp_path, platform, agent=bench.agent, **limit) as gateway:
        view = await decided(gateway.store, key_of(platform), "tokens")
        told = notes.will_not_go_on("its cost limit is reached: 4 of 4 tokens")
        await replies(platform, told)
        assert "4 of 4 tokens" in await perdure(tmp_path, "why", key_of(platform))
        assert (was_cut_in_a_step(view), bench.ran["b"]) == (True, 1)
        platform.write("/resume")
        await eventually("it goes on because a person says so", lambda: platform.replies()[-1:] == ["done"])


async def test_b56_recovery_stops_on_its_way_at_the_cost_limit_and_says_so(tmp_path: Path) -> None:
    platform, bench, limit = SimulatedPlatform(), Bench("b"), {"RECOVERY__MAX_TOKENS": "5"}
    await crash_in_a_step(tmp_path, platform, bench, "step a\nstep b\nstep c\nstep d\nsay: done", **limit)
    bench.release()
    async with serving(tmp_path, platform, agent=bench.agent, **limit) as gateway:
        told = notes.turn_failed(notes.recovery_cost(6, 5))
        await replies(platform, told)
        view = await last_turn(gateway.store, key_of(platform))
        assert (was_cut_in_a_step(view), view.state, view.tokens) == (True, State.FAILED, 6)
        assert "has used 6 tokens" in await perdure(tmp_path, "why", key_of(platform))
        platform.write("step e\nstep f\nstep g\nsay: more")
        await replies(platform, told, "more")  # a message of one's own knows no such limit
    assert list(bench.ran) == ["a", "b", "c", "e", "f", "g"]


async def test_b42_b55_turn_is_not_resumed_where_the_policy_is_off(tmp_path: Path) -> None:
    """Per platform: the other one goes on by itself."""
    off, auto, bench = web(), SimulatedPlatform("other"), Bench("b")
    async with crashing_at_the_end(tmp_path, off, auto, agent=bench.agent):
        off.write(SCRIPT)
        auto.write(SCRIPT)
        await eventually("both are in their second step", lambda: len(bench.hanging) == 2)
    bench.release()
    async with serving(tmp_path, off, auto, agent=bench.agent, PLATFORMS__WEB__RECOVERY="off") as gateway:
        await replies(auto, "done")
        view = await decided(gateway.store, key_of(off), "off")
        await replies(off, notes.will_not_go_on("automatic resume is switched off here"))
        assert "switched off here" in await perdure(tmp_path, "why", key_of(off))
    assert was_cut_in_a_step(view)
    assert bench.ran["b"] == 3


async def test_b42_turn_without_an_address_is_not_resumed(tmp_path: Path) -> None:
    """Its platform is no longer one of this gateway's; once it is again, the turn goes on."""
    gone, bench = SimulatedPlatform("gone"), Bench("b")
    await crash_in_a_step(tmp_path, gone, bench, SCRIPT)
    bench.release()
    async with serving(tmp_path, SimulatedPlatform(), agent=bench.agent) as gateway:
        view = await decided(gateway.store, key_of(gone), "no_address")
        assert "no address to answer to" in await perdure(tmp_path, "why", key_of(gone))
        assert not await gateway.store.outbox.open(), "nobody is told where nobody is"
    assert (was_cut_in_a_step(view), bench.ran["b"]) == (True, 1)
    async with serving(tmp_path, gone, agent=bench.agent):
        await replies(gone, "done")


async def test_b42_unknown_reason_is_skipped_and_no_error(tmp_path: Path) -> None:
    platform, bench = SimulatedPlatform(), Bench("b")
    await crash_in_a_step(tmp_path / "before", platform, bench, SCRIPT)
    await marked(tmp_path / "before", tmp_path / "home", resume_pending=True, resume_reason="solar_flare")
    bench.release()
    async with serving(tmp_path / "home", platform, agent=bench.agent) as gateway:
        view = await decided(gateway.store, key_of(platform), "reason")
        await eventually("the chat is told", lambda: platform.replies())
        shown = await perdure(tmp_path / "home", "why", key_of(platform))
        assert was_cut_in_a_step(view)
        assert (reasons(view), bench.ran["b"]) == (["solar_flare"], 1)
        assert "solar_flare" in shown
        platform.write("/resume")
        await eventually("a person may still let it go on", lambda: platform.replies()[-1:] == ["done"])


async def test_b42_suspended_session_is_not_resumed(tmp_path: Path) -> None:
    platform, bench = SimulatedPlatform(), Bench("b")
    await crash_in_a_step(tmp_path / "before", platform, bench, SCRIPT)
    fields = {"state": "suspended", "resume_pending": True, "resume_reason": "restart_timeout"}
    await marked(tmp_path / "before", tmp_path / "home", **fields)
    bench.release()
    async with serving(tmp_path / "home", platform, agent=bench.agent) as gateway:
        view = await decided(gateway.store, key_of(platform), "not_open")
        shown = await perdure(tmp_path / "home", "why", key_of(platform))
    assert was_cut_in_a_step(view)
    assert "the session is suspended" in shown
    assert (bench.ran["b"], platform.replies()) == (1, [])


async def test_b42_operators_wish_needs_no_entry_in_the_list_of_people(tmp_path: Path) -> None:
    """A session that the operator brought back goes on after a crash, though no person wrote in its turn."""
    platform, bench, people = web(), Bench("b", "c"), {"PLATFORMS__WEB__ALLOW": "ann"}
    async with crashing_at_the_end(tmp_path, platform, agent=bench.agent, **people) as gateway:
        platform.write("step a\nstep b\nstep c\nsay: done")
        await eventually("the step hangs", lambda: bench.hanging)
        [session] = await gateway.store.sessions.page()
        assert await gateway.operators.suspend(session)
        [session] = await gateway.store.sessions.page()
        assert await gateway.operators.resume(session)
        await eventually("its new turn hangs", lambda: len(bench.hanging) == 2)
    bench.release()
    async with serving(tmp_path, platform, agent=bench.agent, **people) as gateway:
        await eventually("it is done", lambda: platform.replies()[-1:] == ["done"])
        assert was_cut_in_a_step(await last_turn(gateway.store, key_of(platform)))


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
    platform, bench, clock = SimulatedPlatform(), Bench("b"), SettableClock()
    await crash_in_a_step(tmp_path, platform, bench, SCRIPT, clock=clock)
    bench.release()
    clock.move(seconds)
    async with serving(tmp_path, platform, agent=bench.agent, clock=clock, **settings) as gateway:
        await replies(platform, "done")
        assert was_cut_in_a_step(await last_turn(gateway.store, key_of(platform)))


async def test_b43_repeated_restarts_and_fresh_marks_do_not_refresh_it(tmp_path: Path) -> None:
    """A crash, then an attempt that adds nothing and runs into a drain deadline: all of it is as old as before."""
    platform, bench, clock = SimulatedPlatform(), Bench("b"), SettableClock()
    await crash_in_a_step(tmp_path, platform, bench, SCRIPT, clock=clock)
    clock.move(1900)
    async with serving(tmp_path, platform, agent=bench.agent, clock=clock, DRAIN__DEADLINE="0"):
        await eventually("it was tried again", lambda: len(bench.hanging) == 2)
    clock.move(1900)
    async with serving(tmp_path, platform, agent=bench.agent, clock=clock) as gateway:
        view = await decided(gateway.store, key_of(platform), "stale")
    assert reasons(view) == ["restart_interrupted", "shutdown_timeout"]
    assert was_cut_in_a_step(view)
    assert view.decided is not None
    assert 3_800_000 <= view.decided.evidence["age_ms"] < 3_900_000
    assert bench.ran["b"] == 2


async def test_b43_new_content_refreshes_it(tmp_path: Path) -> None:
    platform, bench, clock = SimulatedPlatform(), Bench("a"), SettableClock()
    await crash_in_a_step(tmp_path, platform, bench, SCRIPT, clock=clock)
    clock.move(1900)
    bench.stuck = {"b"}
    await crash_in_a_step(tmp_path, platform, bench, clock=clock)
    clock.move(1900)
    bench.release()
    async with serving(tmp_path, platform, agent=bench.agent, clock=clock):
        await replies(platform, "done")


# ── the tail decides ────────────────────────────────────────────────────────────────────────────────────────


async def not_pending(store: Store) -> bool:
    [session] = await store.sessions.page()
    return not (await store.sessions.recovery(session.id)).resume_pending


def said(finish: str | None, *calls: ToolCall) -> ModelAnswered:
    return ModelAnswered(1, "the answer", calls, finish, Usage(1, 1))


LOOK = ToolCall("c1.1", "look", {})
BEGUN = ToolStarted("c1.1", "look", Effect.PURE, "k")


@pytest.mark.parametrize("finish", ["stop", "end", "completed", "end_turn", "STOP", "stop_sequence"])
async def test_b44_b45_final_answer_is_delivered_and_nothing_is_run_again(tmp_path: Path, finish: str) -> None:
    platform, clock, halting, again = SimulatedPlatform(), SettableClock(), Halting(said(finish)), Answering()
    async with crashing_at_the_end(tmp_path, platform, agent=halting, clock=clock):
        message = platform.write("hello")
        await eventually("the answer is journalled", lambda: halting.hangs)
    clock.move(7200)  # however stale: nothing is run, so nothing can be too old to run
    for _ in range(2):
        async with serving(tmp_path, platform, agent=again, clock=clock) as gateway:
            await replies(platform, "the answer")
            [view] = await turns_in(gateway.store, key_of(platform))
            assert before_the_cut(view).state is State.RUNNING
            assert (view.state, rules(view), again.attempts) == (State.DONE, ["final_answer"], 0)
            await eventually("the mark is cleared", lambda: not_pending(gateway.store))
    assert [posted.reply_to for posted in platform.posted] == [message]


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
    platform, halting, again = SimulatedPlatform(), Halting(*entries), Answering()
    async with crashing_at_the_end(tmp_path, platform, agent=halting):
        platform.write("hello")
        await eventually("the agent got so far", lambda: halting.hangs)
    async with serving(tmp_path, platform, agent=again) as gateway:
        await replies(platform, "answered")
        [view] = await turns_in(gateway.store, key_of(platform))
    assert before_the_cut(view).state is State.RUNNING
    assert (again.attempts, view.attempt) == (1, 2)


async def test_b44_b57_turn_with_nothing_in_it_is_cleared_in_silence(tmp_path: Path) -> None:
    """A mark that came without a turn, by an import: there is nothing to go on with."""
    platform, again = SimulatedPlatform(), Answering()
    async with serving(tmp_path / "before", platform, agent=again):
        platform.write("hello")
        await replies(platform, "answered")
    await marked(tmp_path / "before", tmp_path / "home", resume_pending=True, resume_reason="restart_timeout")
    for _ in range(2):
        async with serving(tmp_path / "home", platform, agent=again) as gateway:
            view = await decided(gateway.store, key_of(platform), "nothing_done")
            assert (view.state, again.attempts) == (State.CANCELLED, 1)
            assert await not_pending(gateway.store)
    assert platform.replies() == ["answered"]


async def test_b44_question_that_was_never_delivered_waits_for_its_answer(tmp_path: Path) -> None:
    platform, asked = Gated(), "Which way?\n(Left / Right)"
    async with crashing_at_the_end(tmp_path, platform) as gateway:
        platform.write("ask: Which way? | Left | Right\nstep go 0s\nsay: gone")
        await eventually("the question is on its way", lambda: platform.held)
        [owed] = await gateway.store.outbox.open()
    assert (owed.text, platform.posted) == (asked, [])
    platform.gate.set()
    for _ in range(2):
        async with serving(tmp_path, platform) as gateway:
            await replies(platform, asked)
            view = await last_turn(gateway.store, key_of(platform))
            assert (view.state, reasons(view), view.attempt) == (State.WAITING, [], 1)
    async with serving(tmp_path, platform):
        platform.write("Left")
        await replies(platform, asked, "gone")

"""Turns that do not go on by themselves: asked about, told of once, and brought back or given up by people."""

from __future__ import annotations

from pathlib import Path

import pytest

from perdure.core import notes
from perdure.core.recovery import Reason
from perdure.core.turn import State
from perdure.testing import SettableClock, SimulatedPlatform
from support.inprocess import crashing_at_the_end, serving
from support.recovering import (
    Bench,
    Gated,
    crash_in_a_step,
    decided,
    key_of,
    last_turn,
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


# ── per chat, and asking first ──────────────────────────────────────────────────────────────────────────────


async def test_b55_policy_of_a_chat_goes_before_that_of_its_platform(tmp_path: Path) -> None:
    platform, bench = web(), Bench("b")
    chats = {"PLATFORMS__WEB__RECOVERY": "off", "PLATFORMS__WEB__RECOVERY_CHATS": "1=auto,2=ask"}
    async with crashing_at_the_end(tmp_path, platform, agent=bench.agent):
        for chat in "123":
            platform.write(SCRIPT, chat=chat)
        await eventually("all are in their second step", lambda: len(bench.hanging) == 3)
    bench.release()
    async with serving(tmp_path, platform, agent=bench.agent, **chats) as gateway:
        await replies(platform, "done")
        for chat, rule in ("2", "ask"), ("3", "off"):
            assert was_cut_in_a_step(await decided(gateway.store, key_of(platform, chat), rule))
    assert bench.ran["b"] == 4


ASK = {"PLATFORMS__WEB__RECOVERY": "ask"}
QUESTION = notes.ask_to_resume(Reason.RESTART_INTERRUPTED)


async def test_b55_chat_is_asked_once_with_buttons_that_work_after_restarts_too(tmp_path: Path) -> None:
    platform, bench = web(), Bench("b")
    await crash_in_a_step(tmp_path, platform, bench, SCRIPT)
    bench.release()
    async with crashing_at_the_end(tmp_path, platform, agent=bench.agent, **ASK):
        await replies(platform, QUESTION)
    for _ in range(2):
        async with serving(tmp_path, platform, agent=bench.agent, **ASK) as gateway:
            assert was_cut_in_a_step(await decided(gateway.store, key_of(platform), "ask"))
    assert platform.replies() == [QUESTION]
    [asked] = platform.posted
    assert [(button.label, button.command) for button in asked.buttons] == [
        ("Resume", "/resume"),
        ("Drop", "/drop"),
    ]
    async with serving(tmp_path, platform, agent=bench.agent, **ASK):
        platform.press(asked.buttons[0].command)
        await replies(platform, QUESTION, notes.RESUMED["turn"], "done")
    assert bench.ran == {"a": 1, "b": 2}


async def test_b55_dropped_turn_never_goes_on(tmp_path: Path) -> None:
    platform, bench = web(), Bench("b")
    await crash_in_a_step(tmp_path, platform, bench, SCRIPT)
    async with serving(tmp_path, platform, agent=bench.agent, **ASK) as gateway:
        assert was_cut_in_a_step(await decided(gateway.store, key_of(platform), "ask"))
        platform.press("/drop")
        await replies(platform, QUESTION, notes.dropped(True))
    async with serving(tmp_path, platform, agent=bench.agent) as gateway:  # even where the policy is now auto
        platform.write("say: next")
        await replies(platform, QUESTION, notes.dropped(True), "next")
        first, _ = await turns_in(gateway.store, key_of(platform))
    assert (first.state, bench.ran["b"]) == (State.CANCELLED, 1)


async def test_b55_chat_is_asked_again_after_the_next_interruption(tmp_path: Path) -> None:
    platform, bench = web(), Bench("b")
    await crash_in_a_step(tmp_path, platform, bench, SCRIPT)
    async with crashing_at_the_end(tmp_path, platform, agent=bench.agent, **ASK):
        await replies(platform, QUESTION)
        platform.press("/resume")
        await eventually("it hangs again", lambda: len(bench.hanging) == 2 and len(platform.replies()) == 2)
    async with serving(tmp_path, platform, agent=bench.agent, **ASK) as gateway:
        await replies(platform, QUESTION, notes.RESUMED["turn"], QUESTION)
        assert was_cut_in_a_step(await last_turn(gateway.store, key_of(platform)))


# ── told once ───────────────────────────────────────────────────────────────────────────────────────────────


async def test_b57_turn_that_will_not_go_on_is_told_once(tmp_path: Path) -> None:
    platform, bench, off = SimulatedPlatform(), Bench("b"), {"RECOVERY__POLICY": "off"}
    await crash_in_a_step(tmp_path, platform, bench, SCRIPT)
    for _ in range(3):
        async with serving(tmp_path, platform, agent=bench.agent, **off) as gateway:
            view = await decided(gateway.store, key_of(platform), "off")
            assert (was_cut_in_a_step(view), rules(view)) == (True, ["off"])
            await eventually("the chat is told", lambda: platform.replies())
            platform.disconnect()  # a platform that comes back is no news either
            await eventually("it is back", lambda: gateway.loops.connections.connected)
    assert len(platform.replies()) == 1
    async with serving(tmp_path, platform, agent=bench.agent, **off):
        bench.release()
        platform.write("/resume")
        await eventually("/resume works", lambda: platform.replies()[1:] == [notes.RESUMED["turn"], "done"])


async def test_b57_turn_that_went_on_and_was_cut_off_again_is_told_again(tmp_path: Path) -> None:
    platform, bench, off = SimulatedPlatform(), Bench("b"), {"RECOVERY__POLICY": "off"}
    told = notes.will_not_go_on("automatic resume is switched off here")
    await crash_in_a_step(tmp_path, platform, bench, SCRIPT)
    async with crashing_at_the_end(tmp_path, platform, agent=bench.agent, **off):
        await replies(platform, told)
        platform.write("/resume")
        await eventually("it hangs again", lambda: len(bench.hanging) == 2 and len(platform.replies()) == 2)
    async with serving(tmp_path, platform, agent=bench.agent, **off) as gateway:
        await replies(platform, told, notes.RESUMED["turn"], told)
        assert was_cut_in_a_step(await last_turn(gateway.store, key_of(platform)))


async def test_b57_messages_that_wait_behind_a_held_turn_are_told_of(tmp_path: Path) -> None:
    """They were stored before the interruption, and have their turns once a person decides about this one."""
    platform, bench = SimulatedPlatform(), Bench("b")
    async with crashing_at_the_end(tmp_path, platform, agent=bench.agent):
        platform.write(SCRIPT)
        platform.write("say: two")
        await eventually("the step hangs", lambda: bench.hanging and not platform.pending())
    async with serving(tmp_path, platform, agent=bench.agent, RECOVERY__POLICY="off") as gateway:
        told = notes.will_not_go_on("automatic resume is switched off here", waiting=1)
        await replies(platform, told)
        assert was_cut_in_a_step(await last_turn(gateway.store, key_of(platform)))
        platform.write("/drop")
        await replies(platform, told, notes.dropped(True), "two")
    assert told.endswith("1 message waits behind it.")


async def test_b57_resume_is_not_offered_when_a_message_takes_the_place_of_the_work(tmp_path: Path) -> None:
    platform, bench, clock = SimulatedPlatform(), Bench("b"), SettableClock()
    async with crashing_at_the_end(tmp_path, platform, agent=bench.agent, clock=clock):
        platform.write(SCRIPT)
        platform.write("say: two")
        await eventually("the step hangs", lambda: bench.hanging and not platform.pending())
    clock.move(7200)
    async with serving(tmp_path, platform, agent=bench.agent, clock=clock) as gateway:
        told = notes.left_behind("it is too old: the last sign of life was 2 h ago, and the limit is 60 min")
        await replies(platform, told, "two")
        old, _ = await turns_in(gateway.store, key_of(platform))
    assert was_cut_in_a_step(old)
    assert "/resume" not in told


@pytest.mark.parametrize("policy", ["off", "ask"])
async def test_b57_nobody_is_told_when_a_message_joins_the_turn_at_once(tmp_path: Path, policy: str) -> None:
    """It came before a decision was made: a reply of the other chat is still on its way, and goes first."""
    platform, bench = Gated(), Bench("b")
    async with crashing_at_the_end(tmp_path, platform, agent=bench.agent):
        platform.write(SCRIPT)
        platform.write("say: owed", chat="2")
        await eventually("a step hangs, and a send", lambda: bench.hanging and platform.held)
    bench.release()
    async with serving(tmp_path, platform, agent=bench.agent, RECOVERY__POLICY=policy) as gateway:
        await eventually("the reply is being sent", lambda: platform.held == 2)
        platform.write("say: and that")
        await eventually("the message is stored", lambda: not platform.pending())
        platform.gate.set()
        await replies(platform, "done\nand that")
        view = await last_turn(gateway.store, key_of(platform))
    assert was_cut_in_a_step(view)
    assert rules(view) == [policy, "message"]

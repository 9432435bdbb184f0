"""Questions to a person: they wait for ever, through every crash, and the answer goes on with the turn."""

from __future__ import annotations

from pathlib import Path

import pytest

from perdure.core.turn import State
from perdure.runtime.gateway import Gateway
from perdure.testing import SettableClock, SimulatedPlatform
from support.inprocess import crashing_at_the_end, serving
from support.waiting import eventually

pytestmark = pytest.mark.anyio

ASK = "ask: Which way? | Left | Right\nstep go 0s"
QUESTION = "Which way?\n(Left / Right)"


async def replies(platform: SimulatedPlatform, *texts: str) -> None:
    await eventually(f"the chat sees {texts}", lambda: platform.replies() == list(texts))


async def connected(gateway: Gateway) -> None:
    await eventually("its platform is connected", lambda: not gateway.problems())


async def state_of_first_turn(gateway: Gateway) -> State | None:
    for session in await gateway.store.sessions.page():
        for turn in await gateway.store.turns.of_session(session.id):
            return turn.state
    return None


async def test_b67_answer_goes_on_with_the_turn(tmp_path: Path) -> None:
    platform = SimulatedPlatform()
    async with serving(tmp_path, platform) as gateway:
        platform.write(ASK)
        await replies(platform, QUESTION)
        assert [button.label for button in platform.posted[0].buttons] == ["Left", "Right"]
        assert await state_of_first_turn(gateway) is State.WAITING
        answer = platform.write("right")
        await replies(platform, QUESTION, "Right\ngo: done")
        assert platform.posted[-1].reply_to == answer, "the reply is attached to the newest message"


async def test_b67_words_are_the_answer_when_the_question_is_free(tmp_path: Path) -> None:
    platform = SimulatedPlatform()
    async with serving(tmp_path, platform):
        platform.write("ask: What is your name?")
        await replies(platform, "What is your name?")
        platform.write("Ann of Green Gables")
        await replies(platform, "What is your name?", "Ann of Green Gables")


async def test_b67_other_words_close_the_question_and_join_the_turn(tmp_path: Path) -> None:
    platform = SimulatedPlatform()
    async with serving(tmp_path, platform) as gateway:
        platform.write(ASK)
        await replies(platform, QUESTION)
        platform.write("step instead 0s\nsay: neither")
        await replies(platform, QUESTION, "neither")
        sessions = await gateway.store.sessions.page()
        assert len(await gateway.store.turns.of_session(sessions[0].id)) == 1


async def test_b44_question_waits_through_crashes_and_never_becomes_stale(tmp_path: Path) -> None:
    platform, clock = SimulatedPlatform(), SettableClock()
    async with crashing_at_the_end(tmp_path, platform, clock=clock):
        platform.write(ASK)
        await replies(platform, QUESTION)
    for _ in range(3):
        clock.move(7200)
        async with crashing_at_the_end(tmp_path, platform, clock=clock) as gateway:
            await connected(gateway)
            assert await state_of_first_turn(gateway) is State.WAITING
    async with serving(tmp_path, platform, clock=clock):
        assert platform.replies() == [QUESTION]
        platform.write("Left")
        await replies(platform, QUESTION, "Left\ngo: done")


async def test_message_from_before_the_question_is_not_its_answer(tmp_path: Path) -> None:
    platform = SimulatedPlatform()
    async with serving(tmp_path, platform):
        platform.write("step slow 2s\nask: What is your name?")
        platform.write("say: second")
        await replies(platform, "What is your name?")
        platform.write("Ann")
        await replies(platform, "What is your name?", "slow: done\nAnn", "second")


async def test_b54_stop_ends_a_turn_that_waits(tmp_path: Path) -> None:
    platform = SimulatedPlatform()
    async with serving(tmp_path, platform) as gateway:
        platform.write(ASK)
        await replies(platform, QUESTION)
        platform.write("/stop")
        await replies(platform, QUESTION, "Stopped.")
        assert await state_of_first_turn(gateway) is State.CANCELLED
        platform.write("say: fresh")
        await replies(platform, QUESTION, "Stopped.", "fresh")

"""Questions to a person: they wait for ever, through every crash, and the answer goes on with the turn.

Drives `store/answers` and `runtime/turn_journal`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from perdure.core import texts
from perdure.core.states import TurnState
from perdure.runtime.gateway import Gateway
from perdure.testing import SettableClock, SimulatedPlatform
from support.inprocess import crashing_at_the_end, serving
from support.recovery_scenario import RecoveryScenario
from support.waiting import eventually

pytestmark = pytest.mark.anyio

ASK = "ask: Which way? | Left | Right\nstep go 0s"
QUESTION = "Which way?\n(Left / Right)"


async def replies(platform: SimulatedPlatform, *texts: str) -> None:
    await eventually(f"the chat sees {texts}", lambda: platform.replies() == list(texts))


async def connected(gateway: Gateway) -> None:
    await eventually("its platform is connected", lambda: not gateway.problems())


async def state_of_first_turn(gateway: Gateway) -> TurnState | None:
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
        assert await state_of_first_turn(gateway) is TurnState.WAITING
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
            assert await state_of_first_turn(gateway) is TurnState.WAITING
    async with serving(tmp_path, platform, clock=clock):
        assert platform.replies() == [QUESTION]
        platform.write("Left")
        await replies(platform, QUESTION, "Left\ngo: done")


# ── how old the question is ─────────────────────────────────────────────────────────────────────────────────

DAYS = 86400
AFTER_THREE_DAYS = texts.recovery.late_answer(3 * DAYS * 1000)


@pytest.mark.parametrize(
    ("answer", "ends_with"),
    [
        pytest.param("right", "Right\ngo: done", id="an answer"),
        pytest.param("step instead\nsay: neither", "neither", id="other words"),
    ],
)
async def test_b67_model_is_told_how_old_its_question_is_when_the_answer_comes_days_later(
    tmp_path: Path, answer: str, ends_with: str
) -> None:
    """By a note, which is nobody's words, and which no later turn repeats."""
    scenario = RecoveryScenario(tmp_path)
    async with scenario.crashing():
        scenario.platform.write(ASK)
        await scenario.wait_for_replies(QUESTION)
    scenario.clock.move(3 * DAYS)
    async with scenario.serving():
        scenario.platform.write(answer)
        await scenario.wait_for_last_reply(ends_with)
        scenario.platform.write("say: next")
        await scenario.wait_for_last_reply("next")
    before, *after, next_turn = scenario.agent_harness.request_notes()
    assert (before, next_turn) == ([], [])
    assert after == [[AFTER_THREE_DAYS]] * len(after) != []
    assert "3 d after" in AFTER_THREE_DAYS
    said = [text for request in scenario.agent_harness.request_texts() for text in request]
    assert set(said) <= {ASK, answer, "say: next"}


async def test_b67_age_of_the_question_is_part_of_the_recovery_note_when_killed_behind_the_answer(
    tmp_path: Path,
) -> None:
    """B47 too: one note, which says both."""
    scenario = RecoveryScenario(tmp_path)
    async with scenario.crashing():
        scenario.platform.write(ASK)
        await scenario.wait_for_replies(QUESTION)
    scenario.clock.move(3 * DAYS)
    async with scenario.crashing_at_fact("SELECT 1 FROM turns WHERE attempt = 2"):
        scenario.platform.write("right")
    async with scenario.serving():
        await scenario.wait_for_last_reply("Right\ngo: done")
    [note] = scenario.agent_harness.request_notes()[-1]
    assert "cut off by a gateway interruption" in note
    assert "3 d after" in note


async def test_b67_model_is_told_no_age_when_the_answer_comes_soon(tmp_path: Path) -> None:
    scenario = RecoveryScenario(tmp_path)
    async with scenario.serving():
        scenario.platform.write(ASK)
        await scenario.wait_for_replies(QUESTION)
        scenario.clock.move(3000)
        scenario.platform.write("right")
        await scenario.wait_for_last_reply("Right\ngo: done")
    assert scenario.agent_harness.request_notes() == [[], [], []]


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
        assert await state_of_first_turn(gateway) is TurnState.CANCELLED
        platform.write("say: fresh")
        await replies(platform, QUESTION, "Stopped.", "fresh")

"""A message that joined a turn is not set aside with it: it waits again, and is answered by itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from perdure.core import notes
from perdure.core.journal import Cancelled, TurnView
from perdure.core.session import SessionState
from perdure.core.turn import State
from support.scenes import Scene, cut_in_a_step, web
from support.waiting import eventually

pytestmark = pytest.mark.anyio

OFF = {"RECOVERY__POLICY": "off"}
WRITTEN = "say: hello"


async def joined_and_cut_again(home: Path, *texts: str, **settings: str) -> Scene:
    """A scene in which a message joined a turn that had been cut off, and the turn was cut off once more."""
    scene = await cut_in_a_step(home, *texts, platform=web(), **settings)
    async with scene.crashing(**OFF):
        await scene.decided("off")
        scene.platform.write(WRITTEN)
        await scene.bench.hangs(2)
        assert [cause.text for cause in (await scene.turn()).causes][1:] == [WRITTEN]
    return scene


def causes(view: TurnView) -> list[str]:
    return [cause.text for cause in view.causes]


async def test_b16_joined_message_is_answered_in_the_fresh_session_when_its_turn_is_suspended(
    tmp_path: Path,
) -> None:
    scene = await joined_and_cut_again(tmp_path, RECOVERY__MAX_WITHOUT_PROGRESS="2")
    async with scene.serving() as gateway:
        await scene.sees_last("hello")
        old, fresh = await gateway.store.sessions.of_key(scene.key())
        assert (old.state, fresh.state) == (SessionState.CLOSED, SessionState.OPEN)
        cut, answered = await scene.turns()
        assert cut.ended == Cancelled("suspended")
        assert (WRITTEN not in causes(cut), causes(answered)) == (True, [WRITTEN])
        assert notes.fresh_after_suspension(old.id) in scene.platform.replies()
        scene.bench.release()
        scene.platform.write(f"/resume {old.id}")
        await scene.sees_last("done")
    assert not any(WRITTEN in text for text in scene.bench.words()[-1]), "the old turn came back with it"
    assert scene.platform.replies().count("hello") == 1


async def test_b16_joined_message_takes_the_place_of_a_turn_that_has_grown_too_old(tmp_path: Path) -> None:
    scene = await joined_and_cut_again(tmp_path)
    scene.clock.move(3605)
    async with scene.serving():
        await scene.sees_last("hello")
        old, fresh = await scene.turns()
    assert (old.ended, causes(fresh)) == (Cancelled("superseded"), [WRITTEN])
    assert scene.platform.replies()[-2].endswith("I go on with what you wrote since.")
    assert scene.bench.ran["b"] == 2


async def test_b16_joined_message_takes_the_place_of_a_turn_over_its_cost_limit(tmp_path: Path) -> None:
    scene = await joined_and_cut_again(tmp_path)
    async with scene.serving(RECOVERY__MAX_TOKENS="2"):
        await scene.sees_last("hello")
        old, fresh = await scene.turns()
    assert (old.ended, causes(fresh)) == (Cancelled("superseded"), [WRITTEN])


async def test_b16_joined_message_is_answered_after_a_recovery_that_stops_at_its_cost_limit(
    tmp_path: Path,
) -> None:
    scene = await joined_and_cut_again(tmp_path, "step a\nstep b\nstep c\nstep d\nsay: done")
    async with scene.unstuck(RECOVERY__MAX_TOKENS="5"):
        await scene.sees_last("hello")
        old, fresh = await scene.turns()
    assert (old.state, causes(fresh)) == (State.FAILED, [WRITTEN])


async def test_b16_message_of_somebody_who_may_no_longer_talk_does_not_wait_again(tmp_path: Path) -> None:
    scene = await joined_and_cut_again(tmp_path)
    scene.clock.move(3605)
    async with scene.serving(PLATFORMS__WEB__ALLOW="bob") as gateway:
        await scene.decided("unauthorised")
        assert await gateway.store.inbox.waiting(scene.key()) == 0
    assert scene.platform.replies()[-1:] != ["hello"]


async def test_b16_joined_message_is_answered_when_an_operator_sets_its_session_aside(tmp_path: Path) -> None:
    scene = await cut_in_a_step(tmp_path)
    async with scene.serving(**OFF) as gateway:
        await scene.decided("off")
        scene.platform.write(WRITTEN)
        await scene.bench.hangs(2)
        [session] = await gateway.store.sessions.of_key(scene.key())
        assert await gateway.operators.suspend(session)
        await scene.sees_last("hello")
        old, fresh = await scene.turns()
    assert (old.ended, causes(fresh)) == (Cancelled("suspended"), [WRITTEN])


async def test_b16_words_that_closed_a_question_are_answered_when_its_turn_is_suspended(tmp_path: Path) -> None:
    scene = Scene(tmp_path, "b", RECOVERY__MAX_WITHOUT_PROGRESS="1")
    async with scene.crashing():
        scene.platform.write("ask: Which way? | Left | Right\nstep b")
        await eventually("it asks", lambda: scene.platform.replies())
        scene.platform.write(f"step b\n{WRITTEN}")
        await scene.bench.hangs()
    async with scene.unstuck():
        await scene.sees_last("hello")
        old, fresh = await scene.turns()
    assert (old.ended, causes(fresh)) == (Cancelled("suspended"), [f"step b\n{WRITTEN}"])

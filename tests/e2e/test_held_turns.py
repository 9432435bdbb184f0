"""Turns that do not go on by themselves: asked about, told of once, and brought back or given up by people."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TypeVar

import pytest

from perdure.core import notes
from perdure.core.recovery import Reason
from perdure.core.turn import State
from perdure.store.database import Database, Work
from perdure.testing import CrashingDatabase
from support.recovering import Gated, rules, was_cut_in_a_step
from support.scenes import SCRIPT, Scene, cut_in_a_step, cut_while_a_reply_is_owed, web
from support.waiting import eventually

pytestmark = pytest.mark.anyio

T = TypeVar("T")


# ── per chat, and asking first ──────────────────────────────────────────────────────────────────────────────


async def test_b55_policy_of_a_chat_goes_before_that_of_its_platform(tmp_path: Path) -> None:
    scene = Scene(tmp_path, "b", platform=web())
    chats = {"PLATFORMS__WEB__RECOVERY": "off", "PLATFORMS__WEB__RECOVERY_CHATS": "1=auto,2=ask"}
    await scene.crash_in_every_chat("123")
    async with scene.unstuck(**chats):
        await scene.sees("done")
        for chat, rule in ("2", "ask"), ("3", "off"):
            assert was_cut_in_a_step(await scene.decided(rule, chat))
    assert scene.bench.ran["b"] == 4


ASK = {"PLATFORMS__WEB__RECOVERY": "ask"}
QUESTION = notes.ask_to_resume(Reason.RESTART_INTERRUPTED)


def press(scene: Scene, label: str, question: int = 0) -> None:
    """Press a button under a question; without a number, under the first one."""
    asked = [posted for posted in scene.platform.posted if posted.text == QUESTION][question]
    [command] = [button.command for button in asked.buttons if button.label == label]
    scene.platform.press(command)


async def test_b55_chat_is_asked_once_with_buttons_that_work_after_restarts_too(tmp_path: Path) -> None:
    scene = await cut_in_a_step(tmp_path, platform=web(), **ASK)
    scene.bench.release()
    async with scene.crashing():
        await scene.sees(QUESTION)
    for _ in range(2):
        async with scene.serving():
            assert was_cut_in_a_step(await scene.decided("ask"))
    assert scene.platform.replies() == [QUESTION]
    [asked] = scene.platform.posted
    turn, _ = asked.key.split(".", 1)
    assert [(button.label, button.command) for button in asked.buttons] == [
        ("Resume", f"/resume {turn}"),
        ("Drop", f"/drop {turn}"),
    ]
    async with scene.serving():
        press(scene, "Resume")
        await scene.sees(QUESTION, notes.RESUMED["turn"], "done")
    assert scene.bench.ran == {"a": 1, "b": 2}


async def test_b55_dropped_turn_never_goes_on(tmp_path: Path) -> None:
    scene = await cut_in_a_step(tmp_path, platform=web())
    async with scene.serving(**ASK):
        assert was_cut_in_a_step(await scene.decided("ask"))
        await scene.sees(QUESTION)
        press(scene, "Drop")
        await scene.sees(QUESTION, notes.dropped(True))
    async with scene.serving():  # even where the policy is now auto
        scene.platform.write("say: next")
        await scene.sees(QUESTION, notes.dropped(True), "next")
        first, _ = await scene.turns()
    assert (first.state, scene.bench.ran["b"]) == (State.CANCELLED, 1)


async def test_b55_chat_is_asked_again_after_the_next_interruption(tmp_path: Path) -> None:
    scene = await cut_in_a_step(tmp_path, platform=web(), **ASK)
    async with scene.crashing():
        await scene.sees(QUESTION)
        scene.platform.press("/resume")
        await scene.bench.hangs(2)
        await scene.sees(QUESTION, notes.RESUMED["turn"])
    async with scene.serving():
        await scene.sees(QUESTION, notes.RESUMED["turn"], QUESTION)
        assert was_cut_in_a_step(await scene.turn())


async def test_b55_b71_buttons_mean_their_own_turn_when_another_was_held_since(tmp_path: Path) -> None:
    scene = await cut_in_a_step(tmp_path, platform=web(), **ASK)
    async with scene.crashing():
        await scene.sees(QUESTION)
        press(scene, "Drop")
        await scene.sees(QUESTION, dropped := notes.dropped(True))
        scene.platform.write(SCRIPT)
        await scene.bench.hangs(2)
    async with scene.unstuck():
        await scene.sees(QUESTION, dropped, QUESTION)
        press(scene, "Resume")
        press(scene, "Drop")
        await scene.sees(QUESTION, dropped, QUESTION, notes.OVER, notes.OVER)
        assert was_cut_in_a_step(second := await scene.turn())
        assert (second.state, rules(second)) == (State.INTERRUPTED, ["ask"])
        press(scene, "Resume", question=1)
        await scene.sees_last("done")
        press(scene, "Resume", question=1)
        await scene.sees_last(notes.OVER)
    assert scene.bench.ran == {"a": 2, "b": 3}


async def test_b55_button_brings_back_what_was_set_aside_since(tmp_path: Path) -> None:
    scene = await cut_in_a_step(tmp_path, platform=web(), **ASK)
    async with scene.unstuck() as gateway:
        await scene.sees(QUESTION)
        [session] = await gateway.store.sessions.page()
        assert await gateway.operators.suspend(session)
        press(scene, "Resume")
        await scene.sees(QUESTION, notes.RESUMED["session"], "done")


async def test_b81_drop_is_explained_when_what_it_names_is_no_turn(tmp_path: Path) -> None:
    scene = await cut_in_a_step(tmp_path, platform=web(), **ASK)
    async with scene.serving():
        await scene.sees(QUESTION)
        scene.platform.write("/drop it")
        await scene.sees(QUESTION, notes.usage("/drop [ID]", "it"))
        assert (await scene.turn()).state is State.INTERRUPTED


# ── told once ───────────────────────────────────────────────────────────────────────────────────────────────

OFF = {"RECOVERY__POLICY": "off"}
TOLD = notes.will_not_go_on("automatic resume is switched off here")


async def test_b57_turn_that_will_not_go_on_is_told_once(tmp_path: Path) -> None:
    scene = await cut_in_a_step(tmp_path, **OFF)
    for _ in range(3):
        async with scene.serving() as gateway:
            view = await scene.decided("off")
            assert (was_cut_in_a_step(view), rules(view)) == (True, ["off"])
            await eventually("the chat is told", lambda: scene.platform.replies())
            scene.platform.disconnect()  # a platform that comes back is no news either
            await eventually("it is back", lambda: gateway.loops.connections.connected)
    assert len(scene.platform.replies()) == 1
    async with scene.unstuck():
        scene.platform.write("/resume")
        await scene.sees(TOLD, notes.RESUMED["turn"], "done")


async def test_b57_turn_that_went_on_and_was_cut_off_again_is_told_again(tmp_path: Path) -> None:
    scene = await cut_in_a_step(tmp_path, **OFF)
    async with scene.crashing():
        await scene.sees(TOLD)
        scene.platform.write("/resume")
        await scene.bench.hangs(2)
        await scene.sees(TOLD, notes.RESUMED["turn"])
    async with scene.serving():
        await scene.sees(TOLD, notes.RESUMED["turn"], TOLD)
        assert was_cut_in_a_step(await scene.turn())


async def test_b57_turn_is_told_again_when_killed_right_behind_resume(tmp_path: Path) -> None:
    """What was claimed was cut off once more; what was only queued would be carried out (B32)."""
    scene = await cut_in_a_step(tmp_path, **OFF)
    async with scene.dying("SELECT 1 FROM turns WHERE attempt = 2"):
        await scene.sees(TOLD)
        scene.platform.write("/resume")
    for _ in range(2):
        async with scene.serving():
            await scene.sees(TOLD, notes.RESUMED["turn"], TOLD)
            assert rules(await scene.decided("off")) == ["off", "person", "off"]
    assert len(scene.bench.hanging) == 1


async def test_b57_nobody_is_told_again_when_killed_before_resume_was_obeyed(tmp_path: Path) -> None:
    """The wish is stored, and the next start fulfils it."""
    scene = await cut_in_a_step(tmp_path, **OFF)
    async with scene.dying("SELECT 1 FROM inbox WHERE kind = 'command'"):
        await scene.sees(TOLD)
        scene.platform.write("/resume")
    async with scene.unstuck():
        await scene.sees(TOLD, notes.RESUMED["turn"], "done")
        assert rules(await scene.turn()) == ["off", "person"]


class Overtaken(CrashingDatabase):
    """A database in which the decision about an interrupted turn is written behind the next two writes."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self.reached, self._due, self._written = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._passed = 0

    async def write(self, work: Work[T], *, key: str = "") -> T:
        if self.reached.is_set() and key:
            self._passed += 1
            if self._passed > 2:
                self._due.set()
                await self._written.wait()
        elif key and await self._is_about_to_be_decided():
            self.reached.set()
            await self._due.wait()
            self._written.set()
        return await super().write(work, key=key)

    async def _is_about_to_be_decided(self) -> bool:
        found = "SELECT 1 FROM turns WHERE state = 'interrupted'"
        return bool(await self.beneath.read(lambda tx: tx.one(found)))


@pytest.mark.parametrize(
    ("rule", "settings"),
    [
        pytest.param("off", OFF, id="told of it"),
        pytest.param("no_progress", {"RECOVERY__MAX_WITHOUT_PROGRESS": "1"}, id="setting it aside"),
    ],
)
async def test_b57_person_who_says_resume_first_is_not_contradicted(
    tmp_path: Path, rule: str, settings: dict[str, str]
) -> None:
    """The decision was made before the command came, and is about to be written when that has been obeyed."""
    scene, databases = await cut_in_a_step(tmp_path), list[Overtaken]()

    def wrap(database: Database) -> Database:
        databases.append(Overtaken(database))
        return databases[0]

    async with scene.unstuck(wrap=wrap, **settings):
        await eventually("the decision is about to be written", databases[0].reached.is_set)
        scene.platform.write("/resume")
        await scene.sees(notes.RESUMED["turn"], "done")
        assert rules(await scene.turn()) == ["person"], f"{rule} came too late"


async def test_b57_messages_that_wait_behind_a_held_turn_are_told_of(tmp_path: Path) -> None:
    """They were stored before the interruption, and have their turns once a person decides about this one."""
    scene = await cut_in_a_step(tmp_path, SCRIPT, "say: two")
    async with scene.serving(**OFF):
        told = notes.will_not_go_on("automatic resume is switched off here", waiting=1)
        await scene.sees(told)
        assert was_cut_in_a_step(await scene.turn())
        scene.platform.write("/drop")
        await scene.sees(told, notes.dropped(True), "two")
    assert told.endswith("1 message waits behind it.")


async def test_b57_resume_is_not_offered_when_a_message_takes_the_place_of_the_work(tmp_path: Path) -> None:
    scene = await cut_in_a_step(tmp_path, SCRIPT, "say: two")
    scene.clock.move(7200)
    async with scene.serving():
        told = notes.left_behind("it is too old: the last sign of life was 2 h ago, and the limit is 60 min")
        await scene.sees(told, "two")
        old, _ = await scene.turns()
    assert was_cut_in_a_step(old)
    assert "/resume" not in told


@pytest.mark.parametrize("policy", ["off", "ask"])
async def test_b57_nobody_is_told_when_a_message_joins_the_turn_at_once(tmp_path: Path, policy: str) -> None:
    """It came before a decision was made: a reply of the other chat is still on its way, and goes first."""
    platform = Gated()
    scene = await cut_while_a_reply_is_owed(tmp_path, platform)
    async with scene.unstuck(RECOVERY__POLICY=policy):
        await platform.holds(2)
        platform.write("say: and that")
        await eventually("the message is stored", lambda: not platform.pending())
        platform.gate.set()
        await scene.sees("done\nand that")
        view = await scene.turn()
    assert was_cut_in_a_step(view)
    assert rules(view) == [policy, "message"]

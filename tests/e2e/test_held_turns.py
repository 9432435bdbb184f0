"""Turns that do not go on by themselves: asked about, told of once, and brought back or given up by people.

Drives `runtime/recovery`, `core/recovery/decision` and `store/answers`.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TypeVar

import pytest

from perdure.core import texts
from perdure.core.recovery.decision import InterruptionReason
from perdure.core.states import TurnState
from perdure.store.database import Database, Transaction
from perdure.testing import CrashingDatabase
from support.recovery import GatedPlatform, decided_rules, was_interrupted_in_step
from support.recovery_scenario import (
    SCRIPT,
    RecoveryScenario,
    scenario_crashed_in_step,
    scenario_with_open_delivery,
    web_platform,
)
from support.waiting import eventually

pytestmark = pytest.mark.anyio

T = TypeVar("T")


# ── per chat, and asking first ──────────────────────────────────────────────────────────────────────────────


async def test_b55_policy_of_a_chat_goes_before_that_of_its_platform(tmp_path: Path) -> None:
    scenario = RecoveryScenario(tmp_path, "b", platform=web_platform())
    chats = {"PLATFORMS__WEB__RECOVERY": "off", "PLATFORMS__WEB__RECOVERY_CHATS": "1=auto,2=ask"}
    await scenario.crash_in_every_chat("123")
    async with scenario.serving_released(**chats):
        await scenario.wait_for_replies("done")
        for chat, rule in ("2", "ask"), ("3", "off"):
            assert was_interrupted_in_step(await scenario.wait_for_rule(rule, chat))
    assert scenario.agent_harness.run_counts["b"] == 4


ASK = {"PLATFORMS__WEB__RECOVERY": "ask"}
QUESTION = texts.recovery.ask_to_resume(InterruptionReason.RESTART_INTERRUPTED)


def press(scenario: RecoveryScenario, label: str, question: int = 0) -> None:
    """Press a button under a question; without a number, under the first one."""
    asked = [posted for posted in scenario.platform.posted if posted.text == QUESTION][question]
    [command] = [button.command for button in asked.buttons if button.label == label]
    scenario.platform.press(command)


async def test_b55_chat_is_asked_once_with_buttons_that_work_after_restarts_too(tmp_path: Path) -> None:
    scenario = await scenario_crashed_in_step(tmp_path, platform=web_platform(), **ASK)
    scenario.agent_harness.release()
    async with scenario.crashing():
        await scenario.wait_for_replies(QUESTION)
    for _ in range(2):
        async with scenario.serving():
            assert was_interrupted_in_step(await scenario.wait_for_rule("ask"))
    assert scenario.platform.replies() == [QUESTION]
    [asked] = scenario.platform.posted
    turn, _ = asked.key.split(".", 1)
    assert [(button.label, button.command) for button in asked.buttons] == [
        ("Resume", f"/resume {turn}"),
        ("Drop", f"/drop {turn}"),
    ]
    async with scenario.serving():
        press(scenario, "Resume")
        await scenario.wait_for_replies(QUESTION, texts.chat_commands.RESUME_ANSWERS["turn"], "done")
    assert scenario.agent_harness.run_counts == {"a": 1, "b": 2}


async def test_b55_dropped_turn_never_goes_on(tmp_path: Path) -> None:
    scenario = await scenario_crashed_in_step(tmp_path, platform=web_platform())
    async with scenario.serving(**ASK):
        assert was_interrupted_in_step(await scenario.wait_for_rule("ask"))
        await scenario.wait_for_replies(QUESTION)
        press(scenario, "Drop")
        await scenario.wait_for_replies(QUESTION, texts.chat_commands.dropped(True))
    async with scenario.serving():  # even where the policy is now auto
        scenario.platform.write("say: next")
        await scenario.wait_for_replies(QUESTION, texts.chat_commands.dropped(True), "next")
        first, _ = await scenario.turns()
    assert (first.state, scenario.agent_harness.run_counts["b"]) == (TurnState.CANCELLED, 1)


async def test_b55_chat_is_asked_again_after_the_next_interruption(tmp_path: Path) -> None:
    scenario = await scenario_crashed_in_step(tmp_path, platform=web_platform(), **ASK)
    async with scenario.crashing():
        await scenario.wait_for_replies(QUESTION)
        scenario.platform.press("/resume")
        await scenario.agent_harness.wait_until_hanging(2)
        await scenario.wait_for_replies(QUESTION, texts.chat_commands.RESUME_ANSWERS["turn"])
    async with scenario.serving():
        await scenario.wait_for_replies(QUESTION, texts.chat_commands.RESUME_ANSWERS["turn"], QUESTION)
        assert was_interrupted_in_step(await scenario.turn())


async def test_b55_b71_buttons_mean_their_own_turn_when_another_was_held_since(tmp_path: Path) -> None:
    scenario = await scenario_crashed_in_step(tmp_path, platform=web_platform(), **ASK)
    async with scenario.crashing():
        await scenario.wait_for_replies(QUESTION)
        press(scenario, "Drop")
        await scenario.wait_for_replies(QUESTION, dropped := texts.chat_commands.dropped(True))
        scenario.platform.write(SCRIPT)
        await scenario.agent_harness.wait_until_hanging(2)
    async with scenario.serving_released():
        await scenario.wait_for_replies(QUESTION, dropped, QUESTION)
        press(scenario, "Resume")
        press(scenario, "Drop")
        await scenario.wait_for_replies(
            QUESTION, dropped, QUESTION, texts.chat_commands.TURN_OVER, texts.chat_commands.TURN_OVER
        )
        assert was_interrupted_in_step(second := await scenario.turn())
        assert (second.state, decided_rules(second)) == (TurnState.INTERRUPTED, ["ask"])
        press(scenario, "Resume", question=1)
        await scenario.wait_for_last_reply("done")
        press(scenario, "Resume", question=1)
        await scenario.wait_for_last_reply(texts.chat_commands.TURN_OVER)
    assert scenario.agent_harness.run_counts == {"a": 2, "b": 3}


async def test_b55_button_brings_back_what_was_set_aside_since(tmp_path: Path) -> None:
    scenario = await scenario_crashed_in_step(tmp_path, platform=web_platform(), **ASK)
    async with scenario.serving_released() as gateway:
        await scenario.wait_for_replies(QUESTION)
        [session] = await gateway.store.sessions.page()
        assert await gateway.operator_verbs.suspend(session)
        press(scenario, "Resume")
        await scenario.wait_for_replies(QUESTION, texts.chat_commands.RESUME_ANSWERS["session"], "done")


async def test_b81_drop_is_explained_when_what_it_names_is_no_turn(tmp_path: Path) -> None:
    scenario = await scenario_crashed_in_step(tmp_path, platform=web_platform(), **ASK)
    async with scenario.serving():
        await scenario.wait_for_replies(QUESTION)
        scenario.platform.write("/drop it")
        await scenario.wait_for_replies(QUESTION, texts.chat_commands.usage("/drop [ID]", "it"))
        assert (await scenario.turn()).state is TurnState.INTERRUPTED


# ── told once ───────────────────────────────────────────────────────────────────────────────────────────────

OFF = {"RECOVERY__POLICY": "off"}
TOLD = texts.recovery.not_resumed("automatic resume is switched off here")


async def test_b57_turn_that_will_not_go_on_is_told_once(tmp_path: Path) -> None:
    scenario = await scenario_crashed_in_step(tmp_path, **OFF)
    for _ in range(3):
        async with scenario.serving() as gateway:
            view = await scenario.wait_for_rule("off")
            assert (was_interrupted_in_step(view), decided_rules(view)) == (True, ["off"])
            await eventually("the chat is told", lambda: scenario.platform.replies())
            scenario.platform.disconnect()  # a platform that comes back is no news either
            await eventually("it is back", lambda: gateway.loops.connections.connected)
    assert len(scenario.platform.replies()) == 1
    async with scenario.serving_released():
        scenario.platform.write("/resume")
        await scenario.wait_for_replies(TOLD, texts.chat_commands.RESUME_ANSWERS["turn"], "done")


async def test_b57_turn_that_went_on_and_was_cut_off_again_is_told_again(tmp_path: Path) -> None:
    scenario = await scenario_crashed_in_step(tmp_path, **OFF)
    async with scenario.crashing():
        await scenario.wait_for_replies(TOLD)
        scenario.platform.write("/resume")
        await scenario.agent_harness.wait_until_hanging(2)
        await scenario.wait_for_replies(TOLD, texts.chat_commands.RESUME_ANSWERS["turn"])
    async with scenario.serving():
        await scenario.wait_for_replies(TOLD, texts.chat_commands.RESUME_ANSWERS["turn"], TOLD)
        assert was_interrupted_in_step(await scenario.turn())


async def test_b57_turn_is_told_again_when_killed_right_behind_resume(tmp_path: Path) -> None:
    """What was claimed was cut off once more; what was only queued would be carried out (B32)."""
    scenario = await scenario_crashed_in_step(tmp_path, **OFF)
    async with scenario.crashing_at_fact("SELECT 1 FROM turns WHERE attempt = 2"):
        await scenario.wait_for_replies(TOLD)
        scenario.platform.write("/resume")
    for _ in range(2):
        async with scenario.serving():
            await scenario.wait_for_replies(TOLD, texts.chat_commands.RESUME_ANSWERS["turn"], TOLD)
            assert decided_rules(await scenario.wait_for_rule("off")) == ["off", "person", "off"]
    assert len(scenario.agent_harness.hung_steps) == 1


async def test_b57_nobody_is_told_again_when_killed_before_resume_was_obeyed(tmp_path: Path) -> None:
    """The wish is stored, and the next start fulfils it."""
    scenario = await scenario_crashed_in_step(tmp_path, **OFF)
    async with scenario.crashing_at_fact("SELECT 1 FROM inbox WHERE kind = 'command'"):
        await scenario.wait_for_replies(TOLD)
        scenario.platform.write("/resume")
    async with scenario.serving_released():
        await scenario.wait_for_replies(TOLD, texts.chat_commands.RESUME_ANSWERS["turn"], "done")
        assert decided_rules(await scenario.turn()) == ["off", "person"]


class Overtaken(CrashingDatabase):
    """A database in which the decision about an interrupted turn is written behind the next two writes."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self.reached, self._due, self._written = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._passed = 0

    async def write(self, transaction: Transaction[T], *, key: str = "", at: int | None = None) -> T:
        if self.reached.is_set() and key:
            self._passed += 1
            if self._passed > 2:
                self._due.set()
                await self._written.wait()
        elif key and await self._is_about_to_be_decided():
            self.reached.set()
            await self._due.wait()
            self._written.set()
        return await super().write(transaction, key=key, at=at)

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
    scenario, databases = await scenario_crashed_in_step(tmp_path), list[Overtaken]()

    def wrap(database: Database) -> Database:
        databases.append(Overtaken(database))
        return databases[0]

    async with scenario.serving_released(wrap=wrap, **settings):
        await eventually("the decision is about to be written", databases[0].reached.is_set)
        scenario.platform.write("/resume")
        await scenario.wait_for_replies(texts.chat_commands.RESUME_ANSWERS["turn"], "done")
        assert decided_rules(await scenario.turn()) == ["person"], f"{rule} came too late"


async def test_b57_messages_that_wait_behind_a_held_turn_are_told_of(tmp_path: Path) -> None:
    """They were stored before the interruption, and have their turns once a person decides about this one."""
    scenario = await scenario_crashed_in_step(tmp_path, SCRIPT, "say: two")
    async with scenario.serving(**OFF):
        told = texts.recovery.not_resumed("automatic resume is switched off here", waiting=1)
        await scenario.wait_for_replies(told)
        assert was_interrupted_in_step(await scenario.turn())
        scenario.platform.write("/drop")
        await scenario.wait_for_replies(told, texts.chat_commands.dropped(True), "two")
    assert told.endswith("1 message waits behind it.")


async def test_b57_resume_is_not_offered_when_a_message_takes_the_place_of_the_work(tmp_path: Path) -> None:
    scenario = await scenario_crashed_in_step(tmp_path, SCRIPT, "say: two")
    scenario.clock.move(7200)
    async with scenario.serving():
        told = texts.recovery.left_unfinished(
            "it is too old: the last sign of life was 2 h ago, and the limit is 60 min"
        )
        await scenario.wait_for_replies(told, "two")
        old, _ = await scenario.turns()
    assert was_interrupted_in_step(old)
    assert "/resume" not in told


@pytest.mark.parametrize("policy", ["off", "ask"])
async def test_b57_nobody_is_told_when_a_message_joins_the_turn_at_once(tmp_path: Path, policy: str) -> None:
    """It came before a decision was made: a reply of the other chat is still on its way, and goes first."""
    platform = GatedPlatform()
    scenario = await scenario_with_open_delivery(tmp_path, platform)
    async with scenario.serving_released(RECOVERY__POLICY=policy):
        await platform.wait_for_sends(2)
        platform.write("say: and that")
        await eventually("the message is stored", lambda: not platform.pending())
        platform.gate.set()
        await scenario.wait_for_replies("done\nand that")
        view = await scenario.turn()
    assert was_interrupted_in_step(view)
    assert decided_rules(view) == [policy, "message"]

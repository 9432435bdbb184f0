"""Goals: a session works towards one by itself, turn after turn, and only after a turn that completed.

Drives `runtime/commands/session` and `store/goals`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from perdure.agents.api import Reply, TurnContext
from perdure.core import texts
from perdure.core.conversation import NoteMessage, UserMessage, build_conversation
from perdure.core.states import GoalState, TurnState
from perdure.errors import ModelError
from perdure.runtime.gateway import Gateway
from perdure.testing import SettableClock, SimulatedPlatform
from support.inprocess import crashing_at_the_end, serving
from support.recovery import key_of, run_perdure, turn_views
from support.store_call_sweep import StoreCallSweep
from support.waiting import eventually

pytestmark = pytest.mark.anyio

SET = texts.chat_commands.goal_started(10, busy=False)
FAIL, HANG = "(fail)", "(hang)"


class Planned:
    """An agent that answers what it was told to, in order; it keeps what its turns were about."""

    def __init__(self, *answers: str) -> None:
        self._answers = list(answers)
        self.asked: list[str] = []
        self.read: list[Sequence[UserMessage | NoteMessage]] = []
        self.gate = asyncio.Event()

    async def run(self, context: TurnContext) -> Reply:
        self.asked.append(context.view.causes[0].text)
        told = [message for each in build_conversation((), context.view).current for message in each.messages]
        self.read.append([message for message in told if isinstance(message, UserMessage | NoteMessage)])
        answer = self._answers.pop(0) if self._answers else "nothing more"
        if answer == FAIL:
            raise ModelError("no credit")
        if answer.startswith(HANG):
            await self.gate.wait()
        return Reply(answer.removeprefix(HANG))

    async def has(self, *texts: str) -> None:
        await eventually(f"the turns are {texts}", lambda: self.asked == list(texts))


async def sees(platform: SimulatedPlatform, *texts: str) -> None:
    await eventually(f"the chat sees {texts}", lambda: platform.replies() == list(texts))


async def at_rest(gateway: Gateway) -> None:
    """Nothing runs and nothing is claimable: no turn begins by itself."""

    async def probe() -> bool:
        runner = gateway.loops.runner
        return not runner.running and not await gateway.store.turns.claimable_keys(await _run_of(gateway))

    await eventually("everything is at rest", probe)


async def _run_of(gateway: Gateway) -> str:
    rows = await gateway.store.database.read(lambda tx: tx.all("SELECT id FROM runs WHERE ended_at IS NULL"))
    run: str = rows[0][0]
    return run


async def causes(gateway: Gateway) -> list[str]:
    """The keys of what began turns, in order."""
    sql = "SELECT event_key FROM inbox WHERE state = 'taken' ORDER BY position"
    return [row[0] for row in await gateway.store.database.read(lambda tx: tx.all(sql))]


# ── it goes on ──────────────────────────────────────────────────────────────────────────────────────────────


async def test_b84_goal_begins_at_once_and_goes_on_until_it_is_reached(tmp_path: Path) -> None:
    """B96 too: every turn has a cause of its own on record."""
    platform, agent = SimulatedPlatform(), Planned("one", "two", "three\nGOAL REACHED")
    async with serving(tmp_path, platform, agent=agent) as gateway:
        platform.write("/goal tidy up")
        await sees(platform, SET, "one", "two", "three\nGOAL REACHED")
        await at_rest(gateway)
        platform.write("/goal")
        await sees(
            platform,
            SET,
            "one",
            "two",
            "three\nGOAL REACHED",
            texts.chat_commands.goal_status("tidy up", GoalState.REACHED, 3, 10),
        )
        keys = await causes(gateway)
    assert agent.asked == ["tidy up"] * 3
    assert [key.split(":")[0::2] for key in keys] == [["goal", "1"], ["goal", "2"], ["goal", "3"]]
    assert [posted.reply_to for posted in platform.posted[:4]] == ["m1"] * 4


async def test_b84_model_is_told_what_a_goal_is_and_how_it_ends(tmp_path: Path) -> None:
    platform, agent = SimulatedPlatform(), Planned("one", "GOAL GIVEN UP")
    async with serving(tmp_path, platform, agent=agent) as gateway:
        platform.write("/goal tidy up")
        await sees(platform, SET, "one", "GOAL GIVEN UP")
        await at_rest(gateway)
    told = [[message.text for message in read] for read in agent.read]
    expected = [
        ["tidy up", f"[Gateway note: {texts.chat_commands.goal_turn_note(number, 10)}]"] for number in (1, 2)
    ]
    assert told == expected
    assert "GOAL REACHED" in texts.chat_commands.goal_turn_note(1, 10)


async def test_b84_budget_ends_a_goal_and_that_is_told(tmp_path: Path) -> None:
    platform, agent = SimulatedPlatform(), Planned("one", "two")
    budget = {"GOAL__MAX_TURNS": "2"}
    begun, spent = texts.chat_commands.goal_started(2, busy=False), texts.chat_commands.goal_budget_spent(2)
    async with serving(tmp_path, platform, agent=agent, **budget) as gateway:
        platform.write("/goal tidy up")
        await sees(platform, begun, "one", "two", spent)
        platform.write("hello")
        await sees(platform, begun, "one", "two", spent, "nothing more")
        await at_rest(gateway)
    assert agent.asked == ["tidy up", "tidy up", "hello"]


async def test_b84_message_of_a_person_goes_first(tmp_path: Path) -> None:
    platform, agent = SimulatedPlatform(), Planned(f"{HANG}one", "to the message", "GOAL REACHED")
    async with serving(tmp_path, platform, agent=agent) as gateway:
        platform.write("/goal tidy up")
        await agent.has("tidy up")
        platform.write("but leave the attic")
        await eventually("it waits", lambda: gateway.store.inbox.count_waiting(key_of(platform)))
        agent.gate.set()
        await sees(platform, SET, "one", "to the message", "GOAL REACHED")
        await at_rest(gateway)
    assert agent.asked == ["tidy up", "but leave the attic", "tidy up"]


async def test_b84_goal_that_was_reached_before_a_message_was_answered_stays_reached(tmp_path: Path) -> None:
    platform, agent = SimulatedPlatform(), Planned(f"{HANG}GOAL REACHED", "to the message")
    async with serving(tmp_path, platform, agent=agent) as gateway:
        platform.write("/goal tidy up")
        await agent.has("tidy up")
        platform.write("thanks")
        await eventually("it waits", lambda: gateway.store.inbox.count_waiting(key_of(platform)))
        agent.gate.set()
        await sees(platform, SET, "GOAL REACHED", "to the message")
        await at_rest(gateway)
    assert agent.asked == ["tidy up", "thanks"]


async def test_b84_goal_set_in_a_running_turn_begins_behind_it(tmp_path: Path) -> None:
    platform, agent = SimulatedPlatform(), Planned(f"{HANG}one", "GOAL REACHED")
    async with serving(tmp_path, platform, agent=agent) as gateway:
        platform.write("hello")
        await agent.has("hello")
        platform.write("/goal tidy up")
        await sees(platform, texts.chat_commands.goal_started(10, busy=True))
        agent.gate.set()
        await sees(platform, texts.chat_commands.goal_started(10, busy=True), "one", "GOAL REACHED")
        await at_rest(gateway)
    assert agent.asked == ["hello", "tidy up"]


# ── it does not go on ───────────────────────────────────────────────────────────────────────────────────────


async def test_b84_failed_turn_does_not_continue_it_and_the_next_that_completes_does(tmp_path: Path) -> None:
    platform, agent = SimulatedPlatform(), Planned("one", FAIL, "to the message", "GOAL REACHED")
    failed = texts.turns.failed("no credit")
    async with serving(tmp_path, platform, agent=agent) as gateway:
        platform.write("/goal tidy up")
        await sees(platform, SET, "one", failed)
        await at_rest(gateway)
        platform.write("there is credit now")
        await sees(platform, SET, "one", failed, "to the message", "GOAL REACHED")
        await at_rest(gateway)
    assert agent.asked == ["tidy up", "tidy up", "there is credit now", "tidy up"]


async def test_b84_stopped_turn_does_not_continue_it(tmp_path: Path) -> None:
    platform, agent = SimulatedPlatform(), Planned(f"{HANG}one")
    async with serving(tmp_path, platform, agent=agent) as gateway:
        platform.write("/goal tidy up")
        await agent.has("tidy up")
        platform.write("/stop")
        await sees(platform, SET, "Stopped.")
        await at_rest(gateway)
        platform.write("/goal")
        await sees(platform, SET, "Stopped.", texts.chat_commands.goal_status("tidy up", GoalState.ACTIVE, 1, 10))
    assert agent.asked == ["tidy up"]


async def test_b84_interrupted_turn_does_not_continue_it_until_it_has_gone_on_and_completed(
    tmp_path: Path,
) -> None:
    platform, clock, agent = (
        SimulatedPlatform("web"),
        SettableClock(),
        Planned(f"{HANG}one", "one after all", "GOAL REACHED"),
    )
    async with crashing_at_the_end(tmp_path, platform, agent=agent, clock=clock):
        platform.write("/goal tidy up")
        await agent.has("tidy up")
        await sees(platform, SET)
    held = texts.recovery.not_resumed("automatic resume is switched off here")
    async with serving(tmp_path, platform, agent=agent, clock=clock, RECOVERY__POLICY="off") as gateway:
        await sees(platform, SET, held)
        await at_rest(gateway)
        platform.write("/resume")
        await sees(platform, SET, held, "Going on.", "one after all", "GOAL REACHED")
        assert [turn.state for turn in await turn_views(gateway.store, key_of(platform))] == [TurnState.DONE] * 2


async def test_b84_goal_is_ended_by_a_person(tmp_path: Path) -> None:
    platform, agent = SimulatedPlatform(), Planned(f"{HANG}one")
    off = texts.chat_commands.goal_ended(ended=True)
    async with serving(tmp_path, platform, agent=agent) as gateway:
        platform.write("/goal tidy up")
        await agent.has("tidy up")
        platform.write("/goal off")
        await sees(platform, SET, off)
        agent.gate.set()
        await sees(platform, SET, off, "one")
        await at_rest(gateway)
        platform.write("/goal off")
        await sees(platform, SET, off, "one", texts.chat_commands.NO_GOAL)
    assert agent.asked == ["tidy up"]


async def test_b84_goal_ends_with_its_conversation(tmp_path: Path) -> None:
    platform, agent = SimulatedPlatform(), Planned("one", f"{HANG}two")
    renewed = texts.chat_commands.new_conversation("t", 0)
    async with serving(tmp_path, platform, agent=agent) as gateway:
        platform.write("/goal tidy up")
        await agent.has("tidy up", "tidy up")
        platform.write("/new")
        await sees(platform, SET, "one", renewed)
        platform.write("hello")
        await sees(platform, SET, "one", renewed, "nothing more")
        await at_rest(gateway)
        platform.write("/goal")
        await sees(platform, SET, "one", renewed, "nothing more", texts.chat_commands.NO_GOAL)


async def test_b84_new_goal_takes_the_place_of_the_old_one(tmp_path: Path) -> None:
    platform, agent = SimulatedPlatform(), Planned(f"{HANG}one", "GOAL REACHED")
    async with serving(tmp_path, platform, agent=agent) as gateway:
        platform.write("/goal tidy up")
        await agent.has("tidy up")
        platform.write("/goal paint the walls")
        await eventually("it is set", lambda: len(platform.replies()) == 2)
        agent.gate.set()
        await eventually("it is reached", lambda: platform.replies()[-1:] == ["GOAL REACHED"])
        await at_rest(gateway)
    assert agent.asked == ["tidy up", "paint the walls"]


async def test_b84_goal_of_a_person_who_may_no_longer_talk_is_ended(tmp_path: Path) -> None:
    platform, agent = SimulatedPlatform("web"), Planned("one", FAIL)
    async with serving(tmp_path, platform, agent=agent):
        platform.write("/goal tidy up", sender="ann")
        await eventually("its second turn fails", lambda: len(platform.replies()) == 3)
    async with serving(tmp_path, platform, agent=agent, PLATFORMS__WEB__ALLOW="bob") as gateway:
        platform.write("hello", sender="bob")
        await eventually("it is answered", lambda: platform.replies()[-1:] == ["nothing more"])
        await at_rest(gateway)
    assert agent.asked == ["tidy up", "tidy up", "hello"]


async def test_b84_status_tells_of_the_goal(tmp_path: Path) -> None:
    platform, agent = SimulatedPlatform(), Planned(f"{HANG}GOAL REACHED")
    async with serving(tmp_path, platform, agent=agent):
        platform.write("/goal tidy up")
        await agent.has("tidy up")
        platform.write("/status")
        told = texts.chat_commands.goal_status("tidy up", GoalState.ACTIVE, 1, 10)
        await eventually("it is told", lambda: "".join(platform.replies()[-1:]).endswith(told))
        agent.gate.set()
        await eventually("it is reached", lambda: platform.replies()[-1:] == ["GOAL REACHED"])


# ── crashes ─────────────────────────────────────────────────────────────────────────────────────────────────


async def test_b84_goal_goes_on_after_a_crash_in_its_turn(tmp_path: Path) -> None:
    platform, clock, agent = (
        SimulatedPlatform(),
        SettableClock(),
        Planned("one", f"{HANG}two", "two", "GOAL REACHED"),
    )
    async with crashing_at_the_end(tmp_path, platform, agent=agent, clock=clock):
        platform.write("/goal tidy up")
        await agent.has("tidy up", "tidy up")
        await sees(platform, SET, "one")
    async with serving(tmp_path, platform, agent=agent, clock=clock) as gateway:
        await sees(platform, SET, "one", "two", "GOAL REACHED")
        await at_rest(gateway)
        assert len(await turn_views(gateway.store, key_of(platform))) == 3


GOAL = "once dig 0s\nsay: dug"


async def test_b84_goal_is_neither_lost_nor_doubled_when_killed_at_any_store_call(tmp_path: Path) -> None:
    """B96 too: each of its turns begins once."""
    seen = [
        texts.chat_commands.goal_started(2, busy=False),
        "dug",
        "dug",
        texts.chat_commands.goal_budget_spent(2),
    ]

    async def check(gateway: Gateway, platform: SimulatedPlatform) -> None:
        assert [key.split(":")[2] for key in await causes(gateway)] == ["1", "2"]
        assert [turn.state for turn in await turn_views(gateway.store, key_of(platform))] == [TurnState.DONE] * 2

    killing = StoreCallSweep(
        f"/goal {GOAL}", settled=lambda platform: platform.replies() == seen, check=check, GOAL__MAX_TURNS="2"
    )
    points = await killing.run(tmp_path)
    assert points > 50, "the sweep no longer reaches what it did"


async def test_b84_session_with_a_goal_is_exported_and_imported(tmp_path: Path) -> None:
    """Its turns and their causes come along; the goal itself stays behind."""
    home, elsewhere = tmp_path / "home", tmp_path / "elsewhere"
    platform, agent = SimulatedPlatform(), Planned("one", "GOAL REACHED")
    async with serving(home, platform, agent=agent):
        platform.write("/goal tidy up")
        await sees(platform, SET, "one", "GOAL REACHED")
    elsewhere.mkdir()
    (elsewhere / "sessions.json").write_text(await run_perdure(home, "export"))
    assert "1 session was" in await run_perdure(elsewhere, "import", str(elsewhere / "sessions.json"))


async def test_b70_files_that_came_with_the_command_go_to_the_goals_first_turn(tmp_path: Path) -> None:
    platform, agent = SimulatedPlatform(), Planned("one", "GOAL REACHED")
    async with serving(tmp_path, platform, agent=agent) as gateway:
        platform.write("/goal tidy up", files=["a.png"])
        await sees(platform, SET, "one", "GOAL REACHED")
        turns = await turn_views(gateway.store, key_of(platform))
        named = [[file.name for cause in turn.causes for file in cause.attachments] for turn in turns]
        assert named == [["a.png"], []]

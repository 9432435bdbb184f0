"""What ends a foreground command, what does not, and that a turn whose command still runs goes on."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from perdure.core.journal import Decided
from perdure.runtime.gateway import Gateway
from perdure.testing import SettableClock, SimulatedPlatform
from perdure.tools import kept
from perdure.tools.kept import Running
from perdure.tools.shell import place_of
from support.gateway import Person
from support.inprocess import crashing_at_the_end, serving
from support.recovering import key_of, last_turn, replies, turns_in
from support.shelling import HELD, RESULT, Commands, Impatient, cleared_home, grouped, is_gone
from support.stopping import dying, looking_at
from support.waiting import eventually, wait_for

pytestmark = pytest.mark.anyio

HOUR, DAY = 3600, 86400
ENDED = "SELECT 1 FROM journal WHERE kind = 'tool_ended'"


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    yield from cleared_home(tmp_path)


async def talking(commands: Commands) -> Running:
    """The held command, when it has said its first word."""
    await eventually("the command has said something", commands.talks)
    found = commands.running()
    assert found is not None
    return found


async def gone(command: Running) -> None:
    await eventually("the command and its session are gone", lambda: is_gone(command))


# ── what ends it ────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("word", ["/stop", "/new"])
async def test_b68_command_is_ended_with_its_turn_by_a_person(home: Path, word: str) -> None:
    platform, commands = SimulatedPlatform(), Commands(home)
    async with serving(home, platform):
        platform.write(f"run: {HELD}")
        command = await talking(commands)
        platform.write(word)
        await gone(command)
        platform.write("say: next")
        await eventually("the session is free", lambda: platform.replies()[-1:] == ["next"])
    assert commands.runs() == 1


def test_b68_command_is_ended_with_its_turn_in_a_real_gateway(home: Path) -> None:
    with grouped(home) as process:
        person, commands = Person(process), Commands(home)
        person.say(f"run: {HELD}")
        command = commands.talking()
        person.say("/stop")
        wait_for("the command and its session are gone", lambda: is_gone(command))


async def test_b68_command_is_ended_when_its_session_is_suspended(home: Path) -> None:
    platform, commands = SimulatedPlatform(), Commands(home)
    async with serving(home, platform) as gateway:
        platform.write(f"run: {HELD}")
        command = await talking(commands)
        session = await gateway.store.sessions.current(key_of(platform))
        assert session is not None
        assert await gateway.operators.suspend(session)
        await gone(command)


async def test_b68_command_is_ended_when_its_turn_fails(home: Path) -> None:
    platform, commands = SimulatedPlatform(), Commands(home)
    agent = Impatient(home, platform.name, commands.talks)
    async with serving(home, platform, agent=agent):
        platform.write(f"run: {HELD}")
        command = await talking(commands)
        await replies(platform, "I could not finish this: the credit is used up")
        await gone(command)


@pytest.mark.parametrize("word", ["/stop", "/new"])
async def test_b68_end_is_completed_at_the_next_start_when_killed_before_it(home: Path, word: str) -> None:
    platform, clock, commands = SimulatedPlatform(), SettableClock(), Commands(home)
    async with dying(home, platform, fact=ENDED, clock=clock):
        platform.write(f"run: {HELD}")
        command = await talking(commands)
        platform.write(word)
    assert not is_gone(command), "the gateway died between the word and the deed"
    async with serving(home, platform, clock=clock):
        await gone(command)
    assert commands.runs() == 1


@pytest.mark.parametrize("word", ["/stop", "/new", "/drop"])
async def test_b68_command_of_a_turn_that_was_held_back_is_ended_with_it(home: Path, word: str) -> None:
    platform, clock, commands = SimulatedPlatform("web"), SettableClock(), Commands(home)
    options: dict[str, Any] = {"clock": clock, "PLATFORMS__WEB__RECOVERY": "off"}
    command = await crash_while_it_runs(home, platform, commands, **options)
    async with serving(home, platform, **options):
        await eventually("the chat is told that it does not go on", platform.replies)
        assert not is_gone(command), "a command is not ended by a crash"
        platform.write(word)
        await gone(command)


async def test_b68_command_is_ended_when_recovery_suspends_its_session(home: Path) -> None:
    platform, clock, commands = SimulatedPlatform(), SettableClock(), Commands(home)
    options: dict[str, Any] = {"clock": clock, "RECOVERY__MAX_INTERRUPTIONS": "1"}
    command = await crash_while_it_runs(home, platform, commands, **options)
    async with serving(home, platform, **options) as gateway:
        await gone(command)
        session = await gateway.store.sessions.current(key_of(platform))
        assert session is not None
        assert session.state == "suspended"


async def test_b68_command_that_is_just_being_started_is_ended_too(home: Path) -> None:
    """The end may come at any moment of the start: whatever was begun is ended."""
    platform, commands = SimulatedPlatform(), Commands(home)
    async with serving(home, platform) as gateway:
        platform.write("run: echo ran >> runs; sleep 1000")
        await eventually("the intent is on disk", lambda: intent(gateway, platform))
        platform.write("/stop")
        await replies(platform, "Stopped.")
        await eventually("nothing runs", lambda: commands.running() is None and all_over(commands))


async def intent(gateway: Gateway, platform: SimulatedPlatform) -> bool:
    turns = await turns_in(gateway.store, key_of(platform))
    return any(call.started for view in turns for call in view.calls.values())


def all_over(commands: Commands) -> bool:
    """Whether nothing runs in any place, and nothing ever will."""
    return all(isinstance(kept.look(place), kept.Ended | kept.Refused) for place in commands.places())


async def test_b68_place_that_waits_for_its_keeper_is_given_up_with_the_turn(home: Path) -> None:
    platform, clock, commands = SimulatedPlatform("web"), SettableClock(), Commands(home)
    options: dict[str, Any] = {"clock": clock, "PLATFORMS__WEB__RECOVERY": "off"}
    async with dying(home, platform, fact="SELECT 1 FROM journal WHERE kind = 'tool_started'", **options):
        platform.write(f"run: {HELD}")
    async with looking_at(home) as store:
        [call] = (await last_turn(store, key_of(platform))).calls.values()
    assert call.started is not None
    place = place_of(commands.root, call.started.key)
    (place / "order.json").write_text("{}")
    async with serving(home, platform, **options):
        await eventually("the chat is told that it does not go on", platform.replies)
        platform.write("/stop")
        await eventually("nothing is started there any more", lambda: all_over(commands))


async def test_b68_command_that_lost_its_keeper_is_ended_with_its_turn(home: Path) -> None:
    platform, clock, commands = SimulatedPlatform("web"), SettableClock(), Commands(home)
    options: dict[str, Any] = {"clock": clock, "PLATFORMS__WEB__RECOVERY": "off"}
    command = await crash_while_it_runs(home, platform, commands, **options)
    os.kill(command.keeper, signal.SIGKILL)
    async with serving(home, platform, **options):
        await eventually("the chat is told that it does not go on", platform.replies)
        platform.write("/stop")
        await gone(command)


async def crash_while_it_runs(
    home: Path, platform: SimulatedPlatform, commands: Commands, **options: Any
) -> Running:
    async with crashing_at_the_end(home, platform, **options):
        platform.write(f"run: {HELD}")
        return await talking(commands)


# ── what does not ───────────────────────────────────────────────────────────────────────────────────────────


async def test_b43_turn_is_fresh_while_its_command_runs(home: Path) -> None:
    platform, clock, commands = SimulatedPlatform(), SettableClock(), Commands(home)
    await crash_while_it_runs(home, platform, commands, clock=clock)
    clock.move(5 * HOUR)
    async with serving(home, platform, clock=clock) as gateway:
        await eventually("the turn goes on", lambda: goes_on(gateway, platform))
        commands.let_go()
        await replies(platform, RESULT)
    assert commands.runs() == 1


async def test_b43_turn_is_stale_when_its_command_has_ended_meanwhile(home: Path) -> None:
    platform, clock, commands = SimulatedPlatform(), SettableClock(), Commands(home)
    await crash_while_it_runs(home, platform, commands, clock=clock)
    commands.let_go()
    await eventually("the command has ended", commands.has_result)
    clock.move(5 * HOUR)
    async with serving(home, platform, clock=clock):
        await eventually("the chat is told", lambda: len(platform.replies()) == 1)
        platform.write("/resume")
        await eventually("the result comes", lambda: platform.replies()[-1:] == [RESULT])
    assert commands.runs() == 1


async def test_b63_result_is_kept_for_as_long_as_a_turn_may_ask_for_it(home: Path) -> None:
    """Files of ended commands are cleared away, but never those of a call that has no result yet."""
    platform, clock, commands = SimulatedPlatform(), SettableClock(), Commands(home)
    await crash_while_it_runs(home, platform, commands, clock=clock)
    commands.let_go()
    await eventually("the command has ended", commands.has_result)
    clock.move(30 * DAY)
    async with serving(home, platform, clock=clock):
        await eventually("the chat is told", lambda: len(platform.replies()) == 1)
        platform.write("/resume")
        await eventually("the result comes", lambda: platform.replies()[-1:] == [RESULT])
    assert commands.runs() == 1
    clock.move(30 * DAY)
    async with serving(home, platform, clock=clock):
        await eventually("the files are cleared away", lambda: commands.places() == [])


async def test_b52_command_that_still_runs_is_progress(home: Path) -> None:
    platform, clock, commands = SimulatedPlatform(), SettableClock(), Commands(home)
    options: dict[str, Any] = {"clock": clock, "RECOVERY__MAX_WITHOUT_PROGRESS": "2"}
    await crash_while_it_runs(home, platform, commands, **options)
    for _ in range(3):
        clock.move(600)  # so that it is no crash loop
        async with crashing_at_the_end(home, platform, **options) as gateway:
            await eventually("the turn goes on", lambda: goes_on(gateway, platform))
    clock.move(600)
    async with serving(home, platform, **options) as gateway:
        await eventually("the turn goes on", lambda: goes_on(gateway, platform))
        view = await last_turn(gateway.store, key_of(platform))
        decisions = [record.entry for record in view.records if isinstance(record.entry, Decided)]
        assert [each.evidence["without_progress"] for each in decisions] == [1, 2, 3, 4]
        commands.let_go()
        await replies(platform, RESULT)
    assert commands.runs() == 1


async def goes_on(gateway: Gateway, platform: SimulatedPlatform) -> bool:
    return (await last_turn(gateway.store, key_of(platform))).state == "running"


async def test_neighbours_are_served_while_a_command_runs(home: Path) -> None:
    platform, commands = SimulatedPlatform(), Commands(home)
    async with serving(home, platform, DRAIN__DEADLINE="0"):
        platform.write(f"run: {HELD}")
        await talking(commands)
        platform.write("run: echo hello", chat="2")
        await eventually("the neighbour has its answer", lambda: platform.replies("2") == ["exit code 0\nhello"])
        assert platform.replies() == []
    await asyncio.to_thread(commands.let_go)

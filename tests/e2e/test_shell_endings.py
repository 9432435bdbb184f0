"""What ends a foreground command, what does not, and that a turn whose command still runs goes on.

Drives `tools/shell` and `tools/keeper/client`.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from perdure.core.journal import RecoveryDecided
from perdure.runtime.gateway import Gateway
from perdure.testing import SettableClock, SimulatedPlatform
from perdure.tools import keeper
from perdure.tools.keeper import CommandRunning
from perdure.tools.shell import call_directory
from support.gateway import Person
from support.inprocess import crashing_at_the_end, serving
from support.recovery import key_of, last_turn, turn_views, wait_for_replies
from support.shell_commands import (
    HELD_COMMAND,
    HELD_RESULT,
    FailingAgent,
    ShellCommands,
    gateway_process_group,
    home_without_commands,
    is_gone,
)
from support.shutdown import crashing_at_fact, read_only_store
from support.waiting import eventually, wait_for

pytestmark = pytest.mark.anyio

HOUR, DAY = 3600, 86400
ENDED = "SELECT 1 FROM journal WHERE kind = 'tool_ended'"


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    yield from home_without_commands(tmp_path)


async def talking(commands: ShellCommands) -> CommandRunning:
    """The held command, when it has said its first word."""
    await eventually("the command has said something", commands.has_output)
    found = commands.running()
    assert found is not None
    return found


async def gone(command: CommandRunning) -> None:
    await eventually("the command and its session are gone", lambda: is_gone(command))


# ── what ends it ────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("word", ["/stop", "/new"])
async def test_b68_command_is_ended_with_its_turn_by_a_person(home: Path, word: str) -> None:
    platform, commands = SimulatedPlatform(), ShellCommands(home)
    async with serving(home, platform):
        platform.write(f"run: {HELD_COMMAND}")
        command = await talking(commands)
        platform.write(word)
        await gone(command)
        platform.write("say: next")
        await eventually("the session is free", lambda: platform.replies()[-1:] == ["next"])
    assert commands.runs() == 1


def test_b68_command_is_ended_with_its_turn_in_a_real_gateway(home: Path) -> None:
    with gateway_process_group(home) as process:
        person, commands = Person(process), ShellCommands(home)
        person.say(f"run: {HELD_COMMAND}")
        command = commands.wait_for_output()
        person.say("/stop")
        wait_for("the command and its session are gone", lambda: is_gone(command))


async def test_b68_command_is_ended_when_its_session_is_suspended(home: Path) -> None:
    platform, commands = SimulatedPlatform(), ShellCommands(home)
    async with serving(home, platform) as gateway:
        platform.write(f"run: {HELD_COMMAND}")
        command = await talking(commands)
        session = await gateway.store.sessions.current(key_of(platform))
        assert session is not None
        assert await gateway.operator_verbs.suspend(session)
        await gone(command)


async def test_b68_command_is_ended_when_its_turn_fails(home: Path) -> None:
    platform, commands = SimulatedPlatform(), ShellCommands(home)
    agent = FailingAgent(home, platform.name, commands.has_output)
    async with serving(home, platform, agent=agent):
        platform.write(f"run: {HELD_COMMAND}")
        command = await talking(commands)
        await wait_for_replies(platform, "I could not finish this: the credit is used up")
        await gone(command)


@pytest.mark.parametrize("word", ["/stop", "/new"])
async def test_b68_end_is_completed_at_the_next_start_when_killed_before_it(home: Path, word: str) -> None:
    platform, clock, commands = SimulatedPlatform(), SettableClock(), ShellCommands(home)
    async with crashing_at_fact(home, platform, fact=ENDED, clock=clock):
        platform.write(f"run: {HELD_COMMAND}")
        command = await talking(commands)
        platform.write(word)
    assert not is_gone(command), "the gateway died between the word and the deed"
    async with serving(home, platform, clock=clock):
        await gone(command)
    assert commands.runs() == 1


@pytest.mark.parametrize("word", ["/stop", "/new", "/drop"])
async def test_b68_command_of_a_turn_that_was_held_back_is_ended_with_it(home: Path, word: str) -> None:
    platform, clock, commands = SimulatedPlatform("web"), SettableClock(), ShellCommands(home)
    options: dict[str, Any] = {"clock": clock, "PLATFORMS__WEB__RECOVERY": "off"}
    command = await crash_while_it_runs(home, platform, commands, **options)
    async with serving(home, platform, **options):
        await eventually("the chat is told that it does not go on", platform.replies)
        assert not is_gone(command), "a command is not ended by a crash"
        platform.write(word)
        await gone(command)


async def test_b68_command_is_ended_when_recovery_suspends_its_session(home: Path) -> None:
    platform, clock, commands = SimulatedPlatform(), SettableClock(), ShellCommands(home)
    options: dict[str, Any] = {"clock": clock, "RECOVERY__MAX_INTERRUPTIONS": "1"}
    command = await crash_while_it_runs(home, platform, commands, **options)
    async with serving(home, platform, **options) as gateway:
        await gone(command)
        session = await gateway.store.sessions.current(key_of(platform))
        assert session is not None
        assert session.state == "suspended"


async def test_b68_command_that_is_just_being_started_is_ended_too(home: Path) -> None:
    """The end may come at any moment of the start: whatever was begun is ended."""
    platform, commands = SimulatedPlatform(), ShellCommands(home)
    async with serving(home, platform) as gateway:
        platform.write("run: echo ran >> runs; sleep 1000")
        await eventually("the intent is on disk", lambda: intent(gateway, platform))
        platform.write("/stop")
        await wait_for_replies(platform, "Stopped.")
        await eventually("nothing runs", lambda: commands.running() is None and all_over(commands))


async def intent(gateway: Gateway, platform: SimulatedPlatform) -> bool:
    turns = await turn_views(gateway.store, key_of(platform))
    return any(call.started for view in turns for call in view.calls.values())


def all_over(commands: ShellCommands) -> bool:
    """Whether nothing runs in any place, and nothing ever will."""
    return all(
        isinstance(keeper.read_status(place), keeper.CommandEnded | keeper.CommandNeverStarted)
        for place in commands.directories()
    )


async def test_b68_place_that_waits_for_its_keeper_is_given_up_with_the_turn(home: Path) -> None:
    platform, clock, commands = SimulatedPlatform("web"), SettableClock(), ShellCommands(home)
    options: dict[str, Any] = {"clock": clock, "PLATFORMS__WEB__RECOVERY": "off"}
    async with crashing_at_fact(
        home, platform, fact="SELECT 1 FROM journal WHERE kind = 'tool_started'", **options
    ):
        platform.write(f"run: {HELD_COMMAND}")
    async with read_only_store(home) as store:
        [call] = (await last_turn(store, key_of(platform))).calls.values()
    assert call.started is not None
    place = call_directory(commands.root, call.started.key)
    (place / "order.json").write_text("{}")
    async with serving(home, platform, **options):
        await eventually("the chat is told that it does not go on", platform.replies)
        platform.write("/stop")
        await eventually("nothing is started there any more", lambda: all_over(commands))


async def test_b68_command_that_lost_its_keeper_is_ended_with_its_turn(home: Path) -> None:
    platform, clock, commands = SimulatedPlatform("web"), SettableClock(), ShellCommands(home)
    options: dict[str, Any] = {"clock": clock, "PLATFORMS__WEB__RECOVERY": "off"}
    command = await crash_while_it_runs(home, platform, commands, **options)
    os.kill(command.keeper, signal.SIGKILL)
    async with serving(home, platform, **options):
        await eventually("the chat is told that it does not go on", platform.replies)
        platform.write("/stop")
        await gone(command)


async def crash_while_it_runs(
    home: Path, platform: SimulatedPlatform, commands: ShellCommands, **options: Any
) -> CommandRunning:
    async with crashing_at_the_end(home, platform, **options):
        platform.write(f"run: {HELD_COMMAND}")
        return await talking(commands)


# ── what does not ───────────────────────────────────────────────────────────────────────────────────────────


async def test_b43_turn_is_fresh_while_its_command_runs(home: Path) -> None:
    platform, clock, commands = SimulatedPlatform(), SettableClock(), ShellCommands(home)
    await crash_while_it_runs(home, platform, commands, clock=clock)
    clock.move(5 * HOUR)
    async with serving(home, platform, clock=clock) as gateway:
        await eventually("the turn goes on", lambda: goes_on(gateway, platform))
        commands.release()
        await wait_for_replies(platform, HELD_RESULT)
    assert commands.runs() == 1


async def test_b43_turn_is_stale_when_its_command_has_ended_meanwhile(home: Path) -> None:
    platform, clock, commands = SimulatedPlatform(), SettableClock(), ShellCommands(home)
    await crash_while_it_runs(home, platform, commands, clock=clock)
    commands.release()
    await eventually("the command has ended", commands.has_result)
    clock.move(5 * HOUR)
    async with serving(home, platform, clock=clock):
        await eventually("the chat is told", lambda: len(platform.replies()) == 1)
        platform.write("/resume")
        await eventually("the result comes", lambda: platform.replies()[-1:] == [HELD_RESULT])
    assert commands.runs() == 1


async def test_b63_result_is_kept_for_as_long_as_a_turn_may_ask_for_it(home: Path) -> None:
    """Files of ended commands are cleared away, but never those of a call that has no result yet."""
    platform, clock, commands = SimulatedPlatform(), SettableClock(), ShellCommands(home)
    await crash_while_it_runs(home, platform, commands, clock=clock)
    commands.release()
    await eventually("the command has ended", commands.has_result)
    clock.move(30 * DAY)
    async with serving(home, platform, clock=clock):
        await eventually("the chat is told", lambda: len(platform.replies()) == 1)
        platform.write("/resume")
        await eventually("the result comes", lambda: platform.replies()[-1:] == [HELD_RESULT])
    assert commands.runs() == 1
    clock.move(30 * DAY)
    async with serving(home, platform, clock=clock):
        await eventually("the files are cleared away", lambda: commands.directories() == [])


async def test_b52_command_that_still_runs_is_progress(home: Path) -> None:
    platform, clock, commands = SimulatedPlatform(), SettableClock(), ShellCommands(home)
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
        decisions = [record.entry for record in view.records if isinstance(record.entry, RecoveryDecided)]
        assert [each.evidence["without_progress"] for each in decisions] == [1, 2, 3, 4]
        commands.release()
        await wait_for_replies(platform, HELD_RESULT)
    assert commands.runs() == 1


async def goes_on(gateway: Gateway, platform: SimulatedPlatform) -> bool:
    return (await last_turn(gateway.store, key_of(platform))).state == "running"


async def test_neighbours_are_served_while_a_command_runs(home: Path) -> None:
    platform, commands = SimulatedPlatform(), ShellCommands(home)
    async with serving(home, platform, DRAIN__DEADLINE="0"):
        platform.write(f"run: {HELD_COMMAND}")
        await talking(commands)
        platform.write("run: echo hello", chat="2")
        await eventually("the neighbour has its answer", lambda: platform.replies("2") == ["exit code 0\nhello"])
        assert platform.replies() == []
    await asyncio.to_thread(commands.release)

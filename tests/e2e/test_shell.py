"""Foreground commands outlive the gateway: kills of its whole process group, at every point of a command.

Drives `tools/shell` and `tools/keeper`.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from perdure.testing import SettableClock, SimulatedPlatform
from perdure.tools.shell import call_directory
from support.chat_folders import chat_workspace
from support.gateway import COMMAND, Person
from support.inprocess import serving
from support.keepers import run_keeper_program, write_launch_spec
from support.recovery import key_of, last_turn, wait_for_replies
from support.shell_commands import (
    HELD_COMMAND,
    HELD_RESULT,
    ShellCommands,
    gateway_process_group,
    home_without_commands,
    is_gone,
)
from support.shutdown import crashing_at_fact, read_only_store
from support.waiting import eventually, wait_for

INTENT = "SELECT 1 FROM journal WHERE kind = 'tool_started'"
RESULT_THERE = "SELECT 1 FROM journal WHERE kind = 'tool_ended'"


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    yield from home_without_commands(tmp_path)


# ── real kills ──────────────────────────────────────────────────────────────────────────────────────────────


def test_b63_command_runs_once_when_killed_at_its_intent(home: Path) -> None:
    with gateway_process_group(home) as process:
        person, commands = Person(process), ShellCommands(home)
        person.say(f"run: {HELD_COMMAND}")
        person.wait_for_event("the intent is on disk", call="c1.1", state="started")
        process.kill()
        process.start()
        commands.release()
        assert person.wait_for_replies(1) == [HELD_RESULT]
        assert commands.runs() == 1


@pytest.mark.parametrize("moment", ["claimed", "talking"])
def test_b63_command_goes_on_and_its_result_comes_once_when_killed_in_the_middle(home: Path, moment: str) -> None:
    with gateway_process_group(home) as process:
        person, commands = Person(process), ShellCommands(home)
        person.say(f"run: {HELD_COMMAND}")
        wait_for(f"the command is {moment}", commands.is_claimed if moment == "claimed" else commands.has_output)
        process.kill()
        command = commands.wait_for_output()
        process.start()
        commands.release()
        assert person.wait_for_replies(1) == [HELD_RESULT]
        assert commands.runs() == 1
        assert is_gone(command)


def test_b63_result_of_a_command_that_ended_while_nobody_was_there_comes_once(home: Path) -> None:
    with gateway_process_group(home) as process:
        person, commands = Person(process), ShellCommands(home)
        person.say(f"run: {HELD_COMMAND}")
        commands.wait_for_output()
        process.kill()
        commands.release()
        wait_for("the command has ended", commands.has_result)
        process.start()
        assert person.wait_for_replies(1) == [HELD_RESULT]
        assert commands.runs() == 1


def test_b63_result_is_taken_from_the_journal_when_killed_after_it(home: Path) -> None:
    with gateway_process_group(home) as process:
        person, commands = Person(process), ShellCommands(home)
        person.say(f"run: {HELD_COMMAND}\nstep after 3s")
        commands.wait_for_output()
        commands.release()
        person.wait_for_event("the step after it runs", call="c2.1", state="started")
        process.kill()
        process.start()
        assert person.wait_for_replies(1) == [f"{HELD_RESULT}\nafter: done"]
        assert commands.runs() == 1


def test_b63_command_is_attached_again_and_again_when_killed_twice(home: Path) -> None:
    with gateway_process_group(home) as process:
        person, commands = Person(process), ShellCommands(home)
        person.say(f"run: {HELD_COMMAND}")
        commands.wait_for_output()
        for attempt in (2, 3):
            process.kill()
            process.start()
            wait_for_attempts(person, attempt)
        commands.release()
        assert person.wait_for_replies(1) == [HELD_RESULT]
        assert commands.runs() == 1


def wait_for_attempts(person: Person, count: int) -> None:
    """Wait until the chat's turn was claimed this many times in all."""
    for _, name, data in person.events():
        count -= name == "turn" and data["move"] == "claimed"
        if not count:
            return


@pytest.mark.parametrize("alive", [False, True])
def test_b63_outcome_is_unknown_with_the_output_so_far_when_the_keeper_is_killed_too(
    home: Path, alive: bool
) -> None:
    with gateway_process_group(home) as process:
        person, commands = Person(process), ShellCommands(home)
        person.say(f"run: {HELD_COMMAND}")
        command = commands.wait_for_output()
        process.kill()
        os.kill(command.keeper, signal.SIGKILL)
        if not alive:
            os.killpg(command.pid, signal.SIGKILL)
            wait_for("the command is gone", lambda: is_gone(command))
        process.start()
        [reply] = person.wait_for_replies(1)
        commands.release()
        assert reply.startswith("outcome unknown: ")
        assert "Its output so far: one" in reply
        assert ("still runs" in reply) is alive
        assert commands.runs() == 1


def test_command_outlives_a_drain_deadline_and_nobody_waits_for_it(home: Path) -> None:
    """B63, B68: neither status nor an orderly stop waits for the command, and neither ends it."""
    with gateway_process_group(home, DRAIN__DEADLINE="0") as process:
        person, commands = Person(process), ShellCommands(home)
        person.say(f"run: {HELD_COMMAND}")
        command = commands.wait_for_output()
        status = subprocess.run([*COMMAND, "status"], env=process.environment(), capture_output=True, check=True)
        assert b"ready" in status.stdout
        assert process.stop() == 0
        assert commands.running() == command
        process.start()
        commands.release()
        assert person.wait_for_replies(1) == [HELD_RESULT]
        assert commands.runs() == 1


# ── kills between a write and what follows it ───────────────────────────────────────────────────────────────


@pytest.mark.anyio
async def test_b63_command_that_was_never_started_is_started_when_killed_after_the_intent(
    home: Path,
) -> None:
    platform, clock, commands = SimulatedPlatform(), SettableClock(), ShellCommands(home)
    async with crashing_at_fact(home, platform, fact=INTENT, clock=clock):
        platform.write(f"run: {HELD_COMMAND}")
    assert [list(place.iterdir()) for place in commands.directories()] == [[]], "its folder is there, and empty"
    async with serving(home, platform, clock=clock):
        await eventually("the command runs", commands.has_output)
        commands.release()
        await wait_for_replies(platform, HELD_RESULT)
    assert commands.runs() == 1


@pytest.mark.anyio
async def test_b63_command_runs_once_when_killed_before_its_keeper_came(home: Path) -> None:
    """The order is there and nobody claimed the place: it runs there, and a keeper who is late starts nothing."""
    platform, clock, commands = SimulatedPlatform(), SettableClock(), ShellCommands(home)
    async with crashing_at_fact(home, platform, fact=INTENT, clock=clock):
        platform.write(f"run: {HELD_COMMAND}")
    place = call_directory(commands.root, await key_of_the_call(home, platform))
    write_launch_spec(place, command=HELD_COMMAND, directory=str(chat_workspace(home, key_of(platform))))
    async with serving(home, platform, clock=clock):
        await eventually("the command runs", commands.has_output)
        with run_keeper_program(place) as late:
            assert late.wait() == 0
        commands.release()
        await wait_for_replies(platform, HELD_RESULT)
    assert commands.runs() == 1
    assert commands.directories() == [place]


async def key_of_the_call(home: Path, platform: SimulatedPlatform) -> str:
    async with read_only_store(home) as store:
        [call] = (await last_turn(store, key_of(platform))).calls.values()
    assert call.started is not None
    return call.started.key


@pytest.mark.anyio
async def test_b63_result_comes_once_when_killed_right_after_it_is_journalled(home: Path) -> None:
    platform, clock, commands = SimulatedPlatform(), SettableClock(), ShellCommands(home)
    async with crashing_at_fact(home, platform, fact=RESULT_THERE, clock=clock):
        platform.write(f"run: {HELD_COMMAND}")
        await eventually("the command runs", commands.has_output)
        commands.release()
    async with serving(home, platform, clock=clock):
        await wait_for_replies(platform, HELD_RESULT)
    assert commands.runs() == 1

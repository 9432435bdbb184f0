"""A command is dead, failed or never begun only by evidence: no descriptors left, and folders that vanish.

Drives `tools/shell`, `tools/keeper/client`, `tools/keeper/status` and `runtime/process_watcher`.
"""

from __future__ import annotations

import resource
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from support.gateway import GatewayProcess, Person
from support.shell_commands import (
    HELD_COMMAND,
    HELD_RESULT,
    ShellCommands,
    gateway_process_group,
    home_without_commands,
)
from support.waiting import wait_for

SOFT = 200  # a limit of open files that no system has by itself
FEW = ("sh", "-c", f'ulimit -Sn {SOFT}; exec "$@"', "sh")
BACKGROUND = "echo ran >> runs; echo one; until [ -e go ]; do sleep 0.02; done; exit 3"


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    yield from home_without_commands(tmp_path)


def pid_of(process: GatewayProcess) -> int:
    assert process.process is not None
    return process.process.pid


def open_files(pid: int) -> list[str]:
    found = []
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):  # closed meanwhile
            found.append(str(entry.readlink()))
    return found


@contextmanager
def no_descriptors(pid: int) -> Iterator[None]:
    """The kernel gives a process no descriptor more; those that it has stay."""
    before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (3, before[1]))
    try:
        yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_NOFILE, before)


def end_without_descriptors(process: GatewayProcess, commands: ShellCommands) -> None:
    """Let the command end while the gateway, which waits for its keeper, can open nothing."""
    pid = pid_of(process)
    wait_for("the gateway waits for the keeper", lambda: "anon_inode:[pidfd]" in open_files(pid))
    with no_descriptors(pid):
        commands.release()
        wait_for("the command has ended", commands.has_result)
        wait_for("the gateway has noticed it", lambda: "anon_inode:[pidfd]" not in open_files(pid))


# ── no descriptors ──────────────────────────────────────────────────────────────────────────────────────────


def test_b97_result_comes_when_the_gateway_had_no_descriptor_left_at_the_end_of_a_command(home: Path) -> None:
    with gateway_process_group(home) as process:
        person, commands = Person(process), ShellCommands(home)
        person.say(f"run: {HELD_COMMAND}")
        commands.wait_for_output()
        end_without_descriptors(process, commands)
        assert person.wait_for_replies(1) == [HELD_RESULT]
        assert commands.runs() == 1


def test_b97_end_of_a_process_is_told_as_it_was_when_no_descriptor_was_left_at_that_moment(home: Path) -> None:
    """B91, B97: once, and with its exit code."""
    with gateway_process_group(home) as process:
        person, commands = Person(process), ShellCommands(home)
        person.say(f"background: {BACKGROUND}")
        commands.wait_for_output()
        person.wait_for_replies(1)
        end_without_descriptors(process, commands)
        told = person.wait_for_replies(2)[1:]
        assert ["exit code 3" in text for text in told] == [True], told


def test_b97_gateway_takes_all_descriptors_and_its_commands_get_the_usual_limit(home: Path) -> None:
    with gateway_process_group(home) as process:
        process.kill()
        process.start(*FEW)
        person = Person(process)
        soft, hard = resource.prlimit(pid_of(process), resource.RLIMIT_NOFILE)
        assert soft == hard > SOFT
        person.say("run: ulimit -Sn; ulimit -Hn")
        assert person.wait_for_replies(1) == [f"exit code 0\n{SOFT}\n{hard}"]


# ── folders that vanish ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("moment", ["down", "up"])
def test_b97_command_runs_once_and_is_unknown_when_its_folder_was_removed(home: Path, moment: str) -> None:
    with gateway_process_group(home) as process:
        person, commands = Person(process), ShellCommands(home)
        person.say(f"run: {HELD_COMMAND}")
        commands.wait_for_output()
        if moment == "down":
            process.kill()
        shutil.rmtree(commands.root)
        commands.release()
        if moment == "down":
            process.start()
        [reply] = person.wait_for_replies(1)
        assert reply.startswith("outcome unknown: The folder of the command is gone")
        assert commands.runs() == 1


@pytest.mark.parametrize("moment", ["down", "up"])
def test_b97_process_is_told_once_as_unknown_when_its_folder_was_removed(home: Path, moment: str) -> None:
    with gateway_process_group(home) as process:
        person, commands = Person(process), ShellCommands(home)
        person.say(f"background: {BACKGROUND}")
        commands.wait_for_output()
        person.wait_for_replies(1)
        if moment == "down":
            process.kill()
        shutil.rmtree(commands.root)
        commands.release()
        if moment == "down":
            process.start()
        told = person.wait_for_replies(2)[1:]
        assert ["Its files are gone" in text for text in told] == [True], told
        assert commands.runs() == 1


def test_b97_command_is_started_when_killed_after_its_folder_was_made(home: Path) -> None:
    """B63: an empty folder proves that the command never began."""
    with gateway_process_group(home) as process:
        person, commands = Person(process), ShellCommands(home)
        person.say(f"run: {HELD_COMMAND}")
        wait_for("its folder is there", commands.directories)
        process.kill()
        process.start()
        commands.release()
        assert person.wait_for_replies(1) == [HELD_RESULT]
        assert commands.runs() == 1

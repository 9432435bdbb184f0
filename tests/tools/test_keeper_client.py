"""Kept commands as the gateway sees them: every state, also forged ones, waiting, talking, stopping, sweeping.

Drives `tools/keeper/client` and `tools/keeper/status`.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from perdure.errors import ToolFailed
from perdure.tools import keeper
from perdure.tools.keeper import (
    CommandEnded,
    CommandLost,
    CommandMissing,
    CommandNeverStarted,
    CommandRunning,
    CommandUnclaimed,
    CommandUnreadable,
    StatusTimeouts,
)
from perdure.tools.keeper.directory import boot_id, now_ms, process_identity
from support.keepers import (
    CommandStarter,
    end_all_commands,
    file_names,
    find_processes,
    launch_spec,
    run_keeper_program,
    running_status,
    status_of_kind,
    write_launch_spec,
)
from support.process_state import is_alive
from support.waiting import eventually, wait_for

pytestmark = pytest.mark.anyio

DAY = 86_400_000


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Path]:
    yield from end_all_commands(tmp_path / "commands")


@pytest.fixture
def stranger() -> Iterator[int]:
    """A process that is none of ours to end."""
    process = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
    yield process.pid
    process.kill()
    process.wait()


def forge(directory: Path, name: str, **fields: Any) -> None:
    """Put a record of a living keeper or command into a directory, with some fields replaced."""
    directory.mkdir(parents=True, exist_ok=True)
    record = {"version": 1, "by": "keeper", "at": 1, **process_identity(os.getpid()), **fields}
    (directory / name).write_text(json.dumps(record))


# ── what is to be seen ──────────────────────────────────────────────────────────────────────────────────────


def test_nothing_is_seen_where_nothing_was_begun(root: Path) -> None:
    assert keeper.read_status(root / "a") == CommandMissing()


def test_an_order_alone_is_unclaimed(root: Path) -> None:
    write_launch_spec(root / "a", command="true")
    assert keeper.read_status(root / "a") == CommandUnclaimed()


async def test_a_command_is_seen_running_and_then_ended_with_its_exit_code(root: Path) -> None:
    await keeper.start_command(root / "a", launch_spec("read line; exit 7"))
    status = running_status(root / "a")
    assert is_alive(status.pid)
    assert is_alive(status.keeper)
    await keeper.write_input(root / "a", b"\n")
    assert await keeper.wait_for_end(root / "a") == CommandEnded(
        7, None, status_of_kind(root / "a", CommandEnded).ended_at, 0, 0, False, False
    )
    assert status.since <= status_of_kind(root / "a", CommandEnded).ended_at <= now_ms()


async def test_the_signal_is_told_when_a_command_ended_by_one(root: Path) -> None:
    await keeper.start_command(root / "a", launch_spec("kill -ABRT $$"))
    over = await keeper.wait_for_end(root / "a")
    assert isinstance(over, CommandEnded)
    assert (over.exit_code, over.signal, over.stopped) == (None, signal.SIGABRT, False)


@pytest.mark.parametrize(
    ("wrong", "code", "said"),
    [
        ({"directory": "/nowhere"}, 126, "working directory /nowhere cannot be used (No such file or directory)"),
        ({"directory": "/dev/null"}, 126, "working directory /dev/null cannot be used (Not a directory)"),
        ({"shell": "/nowhere/sh"}, 127, "/nowhere/sh could not run it (No such file or directory)"),
        ({"shell": "/dev/null"}, 126, "/dev/null could not run it (Permission denied)"),
        ({"command": "x" * 200_000}, 126, "/bin/sh could not run it (Argument list too long)"),
    ],
    ids=[
        "no such directory",
        "a file as directory",
        "no such shell",
        "a device as shell",
        "a far too long command",
    ],
)
async def test_a_command_that_cannot_be_started_ends_with_a_reason(
    root: Path, wrong: dict[str, Any], code: int, said: str
) -> None:
    await keeper.start_command(root / "a", launch_spec(**{"command": "true", **wrong}))
    over = await keeper.wait_for_end(root / "a")
    assert isinstance(over, CommandEnded)
    assert over.exit_code == code
    assert said in over.problem


async def test_a_command_without_its_keeper_is_lost_and_seen_to_live(root: Path) -> None:
    await keeper.start_command(root / "a", launch_spec("read line"))
    before = running_status(root / "a")
    os.kill(before.keeper, signal.SIGKILL)
    lost = await eventually("the loss is seen", lambda: status_of_kind(root / "a", CommandLost))
    assert "look before you repeat it" in lost.problem or lost.alive
    await eventually("the command, without anybody to write to it, has ended", lambda: not is_alive(before.pid))
    assert status_of_kind(root / "a", CommandLost).alive is False


@pytest.mark.parametrize(
    "change",
    [
        lambda true: {"started": true["started"] + 1},
        lambda true: {"started": true["started"] - 1},
        lambda true: {"boot": "00000000-0000-0000-0000-000000000000"},
    ],
    ids=["started later", "started earlier", "of another boot"],
)
async def test_a_recycled_process_id_is_neither_adopted_nor_killed(
    root: Path, stranger: int, change: Callable[[dict[str, Any]], dict[str, Any]]
) -> None:
    true = process_identity(stranger)
    for name in ("claim", "child"):
        forge(root / "a", name, **true | change(true))
    assert status_of_kind(root / "a", CommandLost).alive is False
    assert isinstance(await keeper.wait_for_end(root / "a"), CommandLost)
    assert isinstance(await keeper.stop(root / "a", 0), CommandLost)
    with pytest.raises(ToolFailed):
        keeper.close_input(root / "a")
    assert is_alive(stranger)


async def test_a_recycled_command_is_not_killed_when_its_keeper_is_lost(root: Path, stranger: int) -> None:
    forge(root / "a", "claim", pid=2**22 + 1)
    forge(root / "a", "child", **process_identity(stranger) | {"started": 1})
    assert isinstance(await keeper.stop(root / "a", 0), CommandLost)
    assert is_alive(stranger)


def test_a_dead_keeper_that_nobody_has_taken_notice_of_is_lost(root: Path) -> None:
    process = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
    forge(root / "a", "claim", **process_identity(process.pid))
    assert isinstance(keeper.read_status(root / "a"), CommandRunning)
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # it has ended, and stays on the kernel's list
    assert isinstance(keeper.read_status(root / "a"), CommandLost)
    process.wait()


@pytest.mark.parametrize("name", ["claim", "result.json"])
def test_a_record_that_cannot_be_read_means_lost(root: Path, name: str) -> None:
    forge(root / "a", name)
    (root / "a" / name).write_text("{")
    assert name in status_of_kind(root / "a", CommandLost).problem


@pytest.mark.parametrize("name", ["claim", "result.json"])
def test_a_record_of_a_newer_version_means_lost(root: Path, name: str) -> None:
    ended = {"exit_code": 0, "signal": None, "ended_at": 1, "seen": 0, "kept": 0, "stopped": False}
    forge(root / "a", name, version=99, timed_out=False, problem=None, **ended)
    assert "newer version" in status_of_kind(root / "a", CommandLost).problem


@pytest.mark.parametrize("name", ["claim", "result.json"])
async def test_b97_a_record_that_the_system_does_not_let_us_read_proves_nothing(root: Path, name: str) -> None:
    (root / "a" / name).mkdir(parents=True)  # to read a folder fails, for root as well
    assert isinstance(keeper.read_status(root / "a"), CommandUnreadable)
    assert isinstance(await keeper.stop(root / "a", 0), CommandUnreadable)
    assert isinstance(await keeper.wait_for_status(root / "a", StatusTimeouts(unreadable=0.1)), CommandUnreadable)
    assert keeper.remove_ended(root, 0, now_ms() + DAY) == []


async def test_b97_a_command_is_seen_as_soon_as_its_files_can_be_read_again(root: Path) -> None:
    await keeper.start_command(root / "a", launch_spec("read line"))
    (root / "a" / "claim").rename(root / "away")
    (root / "a" / "claim").symlink_to("claim")  # a loop: it cannot be followed
    looking = asyncio.create_task(keeper.wait_for_status(root / "a", keeper.DEFAULT_TIMEOUTS))
    await eventually("it cannot be read", lambda: isinstance(keeper.read_status(root / "a"), CommandUnreadable))
    (root / "away").rename(root / "a" / "claim")
    assert isinstance(await looking, CommandRunning)


async def test_b97_stopping_where_a_folder_vanished_does_not_say_that_nothing_was_begun(root: Path) -> None:
    assert await keeper.stop(root / "a", 0) == CommandMissing()
    assert keeper.read_status(root / "a") == CommandMissing()


# ── beginning ───────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_command_is_run_once_when_it_is_begun_twice(root: Path, tmp_path: Path) -> None:
    twice = launch_spec(f"echo run >> {tmp_path}/runs")
    await keeper.start_command(root / "a", twice)
    await keeper.start_command(root / "a", twice)
    await keeper.wait_for_end(root / "a")
    await keeper.start_command(root / "a", twice)
    assert (tmp_path / "runs").read_text() == "run\n"


async def test_what_was_forestalled_is_never_started(root: Path, tmp_path: Path) -> None:
    write_launch_spec(root / "a", command=f"touch {tmp_path}/started")
    assert keeper.prevent_start(root / "a") is True
    assert keeper.prevent_start(root / "a") is True  # and says so again to whoever comes after a crash
    assert keeper.read_status(root / "a") == CommandNeverStarted()
    late = run_keeper_program(root / "a")
    assert late.communicate()[1] == b""
    with pytest.raises(ToolFailed, match="was not started: it was given up before it began"):
        await keeper.start_command(root / "a", launch_spec(f"touch {tmp_path}/started"))
    assert not (tmp_path / "started").exists()
    assert keeper.read_status(root / "a") == CommandNeverStarted()


async def test_b97_a_command_that_was_ordered_before_runs_once_when_it_is_begun_again(
    root: Path, tmp_path: Path
) -> None:
    """Its keeper may be on the way: the first keeper that claims the directory runs it."""
    runs = tmp_path / "runs"
    write_launch_spec(root / "a", command=f"echo run >> {runs}")
    with run_keeper_program(root / "a") as late:
        await keeper.start_command(root / "a", launch_spec(f"echo again >> {runs}"))
        late.wait()
    await keeper.wait_for_end(root / "a")
    assert runs.read_text() == "run\n"


async def test_a_place_is_not_forestalled_when_its_keeper_was_first(root: Path) -> None:
    await keeper.start_command(root / "a", launch_spec("read line"))
    assert keeper.prevent_start(root / "a") is False
    assert isinstance(keeper.read_status(root / "a"), CommandRunning)


@pytest.mark.parametrize("wrong", ["echo \0", "echo \ud800"], ids=["NUL", "half a character"])
async def test_a_command_that_cannot_be_written_down_is_refused(root: Path, wrong: str) -> None:
    with pytest.raises(ToolFailed, match="no command can have"):
        await keeper.start_command(root / "a", launch_spec(wrong))


async def test_a_command_is_not_started_when_its_place_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ToolFailed, match=r"was not started.*Not a directory"):
        await keeper.start_command(tmp_path / "file" / "a", launch_spec("true"))


def test_a_command_is_not_started_when_the_disk_takes_no_order(root: Path) -> None:
    starter = CommandStarter(root, {"a": {"command": "true"}}, "--file-size", "0")
    assert "was not started" in starter.said[0]
    assert starter.finish() == ["a CommandUnclaimed", "dead 0"]


@pytest.mark.parametrize(
    ("python", "said"),
    [("/nowhere/python", "No such file or directory"), ("/bin/false", "its keeper ended at once")],
    ids=["no Python", "a keeper that dies at once"],
)
def test_a_place_is_claimed_by_us_when_its_keeper_does_not_start(root: Path, python: str, said: str) -> None:
    starter = CommandStarter(root, {"a": {"command": "true"}}, "--python", python)
    assert said in starter.said[0]
    assert starter.finish() == ["a CommandNeverStarted", "dead 0"]


async def test_names_and_values_of_any_bytes_reach_the_command(root: Path, tmp_path: Path) -> None:
    odd = tmp_path / os.fsdecode(b"odd \xff\xe2\x82\xac")
    odd.mkdir()
    env = {"ODD": os.fsdecode(b"\xff\xe2\x82\xac"), **launch_spec("").env}
    await keeper.start_command(root / "a", launch_spec('printf "%s|" "$ODD"; pwd', directory=str(odd), env=env))
    await keeper.wait_for_end(root / "a")
    assert keeper.read_output(root / "a", 0, 1000)[0] == os.fsencode(f"{env['ODD']}|{odd}\n")


# ── waiting ─────────────────────────────────────────────────────────────────────────────────────────────────


async def test_waiting_ends_when_the_time_is_up_and_the_command_goes_on(root: Path) -> None:
    await keeper.start_command(root / "a", launch_spec("read line"))
    assert isinstance(await keeper.wait_for_end(root / "a", 0.01), CommandRunning)
    assert isinstance(await keeper.wait_for_end(root / "a", 0), CommandRunning)


async def test_all_who_wait_hear_of_the_end(root: Path) -> None:
    await keeper.start_command(root / "a", launch_spec("read line"))
    waiting = [asyncio.create_task(keeper.wait_for_end(root / "a")) for _ in range(3)]
    cancelled = waiting.pop()
    await asyncio.sleep(0)
    cancelled.cancel()
    await keeper.write_input(root / "a", b"go\n")
    assert [type(each) for each in await asyncio.gather(*waiting)] == [CommandEnded, CommandEnded]


# ── output and input ────────────────────────────────────────────────────────────────────────────────────────


async def test_output_is_read_in_parts_and_no_character_is_cut(root: Path) -> None:
    await keeper.start_command(root / "a", launch_spec("printf 'a€\\0\\377b€'; printf '\\342\\202'"))
    await keeper.wait_for_end(root / "a")
    assert keeper.output_size(root / "a") == 12
    assert keeper.read_output(root / "a", 1, 3) == ("€".encode(), 4)
    assert keeper.read_output_text(root / "a", 0, 2) == ("a", 1)
    assert keeper.read_output_text(root / "a", 1, 8) == ("€\N{REPLACEMENT CHARACTER}\N{REPLACEMENT CHARACTER}b", 7)
    assert keeper.read_output_text(root / "a", 7, 100) == ("€", 10)
    assert keeper.read_output_text(root / "a", 10, 100) == ("", 10)
    assert keeper.read_output_text(root / "a", 10, 100, final=True) == ("\N{REPLACEMENT CHARACTER}", 12)
    assert keeper.read_output_text(root / "a", 7, 1) == ("\N{REPLACEMENT CHARACTER}", 8)
    assert keeper.read_output(root / "a", 12, 100) == (b"", 12)


def test_there_is_no_output_where_nothing_was_begun(root: Path) -> None:
    assert (keeper.output_size(root / "a"), keeper.read_output(root / "a", 0, 10)) == (0, (b"", 0))


async def test_a_command_reads_what_is_written_to_it_until_its_input_is_closed(root: Path) -> None:
    await keeper.start_command(root / "a", launch_spec("cat"))
    for line in (b"one\n", b"two\n", b"x" * 300_000 + b"\n"):
        await keeper.write_input(root / "a", line)
    keeper.close_input(root / "a")
    await keeper.wait_for_end(root / "a")
    assert keeper.read_output(root / "a", 0, 1_000_000)[0] == b"one\ntwo\n" + b"x" * 300_000 + b"\n"


async def test_nothing_is_written_to_a_command_that_does_not_read(root: Path) -> None:
    await keeper.start_command(root / "a", launch_spec("exec 0<&-; echo closed; while :; do sleep 1; done"))
    await eventually("its input is closed", lambda: keeper.output_size(root / "a"))
    with pytest.raises(ToolFailed, match="has closed its input"):
        await keeper.write_input(root / "a", b"lost\n")
    await keeper.start_command(root / "b", launch_spec("while :; do sleep 1; done"))
    with pytest.raises(ToolFailed, match=r"took \d+ of 1000000 bytes"):
        await keeper.write_input(root / "b", b"x" * 1_000_000, timeout=0.05)
    await keeper.start_command(root / "c", launch_spec("cat; while :; do sleep 1; done", input=False))
    with pytest.raises(ToolFailed, match="without an input"):
        await keeper.write_input(root / "c", b"lost\n")


async def test_nothing_is_written_to_a_command_that_has_ended(root: Path) -> None:
    await keeper.start_command(root / "a", launch_spec("true"))
    await keeper.wait_for_end(root / "a")
    with pytest.raises(ToolFailed, match="does not run"):
        await keeper.write_input(root / "a", b"late\n")
    with pytest.raises(ToolFailed, match="does not run"):
        keeper.close_input(root / "a")


# ── stopping ────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_stopped_command_may_tidy_up(root: Path) -> None:
    await keeper.start_command(
        root / "a", launch_spec("trap 'echo tidy; exit 4' TERM; echo ready; while :; do sleep 0.01; done")
    )
    await eventually("the trap is set", lambda: keeper.output_size(root / "a"))
    over = await keeper.stop(root / "a", 60)
    assert isinstance(over, CommandEnded)
    assert (over.exit_code, over.stopped, over.timed_out) == (4, True, False)
    assert keeper.read_output_text(root / "a", 0, 100)[0].endswith("tidy\n")


async def test_a_command_that_ignores_the_wish_is_killed(root: Path) -> None:
    await keeper.start_command(root / "a", launch_spec("trap '' TERM; echo ready; while :; do sleep 1; done"))
    await eventually("it ignores the signal", lambda: keeper.output_size(root / "a"))
    over = await keeper.stop(root / "a", 0.1)
    assert isinstance(over, CommandEnded)
    assert (over.exit_code, over.signal, over.stopped) == (None, signal.SIGKILL, True)


async def test_a_second_wish_with_less_patience_counts(root: Path) -> None:
    await keeper.start_command(root / "a", launch_spec("trap '' TERM; echo ready; while :; do sleep 1; done"))
    await eventually("it ignores the signal", lambda: keeper.output_size(root / "a"))
    patient = asyncio.create_task(keeper.stop(root / "a", 600))
    await eventually("the wish is told", lambda: (root / "a" / "stop").exists())
    over = await keeper.stop(root / "a", 0)
    assert await patient == over
    assert isinstance(over, CommandEnded)


@pytest.mark.parametrize(
    "command",
    [
        "sleep 1000 & echo $!; wait",
        "(trap '' TERM; sh -c 'echo $PPID'; while :; do sleep 1; done) & trap 'exit 0' TERM; wait",
        "true; timeout 1000 sh -c 'echo $$; while :; do sleep 1; done'; true",
        "set -m; sleep 1000 & echo $!; wait",
        "sleep 1000 & echo $!; kill -STOP $$",
    ],
    ids=["a child", "a child that ignores it", "a group of `timeout`", "a job of its own group", "a halted one"],
)
async def test_what_a_command_started_is_ended_with_it(root: Path, command: str) -> None:
    await keeper.start_command(
        root / "a", launch_spec(command, shell="/bin/bash" if "set -m" in command else "/bin/sh")
    )
    child = int(await eventually("the child is told", lambda: keeper.read_output_text(root / "a", 0, 100)[0]))
    assert is_alive(child)
    over = await keeper.stop(root / "a", 0.3)
    assert isinstance(over, CommandEnded)
    assert over.stopped
    assert not is_alive(child)


async def test_a_stopped_command_that_was_not_started_never_will_be(root: Path) -> None:
    write_launch_spec(root / "a", command="true")
    assert await keeper.stop(root / "a") == CommandNeverStarted()
    with pytest.raises(ToolFailed):
        await keeper.start_command(root / "a", launch_spec("true"))


async def test_stopping_changes_nothing_when_the_command_has_ended(root: Path) -> None:
    await keeper.start_command(root / "a", launch_spec("exit 3"))
    over = await keeper.wait_for_end(root / "a")
    assert await keeper.stop(root / "a") == over
    assert isinstance(over, CommandEnded)
    assert not over.stopped


async def test_a_command_without_its_keeper_is_ended_and_stays_lost(root: Path) -> None:
    command = "trap '' TERM; sleep 1000 & echo $!; while :; do sleep 1; done"
    await keeper.start_command(root / "a", launch_spec(command, input=False))
    child = int(await eventually("the child is told", lambda: keeper.read_output_text(root / "a", 0, 100)[0]))
    before = running_status(root / "a")
    os.kill(before.keeper, signal.SIGKILL)
    await eventually("it is at large", lambda: (lost := status_of_kind(root / "a", CommandLost)) and lost.alive)
    assert isinstance(await keeper.wait_for_end(root / "a"), CommandLost)
    after = await keeper.stop(root / "a", 0.1)
    assert isinstance(after, CommandLost)
    assert not after.alive
    await eventually("all of it has ended", lambda: not is_alive(before.pid) and not is_alive(child))


# ── what is left ────────────────────────────────────────────────────────────────────────────────────────────


async def test_only_what_is_over_for_long_is_swept_away(root: Path) -> None:
    for name, command in {"over": "true", "runs": "read line", "large": "while :; do sleep 1; done"}.items():
        await keeper.start_command(root / name, launch_spec(command))
    over = await keeper.wait_for_end(root / "over")
    assert isinstance(over, CommandEnded)
    os.kill(running_status(root / "large").keeper, signal.SIGKILL)
    await eventually(
        "it is at large", lambda: (lost := status_of_kind(root / "large", CommandLost)) and lost.alive
    )
    keeper.prevent_start(root / "refused")
    write_launch_spec(root / "unclaimed", command="true")
    forge(root / "lost", "claim", boot="another")
    (root / "foreign").mkdir()
    assert keeper.remove_ended(root, DAY, over.ended_at + DAY - 1) == []
    assert (
        keeper.remove_ended(root, DAY, now_ms() + 2 * DAY, skipped={"over", "lost", "refused", "unclaimed"}) == []
    )
    swept = keeper.remove_ended(root, DAY, now_ms() + 2 * DAY)
    assert swept == ["lost", "over", "refused", "unclaimed"]
    assert file_names(root) == ["foreign", "large", "runs"]
    assert {name: type(status) for name, status in keeper.read_all_statuses(root).items()} == {
        "large": CommandLost,
        "runs": CommandRunning,
    }
    assert boot_id() in (root / "runs" / "claim").read_text()


def test_sweeping_ends_what_a_crash_left_half_done(root: Path) -> None:
    write_launch_spec(root / ".gone-a", command="true")
    assert keeper.read_all_statuses(root) == {}
    assert keeper.remove_ended(root, 0, 0) == []
    assert file_names(root) == []


def test_nothing_is_found_where_there_is_no_folder(root: Path) -> None:
    assert (keeper.read_all_statuses(root), keeper.remove_ended(root, 0, now_ms())) == ({}, [])


def test_dead_keepers_that_are_left_to_the_gateway_are_taken_off_the_list(root: Path) -> None:
    starter = CommandStarter(root, {"a": {"command": "true"}, "b": {"command": "true"}}, "--subreaper")
    wait_for("both keepers have ended", lambda: not find_processes(str(root)))
    assert starter.finish() == ["a CommandEnded", "b CommandEnded", "dead 0"]

"""Keepers killed at every step they take, and on disks that fail.

Drives `tools/keeper`.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from perdure.errors import ToolFailed
from perdure.tools import keeper
from perdure.tools.keeper import KEEPER_PROGRAM, CommandEnded, CommandLost, CommandNeverStarted, CommandUnclaimed
from support.keepers import end_all_commands, launch_spec, running_status, wait_until_ended, write_launch_spec

pytestmark = pytest.mark.anyio

# What a keeper calls after it has left its starter, and the starter does not: everything that leaves a trace.
CALLS = ["setsid", "chdir", "umask", "dup2", "write", "fsync", "ftruncate"]
CALLS += ["linkat", "unlinkat", "mknodat", "renameat", "waitid", "wait4", "poll"]
CHUNK = b"x" * 4096


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Path]:
    yield from end_all_commands(tmp_path / "commands")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of one megabyte."""
    place = tmp_path / "disk"
    place.mkdir()
    subprocess.run(["/bin/mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(place)], check=True)
    try:
        yield from end_all_commands(place)
    finally:
        subprocess.run(["/bin/umount", "-l", str(place)], check=True)


def fill(disk: Path) -> None:
    with (disk / "filler").open("wb", buffering=0) as file:
        try:
            while True:
                file.write(CHUNK)
        except OSError:
            return


def traced(place: Path, injected: str) -> bool:
    """Run a keeper to the end of all that it starts, with something injected; whether it was killed."""
    trace = place.with_name("trace")
    program = [sys.executable, "-I", "-S", str(KEEPER_PROGRAM), str(place)]
    subprocess.run(
        ["/usr/bin/env", "strace", "-f", "-qq", "-o", str(trace), "-e", f"inject={injected}", *program],
        stderr=subprocess.DEVNULL,
        check=False,
    )
    return "killed by SIGKILL" in trace.read_text()


@pytest.mark.parametrize("call", CALLS)
def test_what_is_seen_is_true_at_whichever_step_a_keeper_is_killed(root: Path, tmp_path: Path, call: str) -> None:
    place, mark, step, killed = root / "a", tmp_path / "mark", 0, True
    while killed:
        step += 1
        write_launch_spec(place, command=f"echo run >> {mark}; exit 9")
        killed = traced(place, f"{call}:signal=KILL:when={step}")
        check(place, mark.read_text() if mark.exists() else "", step)
        shutil.rmtree(place)
        mark.unlink(missing_ok=True)
    assert step > 1


def check(place: Path, runs: str, step: int) -> None:
    """Hold what is seen against what the command has really done."""
    match keeper.read_status(place):
        case CommandUnclaimed():
            assert runs == "", step
            assert keeper.prevent_start(place), step
            assert keeper.read_status(place) == CommandNeverStarted(), step
        case CommandEnded(exit_code=code, signal=number):
            # The command takes some of these steps too, and is killed itself then.
            assert (code, runs) == (9, "run\n") or number == signal.SIGKILL, step
        case status:
            assert isinstance(status, CommandLost), step
            assert runs in ("", "run\n"), step


@pytest.mark.parametrize("which", [1, 2], ids=["of the claim", "of its folder"])
def test_nothing_is_started_when_the_claim_cannot_be_synced(root: Path, tmp_path: Path, which: int) -> None:
    write_launch_spec(root / "a", command=f"touch {tmp_path}/mark")
    assert not traced(root / "a", f"fsync:error=EIO:when={which}")
    assert not (tmp_path / "mark").exists()
    assert isinstance(keeper.read_status(root / "a"), CommandUnclaimed if which == 1 else CommandLost)


async def test_the_result_is_written_also_when_the_disk_is_full(small_disk: Path) -> None:
    await keeper.start_command(
        small_disk / "a", launch_spec("echo before; read line; head -c 100000 /dev/zero; exit 4")
    )
    assert running_status(small_disk / "a").pid
    fill(small_disk)
    await keeper.write_input(small_disk / "a", b"\n")
    over = wait_until_ended(small_disk / "a")
    assert (over.exit_code, over.seen) == (4, 100_007)
    assert over.kept == keeper.output_size(small_disk / "a") < over.seen
    assert "could not be kept whole (No space left on device)" in over.problem


async def test_a_command_is_not_started_when_the_disk_is_full(small_disk: Path) -> None:
    fill(small_disk)
    with pytest.raises(ToolFailed, match="No space left on device"):
        await keeper.start_command(small_disk / "a", launch_spec("true"))

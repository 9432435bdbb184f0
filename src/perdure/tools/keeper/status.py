"""Reads the status of a command from the files in its directory: running, ended, lost, or not started.

The gateway can prevent the start of a command by a claim of its own. An error of the system, such as no descriptor
left, no permission or a failing disk, proves nothing about a command: its status is read again later.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import msgspec
from msgspec import Struct

from perdure.core import texts
from perdure.tools.blocking_jobs import run_in_thread
from perdure.tools.file_contents import sync_directory
from perdure.tools.keeper.directory import RECORD_VERSION, boot_id, claim_directory, is_process_alive, process_stat

_RETRY_SECONDS = 0.5  # between two attempts at files that cannot be read


class CommandMissing(Struct, frozen=True):
    """The directory does not exist. Only the journal tells whether a command was started in it."""


class CommandUnclaimed(Struct, frozen=True):
    """The command was not started yet. Only `prevent_start` can tell whether it will be."""


class CommandNeverStarted(Struct, frozen=True):
    """The command was never started and never will be: the gateway claimed the directory first."""


class CommandRunning(Struct, frozen=True):
    """The command has a living keeper."""

    pid: int  # of the command and of its session; 0 until the command is started
    since: int  # milliseconds
    keeper: int  # the keeper's pid


class CommandEnded(Struct, frozen=True):
    """The command has ended, and its keeper has written the result."""

    exit_code: int | None  # None if a signal ended it
    signal: int | None
    ended_at: int  # milliseconds
    seen: int  # bytes of output that the command wrote
    kept: int  # bytes of them that are stored
    stopped: bool  # the gateway asked for its end
    timed_out: bool
    problem: str = ""  # a sentence


class CommandLost(Struct, frozen=True):
    """The command was started, and its keeper cannot tell any more how it ended."""

    problem: str  # a sentence
    alive: bool = False  # the command still runs without its keeper; `stop` ends it


class CommandUnreadable(Struct, frozen=True):
    """The files cannot be read now, which proves nothing; a later status may differ."""

    problem: str  # a sentence


CommandStatus = (
    CommandMissing
    | CommandUnclaimed
    | CommandNeverStarted
    | CommandRunning
    | CommandEnded
    | CommandLost
    | CommandUnreadable
)


class StatusTimeouts(Struct, frozen=True):
    """For how many seconds a status is read again before the outcome of a command counts as unknown."""

    missing: float = 5.0  # the directory is not there
    unreadable: float = 600.0  # its files cannot be read


DEFAULT_TIMEOUTS = StatusTimeouts()


class KeeperRecord(Struct):
    """A JSON file in the directory of a command."""

    version: int


R = TypeVar("R", bound=KeeperRecord)
T = TypeVar("T")


class ProcessIdentity(KeeperRecord):
    """A process, distinguished from every other one that had or will have its pid."""

    pid: int
    started: int
    boot: str

    @property
    def is_alive(self) -> bool:
        return self.boot == boot_id() and is_process_alive(self.pid, self.started)

    def reap(self) -> None:
        """Reap this process if it has ended and is our child, as where the gateway is process 1."""
        with suppress(OSError):  # not our child, or `/proc` cannot be read now
            if (found := process_stat(self.pid)) and found[0] == "Z" and found[2] == self.started:
                os.waitpid(self.pid, os.WNOHANG)


class ChildRecord(ProcessIdentity):
    """The process of the command, or of bubblewrap around it."""

    wrapped: bool = False


class ClaimRecord(ProcessIdentity):
    """Who claimed the directory first: a keeper or a gateway."""

    by: str
    at: int


class ResultRecord(KeeperRecord):
    """How a command ended, as its keeper wrote it to `result.json`."""

    exit_code: int | None
    signal: int | None
    ended_at: int
    seen: int
    kept: int
    stopped: bool
    timed_out: bool
    problem: tuple[str, str, str] | None


def read_status(directory: Path) -> CommandStatus:
    """Read the status of a command from three small files, without waiting for anything."""
    try:
        return (
            _ended_status(directory)
            or _claimed_status(directory)
            or (CommandUnclaimed() if path_exists(directory) else CommandMissing())
        )
    except DamagedRecord as error:
        return CommandLost(str(error))
    except OSError as error:
        return CommandUnreadable(texts.processes.command_files_unreadable(str(error)))


async def wait_for_status(directory: Path, timeouts: StatusTimeouts) -> CommandStatus:
    """Read the status until the directory is there and readable, or the timeouts are up."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    while isinstance(status := read_status(directory), CommandMissing | CommandUnreadable):
        limit = timeouts.missing if isinstance(status, CommandMissing) else timeouts.unreadable
        if (left := began + limit - loop.time()) <= 0:
            break
        await asyncio.sleep(min(_RETRY_SECONDS, left))
    return status


async def retry_os_errors(operation: Callable[[], T], timeouts: StatusTimeouts) -> T:
    """Run a file operation in a thread; retry it after an `OSError`, which is raised when the time is up."""
    loop = asyncio.get_running_loop()
    until = loop.time() + timeouts.unreadable
    while True:
        try:
            return await run_in_thread(operation)
        except OSError:
            if loop.time() >= until:
                raise
        await asyncio.sleep(_RETRY_SECONDS)


def path_exists(path: Path) -> bool:
    """Whether a path exists; any other `OSError` means that this cannot be told now."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def prevent_start(directory: Path) -> bool:
    """Claim a directory for the gateway; False if a keeper claimed it first. It waits for the disk.

    After return with True: the command never started and never will, whatever other processes do.
    """
    make_directory(directory)
    folder = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        return claim_directory(folder, "gateway") or isinstance(read_status(directory), CommandNeverStarted)
    finally:
        os.close(folder)


def make_directory(directory: Path) -> None:
    """Make the directory of a command durably: it survives a power cut."""
    with suppress(FileExistsError):
        directory.parent.mkdir(mode=0o700, parents=True, exist_ok=True)  # of its parents, `mkdir` sets no mode
        directory.mkdir(mode=0o700)
    sync_directory(directory.parent)


def read_claim(directory: Path) -> ClaimRecord | None:
    return _read_record(directory, "claim", ClaimRecord)


def read_child(directory: Path) -> ChildRecord | None:
    return _read_record(directory, "child", ChildRecord)


def _claimed_status(directory: Path) -> CommandStatus | None:
    claim = read_claim(directory)
    if claim is None:
        return None
    if claim.by != "keeper":
        return CommandNeverStarted()
    if claim.is_alive:
        child = read_child(directory)
        return CommandRunning(child.pid if child else 0, claim.at, claim.pid)
    # Read again: the keeper may have written its result and exited since.
    return _ended_status(directory) or _lost_status(directory, claim)


def _lost_status(directory: Path, claim: ClaimRecord) -> CommandLost:
    if claim.boot != boot_id():
        return CommandLost(texts.processes.LOST_AT_REBOOT)
    child = read_child(directory)
    alive = child is not None and child.is_alive
    return CommandLost(texts.processes.RUNS_WITHOUT_KEEPER if alive else texts.processes.KEEPER_KILLED, alive)


def _ended_status(directory: Path) -> CommandEnded | None:
    result = _read_record(directory, "result.json", ResultRecord)
    if result is None:
        return None
    problem = texts.processes.command_problem(*result.problem) if result.problem else ""
    return CommandEnded(
        result.exit_code,
        result.signal,
        result.ended_at,
        result.seen,
        result.kept,
        result.stopped,
        result.timed_out,
        problem,
    )


class DamagedRecord(Exception):
    """A record exists and cannot be decoded; the message says why."""


def _read_record(directory: Path, name: str, kind: type[R]) -> R | None:
    try:
        found = msgspec.json.decode((directory / name).read_bytes(), type=kind)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except msgspec.MsgspecError as error:
        raise DamagedRecord(texts.processes.record_unreadable(name, str(error))) from error
    if found.version > RECORD_VERSION:
        raise DamagedRecord(texts.processes.record_newer(name))
    return found

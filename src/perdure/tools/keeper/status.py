"""What can be seen of a kept command from its files: whether it runs, how it ended, or that nobody can tell.

What was not started yet can be given up for good by a claim of ours. An error of the system, such as no file
descriptor left, no permission or a failing disk, proves nothing about a command: whoever meets it looks again.
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
from perdure.tools.file_contents import sync_directory
from perdure.tools.keeper.directory import RECORD_VERSION, boot_id, claim_directory, is_process_alive, process_stat
from perdure.tools.threads import run_in_thread

_RETRY_SECONDS = 0.5  # seconds between two looks at files that cannot be read


class CommandMissing(Struct, frozen=True):
    """There is no such place. Whether something was begun in it, only the journal can tell."""


class CommandUnclaimed(Struct, frozen=True):
    """It was not started yet. Only `forestall` can tell whether it will be."""


class CommandNeverStarted(Struct, frozen=True):
    """It was never started, and never will be: we claimed the place first."""


class CommandRunning(Struct, frozen=True):
    """It has a keeper that lives."""

    pid: int  # of the command, also of its session; 0 in the moment before it is started
    since: int  # milliseconds
    keeper: int  # its process id


class CommandEnded(Struct, frozen=True):
    """It is over, and this is how."""

    exit_code: int | None  # None if a signal ended it
    signal: int | None
    ended_at: int  # milliseconds
    seen: int  # bytes of output
    kept: int  # bytes of it that can be read
    stopped: bool  # we asked it to stop
    timed_out: bool
    problem: str = ""  # a sentence


class CommandLost(Struct, frozen=True):
    """It was begun, and nobody here can tell how it ended."""

    problem: str  # a sentence
    alive: bool = False  # the command itself still runs; `stop` would end it


class CommandUnreadable(Struct, frozen=True):
    """Its files cannot be read now, which proves nothing; a later look may see more."""

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
    """How many seconds we look again, before we say that nobody knows how a command ended."""

    missing: float = 5.0  # its folder is not there
    unreadable: float = 600.0  # its files are there, perhaps, and cannot be read


DEFAULT_TIMEOUTS = StatusTimeouts()


class KeeperRecord(Struct):
    """A file in a place."""

    version: int


R = TypeVar("R", bound=KeeperRecord)
T = TypeVar("T")


class ProcessIdentity(KeeperRecord):
    """A process, told from every other one that had or will have its number."""

    pid: int
    started: int
    boot: str

    @property
    def is_alive(self) -> bool:
        return self.boot == boot_id() and is_process_alive(self.pid, self.started)

    def reap(self) -> None:
        """Take an ended process off the kernel's list if it was left to us, as where the gateway is process 1."""
        with suppress(OSError):  # it was left to somebody else, or cannot be looked at now
            if (found := process_stat(self.pid)) and found[0] == "Z" and found[2] == self.started:
                os.waitpid(self.pid, os.WNOHANG)


class ClaimRecord(ProcessIdentity):
    """Who was first in a place."""

    by: str
    at: int


class ResultRecord(KeeperRecord):
    """How a command ended, as the keeper wrote it down."""

    exit_code: int | None
    signal: int | None
    ended_at: int
    seen: int
    kept: int
    stopped: bool
    timed_out: bool
    problem: tuple[str, str, str] | None


def read_status(directory: Path) -> CommandStatus:
    """See how a command is doing. It reads three small files; nothing is waited for."""
    try:
        return (
            _ended_status(directory)
            or _claimed_status(directory)
            or (CommandUnclaimed() if path_exists(directory) else CommandMissing())
        )
    except DamagedRecord as error:
        return CommandLost(str(error))
    except OSError as error:
        return CommandUnreadable(texts.shell.files_unreadable(str(error)))


async def wait_for_status(directory: Path, timeouts: StatusTimeouts) -> CommandStatus:
    """Look until there is something to see; `Missing` or `NotReadable` if there was nothing for so long."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    while isinstance(sighting := read_status(directory), CommandMissing | CommandUnreadable):
        limit = timeouts.missing if isinstance(sighting, CommandMissing) else timeouts.unreadable
        if (left := began + limit - loop.time()) <= 0:
            break
        await asyncio.sleep(min(_RETRY_SECONDS, left))
    return sighting


async def retry_os_errors(operation: Callable[[], T], timeouts: StatusTimeouts) -> T:
    """Work with files in a thread; while the system refuses, try again, and raise its error in the end."""
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
    """Whether there is something at a path; an `OSError` says that nobody can tell now."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def prevent_start(directory: Path) -> bool:
    """Claim a place ourselves; False if a keeper was first.

    After return with True: its command never started and never will, also for every process after us. It waits
    for the disk.
    """
    make_directory(directory)
    folder = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        return claim_directory(folder, "gateway") or isinstance(read_status(directory), CommandNeverStarted)
    finally:
        os.close(folder)


def make_directory(directory: Path) -> None:
    """Make the directory of a command, so that it is there after a power cut too."""
    with suppress(FileExistsError):
        directory.mkdir(mode=0o700, parents=True)
    sync_directory(directory.parent)


def read_claim(directory: Path) -> ClaimRecord | None:
    return _read_record(directory, "claim", ClaimRecord)


def read_child(directory: Path) -> ProcessIdentity | None:
    return _read_record(directory, "child", ProcessIdentity)


def _claimed_status(directory: Path) -> CommandStatus | None:
    claim = read_claim(directory)
    if claim is None:
        return None
    if claim.by != "keeper":
        return CommandNeverStarted()
    if claim.is_alive:
        child = read_child(directory)
        return CommandRunning(child.pid if child else 0, claim.at, claim.pid)
    return _ended_status(directory) or _lost_status(
        directory, claim
    )  # again, because it may just have written its result and ended


def _lost_status(directory: Path, claim: ClaimRecord) -> CommandLost:
    if claim.boot != boot_id():
        return CommandLost(texts.shell.LOST_AT_REBOOT)
    child = read_child(directory)
    alive = child is not None and child.is_alive
    return CommandLost(texts.shell.RUNS_WITHOUT_KEEPER if alive else texts.shell.KEEPER_KILLED, alive)


def _ended_status(directory: Path) -> CommandEnded | None:
    result = _read_record(directory, "result.json", ResultRecord)
    if result is None:
        return None
    problem = texts.shell.problem(*result.problem) if result.problem else ""
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
    """A record is there and cannot be understood; the sentence says why."""


def _read_record(directory: Path, name: str, kind: type[R]) -> R | None:
    try:
        found = msgspec.json.decode((directory / name).read_bytes(), type=kind)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except msgspec.MsgspecError as error:
        raise DamagedRecord(texts.shell.record_unreadable(name, str(error))) from error
    if found.version > RECORD_VERSION:
        raise DamagedRecord(texts.shell.record_newer(name))
    return found

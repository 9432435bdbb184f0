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

from perdure.core import notes
from perdure.tools.place import FORMAT, boot, claim, lives, process
from perdure.tools.threads import in_thread

_AGAIN = 0.5  # seconds between two looks at files that cannot be read


class Missing(Struct, frozen=True, tag=True):
    """There is no such place. Whether something was begun in it, only the journal can tell."""


class Unclaimed(Struct, frozen=True, tag=True):
    """It was not started yet. Only `forestall` can tell whether it will be."""


class Refused(Struct, frozen=True, tag=True):
    """It was never started, and never will be: we claimed the place first."""


class Running(Struct, frozen=True, tag=True):
    """It has a keeper that lives."""

    pid: int  # of the command, also of its session; 0 in the moment before it is started
    since: int  # milliseconds
    keeper: int  # its process id


class Ended(Struct, frozen=True, tag=True):
    """It is over, and this is how."""

    exit_code: int | None  # None if a signal ended it
    signal: int | None
    ended_at: int  # milliseconds
    seen: int  # bytes of output
    kept: int  # bytes of it that can be read
    stopped: bool  # we asked it to stop
    timed_out: bool
    problem: str = ""  # a sentence


class Lost(Struct, frozen=True, tag=True):
    """It was begun, and nobody here can tell how it ended."""

    problem: str  # a sentence
    alive: bool = False  # the command itself still runs; `stop` would end it


class NotReadable(Struct, frozen=True, tag=True):
    """Its files cannot be read now, which proves nothing; a later look may see more."""

    problem: str  # a sentence


Sighting = Missing | Unclaimed | Refused | Running | Ended | Lost | NotReadable


class Patience(Struct, frozen=True):
    """How many seconds we look again, before we say that nobody knows how a command ended."""

    vanished: float = 5.0  # its folder is not there
    unreadable: float = 600.0  # its files are there, perhaps, and cannot be read


USUAL = Patience()


class Record(Struct):
    """A file in a place."""

    version: int


R = TypeVar("R", bound=Record)
T = TypeVar("T")


class Identity(Record):
    """A process, told from every other one that had or will have its number."""

    pid: int
    started: int
    boot: str

    @property
    def lives(self) -> bool:
        return self.boot == boot() and lives(self.pid, self.started)

    def reap(self) -> None:
        """Take an ended process off the kernel's list if it was left to us, as where the gateway is process 1."""
        with suppress(OSError):  # it was left to somebody else, or cannot be looked at now
            if (found := process(self.pid)) and found[0] == "Z" and found[2] == self.started:
                os.waitpid(self.pid, os.WNOHANG)


class Claim(Identity):
    """Who was first in a place."""

    by: str
    at: int


class Result(Record):
    """How a command ended, as the keeper wrote it down."""

    exit_code: int | None
    signal: int | None
    ended_at: int
    seen: int
    kept: int
    stopped: bool
    timed_out: bool
    problem: tuple[str, str, str] | None


def look(place: Path) -> Sighting:
    """See how a command is doing. It reads three small files; nothing is waited for."""
    try:
        return _ended(place) or _claimed(place) or (Unclaimed() if is_there(place) else Missing())
    except Damaged as error:
        return Lost(str(error))
    except OSError as error:
        return NotReadable(notes.command_not_readable(str(error)))


async def look_patiently(place: Path, patience: Patience) -> Sighting:
    """Look until there is something to see; `Missing` or `NotReadable` if there was nothing for so long."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    while isinstance(sighting := look(place), Missing | NotReadable):
        limit = patience.vanished if isinstance(sighting, Missing) else patience.unreadable
        if (left := began + limit - loop.time()) <= 0:
            break
        await asyncio.sleep(min(_AGAIN, left))
    return sighting


async def patiently(work: Callable[[], T], patience: Patience) -> T:
    """Work with files in a thread; while the system refuses, try again, and raise its error in the end."""
    loop = asyncio.get_running_loop()
    until = loop.time() + patience.unreadable
    while True:
        try:
            return await in_thread(work)
        except OSError:
            if loop.time() >= until:
                raise
        await asyncio.sleep(_AGAIN)


def is_there(path: Path) -> bool:
    """Whether there is something at a path; an `OSError` says that nobody can tell now."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def forestall(place: Path) -> bool:
    """Claim a place ourselves; False if a keeper was first.

    After return with True: its command never started and never will, also for every process after us. It waits
    for the disk.
    """
    make_place(place)
    folder = os.open(place, os.O_RDONLY | os.O_DIRECTORY)
    try:
        return claim(folder, "gateway") or isinstance(look(place), Refused)
    finally:
        os.close(folder)


def make_place(place: Path) -> None:
    """Make the directory of a command, so that it is there after a power cut too."""
    with suppress(FileExistsError):
        place.mkdir(mode=0o700, parents=True)
    parent = os.open(place.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(parent)
    finally:
        os.close(parent)


def claim_of(place: Path) -> Claim | None:
    return _record(place, "claim", Claim)


def child_of(place: Path) -> Identity | None:
    return _record(place, "child", Identity)


def _claimed(place: Path) -> Sighting | None:
    claim = claim_of(place)
    if claim is None:
        return None
    if claim.by != "keeper":
        return Refused()
    if claim.lives:
        child = child_of(place)
        return Running(child.pid if child else 0, claim.at, claim.pid)
    return _ended(place) or _lost(place, claim)  # again, because it may just have written its result and ended


def _lost(place: Path, claim: Claim) -> Lost:
    if claim.boot != boot():
        return Lost(notes.COMMAND_LOST_AT_BOOT)
    child = child_of(place)
    alive = child is not None and child.lives
    return Lost(notes.COMMAND_AT_LARGE if alive else notes.COMMAND_LOST, alive)


def _ended(place: Path) -> Ended | None:
    result = _record(place, "result.json", Result)
    if result is None:
        return None
    problem = notes.command_problem(*result.problem) if result.problem else ""
    return Ended(
        result.exit_code,
        result.signal,
        result.ended_at,
        result.seen,
        result.kept,
        result.stopped,
        result.timed_out,
        problem,
    )


class Damaged(Exception):
    """A record is there and cannot be understood; the sentence says why."""


def _record(place: Path, name: str, kind: type[R]) -> R | None:
    try:
        found = msgspec.json.decode((place / name).read_bytes(), type=kind)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except msgspec.MsgspecError as error:
        raise Damaged(notes.command_unreadable(name, str(error))) from error
    if found.version > FORMAT:
        raise Damaged(notes.command_newer(name))
    return found

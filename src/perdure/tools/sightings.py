"""What can be seen of a kept command from its files: whether it runs, how it ended, or that nobody can tell.

What was not started yet can be given up for good by a claim of ours.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import msgspec
from msgspec import Struct

from perdure.core import notes
from perdure.tools.place import FORMAT, boot, claim, lives, process


class Missing(Struct, frozen=True, tag=True):
    """There is no such place; nothing was ever begun in it."""


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


Sighting = Missing | Unclaimed | Refused | Running | Ended | Lost


class Record(Struct):
    """A file in a place."""

    version: int


R = TypeVar("R", bound=Record)


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
        if (found := process(self.pid)) and found[0] == "Z" and found[2] == self.started:
            with suppress(ChildProcessError):  # it was left to somebody else
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
        return _ended(place) or _claimed(place) or (Unclaimed() if place.is_dir() else Missing())
    except Unreadable as error:
        return Lost(str(error))


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


class Unreadable(Exception):
    """A record is there and cannot be understood; the sentence says why."""


def _record(place: Path, name: str, kind: type[R]) -> R | None:
    try:
        found = msgspec.json.decode((place / name).read_bytes(), type=kind)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, msgspec.MsgspecError) as error:
        raise Unreadable(notes.command_unreadable(name, str(error))) from error
    if found.version > FORMAT:
        raise Unreadable(notes.command_newer(name))
    return found

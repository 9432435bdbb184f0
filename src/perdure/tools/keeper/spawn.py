"""Starting a command that outlives us."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

from msgspec import Struct, structs

from perdure.core import texts
from perdure.errors import OutcomeUnknown, ToolFailed
from perdure.tools.descriptor_limit import INHERITED_LIMIT
from perdure.tools.keeper.directory import RECORD_VERSION, fs_encode, replace_record
from perdure.tools.keeper.status import (
    DEFAULT_TIMEOUTS,
    CommandNeverStarted,
    CommandUnclaimed,
    StatusTimeouts,
    make_directory,
    path_exists,
    prevent_start,
    read_status,
    retry_os_errors,
    wait_for_status,
)
from perdure.tools.threads import run_in_thread

KEEPER_PROGRAM = Path(__file__).with_name("program.py")
_RESERVED_BYTES = 4096  # bytes of the disk for the result, taken while there is room
_SPAWN_SECONDS = 60.0  # seconds that a keeper may take to start


class LaunchSpec(Struct, frozen=True):
    """What is to be run, and how."""

    command: str
    directory: str  # where it works
    env: dict[str, str]  # all of it
    timeout: float | None = None  # seconds, counted by the keeper
    cap: int = 8 << 20  # bytes of output that are kept
    grace: float = 5.0  # seconds between asking it to end, when its time is up, and killing it
    shell: str = "/bin/sh"
    input: bool = True  # False: what it reads is empty


async def start_command(directory: Path, spec: LaunchSpec, timeouts: StatusTimeouts = DEFAULT_TIMEOUTS) -> None:
    """Start a command in a place; `ToolFailed` if it was not started and never will be in this place.

    It is done once: in a place that has a keeper, nothing more is started. A place whose order was written before
    keeps that order: its keeper may be on the way already, and whichever keeper claims the place first runs it.
    After return: a keeper has claimed the place, which is durable, and has tried to start the command; or nobody
    can tell now, and a later look will.
    If we die inside: `look` says `Unclaimed` if it was not started; only `forestall` makes that final.
    """
    problem = await run_in_thread(lambda: _start(directory.absolute(), spec))
    if not isinstance(await wait_for_status(directory, timeouts), CommandUnclaimed | CommandNeverStarted):
        return
    try:
        never = await retry_os_errors(lambda: prevent_start(directory), timeouts)
    except OSError as error:
        raise OutcomeUnknown(texts.shell.start_unknown(f"{problem} {error}")) from error
    if never:
        raise ToolFailed(texts.shell.not_started(problem))


def _start(directory: Path, spec: LaunchSpec) -> str:
    """Run a keeper in a place, and return what it complained of, or what kept us from running one.

    `ToolFailed` if nobody can have started the command: there was no order before us, and we ran no keeper.
    """
    ordered = True
    try:
        ordered = path_exists(directory / "order.json")
        if not ordered:
            _write_launch_spec(directory, spec)
    except ValueError as error:
        raise ToolFailed(texts.shell.not_started(texts.shell.FORBIDDEN_CHARACTER)) from error
    except OSError as error:
        if not ordered:
            raise ToolFailed(texts.shell.not_started(str(error))) from error
        return str(error)
    return (
        _spawn(directory)
        if isinstance(read_status(directory), CommandUnclaimed)
        else texts.shell.CANCELLED_BEFORE_START
    )


def _write_launch_spec(directory: Path, spec: LaunchSpec) -> None:
    """Take the room on the disk for the result, and write the order."""
    for text in (spec.command, str(spec.directory), spec.shell, *spec.env, *spec.env.values()):
        if b"\0" in fs_encode(text):
            raise ValueError(text)
    make_directory(directory)
    record = structs.asdict(spec) | {"version": RECORD_VERSION, "umask": _umask(), "descriptors": INHERITED_LIMIT}
    record["directory"] = str(Path(spec.directory).absolute())
    folder = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        _reserve(folder)
        replace_record(folder, "order.json", record)
    finally:
        os.close(folder)


def _reserve(folder: int) -> None:
    descriptor = os.open("result.json.part", os.O_WRONLY | os.O_CREAT, 0o600, dir_fd=folder)
    try:
        os.posix_fallocate(descriptor, 0, _RESERVED_BYTES)
    except OSError as error:
        if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL):  # a file system that cannot do it
            raise
    finally:
        os.close(descriptor)


def _umask() -> int:
    """What we take from the mode of new files; read, because it can only be asked for by changing it."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next((int(line.split()[1], 8) for line in lines if line.startswith("Umask:")), 0o022)


def _spawn(directory: Path) -> str:
    """Run a keeper until it has left us, and return what it complained of."""
    env = {"PATH": os.environ.get("PATH", os.defpath), "LANG": "C.UTF-8"}
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-S", str(KEEPER_PROGRAM), str(directory)],
            env=env,
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,  # so that Ctrl-C, meant for us, does not hit it
            timeout=_SPAWN_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    said = done.stderr.decode(errors="replace").strip().splitlines()
    return said[-1] if said else ""

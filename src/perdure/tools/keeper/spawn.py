"""Starts a command under a keeper, so that the command outlives the gateway."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from msgspec import Struct, structs

from perdure.core import texts
from perdure.errors import OutcomeUnknown, ToolFailed
from perdure.tools.blocking_jobs import run_in_thread
from perdure.tools.descriptor_limit import INHERITED_LIMIT
from perdure.tools.keeper.directory import RECORD_VERSION, SANDBOX_VERSION, fs_encode, replace_record
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

KEEPER_PROGRAM = Path(__file__).with_name("program.py")
_RESERVED_BYTES = 4096  # of disk space for the result, reserved before the start
_SPAWN_SECONDS = 60.0  # for a keeper to start its command


class LaunchSpec(Struct, frozen=True):
    """The command that a keeper runs, and how: the content of `order.json`."""

    command: str
    directory: str  # its working directory
    env: dict[str, str]  # its whole environment
    timeout: float | None = None  # seconds, counted by the keeper
    cap: int = 8 << 20  # bytes of output that are stored
    grace: float = 5.0  # seconds from SIGTERM, sent after `timeout`, to SIGKILL
    shell: str = "/bin/sh"
    input: bool = True  # False: its standard input is empty
    sandbox: dict[str, Any] | None = None  # a `Confinement` of `tools.sandbox`; None: the command runs without one


async def start_command(directory: Path, spec: LaunchSpec, timeouts: StatusTimeouts = DEFAULT_TIMEOUTS) -> None:
    """Start a command in a directory; `ToolFailed` if it was not started and never will be in this directory.

    A command starts once: in a directory with a keeper nothing more is started. A directory with a launch spec
    keeps it: its keeper may be on the way already, and the first keeper that claims the directory runs it.
    After return: a keeper has claimed the directory durably and has tried to start the command; or its files
    cannot be read now, and a later status will tell.
    If we die inside: the status is `CommandUnclaimed` if nothing was started; `prevent_start` makes that final.
    """
    problem = await run_in_thread(lambda: _start(directory.absolute(), spec))
    if not isinstance(await wait_for_status(directory, timeouts), CommandUnclaimed | CommandNeverStarted):
        return
    try:
        never = await retry_os_errors(lambda: prevent_start(directory), timeouts)
    except OSError as error:
        raise OutcomeUnknown(texts.processes.command_start_unknown(f"{problem} {error}")) from error
    if never:
        raise ToolFailed(texts.processes.command_not_started(problem))


def _start(directory: Path, spec: LaunchSpec) -> str:
    """Run a keeper for a directory; return its error message, or why no keeper was run.

    `ToolFailed` if the command cannot have been started: there was no launch spec before, and we ran no keeper.
    """
    has_spec = True
    try:
        has_spec = path_exists(directory / "order.json")
        if not has_spec:
            _write_launch_spec(directory, spec)
    except ValueError as error:
        raise ToolFailed(texts.processes.command_not_started(texts.processes.FORBIDDEN_CHARACTER)) from error
    except OSError as error:
        if not has_spec:
            raise ToolFailed(texts.processes.command_not_started(str(error))) from error
        return str(error)
    return (
        _spawn(directory)
        if isinstance(read_status(directory), CommandUnclaimed)
        else texts.processes.CANCELLED_BEFORE_START
    )


def _write_launch_spec(directory: Path, spec: LaunchSpec) -> None:
    """Reserve disk space for the result, and write the launch spec."""
    for text in (spec.command, str(spec.directory), spec.shell, *spec.env, *spec.env.values()):
        if b"\0" in fs_encode(text):
            raise ValueError(text)
    make_directory(directory)
    version = RECORD_VERSION if spec.sandbox is None else SANDBOX_VERSION
    record = structs.asdict(spec) | {"version": version, "umask": _umask(), "descriptors": INHERITED_LIMIT}
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
        if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL):  # a file system that cannot reserve space
            raise
    finally:
        os.close(descriptor)


def _umask() -> int:
    """The umask of this process, read from `/proc`: `os.umask` could only tell it by changing it."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next((int(line.split()[1], 8) for line in lines if line.startswith("Umask:")), 0o022)


def _spawn(directory: Path) -> str:
    """Run a keeper until it has detached itself, and return the last line of its error output."""
    env = {"PATH": os.environ.get("PATH", os.defpath), "LANG": "C.UTF-8"}
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-S", str(KEEPER_PROGRAM), str(directory)],
            env=env,
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,  # so that Ctrl-C, meant for the gateway, does not reach it
            timeout=_SPAWN_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    lines = done.stderr.decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else ""

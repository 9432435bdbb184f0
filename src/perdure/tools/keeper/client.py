"""The gateway's side of a running command: waits for its end, writes to its input, stops it.

Each command has a directory and a keeper, a process that runs `program.py`. Every fact about the command is in its
directory, so that the next gateway knows as much as this one.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from perdure.core import texts
from perdure.errors import ToolFailed
from perdure.tools.blocking_jobs import run_in_thread
from perdure.tools.keeper.directory import (
    RECORD_VERSION,
    boot_id,
    is_process_alive,
    replace_record,
    session_processes,
    signal_process,
)
from perdure.tools.keeper.status import (
    ClaimRecord,
    CommandLost,
    CommandRunning,
    CommandStatus,
    CommandUnclaimed,
    DamagedRecord,
    prevent_start,
    read_child,
    read_claim,
    read_status,
)

_Watch = Callable[[int, Callable[[], None]], object]
_Forget = Callable[[int], object]

_STOP_MARGIN_SECONDS = 15.0  # beyond the grace: by then a keeper has stopped its command
_POLL_SECONDS = 0.5  # between two looks, where the kernel has no pidfd
_KEEPER_EXIT_SECONDS = 1.0  # from a keeper's result to its exit


async def wait_for_end(directory: Path, timeout: float | None = None) -> CommandStatus:
    """Wait until a command no longer runs, or for `timeout` seconds; return its status. Waiting costs no CPU."""
    loop = asyncio.get_running_loop()
    deadline = None if timeout is None else loop.time() + timeout
    while isinstance(status := read_status(directory), CommandRunning):
        left = None if deadline is None else deadline - loop.time()
        if left is not None and left <= 0:
            break
        if keeper := _keeper_claim(directory):
            await _wait_for_exit(keeper.pid, keeper.started, left)
        else:
            await asyncio.sleep(_POLL_SECONDS)
    if not isinstance(status, CommandRunning):
        await _reap_keeper(directory)
    return status


async def _reap_keeper(directory: Path) -> None:
    """Reap the keeper of an ended command. It exits after it wrote its result, and may be our child by then."""
    if keeper := _keeper_claim(directory):
        with suppress(OSError):
            await _wait_for_exit(keeper.pid, keeper.started, _KEEPER_EXIT_SECONDS)
        keeper.reap()


def _keeper_claim(directory: Path) -> ClaimRecord | None:
    """The claim of a command's keeper; None without a keeper of this boot, or if the claim cannot be read now."""
    try:
        claim = read_claim(directory)
        return claim if claim is not None and claim.by == "keeper" and claim.boot == boot_id() else None
    except (OSError, DamagedRecord):
        return None


async def _wait_for_exit(pid: int, started: int, timeout: float | None) -> None:
    """Wait until this process has ended, or for `timeout` seconds; another process with its pid does not count."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    except (AttributeError, OSError):  # an old kernel, a sandbox, or no descriptor left
        await asyncio.sleep(_POLL_SECONDS if timeout is None else min(_POLL_SECONDS, timeout))
        return
    try:
        if is_process_alive(pid, started):  # otherwise another process got the pid before we opened it
            loop = asyncio.get_running_loop()
            await _wait_until_ready(handle, loop.add_reader, loop.remove_reader, timeout)
    finally:
        os.close(handle)


async def _wait_until_ready(handle: int, watch: _Watch, forget: _Forget, timeout: float | None) -> None:
    ready = asyncio.Event()
    watch(handle, ready.set)
    try:
        async with asyncio.timeout(timeout):
            await ready.wait()
    except TimeoutError:
        pass
    finally:
        forget(handle)


async def stop(directory: Path, grace: float = 5.0) -> CommandStatus:
    """Stop a command and every process of its session, and return its status.

    A command that was not started yet never will be. A command that lives without its keeper is stopped too, and
    stays lost. A status of `CommandRunning` means that the kernel does not let it end. Without a directory nothing
    is claimed: the directory may have vanished, and our claim would say that the command was never started.
    """
    if isinstance(read_status(directory), CommandUnclaimed):
        await run_in_thread(lambda: prevent_start(directory))
    if isinstance(read_status(directory), CommandRunning):
        await run_in_thread(lambda: _request_stop(directory, grace))
        await wait_for_end(directory, grace + _STOP_MARGIN_SECONDS)
    status = read_status(directory)
    if isinstance(status, CommandLost) and status.alive:
        await _stop_orphan(directory, grace)
    return read_status(directory)


def _request_stop(directory: Path, grace: float) -> None:
    with suppress(OSError):  # a full disk: the keeper then uses the grace of its launch spec
        folder = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
        try:
            replace_record(folder, "stop", {"version": RECORD_VERSION, "grace": grace}, durable=False)
        finally:
            os.close(folder)
    _signal_keeper(directory, signal.SIGTERM)


def _signal_keeper(directory: Path, number: int) -> None:
    keeper = read_claim(directory)
    if keeper is not None and keeper.by == "keeper" and keeper.is_alive:
        signal_process(keeper.pid, keeper.started, number)


async def _stop_orphan(directory: Path, grace: float) -> None:
    """Stop the session of a command without a keeper, while its living first process proves the session id."""
    child = read_child(directory)
    if child is None:
        return
    session = await run_in_thread(lambda: session_processes(child.pid))
    if not child.is_alive:
        return  # another session may have this id now
    # Bubblewrap only waits for the command: if it ended first, the command would have no grace.
    meek = [each for each in session if not (child.wrapped and each[0] == child.pid)]
    for number in (signal.SIGTERM, signal.SIGCONT):
        _signal_each(meek, number)
    await _wait_for_exit(child.pid, child.started, grace)
    _signal_each(session, signal.SIGKILL)
    await _wait_for_exit(child.pid, child.started, _STOP_MARGIN_SECONDS)


def _signal_each(processes: list[tuple[int, int]], number: int) -> None:
    for pid, started in processes:
        with suppress(PermissionError):  # the process runs as another user now, by `sudo` for one
            signal_process(pid, started, number)


def close_input(directory: Path) -> None:
    """Close the input of a command, which then reads its end."""
    if not isinstance(read_status(directory), CommandRunning):
        raise ToolFailed(texts.processes.COMMAND_NOT_RUNNING)
    _signal_keeper(directory, signal.SIGUSR1)


async def write_input(directory: Path, content: bytes, timeout: float = 5.0) -> None:
    """Write to the input of a command; `ToolFailed` if the command has ended or does not read it in time."""
    if not isinstance(read_status(directory), CommandRunning):
        raise ToolFailed(texts.processes.COMMAND_NOT_RUNNING)
    handle = _open_input(directory)
    try:
        written = await _feed(handle, content, timeout)
    except BrokenPipeError as error:
        raise ToolFailed(texts.processes.INPUT_CLOSED) from error
    finally:
        os.close(handle)
    if written < len(content):
        raise ToolFailed(texts.processes.input_full(written, len(content)))


def _open_input(directory: Path) -> int:
    try:
        return os.open(directory / "input", os.O_WRONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
    except FileNotFoundError as error:
        raise ToolFailed(texts.processes.NO_INPUT) from error
    except OSError as error:  # no process reads it
        raise ToolFailed(texts.processes.INPUT_CLOSED) from error


async def _feed(handle: int, content: bytes, timeout: float) -> int:
    """Write until everything is written or the time is up; return the number of bytes written."""
    loop = asyncio.get_running_loop()
    deadline, written = loop.time() + timeout, 0
    while written < len(content):
        try:
            written += os.write(handle, content[written : written + 65536])
        except BlockingIOError:
            if (left := deadline - loop.time()) <= 0:
                break
            await _wait_until_ready(handle, loop.add_writer, loop.remove_writer, left)
    return written

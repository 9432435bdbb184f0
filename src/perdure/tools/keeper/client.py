"""Commands that outlive us: starting them, waiting for them, talking to them, ending them.

Each has a place, a directory of its own, and a keeper, a process of its own (`program.py`). Everything that is
known of a command stands in its place, so that whoever comes after us knows as much as we do.
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
from perdure.tools.threads import run_in_thread

_Watch = Callable[[int, Callable[[], None]], object]
_Forget = Callable[[int], object]

_STOP_MARGIN_SECONDS = 15.0  # seconds beyond the grace in which a keeper that was told to stop has done so
_POLL_SECONDS = 0.5  # seconds, where the kernel has no better way to wait for a process
_KEEPER_EXIT_SECONDS = 1.0  # seconds in which a keeper that has written its result is gone


async def wait_for_end(directory: Path, timeout: float | None = None) -> CommandStatus:
    """Wait until a command no longer runs, or the time is up, and see how it is then. It costs no CPU."""
    loop = asyncio.get_running_loop()
    deadline = None if timeout is None else loop.time() + timeout
    while isinstance(sighting := read_status(directory), CommandRunning):
        left = None if deadline is None else deadline - loop.time()
        if left is not None and left <= 0:
            break
        if keeper := _keeper_claim(directory):
            await _wait_for_exit(keeper.pid, keeper.started, left)
        else:
            await asyncio.sleep(_POLL_SECONDS)
    if not isinstance(sighting, CommandRunning):
        await _reap_keeper(directory)
    return sighting


async def _reap_keeper(directory: Path) -> None:
    """Collect the keeper of an ended command: it ends after its result is written, and may be left to us."""
    if keeper := _keeper_claim(directory):
        with suppress(OSError):
            await _wait_for_exit(keeper.pid, keeper.started, _KEEPER_EXIT_SECONDS)
        keeper.reap()


def _keeper_claim(directory: Path) -> ClaimRecord | None:
    """The keeper of a command; None if there is none, or its record cannot be read now."""
    try:
        claim = read_claim(directory)
        return claim if claim is not None and claim.by == "keeper" and claim.boot == boot_id() else None
    except (OSError, DamagedRecord):
        return None


async def _wait_for_exit(pid: int, started: int, timeout: float | None) -> None:
    """Wait until this very process is gone, or the time is up."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    except (AttributeError, OSError):  # an old kernel, a sandbox, or no file left to open
        await asyncio.sleep(_POLL_SECONDS if timeout is None else min(_POLL_SECONDS, timeout))
        return
    try:
        if is_process_alive(pid, started):  # else the number was given to another before we opened it
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
    """End a command and all of its session, and see how it ended.

    What was not started yet never will be. If its keeper is gone but the command lives, it is ended too, and
    stays lost. It still runs only if the kernel does not let it end. Where there is no folder nothing is claimed:
    it may have vanished, and our claim would say that nothing was ever begun.
    """
    if isinstance(read_status(directory), CommandUnclaimed):
        await run_in_thread(lambda: prevent_start(directory))
    if isinstance(read_status(directory), CommandRunning):
        await run_in_thread(lambda: _request_stop(directory, grace))
        await wait_for_end(directory, grace + _STOP_MARGIN_SECONDS)
    sighting = read_status(directory)
    if isinstance(sighting, CommandLost) and sighting.alive:
        await _stop_orphan(directory, grace)
    return read_status(directory)


def _request_stop(directory: Path, grace: float) -> None:
    with suppress(OSError):  # a full disk: then it has the grace of its order
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
    """End the session of a command that has no keeper, while its first process proves that it is the one."""
    child = read_child(directory)
    if child is None:
        return
    session = await run_in_thread(lambda: session_processes(child.pid))
    if not child.is_alive:
        return  # then it may be another session that has the number now
    for number in (signal.SIGTERM, signal.SIGCONT):
        _signal_each(session, number)
    await _wait_for_exit(child.pid, child.started, grace)
    _signal_each(session, signal.SIGKILL)
    await _wait_for_exit(child.pid, child.started, _STOP_MARGIN_SECONDS)


def _signal_each(processes: list[tuple[int, int]], number: int) -> None:
    for pid, started in processes:
        with suppress(PermissionError):  # it has become somebody else, by `sudo` for one
            signal_process(pid, started, number)


def close_input(directory: Path) -> None:
    """Let a command read to the end of its input."""
    if not isinstance(read_status(directory), CommandRunning):
        raise ToolFailed(texts.shell.NOT_RUNNING)
    _signal_keeper(directory, signal.SIGUSR1)


async def write_input(directory: Path, content: bytes, timeout: float = 5.0) -> None:
    """Give a command something to read; `ToolFailed` if it has ended, or does not take it within that time."""
    if not isinstance(read_status(directory), CommandRunning):
        raise ToolFailed(texts.shell.NOT_RUNNING)
    handle = _open_input(directory)
    try:
        taken = await _feed(handle, content, timeout)
    except BrokenPipeError as error:
        raise ToolFailed(texts.shell.INPUT_CLOSED) from error
    finally:
        os.close(handle)
    if taken < len(content):
        raise ToolFailed(texts.shell.input_full(taken, len(content)))


def _open_input(directory: Path) -> int:
    try:
        return os.open(directory / "input", os.O_WRONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
    except FileNotFoundError as error:
        raise ToolFailed(texts.shell.NO_INPUT) from error
    except OSError as error:  # nobody reads it
        raise ToolFailed(texts.shell.INPUT_CLOSED) from error


async def _feed(handle: int, content: bytes, timeout: float) -> int:
    """Write as much as is taken within the time, and return how much that is."""
    loop = asyncio.get_running_loop()
    deadline, taken = loop.time() + timeout, 0
    while taken < len(content):
        try:
            taken += os.write(handle, content[taken : taken + 65536])
        except BlockingIOError:
            if (left := deadline - loop.time()) <= 0:
                break
            await _wait_until_ready(handle, loop.add_writer, loop.remove_writer, left)
    return taken

"""Commands that outlive us: starting them, waiting for them, talking to them, ending them.

Each has a place, a directory of its own, and a keeper, a process of its own (`keeper.py`). Everything that is
known of a command stands in its place, so that whoever comes after us knows as much as we do.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from perdure.core import notes
from perdure.errors import ToolFailed
from perdure.tools.beginning import Order, begin
from perdure.tools.place import FORMAT, boot, lives, members, put, signal_exactly
from perdure.tools.remains import AllBut, kept_from, newest, read, read_text, size, survey, sweep
from perdure.tools.sightings import (
    USUAL,
    Claim,
    Damaged,
    Ended,
    Lost,
    Missing,
    NotReadable,
    Patience,
    Refused,
    Running,
    Sighting,
    Unclaimed,
    child_of,
    claim_of,
    forestall,
    look,
    look_patiently,
    make_place,
    patiently,
)
from perdure.tools.threads import in_thread

__all__ = [
    "USUAL",
    "AllBut",
    "Ended",
    "Lost",
    "Missing",
    "NotReadable",
    "Order",
    "Patience",
    "Refused",
    "Running",
    "Sighting",
    "Unclaimed",
    "begin",
    "close_input",
    "forestall",
    "kept_from",
    "look",
    "look_patiently",
    "make_place",
    "newest",
    "patiently",
    "read",
    "read_text",
    "size",
    "stop",
    "survey",
    "sweep",
    "until_over",
    "write",
]

_Watch = Callable[[int, Callable[[], None]], object]
_Forget = Callable[[int], object]

_MARGIN = 15.0  # seconds beyond the grace in which a keeper that was told to stop has done so
_POLL = 0.5  # seconds, where the kernel has no better way to wait for a process
_LEAVING = 1.0  # seconds in which a keeper that has written its result is gone


async def until_over(place: Path, at_most: float | None = None) -> Sighting:
    """Wait until a command no longer runs, or the time is up, and see how it is then. It costs no CPU."""
    loop = asyncio.get_running_loop()
    deadline = None if at_most is None else loop.time() + at_most
    while isinstance(sighting := look(place), Running):
        left = None if deadline is None else deadline - loop.time()
        if left is not None and left <= 0:
            break
        if keeper := _keeper(place):
            await _until_gone(keeper.pid, keeper.started, left)
        else:
            await asyncio.sleep(_POLL)
    if not isinstance(sighting, Running):
        await _reap_keeper(place)
    return sighting


async def _reap_keeper(place: Path) -> None:
    """Collect the keeper of an ended command: it ends after its result is written, and may be left to us."""
    if keeper := _keeper(place):
        with suppress(OSError):
            await _until_gone(keeper.pid, keeper.started, _LEAVING)
        keeper.reap()


def _keeper(place: Path) -> Claim | None:
    """The keeper of a command; None if there is none, or its record cannot be read now."""
    try:
        claim = claim_of(place)
        return claim if claim is not None and claim.by == "keeper" and claim.boot == boot() else None
    except (OSError, Damaged):
        return None


async def _until_gone(pid: int, started: int, at_most: float | None) -> None:
    """Wait until this very process is gone, or the time is up."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    except (AttributeError, OSError):  # an old kernel, a sandbox, or no file left to open
        await asyncio.sleep(_POLL if at_most is None else min(_POLL, at_most))
        return
    try:
        if lives(pid, started):  # else the number was given to another before we opened it
            loop = asyncio.get_running_loop()
            await _until_ready(handle, loop.add_reader, loop.remove_reader, at_most)
    finally:
        os.close(handle)


async def _until_ready(handle: int, watch: _Watch, forget: _Forget, at_most: float | None) -> None:
    ready = asyncio.Event()
    watch(handle, ready.set)
    try:
        async with asyncio.timeout(at_most):
            await ready.wait()
    except TimeoutError:
        pass
    finally:
        forget(handle)


async def stop(place: Path, grace: float = 5.0) -> Sighting:
    """End a command and all of its session, and see how it ended.

    What was not started yet never will be. If its keeper is gone but the command lives, it is ended too, and
    stays lost. It still runs only if the kernel does not let it end. Where there is no folder nothing is claimed:
    it may have vanished, and our claim would say that nothing was ever begun.
    """
    if isinstance(look(place), Unclaimed):
        await in_thread(lambda: forestall(place))
    if isinstance(look(place), Running):
        await in_thread(lambda: _ask_to_stop(place, grace))
        await until_over(place, grace + _MARGIN)
    sighting = look(place)
    if isinstance(sighting, Lost) and sighting.alive:
        await _end_at_large(place, grace)
    return look(place)


def _ask_to_stop(place: Path, grace: float) -> None:
    with suppress(OSError):  # a full disk: then it has the grace of its order
        folder = os.open(place, os.O_RDONLY | os.O_DIRECTORY)
        try:
            put(folder, "stop", {"version": FORMAT, "grace": grace}, durable=False)
        finally:
            os.close(folder)
    _signal_keeper(place, signal.SIGTERM)


def _signal_keeper(place: Path, number: int) -> None:
    keeper = claim_of(place)
    if keeper is not None and keeper.by == "keeper" and keeper.lives:
        signal_exactly(keeper.pid, keeper.started, number)


async def _end_at_large(place: Path, grace: float) -> None:
    """End the session of a command that has no keeper, while its first process proves that it is the one."""
    child = child_of(place)
    if child is None:
        return
    session = await in_thread(lambda: members(child.pid))
    if not child.lives:
        return  # then it may be another session that has the number now
    for number in (signal.SIGTERM, signal.SIGCONT):
        _signal_each(session, number)
    await _until_gone(child.pid, child.started, grace)
    _signal_each(session, signal.SIGKILL)
    await _until_gone(child.pid, child.started, _MARGIN)


def _signal_each(processes: list[tuple[int, int]], number: int) -> None:
    for pid, started in processes:
        with suppress(PermissionError):  # it has become somebody else, by `sudo` for one
            signal_exactly(pid, started, number)


def close_input(place: Path) -> None:
    """Let a command read to the end of its input."""
    if not isinstance(look(place), Running):
        raise ToolFailed(notes.COMMAND_NOT_RUNNING)
    _signal_keeper(place, signal.SIGUSR1)


async def write(place: Path, content: bytes, at_most: float = 5.0) -> None:
    """Give a command something to read; `ToolFailed` if it has ended, or does not take it within that time."""
    if not isinstance(look(place), Running):
        raise ToolFailed(notes.COMMAND_NOT_RUNNING)
    handle = _open_input(place)
    try:
        taken = await _feed(handle, content, at_most)
    except BrokenPipeError as error:
        raise ToolFailed(notes.COMMAND_INPUT_CLOSED) from error
    finally:
        os.close(handle)
    if taken < len(content):
        raise ToolFailed(notes.command_input_full(taken, len(content)))


def _open_input(place: Path) -> int:
    try:
        return os.open(place / "input", os.O_WRONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
    except FileNotFoundError as error:
        raise ToolFailed(notes.COMMAND_TAKES_NO_INPUT) from error
    except OSError as error:  # nobody reads it
        raise ToolFailed(notes.COMMAND_INPUT_CLOSED) from error


async def _feed(handle: int, content: bytes, at_most: float) -> int:
    """Write as much as is taken within the time, and return how much that is."""
    loop = asyncio.get_running_loop()
    deadline, taken = loop.time() + at_most, 0
    while taken < len(content):
        try:
            taken += os.write(handle, content[taken : taken + 65536])
        except BlockingIOError:
            if (left := deadline - loop.time()) <= 0:
                break
            await _until_ready(handle, loop.add_writer, loop.remove_writer, left)
    return taken

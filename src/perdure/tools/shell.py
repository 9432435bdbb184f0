"""`shell`: commands that outlive the gateway. A call that was cut off attaches to the command it had begun."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from msgspec import Struct
from msgspec.structs import replace

from perdure.core import notes
from perdure.core.effects import Effect
from perdure.core.tools import Tool, Use
from perdure.errors import OutcomeUnknown, ToolFailed
from perdure.tools import kept, watching
from perdure.tools.functions import as_tool, tool
from perdure.tools.kept import (
    USUAL,
    Ended,
    Lost,
    Missing,
    NotReadable,
    Order,
    Patience,
    Refused,
    Running,
    Sighting,
    Unclaimed,
)
from perdure.tools.ledger import Ledger
from perdure.tools.threads import in_thread

LISTEN = 10.0  # seconds between two looks whether a command has said something
FOREVER = 10 * 365 * 86400.0  # the keeper ends a command in time: no other clock is needed


MOST = 256 * 1024  # bytes of output that are read at once; what the model sees is cut further

Guard = Callable[[Mapping[str, Any]], str]


class Workplace(Struct, frozen=True):
    """Where commands run, and what they are given."""

    keepers: Path  # a directory for each command, with its output and its result
    directory: Path  # where commands begin
    env: Sequence[str] = ("PATH", "HOME", "LANG")  # names of the variables that are passed on
    timeout: float = 600.0  # seconds, unless the model wishes for less or more
    patience: Patience = USUAL

    def environment(self) -> dict[str, str]:
        return {name: os.environ[name] for name in self.env if name in os.environ}


def place_of(keepers: Path, key: str) -> Path:
    """The directory of a call, named by its key, so that its journal leads there."""
    return keepers / key.replace(":", "~")


def key_of(place: Path) -> str:
    """The key of the call that a directory belongs to."""
    return place.name.split("#", 1)[0].replace("~", ":")


def places_of(first: Path) -> Iterator[Path]:
    """The directory of a call, and those that came after it because nothing was ever started in the one before."""
    number, place = 1, first
    while os.path.exists(place):  # noqa: PTH110 reason: what cannot be looked at raises no error here
        yield place
        number += 1
        place = first.with_name(f"{first.name}#{number}")


def last_place(first: Path) -> Path:
    """Where the command of a call runs, or has run. Versions before 0.3.0 began in a second directory at times."""
    return [first, *places_of(first)][-1]


def shell_tool(work: Workplace, ledger: Ledger, guard: Guard | None = None, name: str = "shell") -> Tool:
    """The tool itself; `guard` says why a person must approve a command, if one must."""

    @tool(name=name, effect=Effect.ATTACHED, description=notes.SHELL, timeout=FOREVER)
    async def shell(
        command: str,
        use: Use,
        timeout: float | None = None,
        background: Annotated[bool, notes.SHELL_BACKGROUND] = False,
        notify_on_complete: Annotated[bool, notes.SHELL_NOTIFY] = True,
        watch_patterns: Annotated[Sequence[str], notes.SHELL_WATCH] = (),
    ) -> str:
        if background:
            limit = None if timeout is None else max(0.1, timeout)
            begin = Order(command, str(work.directory), work.environment(), limit)
            wishes = (notify_on_complete, watching.check(watch_patterns))
            first = place_of(work.keepers, use.key)
            return await in_background(first, begin, use.key, ledger, *wishes, work.patience)
        if watch_patterns:
            raise ToolFailed(notes.WATCH_BACKGROUND)
        begin = order(work, command, timeout)
        place = await attached(place_of(work.keepers, use.key), begin, work.patience)
        seen = await _until_over(place, begin.cap, use.alive, work.patience)
        return await told(place, seen, work.patience)

    where = f"{socket.gethostname()}:{work.keepers}"
    return replace(as_tool(shell), guard=guard, where=where, prepare=partial(_prepare, work.keepers))


async def _prepare(keepers: Path, key: str) -> None:
    """Make the directory of a call, before its intent is on record: if it is gone later, it has vanished."""
    try:
        await in_thread(lambda: kept.make_place(place_of(keepers, key)))
    except OSError as error:
        raise ToolFailed(notes.command_not_started(str(error))) from error


async def in_background(
    first: Path,
    order: Order,
    key: str,
    ledger: Ledger,
    notify: bool,
    patterns: Sequence[str],
    patience: Patience,
) -> str:
    """Start a command that nobody waits for. It is on record first, so that it outlives its turn."""
    process = await ledger.record(key, first.name, order.command, notify=notify, patterns=patterns)
    try:
        await attached(first, order, patience)
    except ToolFailed:
        await ledger.forget(process)
        raise
    await ledger.begun(process)
    return notes.process_begun(process, notify=notify, patterns=patterns)


async def _until_over(place: Path, cap: int, alive: Callable[[], None], patience: Patience) -> Sighting:
    """Wait for the end of a command. What it says meanwhile is a sign of life."""
    heard = 0
    while True:
        await kept.until_over(place, LISTEN)
        if not isinstance(seen := await kept.look_patiently(place, patience), Running):
            return seen
        size = await kept.patiently(lambda: kept.size(place), patience)
        if size != heard or size == cap:  # a keeper of an earlier version stops there, and nobody can tell
            heard = size
            alive()


def order(work: Workplace, command: str, timeout: float | None) -> Order:
    return Order(
        command=command,
        directory=str(work.directory),
        env=work.environment(),
        timeout=work.timeout if timeout is None else max(0.1, timeout),
        input=False,  # nobody could write to it
    )


async def attached(first: Path, order: Order, patience: Patience) -> Path:
    """Where the command runs, or has run: it is started only if it never was, and that is proved.

    The directory was made before the call's intent was on record: if it is not there, the command may have run.
    """
    place = last_place(first)
    match await kept.look_patiently(place, patience):
        case Missing():
            raise OutcomeUnknown(notes.COMMAND_FILES_GONE)
        case NotReadable(problem):
            raise OutcomeUnknown(problem)
        case Unclaimed():
            await _begin(place, order, patience)
        case Refused():
            raise ToolFailed(notes.command_not_started(notes.COMMAND_FORESTALLED))
    return place


async def _begin(place: Path, order: Order, patience: Patience) -> None:
    """Start a command. Whoever is cut off meanwhile leaves it started, or not, but not about to be."""
    starting = asyncio.create_task(kept.begin(place, order, patience))
    try:
        await asyncio.shield(starting)
    except asyncio.CancelledError:
        await asyncio.wait({starting})
        if not starting.cancelled():
            starting.exception()  # nobody is there to be told
        raise


async def told(place: Path, seen: Sighting, patience: Patience) -> str:
    """What became of a command, as the model reads it."""
    match seen:
        case Ended():
            output, size = await _read_output(place, patience)
            how = "stopped" if seen.stopped else "its time was up" if seen.timed_out else seen.problem
            lost = seen.seen - seen.kept
            if seen.kept and size == 0:
                output = notes.OUTPUT_CLEARED
            return notes.command_ended(seen.exit_code, seen.signal, lost, output, how, middle=size == seen.seen)
        case Lost(problem):
            output, _ = await _read_output(place, patience)
            raise OutcomeUnknown(notes.command_lost(problem, output))
        case NotReadable(problem):
            raise OutcomeUnknown(problem)
        case _:  # it was begun, so that its files have vanished, all or some of them
            raise OutcomeUnknown(notes.COMMAND_FILES_GONE)


async def _read_output(place: Path, patience: Patience) -> tuple[str, int | None]:
    """What a command has said, and how many bytes that are; a sentence and None if it can never be read."""
    try:
        return await kept.patiently(lambda: (output_of(place), kept.size(place)), patience)
    except OSError as error:
        return notes.output_not_readable(str(error)), None


def output_of(place: Path, most: int = MOST) -> str:
    """What a command has said: all of it, or its beginning and its end."""
    size = kept.size(place)
    text, until = kept.read_text(place, 0, most, final=size <= most)
    if until >= size:
        return text
    head, until = kept.read_text(place, 0, most // 2)
    since = kept.kept_from(place, max(until, size - most // 2))
    tail, _ = kept.read_text(place, since, most // 2, final=True)
    return f"{head}\n{notes.left_out(since - until)}\n{tail}" if since > until else head + tail

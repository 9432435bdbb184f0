"""`process`: looking after commands that `shell` has begun in the background.

Whoever sees the end of a process here is told of it no other way. That is written down together with the result.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Literal

from perdure.core import notes
from perdure.core.effects import Effect
from perdure.core.entries import Sight
from perdure.core.tools import Tool, Use
from perdure.errors import OutcomeUnknown, ToolFailed
from perdure.tools import kept, shell
from perdure.tools.functions import as_tool, tool
from perdure.tools.kept import Ended, Lost, Missing, NotReadable, Refused, Running, Sighting
from perdure.tools.ledger import Known, Ledger
from perdure.tools.shell import place_of
from perdure.tools.threads import in_thread

TAIL = 4000  # characters of output that are shown without being asked for
LOG = 20_000  # bytes of output that `log` shows at once
WAIT = 60.0  # seconds, unless the model says otherwise
LONGEST_WAIT = 600.0
GRACE = 5.0  # seconds between asking a command to end and killing it

Action = Literal["list", "poll", "log", "wait", "write", "kill"]


def process_tool(keepers: Path, ledger: Ledger) -> Tool:
    """The tool itself. It is `keyed`: whatever is repeated with the same key is done once."""

    @tool(name="process", effect=Effect.KEYED, description=notes.PROCESS, timeout=LONGEST_WAIT + 60)
    async def process(
        action: Action,
        use: Use,
        id: Annotated[str, "Of the process; `list` needs none."] = "",  # noqa: A002 reason: the model reads it
        timeout: Annotated[float, "Seconds to wait for the end, with `wait`."] = WAIT,
        text: Annotated[str, "What the process is to read, with `write`."] = "",
        end: Annotated[bool, "With `write`: nothing more follows."] = False,
        offset: Annotated[int, "The byte of the output to begin at, with `log`; negative: from its end."] = 0,
    ) -> str:
        if action == "list":
            return notes.process_list([_line(one) for one in await ledger.near(use.key)])
        known = await _find(ledger, use.key, id)
        place = last_place(keepers, known)
        match action:
            case "wait":
                await kept.until_over(place, min(max(timeout, 0.0), LONGEST_WAIT))
            case "kill":
                await kept.stop(place, GRACE)
            case "write":
                return await _write(place, use.key, text, end=end)
        shown = _log(place, offset) if action == "log" else _tail(place)
        return _told(use, known, kept.look(place), shown)

    return as_tool(process)


def last_place(keepers: Path, known: Known) -> Path:
    """Where a process runs, or has run."""
    return shell.last_place(keepers / known.directory)


async def _find(ledger: Ledger, call: str, name: str) -> Known:
    known = await ledger.near(call)
    found = next((one for one in known if one.id == name.strip()), None)
    if found is None:
        raise ToolFailed(notes.no_such_process(name, [one.id for one in known]))
    return found


def _line(known: Known) -> str:
    return notes.process_line(
        known.id, known.command, notes.process_state(known.state, known.exit_code, known.signal)
    )


def _told(use: Use, known: Known, seen: Sighting, output: str) -> str:
    """How it is, as the model reads it; of an end, that it was seen."""
    match seen:
        case Running():
            return notes.process_running(known.id, output)
        case Ended(exit_code=code, signal=signal):
            use.saw(Sight(known.id, exit_code=code, signal=signal))
            return f"{known.id}: {ending(seen)}.\n{output or notes.NO_OUTPUT}"
        case Lost(problem):
            use.saw(Sight(known.id, lost=True))
            return f"{known.id}: {problem}\n{output or notes.NO_OUTPUT}"
        case Missing() | Refused() if known.state != "live":
            how = notes.process_state(known.state, known.exit_code, known.signal)
            return f"{known.id}: {how}. {notes.OUTPUT_CLEARED}"
        case NotReadable(problem):
            return f"{known.id}: {problem} {notes.ASK_AGAIN_LATER}"
        case Missing():
            return f"{known.id}: {notes.PROCESS_FILES_GONE}"
        case _:
            return f"{known.id}: {notes.PROCESS_NOT_BEGUN}"


def ending(seen: Ended) -> str:
    """How a process ended, in a few words."""
    also = "stopped" if seen.stopped else "its time was up" if seen.timed_out else seen.problem
    return notes.process_state("ended", seen.exit_code, seen.signal) + (f" ({also.rstrip('.')})" if also else "")


def _tail(place: Path) -> str:
    return tail(place, TAIL)


def tail(place: Path, most: int) -> str:
    """The end of what a process has said."""
    since = kept.kept_from(place, max(0, kept.size(place) - most))
    text, _ = kept.read_text(place, since, most, final=True)
    return (f"{notes.left_out(since)}\n" if since else "") + text.rstrip()


def _log(place: Path, offset: int) -> str:
    size = kept.size(place)
    wanted = max(0, size + offset) if offset < 0 else offset
    since = kept.kept_from(place, wanted)
    text, until = kept.read_text(place, since, LOG, final=since + LOG >= size)
    return notes.process_log(text, since, until, size, since - wanted)


async def _write(place: Path, key: str, text: str, *, end: bool) -> str:
    """Give it something to read, once: of a call that was cut off in the middle nobody knows how far it came."""
    if not isinstance(kept.look(place), Running):
        raise ToolFailed(notes.COMMAND_NOT_RUNNING)
    if not await in_thread(lambda: _first_time(place, key)):
        raise OutcomeUnknown(notes.INPUT_UNKNOWN)
    if text:
        await kept.write(place, text.encode(errors="replace"))
    if end:
        kept.close_input(place)
    return notes.process_written(len(text.encode(errors="replace")), end=end)


def _first_time(place: Path, key: str) -> bool:
    """Leave a durable mark that this call writes; False if it is there already."""
    folder = os.open(place, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.close(os.open(f"written-{place_of(Path(), key).name}", os.O_CREAT | os.O_EXCL, 0o600, dir_fd=folder))
        os.fsync(folder)
    except FileExistsError:
        return False
    finally:
        os.close(folder)
    return True

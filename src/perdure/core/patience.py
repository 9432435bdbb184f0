"""What long work and long silence call for: people are told, warned, or the turn is ended.

Elapsed time alone ends nothing. Only silence does, and any sign of life begins it anew: an entry in the journal,
a piece of an answer, the output of a tool.
"""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from perdure.core.effects import Effect
from perdure.core.journal import Call, ToolStarted, TurnView


class Patience(Struct, frozen=True):
    """How long what may take, in milliseconds; 0 means for ever."""

    still_working: int = 180_000
    warning: int = 900_000
    limit: int = 1_800_000


class Watch(Struct, frozen=True):
    """What is known of a running attempt, in moments of one clock."""

    told: int  # when people were last told that it goes on, or it began
    heard: int  # its last sign of life
    warned: bool = False  # of this very silence


class Due(StrEnum):
    NOTHING = "nothing"
    STILL_WORKING = "still working"
    WARNING = "warning"
    END = "end"


def due(watch: Watch, patience: Patience, now: int) -> Due:
    """What is due now. Who was warned of a silence hears no more until it is over."""
    silence = now - watch.heard
    if patience.limit and silence >= patience.limit:
        return Due.END
    if watch.warned:
        return Due.NOTHING
    if patience.warning and silence >= patience.warning:
        return Due.WARNING
    if patience.still_working and now - watch.told >= patience.still_working:
        return Due.STILL_WORKING
    return Due.NOTHING


def only_waits(view: TurnView) -> bool:
    """Whether the turn has nothing to do before a command, or a process that it waits for, has ended."""
    return bool(view.open_calls) and all(_is_waiting(call) for call in view.open_calls)


def _is_waiting(call: Call) -> bool:
    if call.started is None:
        return False
    waits = call.request.tool == "process" and call.request.arguments.get("action") == "wait"
    return waits or call.started.effect is Effect.ATTACHED


class Doing(Struct, frozen=True):
    """What a turn is at."""

    tools: tuple[str, ...]  # that run; none: its model thinks
    since: int  # when the first of them began, or what was last done


def doing(view: TurnView) -> Doing:
    """What the journal says that the turn is at."""
    open_calls = {call.request.id for call in view.open_calls}
    started = [
        record
        for record in view.records
        if isinstance(record.entry, ToolStarted) and record.entry.call in open_calls
    ]
    tools = tuple(record.entry.tool for record in started if isinstance(record.entry, ToolStarted))
    first = started[:1] or view.records[-1:]
    return Doing(tools, first[0].at if first else 0)

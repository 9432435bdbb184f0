"""When a long turn is reported, and when a silent one is warned about or ended.

Elapsed time alone ends nothing. Only silence does, and any sign of life begins it anew: an entry in the journal,
a piece of an answer, the output of a tool.
"""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from perdure.core.effects import Effect
from perdure.core.journal import CallProgress, ToolStarted, TurnView


class InactivityLimits(Struct, frozen=True):
    """The limits of a running turn, in milliseconds; 0 means none."""

    still_working_ms: int = 180_000
    warning_ms: int = 900_000
    limit_ms: int = 1_800_000


class WatchState(Struct, frozen=True):
    """The times of a running attempt, all from one clock."""

    notified_at: int  # when people were last told that it is still working, or it began
    active_at: int  # its last sign of life
    warned: bool = False  # about the current silence


class InactivityResponse(StrEnum):
    NOTHING = "nothing"
    STILL_WORKING = "still working"
    WARNING = "warning"
    END = "end"


def inactivity_response(watch: WatchState, limits: InactivityLimits, now: int) -> InactivityResponse:
    """What is due now. After a warning about a silence, nothing more is due until the silence ends."""
    silence = now - watch.active_at
    if limits.limit_ms and silence >= limits.limit_ms:
        return InactivityResponse.END
    if watch.warned:
        return InactivityResponse.NOTHING
    if limits.warning_ms and silence >= limits.warning_ms:
        return InactivityResponse.WARNING
    if limits.still_working_ms and now - watch.notified_at >= limits.still_working_ms:
        return InactivityResponse.STILL_WORKING
    return InactivityResponse.NOTHING


def only_waits_for_commands(view: TurnView) -> bool:
    """Whether the turn only waits for a command or process to end."""
    return bool(view.open_calls) and all(_is_waiting(call) for call in view.open_calls)


def _is_waiting(call: CallProgress) -> bool:
    if call.started is None:
        return False
    waits = call.request.tool == "process" and call.request.arguments.get("action") == "wait"
    return waits or call.started.effect is Effect.ATTACHED


class CurrentActivity(Struct, frozen=True):
    """What a turn is doing."""

    tools: tuple[str, ...]  # that are running; none: the model is answering
    since: int  # when the first of them began, or the last entry was written


def current_activity(view: TurnView) -> CurrentActivity:
    """What the turn is doing, by its journal."""
    open_calls = {call.request.id for call in view.open_calls}
    started = [
        record
        for record in view.records
        if isinstance(record.entry, ToolStarted) and record.entry.call in open_calls
    ]
    tools = tuple(record.entry.tool for record in started if isinstance(record.entry, ToolStarted))
    first = started[:1] or view.records[-1:]
    return CurrentActivity(tools, first[0].at if first else 0)

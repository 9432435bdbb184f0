"""What was found, which rule applied and what happens next: recovery, in plain words."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from perdure.core.journal import TurnView
from perdure.core.notes import NOTHING_HERE, cause_of
from perdure.core.recovery import Choice
from perdure.core.session import Recovery, SessionState
from perdure.core.tail import tail_of
from perdure.core.turn import State

NEXT = {
    Choice.RESUME: "it goes on by itself, from where it was.",
    Choice.DELIVER: "the answer is delivered; nothing is run again.",
    Choice.CLEAR: "nothing: the mark is cleared.",
    Choice.WAIT_FOR_USER: "it waits for the answer to its question.",
    Choice.ASK_USER: "it waits for a person to say /resume or /drop.",
    Choice.WAIT_FOR_PLATFORM: "it goes on once its platform is connected.",
    Choice.SKIP: "it stays as it is; write something or say /resume to go on, /drop to give it up.",
    Choice.SUSPEND: "the session is set aside; the next message begins a fresh one, /resume brings it back.",
}

STATES = {
    State.QUEUED: "is about to run",
    State.RUNNING: "is running",
    State.WAITING: "waits for an answer from a person",
    State.INTERRUPTED: "was cut off",
    State.DONE: "is done",
    State.FAILED: "failed",
    State.CANCELLED: "was ended",
}


class Situation(Struct, frozen=True):
    """A session, as it stands."""

    state: SessionState
    recovery: Recovery
    turns: Sequence[TurnView]
    owed: int = 0  # messages of ours that are not confirmed
    waiting: int = 0  # messages of people that wait for their turn


def explain(here: Situation, now: int) -> list[str]:
    """A session's situation, one sentence a line."""
    lines = [] if here.state is SessionState.OPEN else [f"The session is {here.state}."]
    if not here.turns:
        return [*lines, NOTHING_HERE]
    lines += _last_turn(here.turns[-1], now)
    if here.recovery.resume_pending:
        lines.append(f"The session is marked to be resumed ({here.recovery.resume_reason}).")
    else:
        lines.append("Nothing is marked to be resumed.")
    if here.owed:
        lines.append(f"{_count(here.owed, 'message')} owed to the chat, not confirmed yet.")
    if here.waiting:
        lines.append(f"{_count(here.waiting, 'message')} waiting for their turn.")
    return lines


def _last_turn(view: TurnView, now: int) -> list[str]:
    lines = [f"The last turn {STATES[view.state]} (attempt {view.attempt})."]
    last = view.interrupted
    if last is None:
        return [*lines, "It was never cut off."]
    found = f"cut off {_times(len(view.interruptions))}, last by {cause_of(last.reason)} ({last.reason})"
    lines.append(f"Found: {found}, {ago(now - last.at)} ago; it ends with {tail_of(view)}.")
    if view.decided is None:
        return [*lines, "No decision has been made since."]
    choice = Choice(view.decided.decision)
    return [*lines, f"Rule: {view.decided.rule or choice}: {view.decided.why}.", f"Next: {NEXT[choice]}"]


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _count(count: int, thing: str) -> str:
    return f"1 {thing} is" if count == 1 else f"{count} {thing}s are"


def ago(milliseconds: int) -> str:
    seconds = max(0, milliseconds) // 1000
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"

"""What was found, which rule applied and what happens next: recovery, in plain words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from perdure.core.journal import Cancelled, Decided, Failed, Interrupted, TurnView, fold
from perdure.core.notes import NOTHING_HERE, RULES, ago, cause_of, times, waits_for_slot
from perdure.core.recovery import ALONE, SUPERSEDED, Choice
from perdure.core.session import Recovery, SessionState, Why
from perdure.core.tail import Tail, tail_of
from perdure.core.turn import FINAL, State

GOES_ON = "it goes on from where it was."
LEFT = "it stays as it is: /resume goes on with it, /drop gives it up, a new message leaves it behind."
STAYS = "it stays as it is: /resume or a new message goes on with it, /drop gives it up."

NEXT: dict[str, str] = {
    Choice.RESUME: GOES_ON,
    Choice.WAIT_FOR_USER: "it waits for the answer to its question.",
    Choice.ASK_USER: "it waits for a person: /resume or a new message goes on with it, /drop gives it up.",
    Choice.WAIT_FOR_PLATFORM: "it goes on once its platform is connected.",
}

# What each choice means, where nothing is known of what came since.
MEANINGS: dict[str, str] = {
    Choice.RESUME: "it goes on from where it was.",
    Choice.DELIVER: "its answer is delivered; nothing is run again.",
    Choice.CLEAR: "the mark is cleared; nothing is run.",
    Choice.WAIT_FOR_USER: "its question stays open until a person answers.",
    Choice.ASK_USER: "a person is asked first: /resume or /drop.",
    Choice.WAIT_FOR_PLATFORM: "it goes on once its platform is connected.",
    Choice.SKIP: "it stays as it is until a person says more.",
    Choice.SUSPEND: "the session is set aside; the next message begins a fresh one, /resume brings it back.",
}

ENDINGS: dict[str, str] = {
    Why.STOPPED: "it was stopped for good.",
    Why.DROPPED: "it was given up.",
    Why.RESET: "a fresh conversation was begun in its place.",
    Why.CLEARED: "the mark was cleared, and nothing was run.",
    Why.SUSPENDED: "the session was set aside; the next message begins a fresh one, /resume brings it back.",
    Why.SUPERSEDED: "a new message took its place.",
    Why.REPLACED: "a new message interrupted it for good, as messages do here (`/queue interrupt`).",
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
    ahead: int | None = None  # turns that get a slot before its last one; None: it waits for none
    owed: int = 0  # messages of ours that are not confirmed
    waiting: int = 0  # messages of people that wait for their turn


def explain(here: Situation, now: int) -> list[str]:
    """A session's situation, one sentence a line."""
    lines = [] if here.state is SessionState.OPEN else [f"The session is {here.state}."]
    if not here.turns:
        return [*lines, NOTHING_HERE]
    lines += _last_turn(here.turns[-1], now, here.ahead)
    lines.append(_mark(here))
    if here.owed:
        lines.append(f"{_count(here.owed)} owed to the chat and not confirmed yet.")
    if here.waiting:
        lines.append(f"{_count(here.waiting)} waiting for {'its' if here.waiting == 1 else 'their'} turn.")
    return lines


def _mark(here: Situation) -> str:
    if not here.recovery.resume_pending:
        return "Nothing is marked to be resumed."
    if here.state is not SessionState.OPEN:
        return f"Its mark ({here.recovery.resume_reason}) stays, but nothing goes on by itself."
    return f"The session is marked to be resumed ({here.recovery.resume_reason})."


def _last_turn(view: TurnView, now: int, ahead: int | None) -> list[str]:
    lines = [f"The last turn {STATES[view.state]} (attempt {view.attempt})."]
    if view.interrupted is None:
        return [*lines, "It was never cut off.", *_ending(view)]
    lines.append(_found(view, now))
    if view.decided is not None:
        lines.append(f"Rule: {view.decided.rule or view.decided.decision}: {view.decided.why}.")
    return [*lines, *(_ending(view) if view.state in FINAL else [f"Next: {_next(view, ahead)}"])]


def _found(view: TurnView, now: int) -> str:
    last = view.interruptions[-1]
    count, when = len(view.interruptions), f"{ago(now - last.at)} ago"
    often = f"once, {when}," if count == 1 else f"{count} times, the last time {when},"
    cause = f"{cause_of(last.reason)} ({last.reason})"
    return f"Found: cut off {often} by {cause}; it ended with {_tail(view)}."


def _tail(view: TurnView) -> Tail:
    """What the turn ended with when it was last cut off, whatever has come since."""
    cut = max(place for place, record in enumerate(view.records) if isinstance(record.entry, Interrupted))
    return tail_of(fold(view.records[:cut]))


def explain_decision(decided: Decided, reason: str) -> list[str]:
    """A decision on its own: what was found, which rule applied, and what that means. One sentence a line."""
    found = decided.evidence
    tail = f"; it ended with {found['tail']}" if found.get("tail") else ""
    lines = [f"Found: cut off by {cause_of(reason)} ({reason}){tail}.", *_evidence(found)]
    lines.append(f"Rule: {RULES.get(decided.rule, decided.rule or decided.decision)}: {decided.why}.")
    return [*lines, f"Choice: {MEANINGS.get(decided.decision, decided.decision)}"]


def _evidence(found: dict[str, Any]) -> list[str]:
    """What the decision was made on, as far as it says more than that it was cut off."""
    age, often, stuck, tokens = (
        found.get(name) for name in ("age_ms", "interruptions", "without_progress", "tokens")
    )
    told = [f"the last sign of life was {ago(age)} before"] if isinstance(age, int) else []
    if isinstance(often, int) and often:
        row = f", the last {stuck} in a row without progress" if isinstance(stuck, int) and stuck > 1 else ""
        told.append(f"it was cut off {times(often)} in all{row}")
    if tokens:
        told.append(f"it had used {tokens} tokens")
    return [f"Evidence: {'; '.join(told)}."] if told else []


def _next(view: TurnView, ahead: int | None) -> str:
    if ahead is not None:
        alone = view.decided is not None and bool(view.decided.evidence.get(ALONE))
        return waits_for_slot(ahead, alone=alone)
    match view.state, view.decided:
        case State.INTERRUPTED, None:
            return "a decision is made once its platform is connected."
        case State.INTERRUPTED, Decided(decision=decision, rule=rule):
            return NEXT.get(decision, LEFT if rule in SUPERSEDED else STAYS)
        case State.WAITING, _:
            return NEXT[Choice.WAIT_FOR_USER]
        case _:
            return GOES_ON


def _ending(view: TurnView) -> list[str]:
    """What became of it, where that is not plain from its state."""
    undone = ["It was taken back since: the model does not see it any more."] if view.undone else []
    return [*_end(view), *undone]


def _end(view: TurnView) -> list[str]:
    match view.ended:
        case Failed(error=error):
            return [f"Then: it failed: {error}"]
        case Cancelled(why=why):
            return [f"Then: {ENDINGS.get(why, f'it was ended ({why}).')}"]
        case _ if view.decided is None:
            return []
        case _ if view.decided.decision == Choice.DELIVER:
            return ["Then: its answer was delivered; nothing was run again."]
        case _:
            return ["Then: it went on from where it was, and finished."]


def _count(messages: int) -> str:
    return "1 message is" if messages == 1 else f"{messages} messages are"

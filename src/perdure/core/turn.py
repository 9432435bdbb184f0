"""The states of a turn and every move between them.

Two rules: whatever moves a turn stands in `MOVES`, and nothing here does any I/O. The database repeats the
states in a CHECK; `docs/architecture.md` shows the diagram that `diagram()` draws from the same table.
"""

from __future__ import annotations

from enum import StrEnum

from perdure.errors import IllegalMove


class State(StrEnum):
    QUEUED = "queued"  # begun before, to be claimed again
    RUNNING = "running"
    WAITING = "waiting"  # for a person, never for a clock
    INTERRUPTED = "interrupted"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


class Move(StrEnum):
    """A move has the name of the journal entry that records it."""

    CLAIMED = "claimed"
    FINISHED = "finished"
    ASKED = "asked"
    ANSWERED = "answered"
    FAILED = "failed"
    CANCELLED = "cancelled"
    INTERRUPTED = "interrupted"
    REQUEUED = "requeued"


MOVES: dict[State, dict[Move, State]] = {
    State.QUEUED: {
        Move.CLAIMED: State.RUNNING,
        Move.ASKED: State.WAITING,
        Move.INTERRUPTED: State.INTERRUPTED,
        Move.CANCELLED: State.CANCELLED,
    },
    State.RUNNING: {
        Move.FINISHED: State.DONE,
        Move.ASKED: State.WAITING,
        Move.FAILED: State.FAILED,
        Move.CANCELLED: State.CANCELLED,
        Move.INTERRUPTED: State.INTERRUPTED,
    },
    State.WAITING: {
        Move.ANSWERED: State.QUEUED,
        Move.CANCELLED: State.CANCELLED,
    },
    State.INTERRUPTED: {
        Move.REQUEUED: State.QUEUED,
        Move.ASKED: State.WAITING,
        Move.FINISHED: State.DONE,
        Move.CANCELLED: State.CANCELLED,
    },
    State.DONE: {},
    State.FAILED: {},
    State.CANCELLED: {},
}

INITIAL = State.QUEUED
# What an attempt does too. A turn that is interrupted or queued has none: then recovery alone makes these moves.
BY_ATTEMPT = frozenset((Move.FINISHED, Move.ASKED))
FINAL = frozenset(state for state, moves in MOVES.items() if not moves)
BEGUN = tuple(state for state in State if state not in FINAL)


def advance(state: State, move: Move) -> State:
    """The state after the move; an illegal move is an error that names both ends."""
    try:
        return MOVES[state][move]
    except KeyError:
        legal = ", ".join(MOVES[state]) or "none, it is final"
        raise IllegalMove(f"a turn that is {state} cannot be {move}; legal from here: {legal}") from None


def diagram() -> str:
    """The table as a Mermaid state diagram."""
    lines = ["stateDiagram-v2", f"    [*] --> {INITIAL}"]
    for state, moves in MOVES.items():
        lines += [f"    {state} --> {to}: {move}" for move, to in moves.items()]
        if state in FINAL:
            lines.append(f"    {state} --> [*]")
    return "\n".join(lines)

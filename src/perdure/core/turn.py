"""The states of a turn and every move between them.

Two rules: whatever moves a turn stands in `TURN_MOVES`, and nothing here does any I/O. The database repeats the
states in a CHECK, and `docs/architecture.md` shows this table as a diagram.
"""

from __future__ import annotations

from enum import StrEnum

from perdure.errors import IllegalMove


class TurnState(StrEnum):
    QUEUED = "queued"  # begun before, to be claimed again
    RUNNING = "running"
    WAITING = "waiting"  # for a person, never for a clock
    INTERRUPTED = "interrupted"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


class TurnMove(StrEnum):
    """A move has the name of the journal entry that records it."""

    CLAIMED = "claimed"
    FINISHED = "finished"
    ASKED = "asked"
    ANSWERED = "answered"
    FAILED = "failed"
    CANCELLED = "cancelled"
    INTERRUPTED = "interrupted"
    REQUEUED = "requeued"


TURN_MOVES: dict[TurnState, dict[TurnMove, TurnState]] = {
    TurnState.QUEUED: {
        TurnMove.CLAIMED: TurnState.RUNNING,
        TurnMove.ASKED: TurnState.WAITING,
        TurnMove.INTERRUPTED: TurnState.INTERRUPTED,
        TurnMove.CANCELLED: TurnState.CANCELLED,
    },
    TurnState.RUNNING: {
        TurnMove.FINISHED: TurnState.DONE,
        TurnMove.ASKED: TurnState.WAITING,
        TurnMove.FAILED: TurnState.FAILED,
        TurnMove.CANCELLED: TurnState.CANCELLED,
        TurnMove.INTERRUPTED: TurnState.INTERRUPTED,
    },
    TurnState.WAITING: {
        TurnMove.ANSWERED: TurnState.QUEUED,
        TurnMove.CANCELLED: TurnState.CANCELLED,
    },
    TurnState.INTERRUPTED: {
        TurnMove.REQUEUED: TurnState.QUEUED,
        TurnMove.ASKED: TurnState.WAITING,
        TurnMove.FINISHED: TurnState.DONE,
        TurnMove.CANCELLED: TurnState.CANCELLED,
    },
    TurnState.DONE: {},
    TurnState.FAILED: {},
    TurnState.CANCELLED: {},
}

INITIAL_STATE = TurnState.QUEUED
# What an attempt does too. A turn that is interrupted or queued has none: then recovery alone makes these moves.
ATTEMPT_MOVES = frozenset((TurnMove.FINISHED, TurnMove.ASKED))
FINAL_STATES = frozenset(state for state, moves in TURN_MOVES.items() if not moves)
OPEN_STATES = tuple(state for state in TurnState if state not in FINAL_STATES)


def advance(state: TurnState, move: TurnMove) -> TurnState:
    """The state after the move; an illegal move is an error that names both ends."""
    try:
        return TURN_MOVES[state][move]
    except KeyError:
        legal = ", ".join(TURN_MOVES[state]) or "none, it is final"
        raise IllegalMove(f"a turn that is {state} cannot be {move}; legal from here: {legal}") from None

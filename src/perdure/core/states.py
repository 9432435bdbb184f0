"""The states of turns with every move between them, of sessions, messages, files, goals, processes and runs."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Literal

from msgspec import Struct

from perdure.errors import IllegalMove


class InboxState(StrEnum):
    """The states of a received message or command."""

    WAITING = "waiting"  # for its turn, or, a command, to be run
    TAKEN = "taken"  # a part of a turn
    OBEYED = "obeyed"  # a command or an edit that was carried out
    REJECTED = "rejected"  # not understood, or its sender may not talk
    WITHDRAWN = "withdrawn"
    EXPIRED = "expired"  # too old to be answered
    DELETED = "deleted"  # by its sender


class AttachmentState(StrEnum):
    """The states of a file that came with a message; files that we send are fetched from the beginning."""

    REFERENCED = "referenced"  # named by the platform, still to be fetched
    FETCHED = "fetched"
    FAILED = "failed"


class PreviewState(StrEnum):
    """The states of a message that shows an unfinished answer."""

    SENDING = "sending"
    SHOWN = "shown"
    SETTLED = "settled"  # a reply or a notice replaces it
    LOST = "lost"  # without a receipt: it may still stand in the chat


class GoalState(StrEnum):
    """The states of a goal."""

    ACTIVE = "active"
    REACHED = "reached"  # the model says so
    GIVEN_UP = "given_up"  # the model says so
    SPENT = "spent"  # it has had all its turns
    ENDED = "ended"  # by a person, or with its session


class ProcessState(StrEnum):
    """The states of a background process, as far as the store knows."""

    LIVE = "live"
    ENDED = "ended"
    LOST = "lost"  # it ended in a way that nobody saw


class RunEnding(StrEnum):
    """How a run of the gateway ended."""

    CLEAN = "clean"
    LOST = "lost"  # another run found it dead


# Whether an interrupted turn resumes by itself, after a person was asked, or only on demand.
ResumePolicy = Literal["auto", "ask", "off"]


class SessionState(StrEnum):
    OPEN = "open"
    SUSPENDED = "suspended"  # does not resume by itself; the next message begins a fresh session
    CLOSED = "closed"  # replaced by a newer one of the same key


class CancelReason(StrEnum):
    """Why a turn was cancelled."""

    STOPPED = "stopped"
    DROPPED = "dropped"
    RESET = "reset"
    CLEARED = "cleared"
    SUSPENDED = "suspended"
    SUPERSEDED = "superseded"
    REPLACED = "replaced"


# A mark no longer counts once a person, or the decision `clear`, has ended its turn.
UNMARKING_REASONS: frozenset[str] = frozenset(
    (CancelReason.STOPPED, CancelReason.DROPPED, CancelReason.RESET, CancelReason.CLEARED, CancelReason.REPLACED)
)


class Mark(Struct, frozen=True):
    """An `interrupted` entry, and why its turn was cancelled, if it was."""

    seq: int
    at: int | None
    reason: str
    cancelled: str | None = None


class RecoveryState(Struct, frozen=True):
    """The recovery state of a session, under the names that its JSON has."""

    resume_pending: bool = False
    resume_reason: str | None = None
    last_resume_marked_at: int | None = None
    interruptions: int = 0


def derive_recovery_state(marks: Sequence[Mark], delivered_seq: int) -> RecoveryState:
    """Derive the recovery state from the marks, in order, and the seq at which a turn was last delivered."""
    pending = [mark for mark in marks if mark.seq > delivered_seq and mark.cancelled not in UNMARKING_REASONS]
    if not pending:
        return RecoveryState()
    last = pending[-1]
    return RecoveryState(True, last.reason, last.at, len(pending))


class ResetRule(Struct, frozen=True):
    """A rule that begins a fresh session if nothing has happened since a given time."""

    reason: str  # "idle" or "daily"
    before: int


def due_reset_reason(
    resets: Sequence[ResetRule], last_active_at: int, recovery: RecoveryState, freshness_ms: int, now: int
) -> str | None:
    """Why a session with this last sign of life is replaced by a fresh one; None if it is not.

    One that is marked to be resumed is exempt, but not for ever: only as long as its mark is fresh.
    """
    marked = recovery.last_resume_marked_at
    fresh = freshness_ms == 0 or (marked is not None and now - marked <= freshness_ms)
    if recovery.resume_pending and fresh:
        return None
    return next((reset.reason for reset in resets if last_active_at < reset.before), None)


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

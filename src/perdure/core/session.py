"""The states of a session, and its recovery state, which is derived and never stored."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Literal

from msgspec import Struct

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

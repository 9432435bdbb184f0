"""Session verbs: stop, renew, drop, suspend and resume, by a person or an operator, each in one transaction.

Each function returns a transaction for the database; runtime and operations decide who may use it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct

from perdure.core import texts
from perdure.core.address import split_session_key
from perdure.core.journal import (
    RecoveryDecided,
    TurnCancelled,
    TurnRequeued,
    return_entries,
)
from perdure.core.messages import Inbound, Sender
from perdure.core.recovery.decision import PERSON_RULE, RecoveryChoice
from perdure.core.states import CancelReason, ResetRule, SessionState, TurnState, due_reset_reason
from perdure.store import inbox, leases, outbox, previews, reports, sessions, transitions
from perdure.store.conditions import PROCESS_IS_LIVE
from perdure.store.database import Transaction, Tx
from perdure.store.inbox import MAX_POSITION
from perdure.store.outbox import OutboxReply
from perdure.store.sessions import Session
from perdure.store.transitions import Turn


class StopResult(Struct, frozen=True):
    turn: str | None  # the turn that was ended, if any
    withdrawn: int  # parts of replies that were not sent yet
    waiting: int  # messages that still wait
    dropped: int  # messages that were dropped


class RenewResult(Struct, frozen=True):
    session: str
    turn: str | None
    dropped: int


class SuspendResult(Struct, frozen=True):
    changed: bool
    turn: str | None


class DropResult(Struct, frozen=True):
    turn: str | None  # the turn that was given up, if any
    over: bool = False  # the turn that was meant has ended for good


class ResumeResult(Struct, frozen=True):
    """The result of a resume. `outcome` is turn, session, running, nothing, over or unknown."""

    outcome: str
    session: str | None = None


def stop(
    key: str, bound: str | None, *, everything: bool = False, before: int = MAX_POSITION
) -> Transaction[StopResult]:
    """Cancel the bound turn, if it is still the current one, and withdraw unsent replies.

    Messages that wait before a position in the chat are counted; with `everything`, they are dropped.
    """

    def transaction(tx: Tx) -> StopResult:
        turn = transitions.current_turn(tx, key)
        ended = turn if turn is not None and (bound is None or turn.id == bound) else None
        if ended is not None:
            transitions.cancel(tx, ended, CancelReason.STOPPED)
        withdrawn = outbox.withdraw_unsent(tx, key)
        for turn_id, receipt in withdrawn:
            if receipt is not None:
                previews.enqueue_ended_notice(tx, key, turn_id, receipt)
        dropped = inbox.withdraw(tx, key, before) if everything else 0
        return StopResult(
            ended.id if ended else None, len(withdrawn), inbox.count_waiting(tx, key, before=before), dropped
        )

    return transaction


def renew(key: str, *, before: int = MAX_POSITION) -> Transaction[RenewResult]:
    """Begin a fresh session: cancel the open turn, and drop the messages that wait before a position."""

    def transaction(tx: Tx) -> RenewResult:
        turn = transitions.current_turn(tx, key)
        if turn is not None:
            transitions.cancel(tx, turn, CancelReason.RESET)
        dropped = inbox.withdraw(tx, key, before)
        session = sessions.renew(tx, key, reason=None)
        reports.convert_orphans_to_notices(tx, key)
        return RenewResult(session, turn.id if turn else None, dropped)

    return transaction


def renew_if_due(key: str, resets: Sequence[ResetRule], freshness_ms: int) -> Transaction[str | None]:
    """Begin a fresh session if a reset rule is due, and tell the chat; an interrupted turn is cancelled.

    A session whose turn runs or waits for a person, or which has a live process, is not idle.
    """

    def transaction(tx: Tx) -> str | None:
        session, turn = sessions.current(tx, key), transitions.current_turn(tx, key)
        if (
            session is None
            or session.state is not SessionState.OPEN
            or (turn and turn.state is not TurnState.INTERRUPTED)
        ):
            return None
        if tx.one(f"SELECT 1 FROM processes WHERE session = :id AND {PROCESS_IS_LIVE}", id=session.id):
            return None
        last = tx.one("SELECT max(updated_at) FROM turns WHERE session = :id", id=session.id)
        seen = max(session.updated_at, last[0] or 0) if last else session.updated_at
        reason = due_reset_reason(resets, seen, sessions.read_recovery(tx, session.id), freshness_ms, tx.time)
        if reason is None:
            return None
        if turn is not None:
            transitions.cancel(tx, turn, CancelReason.RESET)
        fresh = sessions.renew(tx, key, reason=reason)
        notice = texts.recovery.new_session_after_reset(reason, session.id)
        outbox.enqueue(tx, key, None, OutboxReply(split_session_key(key)[1], f"fresh.{fresh}", (notice,)))
        reports.convert_orphans_to_notices(tx, key)
        return fresh

    return transaction


def drop(key: str, *, bound: str | None = None) -> Transaction[DropResult]:
    """Cancel the key's interrupted turn, if it is the bound one; so counts a turn whose run is dead.

    Such a turn is marked only when a gateway takes it over that can serve it, and there may never be one.
    """

    def transaction(tx: Tx) -> DropResult:
        turn = transitions.current_turn(tx, key)
        if turn is None or not _is_interrupted(tx, turn) or (bound is not None and turn.id != bound):
            return DropResult(None, over=transitions.is_over(tx, bound, key))
        return DropResult(turn.id if transitions.cancel(tx, turn, CancelReason.DROPPED) else None)

    return transaction


def _is_interrupted(tx: Tx, turn: Turn) -> bool:
    return turn.state is TurnState.INTERRUPTED or leases.is_abandoned(tx, turn.key)


def suspend(key: str) -> Transaction[SuspendResult]:
    """Suspend the key's session: it does not go on by itself, and the next message begins a fresh one.

    A message that had joined the session's turn waits again, as such a next message.
    """

    def transaction(tx: Tx) -> SuspendResult:
        turn = transitions.current_turn(tx, key)
        if turn is not None:
            left = return_entries(transitions.read_view(tx, turn))
            transitions.transition(tx, turn, [*left, TurnCancelled(CancelReason.SUSPENDED)], ())
            return SuspendResult(True, turn.id)
        return SuspendResult(sessions.suspend(tx, key), None)

    return transaction


def resume(
    key: str,
    run: str,
    request: Inbound,
    *,
    session: str = "",
    bound: str | None = None,
    may_take: Callable[[Tx, str], bool] = lambda tx, key: True,
) -> Transaction[ResumeResult]:
    """Resume the bound turn, or the suspended session; with a session's id, move that session here first.

    `may_take` says whether the session of a key may be moved here; one that may not is as good as unknown.
    """

    def transaction(tx: Tx) -> ResumeResult:
        turn = transitions.current_turn(tx, key)
        if session:
            found = sessions.get(tx, session)
            if found is None or not may_take(tx, found.key):
                return ResumeResult("unknown")
            return _move_session(tx, key, found, request, turn)
        if transitions.is_over(tx, bound, key):
            return ResumeResult("over")
        if turn is not None:
            ours = bound is None or turn.id == bound
            return _resume_turn(tx, turn, run, request.sender) if ours else ResumeResult("running", turn.session)
        current = sessions.current(tx, key)
        if current is None or current.state is not SessionState.SUSPENDED:
            return ResumeResult("nothing")
        _reopen_session(tx, key, current.id, request)
        return ResumeResult("session", current.id)

    return transaction


def _resume_turn(tx: Tx, turn: Turn, run: str, by: Sender) -> ResumeResult:
    """Requeue an interrupted turn because a person asked for it, whatever was decided before."""
    if turn.state is not TurnState.INTERRUPTED or leases.holder(tx, turn.key) != run:
        return ResumeResult("running", turn.session)
    asked = RecoveryDecided(RecoveryChoice.RESUME, "a person asked for it", {"by": by.id}, rule=PERSON_RULE)
    transitions.transition(tx, turn, [asked, TurnRequeued()], ())
    return ResumeResult("turn", turn.session)


def _move_session(tx: Tx, key: str, found: Session, request: Inbound, turn: Turn | None) -> ResumeResult:
    """Move a session to this key, away from its former one: a session is never at two addresses."""
    if found.key == key and found.state is SessionState.OPEN:
        return ResumeResult("running" if turn is not None else "nothing", found.id)
    there = transitions.current_turn(tx, found.key)
    if turn is not None or (there is not None and there.session == found.id):
        return ResumeResult("running", found.id)
    sessions.close_current(tx, key)
    tx.run("UPDATE sessions SET key = :key WHERE id = :id", key=key, id=found.id)
    _reopen_session(tx, key, found.id, request)
    return ResumeResult("session", found.id)


def _reopen_session(tx: Tx, key: str, session: str, request: Inbound) -> None:
    """Reopen a session; if a suspension ended its last turn, a cause without words begins the next one."""
    sessions.reopen(tx, session)
    if transitions.suspended_turn(tx, session) is not None:
        inbox.insert(tx, request, "", key, session, "wish")

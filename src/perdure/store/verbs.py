"""What a person or an operator may do to a session: each verb is one transaction.

Each function gives a work for the store; runtime and operations say who may use it.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from perdure.core import notes
from perdure.core.address import parse_session_key
from perdure.core.journal import APPROVED, DENIED, LATE, Answered, Cancelled, Decided, Requeued, fold, returning
from perdure.core.messages import Inbound, Sender
from perdure.core.recovery import Choice
from perdure.core.requests import BY_PERSON
from perdure.core.session import Reset, SessionState, Why, reset_due
from perdure.store import inbox, journal, leases, moves, news, outbox, previews, sessions
from perdure.store.claims import answer_to
from perdure.store.database import Tx, Work
from perdure.store.ids import Ids
from perdure.store.inbox import LATEST
from perdure.store.moves import Turn
from perdure.store.outbox import Owed


class Stopped(Struct, frozen=True):
    turn: str | None  # the turn that was ended, if any
    withdrawn: int  # parts of replies that were not sent yet
    waiting: int  # messages that still wait
    dropped: int  # messages that were dropped


class Renewed(Struct, frozen=True):
    session: str
    turn: str | None
    dropped: int


class Suspended(Struct, frozen=True):
    changed: bool
    turn: str | None


class Dropped(Struct, frozen=True):
    turn: str | None  # the turn that was given up, if any
    over: bool = False  # whether there was nothing left of the one that was meant


class Resumed(Struct, frozen=True):
    """What came of the wish to go on. `what` is turn, session, running, nothing, over or unknown."""

    what: str
    session: str | None = None


def stop(
    ids: Ids, key: str, bound: str | None, now: int, *, everything: bool = False, before: int = LATEST
) -> Work[Stopped]:
    """End the bound turn, if it is still the current one, for good; withdraw what was not sent yet.

    Of the messages that wait, those before a place in the chat are counted; with `everything`, dropped.
    """

    def work(tx: Tx) -> Stopped:
        turn = moves.begun(tx, key)
        ended = turn if turn is not None and (bound is None or turn.id == bound) else None
        if ended is not None:
            moves.cancel(tx, ids, ended, Why.STOPPED, now)
        withdrawn = outbox.withdraw(tx, key, now)
        for turn_id, receipt in withdrawn:
            if receipt is not None:
                previews.say_ended(tx, ids, key, turn_id, receipt, now)
        dropped = inbox.withdraw(tx, key, before) if everything else 0
        return Stopped(
            ended.id if ended else None, len(withdrawn), inbox.count_waiting(tx, key, before=before), dropped
        )

    return work


def renew(ids: Ids, key: str, now: int, *, before: int = LATEST) -> Work[Renewed]:
    """Begin a fresh session: the open turn is cancelled, and messages that wait before a place are dropped."""

    def work(tx: Tx) -> Renewed:
        turn = moves.begun(tx, key)
        if turn is not None:
            moves.cancel(tx, ids, turn, Why.RESET, now)
        dropped = inbox.withdraw(tx, key, before)
        session = sessions.renew(tx, ids, key, now, reason=None)
        news.leave_behind(tx, ids, key, now)
        return Renewed(session, turn.id if turn else None, dropped)

    return work


def renew_if_due(ids: Ids, key: str, now: int, resets: Sequence[Reset], freshness_ms: int) -> Work[str | None]:
    """Begin a fresh session if a rule says so, and tell the chat; the old one's interrupted turn is cancelled.

    Whatever runs, waits for a person, or has a process of its own is not idle.
    """

    def work(tx: Tx) -> str | None:
        session, turn = sessions.current(tx, key), moves.begun(tx, key)
        if session is None or session.state is not SessionState.OPEN or (turn and turn.state != "interrupted"):
            return None
        if tx.one("SELECT 1 FROM processes WHERE session = :id AND state = 'live'", id=session.id):
            return None
        last = tx.one("SELECT max(updated_at) FROM turns WHERE session = :id", id=session.id)
        seen = max(session.updated_at, last[0] or 0) if last else session.updated_at
        reason = reset_due(resets, seen, sessions.read_recovery(tx, session.id), freshness_ms, now)
        if reason is None:
            return None
        if turn is not None:
            moves.cancel(tx, ids, turn, Why.RESET, now)
        fresh = sessions.renew(tx, ids, key, now, reason=reason)
        told = notes.fresh_after_reset(reason, session.id)
        outbox.owe(tx, ids, key, None, Owed(parse_session_key(key)[1], f"fresh.{fresh}", (told,)), now)
        news.leave_behind(tx, ids, key, now)
        return fresh

    return work


def drop(ids: Ids, key: str, now: int, *, bound: str | None = None) -> Work[Dropped]:
    """Give up the key's interrupted turn, if it is the bound one."""

    def work(tx: Tx) -> Dropped:
        turn = moves.begun(tx, key)
        if turn is None or turn.state != "interrupted" or (bound is not None and turn.id != bound):
            return Dropped(None, over=moves.is_over(tx, bound))
        moves.cancel(tx, ids, turn, Why.DROPPED, now)
        return Dropped(turn.id)

    return work


def suspend(ids: Ids, key: str, now: int) -> Work[Suspended]:
    """Set the key's session aside: it does not go on by itself, and the next message begins a fresh one.

    A message that had joined its turn is such a one.
    """

    def work(tx: Tx) -> Suspended:
        turn = moves.begun(tx, key)
        if turn is not None:
            left = returning(fold(journal.read_turn(tx, turn.session, turn.id, turn.first_seq)))
            moves.move(tx, ids, turn, [*left, Cancelled(Why.SUSPENDED)], (), now)
            return Suspended(True, turn.id)
        return Suspended(sessions.suspend(tx, key, now), None)

    return work


def resume(
    ids: Ids, key: str, run: str, wish: Inbound, now: int, *, session: str = "", bound: str | None = None
) -> Work[Resumed]:
    """Go on with the bound turn, or what was set aside; with an id, bring that session here first."""

    def work(tx: Tx) -> Resumed:
        turn = moves.begun(tx, key)
        if session:
            return _bring_back(tx, ids, key, session, wish, turn, now)
        if moves.is_over(tx, bound):
            return Resumed("over")
        if turn is not None:
            ours = bound is None or turn.id == bound
            return _go_on(tx, ids, turn, run, wish.sender, now) if ours else Resumed("running", turn.session)
        current = sessions.current(tx, key)
        if current is None or current.state is not SessionState.SUSPENDED:
            return Resumed("nothing")
        _reopen(tx, ids, key, current.id, wish, now)
        return Resumed("session", current.id)

    return work


def answer(ids: Ids, key: str, by: Sender, text: str, now: int, *, name: str = "") -> Work[bool]:
    """Answer the question of that name, or the one that waits, with one of its options, or with other words.

    False: none such waits.
    """

    def work(tx: Tx) -> bool:
        turn = moves.begun(tx, key)
        if turn is None or turn.state != "waiting":
            return False
        asked = fold(journal.read_turn(tx, turn.session, turn.id, turn.first_seq)).question
        if asked is None or asked.approves or name not in ("", f"{turn.id}.{asked.question}"):
            return False
        return moves.move(tx, ids, turn, [answer_to(asked, text, by)], (), now) is not None

    return work


def judge(
    ids: Ids, key: str, by: Sender, now: int, *, approve: bool, name: str = "", bound: str | None = None
) -> Work[str]:
    """Approve or deny the call that waits for it: approved, denied, late, or nothing if none waits.

    `name` is the one of an approval; without one, that of the bound turn is meant.
    """

    def work(tx: Tx) -> str:
        turn = moves.begun(tx, key)
        if turn is None or turn.state != "waiting":
            return "nothing"
        asked = fold(journal.read_turn(tx, turn.session, turn.id, turn.first_seq)).question
        if asked is None or not asked.approves:
            return "nothing"
        if name != f"{turn.id}.{asked.approves}" and (name or (bound is not None and turn.id != bound)):
            return "nothing"
        late = 0 < asked.until < now
        verdict = LATE if late else APPROVED if approve else DENIED
        moved = moves.move(tx, ids, turn, [Answered(asked.question, verdict, by)], (), now)
        return verdict if moved is not None else "nothing"

    return work


def _go_on(tx: Tx, ids: Ids, turn: Turn, run: str, by: Sender, now: int) -> Resumed:
    """Requeue an interrupted turn because a person said so, whatever was decided before."""
    if turn.state != "interrupted" or leases.holder(tx, turn.key) != run:
        return Resumed("running", turn.session)
    asked = Decided(Choice.RESUME, "a person asked for it", {"by": by.id}, rule=BY_PERSON)
    moves.move(tx, ids, turn, [asked, Requeued()], (), now)
    return Resumed("turn", turn.session)


def _bring_back(tx: Tx, ids: Ids, key: str, session: str, wish: Inbound, turn: Turn | None, now: int) -> Resumed:
    """Move a session here. It leaves where it was: an id is never at two addresses."""
    found = sessions.get(tx, session)
    if found is None:
        return Resumed("unknown")
    if found.key == key and found.state is SessionState.OPEN:
        return Resumed("running" if turn is not None else "nothing", session)
    there = moves.begun(tx, found.key)
    if turn is not None or (there is not None and there.session == session):
        return Resumed("running", session)
    sessions.close_current(tx, key, now)
    tx.run("UPDATE sessions SET key = :key WHERE id = :id", key=key, id=session)
    _reopen(tx, ids, key, session, wish, now)
    return Resumed("session", session)


def _reopen(tx: Tx, ids: Ids, key: str, session: str, wish: Inbound, now: int) -> None:
    """Open a session again, and let its work go on if it was set aside: the wish is a cause without words."""
    sessions.reopen(tx, session, now)
    if moves.set_aside(tx, session) is not None:
        inbox.put(tx, ids, wish, "", key, session, now, "wish")

"""Claims: the only way to a running turn. A claim takes the key's open turn, or begins one from its queue."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from perdure.core.entries import Cause
from perdure.core.journal import (
    JournalRecord,
    MessagesJoined,
    RecoveryDecided,
    TurnBegan,
    TurnClaimed,
    TurnRequeued,
)
from perdure.core.messages import Sender
from perdure.core.queue import QueueRules
from perdure.core.recovery.decision import ALONE_EVIDENCE, HELD_BACK_RULES, RecoveryChoice
from perdure.core.roles import OPERATOR
from perdure.core.states import INITIAL_STATE, CancelReason, TurnMove, TurnState, advance
from perdure.store import answers, attachments, goals, inbox, journal, leases, queue, reports
from perdure.store.answers import Response
from perdure.store.authorisation import Beginner, MayJoin, beginner_of, everybody_may_join, rows_that_may_join
from perdure.store.conditions import MESSAGE_WAITS
from perdure.store.database import Row, Tx
from perdure.store.transitions import TURN_COLUMNS, Turn, cancel, current_turn, get, read_view, transition


class Claim(Struct, frozen=True):
    """The right to run one attempt of a turn, with the turn's journal so far."""

    turn: Turn
    records: tuple[JournalRecord, ...]
    # The entries of earlier turns, each with its turn's id; None: there are too many to read them here.
    earlier: tuple[tuple[str, JournalRecord], ...] | None
    more_waiting: bool  # further messages wait for their turn, or a goal may go on
    superseded: bool = False  # the turn before it was cancelled for it, and may have left effects behind


RESUMED_BY_MESSAGE = RecoveryDecided(RecoveryChoice.RESUME, "a message came, and joins it", rule="message")

# Only messages of people: a report about a process answers no question and joins no interrupted turn.
_WAITING_MESSAGES = (
    f"SELECT id, body, kind FROM inbox WHERE key = :key AND {MESSAGE_WAITS} AND kind IN ('message', 'wish') "
    f"AND position > :after AND {queue.BEFORE_COMMANDS} ORDER BY position"
)
_NEXT_MESSAGE = f"{_WAITING_MESSAGES} LIMIT 1"
_JOINING_MESSAGES = _WAITING_MESSAGES.replace("position > :after", "(position > :after OR manner = 'steer')")
_ASIDES = (  # the first condition on `kind` is that of the partial index
    f"SELECT id, body, kind FROM inbox WHERE key = :key AND {MESSAGE_WAITS} AND kind IN ('report', 'aside') "
    "AND kind = 'aside' AND session = :session ORDER BY position"
)


def claim(tx: Tx, key: str, run: str, rules: QueueRules, may_join: MayJoin = everybody_may_join) -> Claim | None:
    reports.convert_orphans_to_notices(tx, key)
    before = turn = current_turn(tx, key)
    if turn is not None and turn.state is TurnState.INTERRUPTED:
        turn = _join_or_supersede(tx, turn, run, rules, may_join)
    elif turn is not None and turn.state is TurnState.WAITING:
        turn = _answer_question(tx, turn, run, rules, may_join)
    if turn is not None:
        return _claim_queued(tx, turn, run, rules, may_join) if turn.state is TurnState.QUEUED else None
    ready = queue.is_ready(tx, key, rules, may_join) or goals.is_due(tx, key)
    claimed = _begin_turn(tx, key, run, rules, may_join) if ready else None
    return msgspec.structs.replace(claimed, superseded=True) if claimed and before else claimed


def _answer_question(tx: Tx, turn: Turn, run: str, rules: QueueRules, may_join: MayJoin) -> Turn | None:
    """Let a person's next message answer the question that the turn waits with.

    A message of somebody with fewer rights than the turn answers nothing, and waits for a turn of its own.
    """
    if leases.holder(tx, turn.key) != run:  # before its journal is read: a newer version may have written there
        return turn
    asked = answers.waiting_question(tx, turn)
    row = _first_that_may_join(tx, turn, asked.position, may_join) if asked else None
    if asked is None or row is None:
        return turn
    if rules.await_files and attachments.any_pending(tx, [row]):
        return turn
    cause = inbox.as_cause(tx, row)
    inbox.assign_to_turn(tx, row[0], turn.id)
    response = Response(
        cause.sender, cause.text, message=cause.message, inbox=row[0], attachments=cause.attachments
    )
    answers.respond(tx, turn, asked, response)
    return get(tx, turn.id)


def _first_that_may_join(tx: Tx, turn: Turn, after: int, may_join: MayJoin) -> Row | None:
    rows = tx.all(_WAITING_MESSAGES + tx.for_update, key=turn.key, after=after)
    return next(iter(rows_that_may_join(tx, rows, turn.key, beginner_of(tx, turn), may_join)), None)


def _join_or_supersede(tx: Tx, turn: Turn, run: str, rules: QueueRules, may_join: MayJoin) -> Turn | None:
    """Let a new message supersede or join an interrupted turn that was held back, or that waits for a slot.

    Nothing happens before a decision was made, while only messages from before the interruption wait, or such of
    people with fewer rights than the turn, or while the message still waits for its files.
    """
    if leases.holder(tx, turn.key) != run:
        return turn
    view = read_view(tx, turn)
    if view.last_decision is None or view.last_interruption is None:
        return turn
    if view.last_decision.evidence.get(ALONE_EVIDENCE):
        return turn  # recoveries run one at a time: the message moves this one to the head of the queue
    superseded = view.last_decision.rule in HELD_BACK_RULES
    row = (
        tx.one(_NEXT_MESSAGE, key=turn.key, after=0)
        if superseded
        else _first_that_may_join(tx, turn, view.last_interruption.position, may_join)
    )
    if row is None or (rules.await_files and attachments.any_pending(tx, [row])):
        return turn
    if superseded:
        return None if cancel(tx, turn, CancelReason.SUPERSEDED) else turn
    transition(tx, turn, [RESUMED_BY_MESSAGE, TurnRequeued()], ())
    return get(tx, turn.id)


def _claim_queued(tx: Tx, turn: Turn, run: str, rules: QueueRules, may_join: MayJoin) -> Claim | None:
    """Claim a queued turn of ours; the queued turn of a dead run is first taken over by recovery."""
    if leases.holder(tx, turn.key) != run:
        return None
    lease = leases.take(tx, turn.key, run)
    if lease is None:
        return None
    attempt = turn.attempt + 1
    changed = tx.run(
        "UPDATE turns SET state = :state, epoch = :epoch, attempt = :attempt, updated_at = :now "
        "WHERE id = :turn AND state = :was",
        state=advance(turn.state, TurnMove.CLAIMED).value,
        was=turn.state.value,
        epoch=lease.epoch,
        attempt=attempt,
        now=tx.time,
        turn=turn.id,
    )
    if not changed:
        return None
    moved = [MessagesJoined((_as_moved(tx, turn, lease.epoch, _first_sender(tx, turn)),))] if lease.moved else []
    entries = [TurnClaimed(run, lease.epoch, attempt), *moved, *_join_messages(tx, turn, rules, may_join)]
    journal.append(tx, turn.session, turn.id, entries)
    claimed = get(tx, turn.id)
    assert claimed is not None, f"turn {turn.id} vanished"
    return _as_claim(tx, claimed, journal.read_turn(tx, turn.session, turn.id, turn.first_seq))


def _join_messages(tx: Tx, turn: Turn, rules: QueueRules, may_join: MayJoin) -> list[MessagesJoined]:
    """Let messages join the turn that arrived while it was interrupted, now that it goes on.

    Steering messages from before the interruption join, too, or they would be read after later ones.
    """
    last = read_view(tx, turn).unreported_interruption()
    rows = [] if last is None else tx.all(_JOINING_MESSAGES + tx.for_update, key=turn.key, after=last.position)
    rows = rows_that_may_join(tx, rows, turn.key, beginner_of(tx, turn), may_join)
    rows = attachments.before_first_pending(tx, rows) if rules.await_files else rows
    for row in rows:
        inbox.assign_to_turn(tx, row[0], turn.id)
    return [MessagesJoined(tuple(inbox.as_cause(tx, row) for row in rows))] if rows else []


def _begin_turn(tx: Tx, key: str, run: str, rules: QueueRules, may_join: MayJoin) -> Claim | None:
    lease = leases.take(tx, key, run)
    # The queue is certain only under the lease: its holder may have begun a turn since we looked.
    if lease is None or current_turn(tx, key) is not None:
        return None
    rows = queue.next_rows(tx, key, rules, may_join)
    causes = [inbox.as_cause(tx, row) for row in rows] or goals.next_causes(tx, key)
    if not causes:
        return None
    epoch, generation = lease.epoch, lease.generation + 1
    session, turn = inbox.session_for_message(tx, key), tx.ids.new("t")
    last = tx.one("SELECT coalesce(max(seq), 0) FROM journal WHERE session = :session", session=session)
    state = advance(INITIAL_STATE, TurnMove.CLAIMED)
    row = Turn(turn, session, key, generation, state, epoch, 1, last[0] + 1 if last else 1, tx.time, tx.time)
    tx.run(
        f"INSERT INTO turns ({TURN_COLUMNS}) VALUES (:id, :session, :key, :generation, :state, :epoch, :attempt, "
        ":first_seq, :began_at, :updated_at)",
        **msgspec.structs.asdict(row) | {"state": row.state.value},
    )
    tx.run("UPDATE leases SET generation = :generation WHERE key = :key", generation=generation, key=key)
    tx.run("UPDATE sessions SET updated_at = :now WHERE id = :session", now=tx.time, session=session)
    asides = tx.all(_ASIDES, key=key, session=session)
    beginner = beginner_of(tx, row) if causes[0].wish else Beginner(causes[0].sender, key)
    asides = rows_that_may_join(tx, asides, key, beginner, may_join)
    moved = [_as_moved(tx, row, epoch, causes[0].sender)] if lease.moved else []
    causes = [*moved, *(inbox.as_cause(tx, row) for row in asides), *causes]
    for each in causes:
        inbox.assign_to_turn(tx, each.inbox, turn)
    for cause in rows:
        if cause[2] != "report":
            continue
        # The process now belongs to this turn, so its next report is not one about an earlier turn.
        sql = "UPDATE processes SET generation = :generation WHERE id = (SELECT raw FROM inbox WHERE id = :cause)"
        tx.run(sql, generation=generation, cause=cause[0])
    entries = [TurnBegan(tuple(causes)), TurnClaimed(run, epoch, 1)]
    return _as_claim(tx, row, journal.append(tx, session, turn, entries))


def _first_sender(tx: Tx, turn: Turn) -> Sender:
    found = beginner_of(tx, turn)
    return found.person if found else OPERATOR


def _as_moved(tx: Tx, turn: Turn, epoch: int, person: Sender) -> Cause:
    """Tell the model, once, that files and commands of the chat stayed on another machine."""
    leases.unbind(tx, turn.key, epoch)
    cause = reports.insert_moved(tx, turn.key, turn.session, person, f"moved:{turn.id}:{epoch}")
    inbox.assign_to_turn(tx, cause.inbox, turn.id)
    return cause


def _as_claim(tx: Tx, turn: Turn, records: list[JournalRecord]) -> Claim:
    earlier = journal.read_before_if_short(tx, turn.session, turn.first_seq)
    more = queue.has_waiting(tx, turn.key) or goals.is_active(tx, turn.key)
    return Claim(turn, tuple(records), None if earlier is None else tuple(earlier), more)

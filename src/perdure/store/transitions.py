"""Transitions of a turn: its row and its journal entries change in the same transaction.

Each transition is guarded by the state and the epoch that the caller has read. A guard that fails is a return
value: the caller no longer owns the turn.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec
from msgspec import Struct

from perdure.core import texts
from perdure.core.journal import (
    Entry,
    JournalRecord,
    MessagesReturned,
    ModelAnswered,
    QuestionAsked,
    RecoveryDecided,
    ToolEnded,
    TurnCancelled,
    TurnInterrupted,
    TurnView,
    decode_entry,
    fold,
)
from perdure.core.states import (
    ATTEMPT_MOVES,
    FINAL_STATES,
    TURN_MOVES,
    CancelReason,
    InboxState,
    TurnState,
    advance,
)
from perdure.store import journal, leases, outbox, previews, sessions
from perdure.store.conditions import TURN_IS_OPEN, state_in
from perdure.store.database import Row, Tx
from perdure.store.outbox import OutboxReply

TURN_COLUMNS = "id, session, key, generation, state, epoch, attempt, first_seq, began_at, updated_at"
_IS_RUNNING = f"SELECT 1 FROM turns WHERE id = :turn AND epoch = :epoch AND state = '{TurnState.RUNNING}'"
_ACCEPTS_LATE_FACTS = (
    "SELECT 1 FROM turns WHERE id = :turn AND epoch = :epoch "
    f"AND {state_in((TurnState.RUNNING, TurnState.WAITING, TurnState.INTERRUPTED))}"
)


class Turn(Struct, frozen=True):
    """A turn's row."""

    id: str
    session: str
    key: str
    generation: int
    state: TurnState
    epoch: int
    attempt: int
    first_seq: int
    began_at: int
    updated_at: int


def as_turn(row: Row) -> Turn:
    return Turn(*(*row[:4], TurnState(row[4]), *row[5:]))


def current_turn(tx: Tx, key: str) -> Turn | None:
    """Return the key's open turn, if there is one."""
    row = tx.one(f"SELECT {TURN_COLUMNS} FROM turns WHERE key = :key AND {TURN_IS_OPEN}", key=key)
    return as_turn(row) if row else None


def get(tx: Tx, turn: str) -> Turn | None:
    row = tx.one(f"SELECT {TURN_COLUMNS} FROM turns WHERE id = :turn", turn=turn)
    return as_turn(row) if row else None


def read_view(tx: Tx, turn: Turn) -> TurnView:
    """Return the turn as its journal entries describe it."""
    return fold(journal.read_turn(tx, turn.session, turn.id, turn.first_seq))


def append_facts(tx: Tx, turn: Turn, entries: Sequence[Entry], *, late: bool = True) -> list[JournalRecord] | None:
    """Append entries that move nothing. With `late`, a result counts after an interruption of the same epoch."""
    guard = _ACCEPTS_LATE_FACTS if late and all(entry.late for entry in entries) else _IS_RUNNING
    if tx.one(guard + tx.for_update, turn=turn.id, epoch=turn.epoch) is None:
        return None
    _return_messages(tx, turn, entries)
    return journal.append(tx, turn.session, turn.id, entries)


def _return_messages(tx: Tx, turn: Turn, entries: Sequence[Entry]) -> None:
    """Put the messages that leave the turn back into the queue, each at its position in the chat."""
    sql = (
        f"UPDATE inbox SET state = '{InboxState.WAITING}', turn = NULL "
        f"WHERE id = :id AND turn = :turn AND state = '{InboxState.TAKEN}'"
    )
    for message in (each for entry in entries if isinstance(entry, MessagesReturned) for each in entry.messages):
        tx.run(sql, id=message, turn=turn.id)


def transition(
    tx: Tx, turn: Turn, entries: Sequence[Entry], replies: Sequence[OutboxReply]
) -> list[JournalRecord] | None:
    row = get(tx, turn.id)
    if row is None or row.epoch != turn.epoch:
        return None
    if not _may_move(row.state, entries):
        return None
    state = row.state
    for entry in entries:
        if entry.move is not None:
            if entry.move not in TURN_MOVES[state]:
                return None
            state = advance(state, entry.move)
    changed = tx.run(
        "UPDATE turns SET state = :state, updated_at = :now WHERE id = :turn AND state = :was AND epoch = :epoch",
        state=state.value,
        now=tx.time,
        turn=turn.id,
        was=row.state.value,
        epoch=turn.epoch,
    )
    if not changed:
        return None
    entries = [_with_position(tx, entry, turn.key) for entry in entries]
    if state in FINAL_STATES:
        entries = _with_missing_results(tx, row, entries)
        replies = _replace_preview(tx, row, replies)
    if any(isinstance(entry, TurnCancelled) and entry.why == CancelReason.SUSPENDED for entry in entries):
        sessions.suspend(tx, row.key)
    _return_messages(tx, turn, entries)
    for reply in replies:
        outbox.enqueue(tx, turn.key, turn.id, reply)
    return journal.append(tx, turn.session, turn.id, entries)


def _may_move(state: TurnState, entries: Sequence[Entry]) -> bool:
    """Say whether the writer of these entries may still move the turn.

    A decision is about an interrupted turn: if a person has moved the turn meanwhile, the decision is dropped.
    An interrupted or queued turn has no attempt: what an earlier attempt still returns does not count.
    """
    decided = any(isinstance(entry, RecoveryDecided) for entry in entries)
    by_attempt = any(entry.move in ATTEMPT_MOVES for entry in entries)
    if state is TurnState.INTERRUPTED:
        return decided or not by_attempt
    return not decided and not (by_attempt and state is TurnState.QUEUED)


def _replace_preview(tx: Tx, turn: Turn, replies: Sequence[OutboxReply]) -> Sequence[OutboxReply]:
    """Let the first reply of an ending turn replace its preview; without a reply, a notice replaces it."""
    receipt = previews.settle(tx, turn.id)
    if receipt is None:
        return replies
    if not replies:
        previews.enqueue_ended_notice(tx, turn.key, turn.id, receipt)
        return replies
    return [msgspec.structs.replace(replies[0], edits=receipt), *replies[1:]]


def cancel(tx: Tx, turn: Turn, why: CancelReason) -> bool:
    """Cancel an open turn, whoever runs it. False: it had ended already."""
    return transition(tx, turn, [TurnCancelled(why)], ()) is not None


def is_over(tx: Tx, turn: str | None, key: str) -> bool:
    """Say whether a turn of a key is over for good: it has ended, and not by a suspension that can be resumed.

    Of a turn in the session of another key nothing is told.
    """
    meant = get(tx, turn) if turn else None
    session = sessions.get(tx, meant.session) if meant else None
    if meant is None or session is None or session.key != key:
        return False
    return meant.state in FINAL_STATES and suspended_turn(tx, meant.session) != meant.id


def suspended_turn(tx: Tx, session: str) -> str | None:
    """Return the session's last turn if a suspension ended it, so that it can be resumed."""
    row = tx.one(
        "SELECT turn, body FROM journal WHERE session = :session AND kind = 'cancelled' AND turn = "
        "(SELECT id FROM turns WHERE session = :session ORDER BY first_seq DESC LIMIT 1) "
        f"AND turn NOT IN ({journal.UNDONE_TURNS})",
        session=session,
    )
    if row is None or decode_entry(TurnCancelled.kind, TurnCancelled.version, row[1]) != TurnCancelled(
        CancelReason.SUSPENDED
    ):
        return None
    turn: str = row[0]
    return turn


def _with_missing_results(tx: Tx, turn: Turn, entries: Sequence[Entry]) -> list[Entry]:
    """Add a result for every open call of an ending turn: providers refuse a transcript with open calls."""
    view = read_view(tx, turn)
    wished = [call.request.id for call in view.open_calls]
    wished += [call.id for entry in entries if isinstance(entry, ModelAnswered) for call in entry.calls]
    ended = {entry.call for entry in entries if isinstance(entry, ToolEnded)}
    results = [ToolEnded(call, "cancelled", texts.tool_calls.CANCELLED) for call in wished if call not in ended]
    end = max(index for index, entry in enumerate(entries) if entry.move is not None)
    return [*entries[:end], *results, *entries[end:]]


def _with_position(tx: Tx, entry: Entry, key: str) -> Entry:
    """Record in an interruption or a question the chat's position at that time."""
    if isinstance(entry, TurnInterrupted | QuestionAsked):
        return msgspec.structs.replace(entry, position=_chat_position(tx, key))
    return entry


def _chat_position(tx: Tx, key: str) -> int:
    row = tx.one("SELECT position FROM leases WHERE key = :key", key=key)
    return row[0] if row else 0


class RequestOutcome(Struct, frozen=True):
    """What becomes of a queued turn that a person asked for: it stays queued, or its question is asked again."""

    again: QuestionAsked | None = None
    owed: tuple[OutboxReply, ...] = ()


RequestCheck = Callable[[Tx, Turn, TurnView], RequestOutcome | None]


LeaseTaker = Callable[[Tx, str, str], leases.TakenLease | None]


def take_over(
    tx: Tx,
    turn: str,
    key: str,
    reason: str,
    run: str,
    check_request: RequestCheck,
    take: LeaseTaker = leases.take,
) -> Turn | None:
    before, row = leases.holder(tx, key), get(tx, turn)
    if before == run or row is None or row.state in FINAL_STATES:
        return None
    lease = take(tx, key, run)
    # The epoch first: from here on the old owner, which may still be alive, cannot move the turn.
    fenced = lease and tx.one(
        f"UPDATE turns SET epoch = :epoch, updated_at = :now WHERE id = :turn AND {TURN_IS_OPEN} "
        f"RETURNING {TURN_COLUMNS}",
        epoch=lease.epoch,
        now=tx.time,
        turn=turn,
    )
    if not fenced:
        return None
    mine = as_turn(fenced)
    if mine.state not in (TurnState.QUEUED, TurnState.RUNNING):
        return mine
    if mine.state is TurnState.QUEUED:
        view = read_view(tx, mine)
        if (request := check_request(tx, mine, view)) is not None:
            return _apply_request(tx, mine, request)
    return _advance_owned(tx, mine, TurnInterrupted(reason, before))


def _apply_request(tx: Tx, turn: Turn, request: RequestOutcome) -> Turn:
    """Carry out a person's request for a queued turn. Nothing was interrupted, so no mark is written."""
    if request.again is None:
        return turn
    for reply in request.owed:
        outbox.enqueue(tx, turn.key, turn.id, reply)
    return _advance_owned(tx, turn, request.again)


def _advance_owned(tx: Tx, turn: Turn, entry: QuestionAsked | TurnInterrupted) -> Turn:
    """Make the move of an entry, and append the entry, for a turn that this transaction has just taken over."""
    assert entry.move is not None, f"{entry.kind} moves nothing"
    state = advance(turn.state, entry.move)
    tx.run("UPDATE turns SET state = :state WHERE id = :turn", state=state.value, turn=turn.id)
    journal.append(tx, turn.session, turn.id, [_with_position(tx, entry, turn.key)])
    return msgspec.structs.replace(turn, state=state)

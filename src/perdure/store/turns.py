"""Turns: the one door into running, and every move of a turn.

A turn's row and its journal entries are written in the same transaction, guarded by the state and the epoch
that the caller believes in. A guard that fails is a return value: the caller no longer owns the turn.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec import Struct

from perdure.core.journal import (
    Answered,
    Asked,
    Began,
    Cancelled,
    Claimed,
    Decided,
    Entry,
    Interrupted,
    Joined,
    ModelAnswered,
    Record,
    Requeued,
    ToolEnded,
    decode,
    fold,
)
from perdure.core.messages import Sender
from perdure.core.notes import CANCELLED_CALL
from perdure.core.recovery import SUPERSEDED, Choice
from perdure.core.session import Why
from perdure.core.turn import FINAL, MOVES, State, advance
from perdure.store import goals, inbox, journal, leases, news, outbox, previews, sessions
from perdure.store.database import Database, Row, Tx
from perdure.store.ids import Ids
from perdure.store.outbox import Owed

_COLUMNS = "id, session, key, generation, state, epoch, attempt, first_seq, began_at, updated_at"
# A query that looks for turns repeats this, word for word, even where one state is enough: only so does SQLite
# use the index of the turns that have not ended, and a start reads what is open, however many sessions there are.
_BEGUN = "state IN ('queued', 'running', 'waiting', 'interrupted')"
_GUARD = "SELECT 1 FROM turns WHERE id = :turn AND epoch = :epoch AND state = 'running'"
_LATE = (
    "SELECT 1 FROM turns WHERE id = :turn AND epoch = :epoch AND state IN ('running', 'waiting', 'interrupted')"
)


class Turn(Struct, frozen=True):
    """A turn's row."""

    id: str
    session: str
    key: str
    generation: int
    state: State
    epoch: int
    attempt: int
    first_seq: int
    began_at: int
    updated_at: int


class Claim(Struct, frozen=True):
    """The right to run one attempt of a turn, with the turn's journal so far."""

    turn: Turn
    records: tuple[Record, ...]
    more: bool  # further messages wait for their turn, or a goal may go on


class Turns:
    def __init__(self, database: Database, ids: Ids) -> None:
        self._database = database
        self._ids = ids

    async def claim(self, key: str, run: str, now: int) -> Claim | None:
        """Claim the key's next turn: the one begun before, or a new one from the oldest waiting message, or else
        from the session's goal.

        After return: the turn is running under a new epoch of ours; nobody else claims it while we live.
        If we die inside: nothing, or a running turn that the next start finds lost.
        """
        return await self._database.write(lambda tx: _claim(tx, self._ids, key, run, now), key=key)

    async def claimable(self, run: str) -> list[str]:
        """The keys whose next turn this run may claim."""
        return await self._database.read(lambda tx: [row[0] for row in tx.all(_CLAIMABLE, run=run)])

    async def append(
        self, turn: Turn, entries: Sequence[Entry], now: int, *, owed: Sequence[Owed] = ()
    ) -> list[Record] | None:
        """Append facts, and make the moves and owe the replies that go with them, all or nothing.

        After return: everything is durable; None means that the turn has moved on and nothing was written.
        If we die inside: all of it may be there, or none.
        """
        if owed or any(entry.move for entry in entries):
            return await self._database.write(
                lambda tx: move(tx, self._ids, turn, entries, owed, now), key=turn.key
            )
        return await self._database.write(lambda tx: _append(tx, turn, entries, now), key=turn.key)

    async def interrupt(self, turn: str, key: str, reason: str, run: str, now: int) -> Turn | None:
        """Take over a turn whose run is dead. If it was queued or running, it is now interrupted.

        After return: the turn is ours under a new epoch; None means that there was no need.
        If we die inside: it is taken over, or the next start does so.
        """
        return await self._database.write(lambda tx: _take_over(tx, turn, key, reason, run, now), key=key)

    async def lost(self) -> list[Turn]:
        """Turns that were begun and not ended, and whose run is dead."""
        return await self._database.read(lambda tx: [_as_turn(row) for row in tx.all(_LOST)])

    async def interrupted(self, run: str) -> list[Turn]:
        """Turns of this run that wait for a decision, or were held back by one."""
        return await self._database.read(lambda tx: [_as_turn(row) for row in tx.all(_INTERRUPTED, run=run)])

    async def get(self, turn: str) -> Turn | None:
        return await self._database.read(lambda tx: _get(tx, turn))

    async def of_session(self, session: str) -> list[Turn]:
        """The session's turns in order."""
        return await self._database.read(
            lambda tx: [
                _as_turn(row)
                for row in tx.all(
                    f"SELECT {_COLUMNS} FROM turns WHERE session = :session ORDER BY generation",
                    session=session,
                )
            ]
        )


# A message behind a command waits until that is obeyed: `/new` and then "hello" is a hello to the new session.
_ARRIVED = (
    "SELECT id, body, kind FROM inbox WHERE key = :key AND state = 'waiting' AND kind NOT IN ('command', 'aside') "
    "AND position > :after AND position < coalesce((SELECT min(c.position) FROM inbox c "
    f"WHERE c.key = :key AND c.state = 'waiting' AND c.kind = 'command'), {inbox.LATEST}) ORDER BY position"
)
_NEXT = f"{_ARRIVED} LIMIT 1"
# A person's, not ours: news of a process answers no question, and joins no turn that may look for itself.
_ARRIVED_WORDS = _ARRIVED.replace("NOT IN ('command', 'aside')", "IN ('message', 'wish')")
_NEXT_WORDS = f"{_ARRIVED_WORDS} LIMIT 1"
_ASIDES = (
    "SELECT id, body, kind FROM inbox WHERE key = :key AND state = 'waiting' AND kind = 'aside' "
    "AND session = :session ORDER BY position"
)
_NEXT_OF_NONE_BEGUN = _NEXT.replace(
    "ORDER BY", f"AND NOT EXISTS (SELECT 1 FROM turns t WHERE t.key = :key AND t.{_BEGUN}) ORDER BY"
)
_FREE = f"(l.run IS NULL OR l.run = :run OR l.run IN ({leases.DEAD}))"
_CLAIMABLE = (
    f"SELECT t.key FROM turns t JOIN leases l ON l.key = t.key WHERE t.{_BEGUN} AND t.state = 'queued' "
    "AND l.run = :run UNION SELECT i.key FROM inbox i JOIN leases l ON l.key = i.key WHERE i.state = 'waiting' "
    f"AND i.kind NOT IN ('command', 'aside') AND {_FREE} AND NOT EXISTS "
    f"(SELECT 1 FROM turns b WHERE b.key = i.key AND b.{_BEGUN} AND b.state IN ('queued', 'running')) "
    f"UNION {goals.DUE} AND {_FREE}"
)
_OF_TURNS = f"SELECT {', '.join('t.' + column for column in _COLUMNS.split(', '))} FROM turns t "
_LOST = _OF_TURNS + (
    f"JOIN leases l ON l.key = t.key WHERE t.{_BEGUN} AND (l.run IS NULL OR l.run IN ({leases.DEAD}))"
)
_INTERRUPTED = _OF_TURNS + (
    f"JOIN leases l ON l.key = t.key WHERE t.{_BEGUN} AND t.state = 'interrupted' AND l.run = :run "
    "ORDER BY t.began_at, t.id"  # by the id alone, SQLite would rather walk through all turns than sort a few
)


def _as_turn(row: Row) -> Turn:
    return Turn(*(*row[:4], State(row[4]), *row[5:]))


def begun(tx: Tx, key: str) -> Turn | None:
    """The key's turn that was begun and not ended, if there is one."""
    row = tx.one(f"SELECT {_COLUMNS} FROM turns WHERE key = :key AND {_BEGUN}", key=key)
    return _as_turn(row) if row else None


def _get(tx: Tx, turn: str) -> Turn | None:
    row = tx.one(f"SELECT {_COLUMNS} FROM turns WHERE id = :turn", turn=turn)
    return _as_turn(row) if row else None


# ── claiming ────────────────────────────────────────────────────────────────────────────────────────────────


def _claim(tx: Tx, ids: Ids, key: str, run: str, now: int) -> Claim | None:
    news.leave_behind(tx, ids, key, now)
    turn = begun(tx, key)
    if turn is not None and turn.state is State.INTERRUPTED:
        turn = _unblock(tx, ids, turn, run, now)
    elif turn is not None and turn.state is State.WAITING:
        turn = _answer(tx, ids, turn, run, now)
    if turn is not None:
        return _claim_again(tx, turn, run, now) if turn.state is State.QUEUED else None
    waits = tx.one(_NEXT, key=key, after=0) is not None or goals.is_due(tx, key)
    return _begin(tx, ids, key, run, now) if waits else None


def _answer(tx: Tx, ids: Ids, turn: Turn, run: str, now: int) -> Turn | None:
    """The next words of a person answer the question that the turn waits with."""
    question = fold(journal.read_turn(tx, turn.session, turn.id, turn.first_seq)).question
    row = tx.one(_NEXT_WORDS, key=turn.key, after=question.position) if question else None
    if question is None or row is None or leases.holder(tx, turn.key) != run:
        return turn
    cause = inbox.as_cause(row)
    _take(tx, row[0], turn.id)
    move(tx, ids, turn, [answer_to(question, cause.text, cause.sender, cause.message)], (), now)
    return _get(tx, turn.id)


def answer_to(question: Asked, text: str, by: Sender, message: str = "") -> Answered:
    """What somebody wrote, as the answer to a question: one of its options, or other words that close it."""
    same = (option for option in question.options if option.lower() == text.strip().lower())
    chosen = None if question.approves else next(same, None)  # a bare "yes" approves nothing
    fits = chosen is not None or not question.options
    return Answered(question.question, chosen or text, by, message, chosen=fits)


def _unblock(tx: Tx, ids: Ids, turn: Turn, run: str, now: int) -> Turn | None:
    """What a new message does to an interrupted turn that was held back: it supersedes it, or joins it.

    Until a decision was made, and while only messages from before the interruption wait, nothing happens.
    """
    view = fold(journal.read_turn(tx, turn.session, turn.id, turn.first_seq))
    if view.decided is None or view.interrupted is None or leases.holder(tx, turn.key) != run:
        return turn
    if view.decided.rule in SUPERSEDED and tx.one(_NEXT_WORDS, key=turn.key, after=0):
        return None if cancel(tx, ids, turn, Why.SUPERSEDED, now) else turn
    if tx.one(_NEXT_WORDS, key=turn.key, after=view.interrupted.position):
        joined = Decided(Choice.RESUME, "a message came, and joins it", rule="message")
        move(tx, ids, turn, [joined, Requeued()], (), now)
    return _get(tx, turn.id)


def _claim_again(tx: Tx, turn: Turn, run: str, now: int) -> Claim | None:
    """Only from our own hands: a queued turn of a dead run first goes through the recoverer."""
    if leases.holder(tx, turn.key) != run:
        return None
    lease = leases.take(tx, turn.key, run)
    if lease is None:
        return None
    attempt = turn.attempt + 1
    changed = tx.run(
        "UPDATE turns SET state = 'running', epoch = :epoch, attempt = :attempt, updated_at = :now "
        "WHERE id = :turn AND state = 'queued'",
        epoch=lease[0],
        attempt=attempt,
        now=now,
        turn=turn.id,
    )
    if not changed:
        return None
    entries = [Claimed(run, lease[0], attempt), *_joining(tx, turn)]
    journal.append(tx, turn.session, turn.id, entries, now)
    claimed = _get(tx, turn.id)
    assert claimed is not None, f"turn {turn.id} vanished"
    records = journal.read_turn(tx, turn.session, turn.id, turn.first_seq)
    return Claim(claimed, tuple(records), more=_more(tx, turn.key))


def _joining(tx: Tx, turn: Turn) -> list[Joined]:
    """Messages that arrived while the turn was interrupted become part of it, now that it goes on."""
    last = fold(journal.read_turn(tx, turn.session, turn.id, turn.first_seq)).note_due()
    rows = [] if last is None else tx.all(_ARRIVED_WORDS, key=turn.key, after=last.position)
    for row in rows:
        _take(tx, row[0], turn.id)
    return [Joined(tuple(inbox.as_cause(row) for row in rows))] if rows else []


def _take(tx: Tx, message: str, turn: str) -> None:
    tx.run("UPDATE inbox SET state = 'taken', turn = :turn WHERE id = :inbox", turn=turn, inbox=message)


def _begin(tx: Tx, ids: Ids, key: str, run: str, now: int) -> Claim | None:
    lease = leases.take(tx, key, run)
    # Only under the lease is it certain what waits: whoever had it may have begun a turn since we looked.
    cause = None if lease is None else tx.one(_NEXT_OF_NONE_BEGUN, key=key, after=0)
    causes = [inbox.as_cause(cause)] if cause else goals.next_causes(tx, ids, key, now) if lease else []
    if lease is None or not causes:
        return None
    epoch, generation = lease[0], lease[1] + 1
    session, turn = inbox.session_for(tx, ids, key, now), ids.new("t")
    last = tx.one("SELECT coalesce(max(seq), 0) FROM journal WHERE session = :session", session=session)
    row = Turn(turn, session, key, generation, State.RUNNING, epoch, 1, last[0] + 1 if last else 1, now, now)
    tx.run(
        f"INSERT INTO turns ({_COLUMNS}) VALUES (:id, :session, :key, :generation, :state, :epoch, :attempt, "
        ":first_seq, :began_at, :updated_at)",
        **msgspec.structs.asdict(row) | {"state": row.state.value},
    )
    tx.run("UPDATE leases SET generation = :generation WHERE key = :key", generation=generation, key=key)
    tx.run("UPDATE sessions SET updated_at = :now WHERE id = :session", now=now, session=session)
    causes = [*map(inbox.as_cause, tx.all(_ASIDES, key=key, session=session)), *causes]
    for each in causes:
        _take(tx, each.inbox, turn)
    if cause is not None and cause[2] == "report":
        # It is this turn now that the process belongs to: its next words are no words from an earlier time.
        sql = "UPDATE processes SET generation = :generation WHERE id = (SELECT raw FROM inbox WHERE id = :cause)"
        tx.run(sql, generation=generation, cause=cause[0])
    entries = [Began(tuple(causes)), Claimed(run, epoch, 1)]
    return Claim(row, tuple(journal.append(tx, session, turn, entries, now)), more=_more(tx, key))


def _more(tx: Tx, key: str) -> bool:
    return tx.one(_NEXT, key=key, after=0) is not None or goals.is_active(tx, key)


# ── moving ──────────────────────────────────────────────────────────────────────────────────────────────────


def _append(tx: Tx, turn: Turn, entries: Sequence[Entry], now: int) -> list[Record] | None:
    """Facts that move nothing. Some are accepted late, but always from the same epoch only."""
    guard = _LATE if all(entry.late for entry in entries) else _GUARD
    if tx.one(guard + tx.hold, turn=turn.id, epoch=turn.epoch) is None:
        return None
    return journal.append(tx, turn.session, turn.id, entries, now)


def move(
    tx: Tx, ids: Ids, turn: Turn, entries: Sequence[Entry], owed: Sequence[Owed], now: int
) -> list[Record] | None:
    row = _get(tx, turn.id)
    if row is None or row.epoch != turn.epoch:
        return None
    # A decision is about an interrupted turn: what a person has done to it meanwhile is the last word.
    if row.state is not State.INTERRUPTED and any(isinstance(entry, Decided) for entry in entries):
        return None
    state = row.state
    for entry in entries:
        if entry.move is not None:
            if entry.move not in MOVES[state]:
                return None
            state = advance(state, entry.move)
    changed = tx.run(
        "UPDATE turns SET state = :state, updated_at = :now WHERE id = :turn AND state = :was AND epoch = :epoch",
        state=state.value,
        now=now,
        turn=turn.id,
        was=row.state.value,
        epoch=turn.epoch,
    )
    if not changed:
        return None
    entries = [_placed(tx, entry, turn.key) for entry in entries]
    if state in FINAL:
        entries = _with_results(tx, row, entries)
        owed = _in_place(tx, ids, row, owed, now)
    if any(isinstance(entry, Cancelled) and entry.why == Why.SUSPENDED for entry in entries):
        sessions.suspend(tx, row.key, now)
    for reply in owed:
        outbox.owe(tx, ids, turn.key, turn.id, reply, now)
    return journal.append(tx, turn.session, turn.id, entries, now)


def _in_place(tx: Tx, ids: Ids, turn: Turn, owed: Sequence[Owed], now: int) -> Sequence[Owed]:
    """What ends a turn takes the place of its preview; if nothing is said, the preview says that itself."""
    receipt = previews.settle(tx, turn.id)
    if receipt is None:
        return owed
    if not owed:
        previews.say_ended(tx, ids, turn.key, turn.id, receipt, now)
        return owed
    return [msgspec.structs.replace(owed[0], edits=receipt), *owed[1:]]


def cancel(tx: Tx, ids: Ids, turn: Turn, why: Why, now: int) -> bool:
    """End a turn that was begun, whoever has it now. False: it had ended already."""
    return move(tx, ids, turn, [Cancelled(why)], (), now) is not None


def is_over(tx: Tx, turn: str | None) -> bool:
    """Whether nothing is left of a turn: it has ended, and was not set aside to be brought back."""
    meant = _get(tx, turn) if turn else None
    return meant is not None and meant.state in FINAL and set_aside(tx, meant.session) != meant.id


def set_aside(tx: Tx, session: str) -> str | None:
    """The session's last turn, if it was ended by a suspension, so that there may be work to go on with."""
    row = tx.one(
        "SELECT turn, body FROM journal WHERE session = :session AND kind = 'cancelled' AND turn = "
        "(SELECT id FROM turns WHERE session = :session ORDER BY first_seq DESC LIMIT 1)",
        session=session,
    )
    if row is None or decode(Cancelled.kind, Cancelled.version, row[1]) != Cancelled(Why.SUSPENDED):
        return None
    turn: str = row[0]
    return turn


def _with_results(tx: Tx, turn: Turn, entries: Sequence[Entry]) -> list[Entry]:
    """A turn that ends leaves no call without a result: no model provider would accept its transcript."""
    view = fold(journal.read_turn(tx, turn.session, turn.id, turn.first_seq))
    wished = [call.request.id for call in view.open_calls]
    wished += [call.id for entry in entries if isinstance(entry, ModelAnswered) for call in entry.calls]
    ended = {entry.call for entry in entries if isinstance(entry, ToolEnded)}
    results = [ToolEnded(call, "cancelled", CANCELLED_CALL) for call in wished if call not in ended]
    end = max(place for place, entry in enumerate(entries) if entry.move is not None)
    return [*entries[:end], *results, *entries[end:]]


def _placed(tx: Tx, entry: Entry, key: str) -> Entry:
    """An interruption, and a question, remember how far the chat had come."""
    if isinstance(entry, Interrupted | Asked):
        return msgspec.structs.replace(entry, position=_position(tx, key))
    return entry


def _position(tx: Tx, key: str) -> int:
    row = tx.one("SELECT position FROM leases WHERE key = :key", key=key)
    return row[0] if row else 0


def _take_over(tx: Tx, turn: str, key: str, reason: str, run: str, now: int) -> Turn | None:
    before, row = leases.holder(tx, key), _get(tx, turn)
    if before == run or row is None or row.state in FINAL:
        return None
    lease = leases.take(tx, key, run)
    # The epoch first: from here on the old owner, who may be less dead than declared, cannot move the turn.
    fenced = lease and tx.one(
        f"UPDATE turns SET epoch = :epoch, updated_at = :now WHERE id = :turn AND {_BEGUN} RETURNING {_COLUMNS}",
        epoch=lease[0],
        now=now,
        turn=turn,
    )
    if not fenced:
        return None
    mine = _as_turn(fenced)
    if mine.state not in (State.QUEUED, State.RUNNING):
        return mine
    tx.run("UPDATE turns SET state = 'interrupted' WHERE id = :turn", turn=turn)
    journal.append(tx, mine.session, turn, [_placed(tx, Interrupted(reason, before), key)], now)
    return msgspec.structs.replace(mine, state=State.INTERRUPTED)

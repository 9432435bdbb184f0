"""Turns: claiming the next one, appending to it, and finding those that need somebody."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from perdure.core.handover import is_local_call
from perdure.core.journal import Entry, JournalRecord, ToolEnded
from perdure.core.queue import QueueRules
from perdure.core.states import TurnState
from perdure.store import attachments, goals, journal, leases, outbox, processes
from perdure.store.authorisation import MayJoin, everybody_may_join
from perdure.store.claims import Claim, claim
from perdure.store.conditions import (
    DEAD_RUNS,
    MESSAGE_WAITS,
    TURN_IS_OPEN,
    can_serve,
    lease_is_free_or_ours,
    may_move,
    state_in,
)
from perdure.store.database import Database, Tx
from perdure.store.inbox import UNLIMITED_RULES
from perdure.store.outbox import OutboxReply
from perdure.store.transitions import (
    TURN_COLUMNS,
    RequestCheck,
    Turn,
    append_facts,
    as_turn,
    current_turn,
    get,
    take_over,
    transition,
)

MAX_LOST = 1 << 31  # more than there are


class LostTurn(Struct, frozen=True):
    """An open turn whose run is dead, and where that run was."""

    turn: Turn
    instance: str | None  # the installation of that run


class Turns:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def claim(
        self,
        key: str,
        run: str,
        now: int,
        rules: QueueRules = UNLIMITED_RULES,
        may_join: MayJoin = everybody_may_join,
    ) -> Claim | None:
        """Claim the key's next turn: its open turn, or a new one from its queue, or else from its goal.

        The rules say which messages share a turn, and which are too old; `may_join`, whose words may join a turn
        that somebody else began.

        After return: the turn is running under a new epoch of ours; nobody else claims it while we live.
        If we die inside: nothing, or a running turn that the next start finds lost.
        """
        return await self._database.write(lambda tx: claim(tx, key, run, rules, may_join), key=key, at=now)

    async def claimable_keys(self, run: str) -> list[str]:
        """Return the keys whose next turn this run may claim, and can serve."""
        return await self._database.read(lambda tx: [row[0] for row in tx.all(_CLAIMABLE, run=run, now=tx.time)])

    async def append(
        self,
        turn: Turn,
        entries: Sequence[Entry],
        now: int,
        *,
        replies: Sequence[OutboxReply] = (),
        late: bool = True,
    ) -> list[JournalRecord] | None:
        """Append entries, with the moves they make and the replies that go with them, all or nothing.

        A tool result counts even if the turn was interrupted meanwhile, unless `late` is False.

        After return: everything is durable; None means that the turn has moved on and nothing was written.
        If we die inside: all of it may be there, or none.
        """
        movable = not self._database.exclusive

        def transaction(tx: Tx) -> list[JournalRecord] | None:
            written = _append(tx, turn, entries, replies, late=late)
            if written is not None and movable and any(is_local_call(entry) for entry in entries):
                leases.bind(tx, turn.key, turn.epoch)
            return written

        return await self._database.write(transaction, key=turn.key, at=now)

    async def take_over(
        self,
        turn: str,
        key: str,
        reason: str,
        run: str,
        now: int,
        check_request: RequestCheck = lambda tx, turn, view: None,
    ) -> Turn | None:
        """Take over a turn whose run is dead. A queued or running turn becomes interrupted.

        `check_request` says whether a person asked for a queued turn, which then is not interrupted.

        After return: the turn is ours under a new epoch; None means that there was no need.
        If we die inside: it is taken over, or the next start does so.
        """
        take = leases.take_any if self._database.exclusive else leases.take
        return await self._database.write(
            lambda tx: take_over(tx, turn, key, reason, run, check_request, take), key=key, at=now
        )

    async def put_aside(self, turn: Turn, retry_at: int, problem: str) -> bool:
        """Record why a turn could not be taken over, and when it is tried again. False: somebody else took it."""
        return await self._database.write(
            lambda tx: leases.put_aside(tx, turn.key, turn.epoch, retry_at, problem), key=turn.key
        )

    async def require_version(self, session: str, version: int) -> None:
        """Record that only gateways that can read entries of that version may serve a session."""
        await self._database.write(lambda tx: journal.require_version(tx, session, version))

    async def release_unreadable(self, run: str) -> int:
        """Let go of sessions that this run cannot read, and another can; return how many there were.

        What nobody can read stays with its holder, which tells the chat.
        """
        return await self._database.write(lambda tx: leases.release_unreadable(tx, run))

    async def lost(self, run: str, limit: int = MAX_LOST) -> list[LostTurn]:
        """Return open turns of dead runs that this run can serve, the oldest first; none that was put aside.

        The only gateway of a database gets all of them: what it cannot serve, nobody can, as its decision says.
        """

        def transaction(tx: Tx) -> list[LostTurn]:
            rows = tx.all(sql, run=run, now=tx.time, limit=limit)
            return [LostTurn(as_turn(row[:-1]), row[-1]) for row in rows]

        sql = _LOST if self._database.exclusive else _LOST_SERVABLE
        return await self._database.read(transaction)

    async def interrupted(self, run: str) -> list[Turn]:
        """Return the interrupted turns of this run: they wait for a decision, or were held back by one."""
        return await self._database.read(lambda tx: [as_turn(row) for row in tx.all(_INTERRUPTED, run=run)])

    async def get(self, turn: str) -> Turn | None:
        return await self._database.read(lambda tx: get(tx, turn))

    async def current(self, key: str) -> Turn | None:
        """Return the key's open turn."""
        return await self._database.read(lambda tx: current_turn(tx, key))

    async def open(self, states: Sequence[TurnState], limit: int = 50) -> list[Turn]:
        """Return the turns in these open states, the oldest first."""
        sql = (
            f"SELECT {TURN_COLUMNS} FROM turns WHERE {TURN_IS_OPEN} AND {state_in(states)} ORDER BY "
            "began_at, id LIMIT :limit"
        )
        return await self._database.read(lambda tx: [as_turn(row) for row in tx.all(sql, limit=limit)])

    async def of_session(self, session: str) -> list[Turn]:
        """Return the session's turns in order."""
        return await self._database.read(
            lambda tx: [
                as_turn(row)
                for row in tx.all(
                    f"SELECT {TURN_COLUMNS} FROM turns WHERE session = :session ORDER BY generation",
                    session=session,
                )
            ]
        )


_LEASE_IS_FREE = f"{lease_is_free_or_ours('l')} AND {can_serve('l')} AND {may_move('l')}"
_CLAIMABLE = (
    f"SELECT t.key FROM turns t JOIN leases l ON l.key = t.key WHERE t.{TURN_IS_OPEN} "
    f"AND t.state = '{TurnState.QUEUED}' "
    f"AND l.run = :run UNION SELECT i.key FROM inbox i JOIN leases l ON l.key = i.key WHERE i.{MESSAGE_WAITS} "
    f"AND i.kind NOT IN ('command', 'aside') AND {_LEASE_IS_FREE} AND NOT EXISTS "
    f"(SELECT 1 FROM turns b WHERE b.key = i.key AND b.{TURN_IS_OPEN} "
    f"AND b.{state_in((TurnState.QUEUED, TurnState.RUNNING))}) "
    f"UNION {goals.DUE_KEYS} AND {_LEASE_IS_FREE}"
)
_SELECT_TURNS = f"SELECT {', '.join('t.' + column for column in TURN_COLUMNS.split(', '))} FROM turns t "
_SELECT_LOST = _SELECT_TURNS.replace(" FROM turns t ", ", d.instance FROM turns t ") + (
    "JOIN leases l ON l.key = t.key LEFT JOIN runs d ON d.id = l.run "
    f"WHERE t.{TURN_IS_OPEN} AND (l.run IS NULL OR l.run IN ({DEAD_RUNS}))"
)
_OLDEST_FIRST = " ORDER BY t.began_at, t.id LIMIT :limit"
_LOST = _SELECT_LOST + _OLDEST_FIRST
_LOST_SERVABLE = (
    f"{_SELECT_LOST} AND (l.retry_at IS NULL OR l.retry_at <= :now) AND {can_serve('l')} AND {may_move('l')}"
    f"{_OLDEST_FIRST}"
)
_INTERRUPTED = _SELECT_TURNS + (
    f"JOIN leases l ON l.key = t.key WHERE t.{TURN_IS_OPEN} "
    f"AND t.state = '{TurnState.INTERRUPTED}' AND l.run = :run "
    "ORDER BY t.began_at, t.id"  # by the id alone, SQLite would read all turns rather than sort a few
)


def _append(
    tx: Tx, turn: Turn, entries: Sequence[Entry], replies: Sequence[OutboxReply], *, late: bool
) -> list[JournalRecord] | None:
    """Append entries; a process whose end is in a written tool result is reported to nobody afterwards."""
    files = [
        reply for reply in replies if reply.file is not None
    ]  # files are sent with a tool result, which moves nothing
    moves = len(files) < len(replies) or any(entry.move for entry in entries)
    written = transition(tx, turn, entries, replies) if moves else append_facts(tx, turn, entries, late=late)
    if written is not None:
        for sight in (each for entry in entries if isinstance(entry, ToolEnded) for each in entry.saw):
            processes.mark_seen(tx, sight)
        for reply in files:
            outbox.enqueue(tx, turn.key, turn.id, reply)
            attachments.record_sent(tx, reply, turn.id)
    return written

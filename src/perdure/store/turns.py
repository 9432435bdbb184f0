"""Turns: claiming the next one, appending to it, and finding those that need somebody."""

from __future__ import annotations

from collections.abc import Sequence

from perdure.core.journal import Entry, Record, ToolEnded
from perdure.core.queueing import Rules
from perdure.core.turn import State
from perdure.store import attachments, goals, leases, outbox, processes
from perdure.store.claims import Claim, claim
from perdure.store.database import Database, Tx
from perdure.store.ids import Ids
from perdure.store.inbox import UNBOUND
from perdure.store.moves import BEGUN, COLUMNS, Judge, Turn, append, as_turn, begun, get, move, take_over
from perdure.store.outbox import Owed


class Turns:
    def __init__(self, database: Database, ids: Ids) -> None:
        self._database = database
        self._ids = ids

    async def claim(self, key: str, run: str, now: int, rules: Rules = UNBOUND) -> Claim | None:
        """Claim the key's next turn: the one begun before, or a new one from what waits, or else from its goal.

        The rules say what goes together, and what is too old.

        After return: the turn is running under a new epoch of ours; nobody else claims it while we live.
        If we die inside: nothing, or a running turn that the next start finds lost.
        """
        return await self._database.write(lambda tx: claim(tx, self._ids, key, run, now, rules), key=key)

    async def claimable(self, run: str) -> list[str]:
        """The keys whose next turn this run may claim."""
        return await self._database.read(lambda tx: [row[0] for row in tx.all(_CLAIMABLE, run=run)])

    async def append(
        self, turn: Turn, entries: Sequence[Entry], now: int, *, owed: Sequence[Owed] = (), late: bool = True
    ) -> list[Record] | None:
        """Append facts, and make the moves and owe the replies that go with them, all or nothing.

        The result of a call is taken also when the turn was interrupted meanwhile, unless `late` is False.

        After return: everything is durable; None means that the turn has moved on and nothing was written.
        If we die inside: all of it may be there, or none.
        """
        return await self._database.write(
            lambda tx: _append(tx, self._ids, turn, entries, owed, now, late=late), key=turn.key
        )

    async def interrupt(
        self, turn: str, key: str, reason: str, run: str, now: int, requested: Judge = lambda tx, turn, view: None
    ) -> Turn | None:
        """Take over a turn whose run is dead. If it was queued or running, it is now interrupted.

        `requested` is asked about a queued one: whether a person asked for it, so that it is carried out instead.

        After return: the turn is ours under a new epoch; None means that there was no need.
        If we die inside: it is taken over, or the next start does so.
        """
        return await self._database.write(
            lambda tx: take_over(tx, self._ids, turn, key, reason, run, now, requested), key=key
        )

    async def lost(self) -> list[Turn]:
        """Turns that were begun and not ended, and whose run is dead."""
        return await self._database.read(lambda tx: [as_turn(row) for row in tx.all(_LOST)])

    async def interrupted(self, run: str) -> list[Turn]:
        """Turns of this run that wait for a decision, or were held back by one."""
        return await self._database.read(lambda tx: [as_turn(row) for row in tx.all(_INTERRUPTED, run=run)])

    async def get(self, turn: str) -> Turn | None:
        return await self._database.read(lambda tx: get(tx, turn))

    async def begun(self, key: str) -> Turn | None:
        """The key's turn that was begun and not ended."""
        return await self._database.read(lambda tx: begun(tx, key))

    async def open(self, states: Sequence[State], limit: int = 50) -> list[Turn]:
        """The turns in these states, none of them ended, the oldest first."""
        wanted = ", ".join(f"'{state}'" for state in states)
        sql = (
            f"SELECT {COLUMNS} FROM turns WHERE {BEGUN} AND state IN ({wanted}) ORDER BY began_at, id LIMIT :limit"
        )
        return await self._database.read(lambda tx: [as_turn(row) for row in tx.all(sql, limit=limit)])

    async def of_session(self, session: str) -> list[Turn]:
        """The session's turns in order."""
        return await self._database.read(
            lambda tx: [
                as_turn(row)
                for row in tx.all(
                    f"SELECT {COLUMNS} FROM turns WHERE session = :session ORDER BY generation",
                    session=session,
                )
            ]
        )


_FREE = f"(l.run IS NULL OR l.run = :run OR l.run IN ({leases.DEAD}))"
_CLAIMABLE = (
    f"SELECT t.key FROM turns t JOIN leases l ON l.key = t.key WHERE t.{BEGUN} AND t.state = 'queued' "
    "AND l.run = :run UNION SELECT i.key FROM inbox i JOIN leases l ON l.key = i.key WHERE i.state = 'waiting' "
    f"AND i.kind NOT IN ('command', 'aside') AND {_FREE} AND NOT EXISTS "
    f"(SELECT 1 FROM turns b WHERE b.key = i.key AND b.{BEGUN} AND b.state IN ('queued', 'running')) "
    f"UNION {goals.DUE} AND {_FREE}"
)
_OF_TURNS = f"SELECT {', '.join('t.' + column for column in COLUMNS.split(', '))} FROM turns t "
_LOST = _OF_TURNS + (
    f"JOIN leases l ON l.key = t.key WHERE t.{BEGUN} AND (l.run IS NULL OR l.run IN ({leases.DEAD}))"
)
_INTERRUPTED = _OF_TURNS + (
    f"JOIN leases l ON l.key = t.key WHERE t.{BEGUN} AND t.state = 'interrupted' AND l.run = :run "
    "ORDER BY t.began_at, t.id"  # by the id alone, SQLite would rather walk through all turns than sort a few
)


def _append(
    tx: Tx, ids: Ids, turn: Turn, entries: Sequence[Entry], owed: Sequence[Owed], now: int, *, late: bool
) -> list[Record] | None:
    """Whoever reads of the end of a process has seen it: only then, and from then on, nobody else is told."""
    files = [reply for reply in owed if reply.file is not None]  # they go with a result, which moves nothing
    moves = len(files) < len(owed) or any(entry.move for entry in entries)
    written = move(tx, ids, turn, entries, owed, now) if moves else append(tx, turn, entries, now, late=late)
    if written is not None:
        for sight in (each for entry in entries if isinstance(entry, ToolEnded) for each in entry.saw):
            processes.see(tx, sight, now)
        for reply in files:
            outbox.owe(tx, ids, turn.key, turn.id, reply, now)
            attachments.put_sent(tx, reply, turn.id, now)
    return written

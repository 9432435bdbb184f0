"""Lives: all that is on record of one turn, and the turns of a session, newest first. Every read has its limit."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from perdure.core.entries import Began, Record
from perdure.core.messages import Inbound
from perdure.store import outbox, previews, runs
from perdure.store.database import Database, Row, Tx
from perdure.store.journal import as_record
from perdure.store.moves import COLUMNS, Turn, as_turn, get
from perdure.store.outbox import Delivering
from perdure.store.previews import Kept
from perdure.store.runs import Run

MOST = 2_000  # entries, messages or replies of one turn


class Received(Struct, frozen=True):
    """A message that became part of a turn."""

    id: str
    event_key: str
    kind: str
    state: str
    inbound: Inbound
    received_at: int
    sent_at: int | None


class TurnLife(Struct, frozen=True):
    """A turn from the events that it began with to the receipts of its replies."""

    turn: Turn
    messages: list[Received]
    records: list[Record]
    deliveries: list[Delivering]
    previews: list[Kept]
    runs: list[Run]
    whole: bool  # False: there are more entries than are read at once


class Past(Struct, frozen=True):
    """A turn in the list of a session."""

    turn: Turn
    began: Began
    interruptions: int


class Lives:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def of_turn(self, turn: str) -> TurnLife | None:
        """A turn's life, read in one snapshot."""
        return await self._database.read(lambda tx: _life(tx, turn))

    async def past(self, session: str, after: str = "", limit: int = 50) -> list[Past]:
        """The turns of a session, the newest first, beginning before `after`."""
        return await self._database.read(lambda tx: _past(tx, session, after, limit))


def _life(tx: Tx, name: str) -> TurnLife | None:
    turn = get(tx, name)
    if turn is None:
        return None
    rows = tx.all(
        "SELECT seq, at, kind, version, body FROM journal WHERE turn = :turn ORDER BY seq LIMIT :limit",
        turn=name,
        limit=MOST + 1,
    )
    records = [as_record(row) for row in rows[:MOST]]
    return TurnLife(
        turn,
        _messages(tx, name),
        records,
        outbox.of_turn(tx, name)[:MOST],
        previews.of_turn(tx, name)[:MOST],
        runs.of_turn(tx, records),
        whole=len(rows) <= MOST,
    )


def _messages(tx: Tx, turn: str) -> list[Received]:
    rows = tx.all(
        "SELECT id, event_key, kind, state, body, received_at, sent_at FROM inbox WHERE turn = :turn "
        "ORDER BY position LIMIT :limit",
        turn=turn,
        limit=MOST,
    )
    return [Received(*(*row[:4], msgspec.json.decode(row[4], type=Inbound), *row[5:])) for row in rows]


def _past(tx: Tx, session: str, after: str, limit: int) -> list[Past]:
    before = "AND generation < (SELECT generation FROM turns WHERE id = :after) " if after else ""
    rows = tx.all(
        f"SELECT {COLUMNS} FROM turns WHERE session = :session {before}ORDER BY generation DESC LIMIT :limit",
        session=session,
        after=after,
        limit=limit,
    )
    return [_as_past(tx, row) for row in rows]


def _as_past(tx: Tx, row: Row) -> Past:
    turn = as_turn(row)
    first = tx.one(
        "SELECT seq, at, kind, version, body FROM journal WHERE session = :session AND seq = :seq",
        session=turn.session,
        seq=turn.first_seq,
    )
    began = as_record(first).entry if first else None
    marks = tx.one(
        "SELECT count(*) FROM journal WHERE session = :session AND seq > :seq AND kind = 'interrupted' "
        "AND turn = :turn",
        session=turn.session,
        seq=turn.first_seq,
        turn=turn.id,
    )
    return Past(turn, began if isinstance(began, Began) else Began(()), marks[0] if marks else 0)

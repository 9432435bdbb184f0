"""Timelines: the whole record of one turn, and summaries of a session's turns, with a limit on every read."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from perdure.core.entries import JournalRecord, TurnBegan
from perdure.core.messages import Inbound
from perdure.store import outbox, previews, runs
from perdure.store.database import Database, Row, Tx
from perdure.store.journal import as_record
from perdure.store.outbox import OutboxDelivery
from perdure.store.previews import StoredPreview
from perdure.store.runs import Run
from perdure.store.transitions import TURN_COLUMNS, Turn, as_turn, get

MAX_ROWS = 2_000  # of each table, for one turn


class TurnMessage(Struct, frozen=True):
    """A message that became part of a turn."""

    id: str
    event_key: str
    kind: str
    state: str
    inbound: Inbound
    received_at: int
    sent_at: int | None


class TurnHistory(Struct, frozen=True):
    """A turn, from the messages that it began with to the receipts of its replies."""

    turn: Turn
    messages: list[TurnMessage]
    records: list[JournalRecord]
    deliveries: list[OutboxDelivery]
    previews: list[StoredPreview]
    runs: list[Run]
    whole: bool  # False: the turn has more entries than `MAX_ROWS`


class TurnSummary(Struct, frozen=True):
    """A turn in the list of a session."""

    turn: Turn
    began: TurnBegan
    interruptions: int


class Timelines:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def of_turn(self, turn: str) -> TurnHistory | None:
        """Read the history of a turn in one snapshot."""
        return await self._database.read(lambda tx: _read_history(tx, turn))

    async def turns_of_session(self, session: str, after: str = "", limit: int = 50) -> list[TurnSummary]:
        """Return the turns of a session, the newest first, beginning before `after`."""
        return await self._database.read(lambda tx: _read_summaries(tx, session, after, limit))


def _read_history(tx: Tx, name: str) -> TurnHistory | None:
    turn = get(tx, name)
    if turn is None:
        return None
    rows = tx.all(
        "SELECT seq, at, kind, version, body FROM journal WHERE turn = :turn ORDER BY seq LIMIT :limit",
        turn=name,
        limit=MAX_ROWS + 1,
    )
    records = [as_record(row) for row in rows[:MAX_ROWS]]
    return TurnHistory(
        turn,
        _messages(tx, name),
        records,
        outbox.of_turn(tx, name)[:MAX_ROWS],
        previews.of_turn(tx, name)[:MAX_ROWS],
        runs.of_turn(tx, records),
        whole=len(rows) <= MAX_ROWS,
    )


def _messages(tx: Tx, turn: str) -> list[TurnMessage]:
    rows = tx.all(
        "SELECT id, event_key, kind, state, body, received_at, sent_at FROM inbox WHERE turn = :turn "
        "ORDER BY position LIMIT :limit",
        turn=turn,
        limit=MAX_ROWS,
    )
    return [TurnMessage(*(*row[:4], msgspec.json.decode(row[4], type=Inbound), *row[5:])) for row in rows]


def _read_summaries(tx: Tx, session: str, after: str, limit: int) -> list[TurnSummary]:
    before = "AND generation < (SELECT generation FROM turns WHERE id = :after) " if after else ""
    rows = tx.all(
        f"SELECT {TURN_COLUMNS} FROM turns WHERE session = :session {before}ORDER BY generation DESC LIMIT :limit",
        session=session,
        after=after,
        limit=limit,
    )
    return [_as_summary(tx, row) for row in rows]


def _as_summary(tx: Tx, row: Row) -> TurnSummary:
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
    return TurnSummary(turn, began if isinstance(began, TurnBegan) else TurnBegan(()), marks[0] if marks else 0)

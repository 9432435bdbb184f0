"""The overview: how much there is of everything that has not ended."""

from __future__ import annotations

from msgspec import Struct

from perdure.core.session import SessionState
from perdure.store.conditions import DELIVERY_IS_OPEN, TURN_IS_OPEN
from perdure.store.database import Database, Tx


class OpenCounts(Struct, frozen=True):
    """Turns by their state, sessions set aside, replies by theirs, messages and processes."""

    queued: int = 0
    running: int = 0
    waiting: int = 0
    interrupted: int = 0
    suspended: int = 0
    owed: int = 0
    sending: int = 0
    unknown: int = 0
    messages: int = 0  # that wait for their turn
    processes: int = 0  # in the background, as far as we know


class Gauges:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def counts(self) -> OpenCounts:
        """Read in one snapshot, from the indexes of what is open."""
        return await self._database.read(_counts)


def _counts(tx: Tx) -> OpenCounts:
    turns = tx.all(f"SELECT state, count(*) FROM turns WHERE {TURN_IS_OPEN} GROUP BY state")
    replies = tx.all(f"SELECT state, count(*) FROM outbox WHERE {DELIVERY_IS_OPEN} GROUP BY state")
    return OpenCounts(
        **{row[0]: row[1] for row in (*turns, *replies)},
        suspended=_count(tx, f"sessions WHERE state = '{SessionState.SUSPENDED}'"),
        messages=_count(tx, "inbox WHERE state = 'waiting' AND kind = 'message'"),
        processes=_count(tx, "processes WHERE state = 'live'"),
    )


def _count(tx: Tx, what: str) -> int:
    row = tx.one(f"SELECT count(*) FROM {what}")
    return row[0] if row else 0

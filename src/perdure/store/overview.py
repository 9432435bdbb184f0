"""The overview: how much there is of everything that has not ended."""

from __future__ import annotations

from msgspec import Struct

from perdure.store.database import Database, Tx
from perdure.store.moves import BEGUN
from perdure.store.outbox import OPEN


class Counts(Struct, frozen=True):
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


class Overview:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def counts(self) -> Counts:
        """Read in one snapshot, from the indexes of what is open."""
        return await self._database.read(_counts)


def _counts(tx: Tx) -> Counts:
    turns = tx.all(f"SELECT state, count(*) FROM turns WHERE {BEGUN} GROUP BY state")
    replies = tx.all(f"SELECT state, count(*) FROM outbox WHERE {OPEN} GROUP BY state")
    return Counts(
        **{row[0]: row[1] for row in (*turns, *replies)},
        suspended=_one(tx, "sessions WHERE state = 'suspended'"),
        messages=_one(tx, "inbox WHERE state = 'waiting' AND kind = 'message'"),
        processes=_one(tx, "processes WHERE state = 'live'"),
    )


def _one(tx: Tx, what: str) -> int:
    row = tx.one(f"SELECT count(*) FROM {what}")
    return row[0] if row else 0

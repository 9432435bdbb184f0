"""Decisions of recovery about interruptions, the newest first."""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct

from perdure.core.entries import JournalRecord, RecoveryDecided, TurnInterrupted
from perdure.store.database import Database, Row, Tx
from perdure.store.journal import MAX_SEQ, as_record

CURSOR = re.compile(r"([0-9]{1,18})\.(s_[0-9a-z]{1,60})\.([0-9]{1,18})")  # as `InterruptionMark.cursor` writes it
_COLUMNS = "seq, at, kind, version, body, session, turn"


class InterruptionMark(Struct, frozen=True):
    """An interruption; its cursor orders it among all interruptions."""

    session: str
    turn: str
    record: JournalRecord

    @property
    def cursor(self) -> str:
        return f"{self.record.at}.{self.session}.{self.record.seq}"


class DecisionRecord(Struct, frozen=True):
    """A decision, and the interruption that it is about."""

    key: str
    mark: InterruptionMark
    record: JournalRecord

    @property
    def decision(self) -> RecoveryDecided:
        assert isinstance(self.record.entry, RecoveryDecided)
        return self.record.entry

    @property
    def reason(self) -> str:
        entry = self.mark.record.entry
        return entry.reason if isinstance(entry, TurnInterrupted) else ""


class Decisions:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def page(self, after: str = "", limit: int = 50) -> tuple[list[DecisionRecord], str | None]:
        """Return the decisions about `limit` interruptions, the newest first, and the next page's cursor.

        The interruptions are those before the cursor `after`; they have an index, decisions have none.
        """
        return await self._database.read(lambda tx: _page(tx, after, limit))


def _page(tx: Tx, after: str, limit: int) -> tuple[list[DecisionRecord], str | None]:
    cursor = CURSOR.fullmatch(after)
    at, session, seq = (int(cursor[1]), cursor[2], int(cursor[3])) if cursor else (MAX_SEQ, "", 0)
    rows = tx.all(
        f"SELECT {_COLUMNS} FROM journal WHERE kind = 'interrupted' "
        "AND (at < :at OR (at = :at AND (session < :session OR (session = :session AND seq < :seq)))) "
        "ORDER BY at DESC, session DESC, seq DESC LIMIT :limit",
        at=at,
        session=session,
        seq=seq,
        limit=limit + 1,
    )
    marks = [InterruptionMark(row[5], row[6], as_record(row)) for row in rows[:limit]]
    found = [each for mark in marks for each in _decisions_about(tx, mark)]
    found.sort(key=lambda each: (each.record.at, each.record.seq), reverse=True)
    return found, marks[-1].cursor if len(rows) > limit else None


def _decisions_about(tx: Tx, mark: InterruptionMark) -> Sequence[DecisionRecord]:
    """Return the decisions between an interruption and the next one of the same turn."""
    rows = tx.all(
        f"SELECT {', '.join('j.' + name for name in _COLUMNS.split(', '))}, t.key FROM journal j "
        "JOIN turns t ON t.id = j.turn WHERE j.turn = :turn AND j.kind IN ('decided', 'interrupted') "
        "AND j.seq > :seq ORDER BY j.seq",
        turn=mark.turn,
        seq=mark.record.seq,
    )
    return [DecisionRecord(row[7], mark, as_record(row)) for row in _before_next_interruption(rows)]


def _before_next_interruption(rows: Sequence[Row]) -> list[Row]:
    kinds = [row[2] for row in rows]
    return list(rows[: kinds.index("interrupted")] if "interrupted" in kinds else rows)

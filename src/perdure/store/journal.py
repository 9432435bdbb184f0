"""The journal: the append-only facts of a session, by `(session, seq)`."""

from __future__ import annotations

from collections.abc import Iterable

from perdure.core.journal import ConversationCompacted, Entry, JournalRecord, decode_entry
from perdure.core.storable_text import encode_storable
from perdure.store.database import Database, Row, Tx

_INSERT = (
    "INSERT INTO journal (session, seq, turn, kind, version, body, at) SELECT :session, "
    "coalesce(max(seq), 0) + 1, :turn, :kind, :version, :body, :at FROM journal WHERE session = :session "
    "RETURNING seq"
)
_OF_TURN = (
    "SELECT seq, at, kind, version, body FROM journal WHERE session = :session AND seq >= :first_seq "
    "AND turn = :turn ORDER BY seq"
)
MAX_SEQ = 1 << 62  # greater than the seq of every entry
MAX_INLINE_ENTRIES = 300  # entries that a claim reads itself: about thirty turns
# The turns of a session that were undone.
UNDONE_TURNS = "SELECT u.turn FROM journal u WHERE u.session = :session AND u.kind = 'undone'"


class Journal:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def of_turn(self, session: str, turn: str) -> list[JournalRecord]:
        """Return the entries of one turn."""
        return await self._database.read(lambda tx: read_turn(tx, session, turn))

    async def read_before(self, session: str, seq: int) -> list[tuple[str, JournalRecord]]:
        """Return the session's entries before a seq, each with its turn, except those that were compacted.

        The turn in which the summary ends is returned whole: half a turn cannot be folded.
        """
        return await self._database.read(
            lambda tx: _read_before(tx, session, seq, compacted_through(tx, session, seq))
        )

    async def read_after(self, session: str, seq: int, limit: int = 500) -> list[tuple[str, JournalRecord]]:
        """Return the session's entries after a seq, each with its turn."""
        rows = await self._database.read(
            lambda tx: tx.all(
                "SELECT seq, at, kind, version, body, turn FROM journal "
                "WHERE session = :session AND seq > :seq ORDER BY seq LIMIT :limit",
                session=session,
                seq=seq,
                limit=limit,
            )
        )
        return [(row[5], as_record(row)) for row in rows]


def compacted_through(tx: Tx, session: str, before: int = MAX_SEQ) -> int:
    """Return the last seq that the newest summary before a seq stands for; 0 if there is no summary."""
    row = tx.one(
        "SELECT body FROM journal WHERE session = :session AND kind = 'compacted' AND seq < :seq "
        "ORDER BY seq DESC LIMIT 1",
        session=session,
        seq=before,
    )
    return decode_entry(ConversationCompacted.kind, ConversationCompacted.version, row[0]).through if row else 0  # type: ignore[attr-defined]


def read_before_if_short(tx: Tx, session: str, seq: int) -> list[tuple[str, JournalRecord]] | None:
    """Return what `Journal.read_before` does, or None if there is so much that other transactions would wait."""
    if seq == 1:
        return []
    through = compacted_through(tx, session, seq)
    return None if seq - through > MAX_INLINE_ENTRIES else _read_before(tx, session, seq, through)


def _read_before(tx: Tx, session: str, seq: int, through: int) -> list[tuple[str, JournalRecord]]:
    rows = tx.all(
        "SELECT seq, at, kind, version, body, turn FROM journal WHERE session = :session AND seq < :seq "
        "AND seq >= coalesce((SELECT max(first_seq) FROM turns WHERE session = :session "
        "AND first_seq <= :through), 0) ORDER BY seq",
        session=session,
        seq=seq,
        through=through,
    )
    return [(row[5], as_record(row)) for row in rows]


def append(tx: Tx, session: str, turn: str, entries: Iterable[Entry]) -> list[JournalRecord]:
    """Append entries to the session's journal; the returned records have their texts as they are stored."""
    records, newest = [], 1
    for given in entries:
        body, entry = encode_storable(given)
        row = tx.one(
            _INSERT,
            session=session,
            turn=turn,
            kind=entry.kind,
            version=entry.version,
            body=body,
            at=tx.time,
        )
        assert row is not None, "INSERT … RETURNING gave no row"
        records.append(JournalRecord(row[0], tx.time, entry))
        newest = max(newest, entry.version)
    if newest > 1:
        require_version(tx, session, newest)
    return records


def require_version(tx: Tx, session: str, version: int) -> None:
    """Leave a session to gateways that can read entries of that version."""
    tx.run(
        "UPDATE sessions SET entry_version = :version "
        "WHERE id = :session AND (entry_version IS NULL OR entry_version < :version)",
        session=session,
        version=version,
    )


def read_turn(tx: Tx, session: str, turn: str, first_seq: int = 0) -> list[JournalRecord]:
    return [as_record(row) for row in tx.all(_OF_TURN, session=session, first_seq=first_seq, turn=turn)]


def as_record(row: Row) -> JournalRecord:
    return JournalRecord(row[0], row[1], decode_entry(row[2], row[3], row[4]))

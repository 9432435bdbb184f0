"""Tombstones: names of erased sessions, turns, events and files, without any of their content.

The digest of an event keeps the event from being stored again when the platform redelivers it. The ids of turns
and the paths of files let every gateway find the files that are still to be removed after a crash.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Literal

from perdure.core.storable_text import make_storable
from perdure.store.database import Tx

TombstoneKind = Literal["session", "turn", "event", "file"]

RETENTION_MS = 30 * 86_400_000  # far longer than any platform redelivers an event


def event_digest(event: str) -> str:
    """Return a name for an event that only somebody who has the event can recognise."""
    return hashlib.sha256(make_storable(event).encode()).hexdigest()


def record(tx: Tx, kind: TombstoneKind, names: Iterable[str]) -> None:
    """Record that these were erased."""
    sql = "INSERT INTO erased (name, kind, at) VALUES (:name, :kind, :now) ON CONFLICT DO NOTHING"
    for name in names:
        tx.run(sql, name=name, kind=kind, now=tx.time)


def is_erased_event(tx: Tx, event: str) -> bool:
    """Say whether an event was received before and erased."""
    return (
        tx.one("SELECT 1 FROM erased WHERE name = :name AND kind = 'event'", name=event_digest(event)) is not None
    )


def names(tx: Tx, kind: TombstoneKind) -> set[str]:
    return {row[0] for row in tx.all("SELECT name FROM erased WHERE kind = :kind", kind=kind)}


_EXPIRED = (  # all kinds are named so that the index is used
    "FROM erased WHERE kind IN ('session', 'turn', 'event', 'file') AND at < :before "
    "AND NOT (kind = 'session' AND name IN (SELECT id FROM sessions))"
)


def has_expired(tx: Tx) -> bool:
    """Say whether there is a tombstone older than `RETENTION_MS`."""
    return tx.one(f"SELECT 1 {_EXPIRED} LIMIT 1", before=tx.time - RETENTION_MS) is not None


def delete_expired(tx: Tx) -> int:
    """Delete expired tombstones, except of an unfinished erasure; return how many there were."""
    return tx.run(f"DELETE {_EXPIRED}", before=tx.time - RETENTION_MS)

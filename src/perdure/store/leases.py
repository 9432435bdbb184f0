"""Leases: the numbered right of one run to work on the session of a key.

The lease of a dead run is free. The epoch grows with every claim, and fences whoever held the lease before.
"""

from __future__ import annotations

from perdure.store.database import Tx

DEAD = "SELECT id FROM runs WHERE ended_at IS NOT NULL"

_TAKE = (
    "UPDATE leases SET run = :run, epoch = epoch + 1 "
    f"WHERE key = :key AND (run IS NULL OR run = :run OR run IN ({DEAD})) "
    "RETURNING epoch, generation"
)


def take(tx: Tx, key: str, run: str) -> tuple[int, int] | None:
    """Take the lease of a key that is free or ours already; its new epoch and its newest turn's number."""
    row = tx.one(_TAKE, key=key, run=run)
    return (row[0], row[1]) if row else None


def holder(tx: Tx, key: str) -> str | None:
    """The run that has the lease of a key, dead or alive."""
    row = tx.one("SELECT run FROM leases WHERE key = :key", key=key)
    return row[0] if row else None

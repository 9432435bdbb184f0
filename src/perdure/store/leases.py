"""Leases: the numbered right of one run to work on the session of a key.

The lease of a dead run is free. The epoch grows with every claim, and fences whoever held the lease before.
"""

from __future__ import annotations

from perdure.store.database import Tx

DEAD_RUNS = "SELECT id FROM runs WHERE ended_at IS NOT NULL"

# A run that was declared dead gets nothing, though its process may live and not know it yet.
_RUN_IS_ALIVE = "NOT EXISTS (SELECT 1 FROM runs WHERE id = :run AND ended_at IS NOT NULL)"
_TAKE = (
    "UPDATE leases SET run = :run, epoch = epoch + 1 "
    f"WHERE key = :key AND (run IS NULL OR run = :run OR run IN ({DEAD_RUNS})) AND {_RUN_IS_ALIVE} "
    "RETURNING epoch, generation"
)
# What may be held: a turn that a dead run has begun is found by its lease, so that lease is the recoverer's.
OURS_OR_FREE = (
    f"(leases.run = :run OR ((leases.run IS NULL OR leases.run IN ({DEAD_RUNS})) AND NOT EXISTS "
    "(SELECT 1 FROM turns b "
    "WHERE b.key = leases.key AND b.state IN ('queued', 'running', 'waiting', 'interrupted'))))"
)
_HOLD = f"UPDATE leases SET run = :run WHERE key = :key AND {_RUN_IS_ALIVE} AND {OURS_OR_FREE}"


def take(tx: Tx, key: str, run: str) -> tuple[int, int] | None:
    """Take the lease of a key that is free or ours already; its new epoch and its newest turn's number."""
    row = tx.one(_TAKE, key=key, run=run)
    return (row[0], row[1]) if row else None


def hold(tx: Tx, key: str, run: str) -> bool:
    """Have the lease of a key that is ours already, or free with no turn begun."""
    return bool(tx.run(_HOLD, key=key, run=run))


def holder(tx: Tx, key: str) -> str | None:
    """The run that has the lease of a key, dead or alive."""
    row = tx.one("SELECT run FROM leases WHERE key = :key", key=key)
    return row[0] if row else None

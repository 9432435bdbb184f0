"""Leases: the right of one run to work on a key, with an epoch that grows with every claim.

The lease of a dead run is free. The epoch fences the run that held the lease before.
"""

from __future__ import annotations

from perdure.store.conditions import DEAD_RUNS, TURN_IS_OPEN, lease_is_free_or_ours
from perdure.store.database import Tx

# A run that was declared dead gets no lease, though its process may still be alive and unaware.
_RUN_IS_ALIVE = "NOT EXISTS (SELECT 1 FROM runs WHERE id = :run AND ended_at IS NOT NULL)"
_TAKE = (
    "UPDATE leases SET run = :run, epoch = epoch + 1 "
    f"WHERE key = :key AND {lease_is_free_or_ours()} AND {_RUN_IS_ALIVE} "
    "RETURNING epoch, generation"
)
# Recovery finds the open turn of a dead run by the run's lease, so nobody else may hold that lease.
OURS_OR_IDLE = (
    f"(leases.run = :run OR ((leases.run IS NULL OR leases.run IN ({DEAD_RUNS})) AND NOT EXISTS "
    f"(SELECT 1 FROM turns b WHERE b.key = leases.key AND b.{TURN_IS_OPEN})))"
)
_HOLD = f"UPDATE leases SET run = :run WHERE key = :key AND {_RUN_IS_ALIVE} AND {OURS_OR_IDLE}"


def take(tx: Tx, key: str, run: str) -> tuple[int, int] | None:
    """Take a key's lease if it is free or ours; return its new epoch and the number of the newest turn."""
    row = tx.one(_TAKE, key=key, run=run)
    return (row[0], row[1]) if row else None


def hold(tx: Tx, key: str, run: str) -> bool:
    """Hold a key's lease without a new epoch, if it is ours, or free and the key has no open turn."""
    return bool(tx.run(_HOLD, key=key, run=run))


def holder(tx: Tx, key: str) -> str | None:
    """Return the run that has the lease of a key, dead or alive."""
    row = tx.one("SELECT run FROM leases WHERE key = :key", key=key)
    return row[0] if row else None

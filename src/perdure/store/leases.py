"""Leases: the right of one run to work on a key, with an epoch that grows with every claim.

The lease of a dead run is free. The epoch fences the run that held the lease before.
"""

from __future__ import annotations

from msgspec import Struct

from perdure.core.states import TurnState
from perdure.store.conditions import (
    DEAD_RUNS,
    SESSION_IS_CURRENT,
    TURN_IS_OPEN,
    can_serve,
    has_service,
    lease_is_free_or_ours,
    may_move,
)
from perdure.store.database import Tx

# A run that was declared dead gets no lease, though its process may still be alive and unaware.
_RUN_IS_ALIVE = "NOT EXISTS (SELECT 1 FROM runs WHERE id = :run AND ended_at IS NOT NULL)"
_RUN_MAY_TAKE = "NOT EXISTS (SELECT 1 FROM runs WHERE id = :run AND (ended_at IS NOT NULL OR draining = 1))"
_TAKE = (
    "UPDATE leases SET run = :run, epoch = epoch + 1, retry_at = NULL, problem = NULL "
    f"WHERE key = :key AND {lease_is_free_or_ours('leases')} AND {_RUN_MAY_TAKE} AND {{more}} "
    "RETURNING epoch, generation, instance, (SELECT m.instance FROM runs m WHERE m.id = :run)"
)
_TAKE_SERVABLE = _TAKE.format(more=f"{can_serve('leases')} AND {may_move('leases')}")
_TAKE_ANY = _TAKE.format(more="1 = 1")
# Recovery finds the open turn of a dead run by the run's lease, so nobody else may hold that lease.
OURS_OR_IDLE = (
    f"(leases.run = :run OR ((leases.run IS NULL OR leases.run IN ({DEAD_RUNS})) AND NOT EXISTS "
    f"(SELECT 1 FROM turns b WHERE b.key = leases.key AND b.{TURN_IS_OPEN})))"
)
_HOLD = (
    f"UPDATE leases SET run = :run WHERE key = :key AND {_RUN_IS_ALIVE} AND {OURS_OR_IDLE} "
    f"AND {has_service('leases')}"
)


class TakenLease(Struct, frozen=True):
    """A lease that was taken: its new epoch, and the number of the key's newest turn."""

    epoch: int
    generation: int
    moved: bool = False  # files and commands of the chat are on another machine


def take(tx: Tx, key: str, run: str) -> TakenLease | None:
    """Take a key's lease if it is free or ours.

    None: somebody else has it, this run cannot serve the chat, or what is on another machine may still come back.
    """
    row = tx.one(_TAKE_SERVABLE, key=key, run=run, now=tx.time)
    return TakenLease(row[0], row[1], row[2] is not None and row[2] != row[3]) if row else None


def take_any(tx: Tx, key: str, run: str) -> TakenLease | None:
    """Take a key's lease if it is free or ours, by the only gateway of a database, whatever it can serve."""
    row = tx.one(_TAKE_ANY, key=key, run=run)
    return TakenLease(row[0], row[1]) if row else None


def bind(tx: Tx, key: str, epoch: int) -> None:
    """Record that files or commands of a chat are on the machine of the run that holds its lease."""
    tx.run(
        "UPDATE leases SET instance = (SELECT m.instance FROM runs m WHERE m.id = leases.run) "
        "WHERE key = :key AND epoch = :epoch",
        key=key,
        epoch=epoch,
    )


def unbind(tx: Tx, key: str, epoch: int) -> None:
    """Forget the files and commands of a chat on another machine, because the model is told that they stayed."""
    tx.run("UPDATE leases SET instance = NULL WHERE key = :key AND epoch = :epoch", key=key, epoch=epoch)


def hold(tx: Tx, key: str, run: str) -> bool:
    """Hold a key's lease without a new epoch, if it is ours, or free and the key has no open turn."""
    return bool(tx.run(_HOLD, key=key, run=run))


def put_aside(tx: Tx, key: str, epoch: int, retry_at: int, problem: str) -> bool:
    """Record why a take-over failed, and when it is tried again. False: somebody has taken the lease meanwhile."""
    sql = "UPDATE leases SET retry_at = :retry_at, problem = :problem WHERE key = :key AND epoch = :epoch"
    return bool(tx.run(sql, key=key, epoch=epoch, retry_at=retry_at, problem=problem))


def release_unreadable(tx: Tx, run: str) -> int:
    """Give the leases of sessions that our run cannot read to whoever can; return how many there were."""
    return tx.run(
        "UPDATE leases SET run = NULL WHERE run = :run AND key IN "
        f"(SELECT s.key FROM sessions s, runs u WHERE s.entry_version IS NOT NULL AND s.{SESSION_IS_CURRENT} "
        "AND u.id = :run AND s.entry_version > u.entry_version) "
        "AND EXISTS (SELECT 1 FROM runs r WHERE r.ended_at IS NULL AND r.draining = 0 "
        f"AND {can_serve('leases', 'r.id')})",
        run=run,
    )


def is_abandoned(tx: Tx, key: str) -> bool:
    """Say whether the lease of a key belongs to nobody, or to a dead run."""
    sql = f"SELECT 1 FROM leases WHERE key = :key AND (run IS NULL OR run IN ({DEAD_RUNS}))"
    return tx.one(sql, key=key) is not None


def holder(tx: Tx, key: str) -> str | None:
    """Return the run that has the lease of a key, dead or alive."""
    row = tx.one("SELECT run FROM leases WHERE key = :key", key=key)
    return row[0] if row else None


def running_on(tx: Tx, key: str) -> str | None:
    """Return the run whose attempt at the key's turn runs now; until we commit, no other one begins."""
    sql = f"SELECT run FROM leases WHERE key = :key{tx.for_update}"
    row = tx.one(sql, key=key)
    running = tx.one(
        f"SELECT 1 FROM turns WHERE key = :key AND {TURN_IS_OPEN} AND state = '{TurnState.RUNNING}'", key=key
    )
    return row[0] if row is not None and running is not None else None

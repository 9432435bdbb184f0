"""Runs of gateways, and the leases that give one run the right to work on a session.

A run is alive until it has an ending. Its own process ends it cleanly; another gateway ends it as lost, when it
holds the lock of the same home or file, or when the heartbeat has been silent for too long. A lease of a dead
run is free. The epoch grows with every claim, and fences whoever held the lease before.
"""

from __future__ import annotations

from msgspec import Struct

from perdure.store.database import Database, Tx
from perdure.store.ids import Ids

LEASE_MS = 30_000  # a run that was silent for so long is dead
DEAD = "SELECT id FROM runs WHERE ended_at IS NOT NULL"

_TAKE = (
    "UPDATE leases SET run = :run, epoch = epoch + 1 "
    f"WHERE key = :key AND (run IS NULL OR run = :run OR run IN ({DEAD})) "
    "RETURNING epoch, generation"
)


class Run(Struct, frozen=True):
    id: str
    instance: str
    version: str
    started_at: int
    heartbeat_at: int
    ended_at: int | None
    ending: str | None


class Runs:
    def __init__(self, database: Database, ids: Ids) -> None:
        self._database = database
        self._ids = ids

    async def begin(self, instance: str, version: str) -> str:
        """Begin a run, and end those that our locks prove dead.

        After return: the run is on record, and the sessions of dead runs may be taken over.
        If we die inside: at most a run that the next start ends as lost.
        """
        sole, run = self._database.sole, self._ids.new("run")
        await self._database.write(lambda tx: _begin(tx, run, instance, version, sole=sole))
        return run

    async def beat(self, run: str) -> bool:
        """Say that the run is alive. False: it was declared dead meanwhile, and must stop."""
        return await self._database.write(
            lambda tx: bool(
                tx.run(
                    "UPDATE runs SET heartbeat_at = :now WHERE id = :run AND ended_at IS NULL",
                    now=tx.now(),
                    run=run,
                )
            )
        )

    async def reap(self, run: str) -> int:
        """End the runs whose heartbeat is silent; return how many there were. Never our own."""
        return await self._database.write(
            lambda tx: tx.run(
                "UPDATE runs SET ended_at = :now, ending = 'lost' "
                "WHERE ended_at IS NULL AND id <> :run AND heartbeat_at < :limit",
                now=tx.now(),
                limit=tx.now() - LEASE_MS,
                run=run,
            )
        )

    async def end(self, run: str) -> None:
        """Record a clean stop. After return: the run's leases are free."""
        await self._database.write(
            lambda tx: tx.run(
                "UPDATE runs SET ended_at = :now, ending = 'clean', heartbeat_at = :now "
                "WHERE id = :run AND ended_at IS NULL",
                now=tx.now(),
                run=run,
            )
        )

    async def get(self, run: str) -> Run | None:
        row = await self._database.read(
            lambda tx: tx.one(
                f"SELECT {', '.join(Run.__struct_fields__)} FROM runs WHERE id = :run",
                run=run,
            )
        )
        return Run(*row) if row else None


def take(tx: Tx, key: str, run: str) -> tuple[int, int] | None:
    """Take the lease of a key that is free or ours already; its new epoch and its newest turn's number."""
    row = tx.one(_TAKE, key=key, run=run)
    return (row[0], row[1]) if row else None


def holder(tx: Tx, key: str) -> str | None:
    """The run that has the lease of a key, dead or alive."""
    row = tx.one("SELECT run FROM leases WHERE key = :key", key=key)
    return row[0] if row else None


def _begin(tx: Tx, run: str, instance: str, version: str, *, sole: bool) -> None:
    tx.run(
        "UPDATE runs SET ended_at = :now, ending = 'lost' WHERE ended_at IS NULL "
        + ("" if sole else "AND instance = :instance"),
        now=tx.now(),
        instance=instance,
    )
    tx.run(
        "INSERT INTO runs (id, instance, version, started_at, heartbeat_at) "
        "VALUES (:run, :instance, :version, :now, :now)",
        run=run,
        instance=instance,
        version=version,
        now=tx.now(),
    )

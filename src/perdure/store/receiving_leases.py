"""Receiving leases: the right of one run to receive what is polled, or comes over a socket, for an account.

Each account on a platform has a row. Its epoch grows whenever a run begins to receive, so that the run that
received before can tell that it must neither ask for more nor confirm anything.
"""

from __future__ import annotations

from msgspec import Struct

from perdure.core.address import join_parts
from perdure.store.database import Database, Row, Tx

_ACCOUNT = "platform = :platform AND account = :account"
_HOLDER_LIVES = "EXISTS (SELECT 1 FROM runs h WHERE h.id = receiving_leases.run AND h.ended_at IS NULL)"
_FREE_OR_OURS = f"(run IS NULL OR run = :run OR NOT {_HOLDER_LIVES})"
# A run that was declared dead receives no more. One that drains goes on with what it has, and begins nothing.
_MAY_RECEIVE = (
    "EXISTS (SELECT 1 FROM runs m WHERE m.id = :run AND m.ended_at IS NULL "
    "AND (m.draining = 0 OR m.id = receiving_leases.run))"
)
_TAKEN_BY_ANOTHER = f"SELECT 1 FROM receiving_leases WHERE {_ACCOUNT} AND NOT {_FREE_OR_OURS}"
_MAKE = (
    "INSERT INTO receiving_leases (platform, account, epoch) VALUES (:platform, :account, 0) "
    "ON CONFLICT DO NOTHING"
)
_TAKE = (
    "UPDATE receiving_leases SET run = :run, epoch = epoch + 1 "
    f"WHERE {_ACCOUNT} AND {_FREE_OR_OURS} AND {_MAY_RECEIVE} RETURNING epoch"
)
_IS_OURS = f"{_ACCOUNT} AND run = :run AND epoch = :epoch"
_STANDS_BY = (
    "SELECT 1 FROM runs r JOIN run_services s ON s.run = r.id WHERE r.ended_at IS NULL AND r.draining = 0 "
    "AND r.id <> :run AND s.platform = :platform AND s.account = :account LIMIT 1"
)


class ReceivingLease(Struct, frozen=True):
    """The lease of an account that a run has taken."""

    platform: str
    account: str
    run: str
    epoch: int


class ReceivingLeases:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def take(self, platform: str, account: str, run: str) -> ReceivingLease | None:
        """Take the lease of an account, if it is free or ours. None: another run receives, or ours must not.

        After return: no other living run has the lease.
        If we die inside: the lease is ours or not; it is free again once our run has ended.
        """
        names = {"platform": join_parts(platform), "account": account, "run": run}
        if await self._database.read(lambda tx: tx.one(_TAKEN_BY_ANOTHER, **names)):
            return None  # nothing is written while we stand by
        row = await self._database.write(lambda tx: _take(tx, names), key=f"receiving:{platform}")
        return ReceivingLease(platform, account, run, row[0]) if row else None

    async def is_held(self, lease: ReceivingLease) -> bool:
        """Say whether nobody has taken the lease since, and its run lives."""
        sql = f"SELECT 1 FROM receiving_leases WHERE {_IS_OURS} AND {_HOLDER_LIVES}"
        return await self._database.read(lambda tx: tx.one(sql, **_names(lease))) is not None

    async def release(self, lease: ReceivingLease) -> None:
        """Let another run receive. Called when nothing receives any more here."""
        sql = f"UPDATE receiving_leases SET run = NULL WHERE {_IS_OURS}"
        await self._database.write(lambda tx: tx.run(sql, **_names(lease)), key=f"receiving:{lease.platform}")

    async def has_successor(self, lease: ReceivingLease) -> bool:
        """Say whether another living run stands by for the account, and does not drain."""
        return await self._database.read(lambda tx: tx.one(_STANDS_BY, **_names(lease))) is not None


def _take(tx: Tx, names: dict[str, str]) -> Row | None:
    tx.run(_MAKE, platform=names["platform"], account=names["account"])
    return tx.one(_TAKE, **names)


def _names(lease: ReceivingLease) -> dict[str, str | int]:
    return {
        "platform": join_parts(lease.platform),
        "account": lease.account,
        "run": lease.run,
        "epoch": lease.epoch,
    }

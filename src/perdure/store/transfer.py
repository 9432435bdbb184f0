"""Sessions on their way out of one database and into another."""

from __future__ import annotations

from perdure.core.transfer.export_format import ExportedSession
from perdure.errors import LockHeld, PerdureError, RecordRefused
from perdure.store.database import Database
from perdure.store.runs import LEASE_MS
from perdure.store.transfer_dump import dump_key
from perdure.store.transfer_load import load_session


class Transfer:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def keys(self) -> list[str]:
        """Every key that has a session, in an order that is the same on every database."""
        rows = await self._database.read(lambda tx: tx.all("SELECT DISTINCT key FROM sessions"))
        return sorted(row[0] for row in rows)

    async def dump(self, key: str) -> list[ExportedSession]:
        """The sessions of a key as of one moment, so that what moves between them is in one of them."""
        return await self._database.read(lambda tx: dump_key(tx, key))

    async def load(self, session: ExportedSession) -> bool:
        """Write a session that is not here yet. False: it is here already, and the same in everything.

        After return: all of it is durable. `RecordRefused` means that nothing of it was written.
        If we die inside: all of it is there, or nothing.
        """
        try:
            return await self._database.write(lambda tx: load_session(tx, session), key=session.key)
        except PerdureError:
            raise
        except Exception as error:
            # The drivers have no common error, and what one record does wrong must not keep out the others.
            raise RecordRefused("", f"the database refused it: {type(error).__name__}: {error}") from error

    async def require_no_gateway(self) -> None:
        """Refuse to go on beside a living gateway of another home; one of ours would hold the lock."""
        if self._database.exclusive:
            return
        row = await self._database.read(
            lambda tx: tx.one(
                "SELECT instance FROM runs WHERE ended_at IS NULL AND heartbeat_at BETWEEN :since AND :until",
                since=tx.lease_clock() - LEASE_MS,
                until=tx.lease_clock() + LEASE_MS,  # later than that, it is of a clock that was set back since
            )
        )
        if row is not None:
            raise LockHeld(
                f"a gateway is at work on this database: {row[0]}",
                hint=f"Stop it first. After a crash, wait {LEASE_MS // 1000} seconds and try again.",
            )

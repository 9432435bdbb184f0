"""The contract of a database: `Database` runs transactions, and a `Tx` is one transaction in progress.

`backends/sqlite.py` and `backends/postgres.py` implement the contract; `perdure.testing` wraps either of them in
a database that fails or crashes on demand.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from perdure.errors import ConfigurationError
from perdure.store.ids import Ids

T = TypeVar("T")
HEARTBEAT = "heartbeat"  # the key of a heartbeat's writes, which wait for no write of a session
FILES = "files"  # the key of writes of file contents: large, and no write of a session waits for them
Row = tuple[Any, ...]


class Tx(Protocol):
    """A transaction in progress. Values are named `:like_this` in the SQL."""

    ids: Ids
    time: int  # UTC in ms when the transaction was submitted; the same if the transaction is run again
    for_update: str  # appended to a SELECT: nobody else changes the selected rows before we commit

    def one(self, sql: str, **values: Any) -> Row | None:
        """Return the first row, or None if there is none."""

    def all(self, sql: str, **values: Any) -> list[Row]:
        """Return every row."""

    def run(self, sql: str, **values: Any) -> int:
        """Return how many rows were changed: a guard that failed changed none."""

    def lease_clock(self) -> int:
        """Return the time by which leases expire: the server's where gateways share one, ours otherwise."""


Transaction = Callable[[Tx], T]


class Database(Protocol):
    """A database of either kind, opened by this process."""

    ids: Ids
    exclusive: bool  # an OS lock proves that every other run on this database is dead

    async def write(self, transaction: Transaction[T], *, key: str = "", at: int | None = None) -> T:
        """Run a transaction that may write. The transactions of one key run in the order of their submission.

        With the key `HEARTBEAT`, it is not tried again, and fails rather than waiting for longer than a heartbeat.
        With the key `FILES`, it is not tried again either, and may be durable though it has failed.

        `at` is the transaction's time; by default, the clock's at this call.
        After return: all that the transaction wrote is durable.
        If we die inside: all of it is durable, or nothing. The function may be called again after a database
        transaction that failed as a whole, so its result must depend on nothing but its `Tx`.
        """

    async def read(self, transaction: Transaction[T], *, at: int | None = None) -> T:
        """Run a transaction that only reads, on a snapshot with every write that returned before this call."""

    @property
    def problem(self) -> str | None:
        """A sentence that says why writes fail at the moment, or None."""

    async def close(self) -> None:
        """After return: every submitted write is durable or has failed, and the locks are free."""


def unknown_url(url: str) -> ConfigurationError:
    """Return the error for a `store.url` of no database that Perdure knows; the URL may contain a password."""
    return ConfigurationError(
        f"store.url names no database that Perdure knows: {url.split(':', 1)[0]}:…",
        hint="Write sqlite:///path/to/perdure.db or postgresql://user@host/name.",
    )

"""What the nouns of the store need of a database: transactions that write, and transactions that read.

`sqlite.py` and `postgres.py` are the two implementations; `perdure.testing` wraps them to crash at will.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

T = TypeVar("T")
Row = tuple[Any, ...]


class Tx(Protocol):
    """A transaction in progress. Values are named `:like_this` in the SQL."""

    for_update: str  # behind a SELECT: nobody else changes its rows before we commit

    def one(self, sql: str, **values: Any) -> Row | None:
        """The first row, if there is any."""

    def all(self, sql: str, **values: Any) -> list[Row]:
        """Every row."""

    def run(self, sql: str, **values: Any) -> int:
        """How many rows were changed: a guard that failed changed none."""

    def now(self) -> int:
        """The clock by which leases are judged: the server's where gateways share one, ours otherwise."""


Transaction = Callable[[Tx], T]


class Database(Protocol):
    """Where the rows are."""

    exclusive: bool  # an OS lock proves that every other run on this database is dead

    async def write(self, transaction: Transaction[T], *, key: str = "") -> T:
        """Run `work` in a transaction. Works of one key run in the order of their calls.

        After return: all that it wrote is durable.
        If we die inside: all of it is, or nothing. `work` may be called again after a transaction that
        failed as a whole, so it must depend on nothing but its transaction.
        """

    async def read(self, transaction: Transaction[T]) -> T:
        """Run `work` on a consistent snapshot that has every write returned before this call."""

    @property
    def problem(self) -> str | None:
        """Why writes are not done at the moment, in words, or None."""

    async def close(self) -> None:
        """After return: every write that was begun is durable or has failed, and the locks are free."""

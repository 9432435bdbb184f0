"""Connections for one purpose, each with a thread of its own: none waits for the writes of sessions."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import psycopg

from perdure.errors import StoreUnreachable, Unavailable
from perdure.store.backends.postgres_connect import AWAY_ERRORS, away_sentence, connect
from perdure.store.database import Row, Transaction, Tx

T = TypeVar("T")

HEARTBEAT_SETTINGS = "SET statement_timeout = '4s'"  # less than the 5 seconds between two heartbeats


class SideConnection:
    """Runs one transaction after the other, each once. A failure means: not done, or nobody knows."""

    def __init__(
        self,
        url: str,
        make_tx: Callable[[psycopg.Connection[Row], int], Tx],
        name: str,
        settings: str = "",
        *,
        autocommit: bool = False,
    ) -> None:
        """With `autocommit`, each statement of a transaction function is committed by itself."""
        self._url = url
        self._make_tx = make_tx
        self._settings = settings
        self._autocommit = autocommit
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=f"perdure-{name}")
        self._connection: psycopg.Connection[Row] | None = None
        self._closed = False

    async def submit(self, transaction: Transaction[T], time: int) -> T:
        if self._closed:
            raise Unavailable("not written: the store is closed")
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._run, transaction, time)

    def _run(self, transaction: Transaction[T], time: int) -> T:
        try:
            return self._run_transaction(transaction, time)
        except BaseException as error:  # whatever it is, the connection may be in the middle of a transaction
            self._disconnect()
            if isinstance(error, AWAY_ERRORS):
                raise StoreUnreachable(away_sentence(error)) from error
            raise

    def _run_transaction(self, transaction: Transaction[T], time: int) -> T:
        if self._connection is None:
            self._connection = connect(self._url, self._settings)
        if self._autocommit:
            return transaction(self._make_tx(self._connection, time))
        self._connection.execute("BEGIN")
        result = transaction(self._make_tx(self._connection, time))
        self._connection.execute("COMMIT")
        return result

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    async def close(self) -> None:
        self._closed = True
        await asyncio.to_thread(self._thread.shutdown)
        self._disconnect()

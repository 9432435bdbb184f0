"""Hints by NOTIFY and LISTEN, each on a connection of its own.

A hint is sent after the commit that it tells of, and never inside it: NOTIFY takes a lock of the whole database
until its transaction has ended, and fails that transaction when the server's queue is full.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence

import psycopg
from psycopg import sql

from perdure.errors import StoreUnreachable
from perdure.store import hints
from perdure.store.backends.postgres import PostgresTx
from perdure.store.backends.postgres_connect import AWAY_ERRORS, away_sentence, connect_options
from perdure.store.backends.postgres_side_connection import SideConnection
from perdure.store.database import Row, Tx
from perdure.store.hints import AddressedHint
from perdure.store.ids import Ids, wall_clock

# A hint that a crash of the server loses was of no use any more: nobody waits for the disk.
_SETTINGS = "SET synchronous_commit = off; SET statement_timeout = '4s'"


class PostgresHints:
    """Sends and hears hints; neither waits for, nor delays, any other statement of the gateway."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._ids = Ids()
        self._connection = SideConnection(url, self._make_tx, "hints", _SETTINGS, autocommit=True)

    def _make_tx(self, connection: psycopg.Connection[Row], time: int) -> Tx:
        return PostgresTx(connection, self._ids, time)

    async def send(self, sender: str, sent: Sequence[AddressedHint]) -> None:
        try:
            await self._submit(sender, sent)
        except StoreUnreachable:
            await self._submit(sender, sent)  # on a new connection: the old one may have broken long ago

    async def _submit(self, sender: str, sent: Sequence[AddressedHint]) -> None:
        await self._connection.submit(lambda tx: hints.send(tx, sender, sent), wall_clock())

    async def listen(self, run: str) -> AsyncGenerator[str | None]:
        options = connect_options(self._url)
        try:
            async with await psycopg.AsyncConnection.connect(self._url, autocommit=True, **options) as connection:
                for channel in (hints.EVERY_RUN, hints.channel_of(run)):
                    await connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(channel)))
                yield None
                async for each in connection.notifies():
                    yield each.payload
        except AWAY_ERRORS as error:
            raise StoreUnreachable(away_sentence(error)) from error

    async def close(self) -> None:
        await self._connection.close()

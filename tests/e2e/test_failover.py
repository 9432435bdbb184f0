"""The primary is lost in the middle of everything, and a synchronous replica takes over.

Drives `store/backends/postgres`, `store/backends/postgres_connect` and `runtime/heartbeat`.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import psycopg
import pytest

from perdure.testing import SimulatedPlatform
from support.inprocess import serving
from support.postgres import REPLICATION, PostgresServer
from support.waiting import eventually

pytestmark = pytest.mark.anyio

CHATS = [str(number) for number in range(12)]


def count(url: str, statement: str) -> int:
    with psycopg.connect(url) as connection:
        return len(connection.execute(statement.encode()).fetchall())


async def test_b164_nothing_acknowledged_is_lost_or_doubled_when_a_synchronous_replica_takes_over(
    tmp_path: Path,
) -> None:
    platform = SimulatedPlatform()
    with PostgresServer(settings=REPLICATION) as primary, primary.replicated() as replica:
        url = f"postgresql://test@127.0.0.1:{primary.port},127.0.0.1:{replica.port}/postgres"
        async with serving(tmp_path, platform, STORE__URL=url, STORE__LEASE="3s") as gateway:
            run = gateway.operator_verbs.run
            for chat in CHATS:
                platform.write(f"step a{chat} 0.2s\nstep b{chat} 0.2s\nsay: first {chat}", chat=chat)
            await eventually("some are answered", lambda: len(platform.posted) >= 3)
            await asyncio.to_thread(primary.kill)
            taken_in = len(platform.acknowledged)
            await asyncio.to_thread(replica.promote)
            assert count(replica.url(), "SELECT 1 FROM inbox") >= taken_in
            for chat in CHATS:
                platform.write(f"say: second {chat}", chat=chat)
            await eventually("all are answered", lambda: len(platform.posted) >= 2 * len(CHATS))
            for chat in CHATS:
                assert platform.replies(chat) == [f"first {chat}", f"second {chat}"]
            assert gateway.operator_verbs.run == run
            await eventually("the gateway is healthy", lambda: not gateway.problems())

"""The store's suite runs on every database: each test that asks for a gateway runs once per database."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from support.postgres import PostgresServer
from support.store_gateway import DatabaseLocation, StoreGateway


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def sqlite_place(tmp_path: Path) -> DatabaseLocation:
    """A SQLite file that does not exist yet."""
    return DatabaseLocation(f"sqlite:///{tmp_path}/perdure.db", tmp_path)


@pytest.fixture(scope="session")
def suite_url(postgres_server: PostgresServer) -> str:
    """One PostgreSQL database for the whole suite: to make a new one for every test would take twice as long."""
    return postgres_server.create_database("suite")


@pytest.fixture
def postgres_place(tmp_path: Path, postgres_server: PostgresServer, suite_url: str) -> DatabaseLocation:
    """A PostgreSQL database without tables, or with our tables and nothing in them."""
    postgres_server.start()  # a test before may have left the server dead
    empty(suite_url)
    return DatabaseLocation(suite_url, tmp_path)


def empty(url: str) -> None:
    """End whatever a failed test has left behind, and delete every row but the version."""
    with psycopg.connect(url) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        connection.execute("SET session_replication_role = replica")  # foreign keys do not mind the order
        tables = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall()
        for (table,) in tables:
            if table != "alembic_version":
                connection.execute(sql.SQL("DELETE FROM {}").format(sql.Identifier(table)))


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest) -> DatabaseLocation:
    """A database of either kind, to be made by whoever opens it first."""
    found: DatabaseLocation = request.getfixturevalue(f"{request.param}_place")
    return found


@pytest.fixture
async def gateway(place: DatabaseLocation) -> AsyncIterator[StoreGateway]:
    """A gateway with its store open and its run begun, on either kind of database."""
    gateway = await StoreGateway(place).open()
    yield gateway
    await gateway.crash()


@pytest.fixture
async def two_gateways(postgres_place: DatabaseLocation) -> AsyncIterator[tuple[StoreGateway, StoreGateway]]:
    """Two gateways with homes of their own on one PostgreSQL database."""
    one, two = await StoreGateway(postgres_place, "one").open(), await StoreGateway(postgres_place, "two").open()
    yield one, two
    await one.crash()
    await two.crash()

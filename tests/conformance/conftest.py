"""The store's suite runs on every database: each test that asks for a gateway runs once per database."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from support.stores import Gateway, Place


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def sqlite_place(tmp_path: Path) -> Place:
    """A SQLite file that does not exist yet."""
    return Place(f"sqlite:///{tmp_path}/perdure.db", tmp_path)


@pytest.fixture
def postgres_place(tmp_path: Path, postgres_url: str) -> Place:
    """An empty PostgreSQL database."""
    return Place(postgres_url, tmp_path)


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest) -> Place:
    """A database of either kind, to be made by whoever opens it first."""
    found: Place = request.getfixturevalue(f"{request.param}_place")
    return found


@pytest.fixture
async def gateway(place: Place) -> AsyncIterator[Gateway]:
    """A gateway with its store open and its run begun, on either kind of database."""
    gateway = await Gateway(place).open()
    yield gateway
    await gateway.crash()


@pytest.fixture
async def two_gateways(postgres_place: Place) -> AsyncIterator[tuple[Gateway, Gateway]]:
    """Two gateways with homes of their own on one PostgreSQL database."""
    one, two = await Gateway(postgres_place, "one").open(), await Gateway(postgres_place, "two").open()
    yield one, two
    await one.crash()
    await two.crash()

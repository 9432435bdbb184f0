"""Fixtures that every suite may use."""

from __future__ import annotations

import signal
import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from support.postgres import PostgresServer

# Whoever starts us in the background may have us ignore these, and so would every program that we start.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

# A busy machine is no reason to fail: neither how long an example takes nor how long its making takes counts.
settings.register_profile("perdure", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("perdure")


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """A running PostgreSQL; each worker has its own, so a test may kill it and disturb no other."""
    # Imported here, so that tests without PostgreSQL do not pay for its driver.
    from support.postgres import PostgresServer

    with PostgresServer() as server:
        yield server


@pytest.fixture
def postgres_url(postgres_server: PostgresServer) -> Iterator[str]:
    """The URL of a fresh, empty database, gone after the test."""
    postgres_server.start()  # a test before may have left the server dead
    name = f"test_{uuid.uuid4().hex}"
    yield postgres_server.create_database(name)
    if postgres_server.running:
        postgres_server.drop_database(name)


@pytest.fixture
def anyio_backend() -> str:
    """Asynchronous tests run on asyncio, like the gateway."""
    return "asyncio"

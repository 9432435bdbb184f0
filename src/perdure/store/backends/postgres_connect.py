"""Connections to PostgreSQL, made alike for every purpose."""

from __future__ import annotations

import psycopg

from perdure.store.database import Row

# These detect a dead connection, and end an abandoned transaction, without a message from the other side. Without
# the last one, a statement on a dead connection would wait until TCP gives up, after a quarter of an hour.
_CONNECT_OPTIONS = {
    "connect_timeout": 5,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 11_000,
}
_SESSION_SETTINGS = "SET idle_in_transaction_session_timeout = '30s'; SET lock_timeout = '60s'"


def connect(url: str, settings: str = "") -> psycopg.Connection[Row]:
    """Connect to the server; `settings` are further SET statements for the session."""
    connection = psycopg.connect(url, autocommit=True, **_CONNECT_OPTIONS)  # type: ignore[arg-type]
    try:
        connection.execute(f"{_SESSION_SETTINGS}; {settings}".encode())
    except BaseException:
        connection.close()
        raise
    return connection

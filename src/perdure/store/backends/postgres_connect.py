"""Connections to PostgreSQL, made alike for every purpose, and what their errors mean."""

from __future__ import annotations

import re
from typing import Any

import psycopg
from psycopg import errors as pg
from psycopg.conninfo import conninfo_to_dict

from perdure.errors import DatabaseRefused, PerdureError, StoreUnreachable
from perdure.store.database import Row

# The server is not there now: it cannot be reached, shuts down, starts up, fails over or only reads. What was
# asked of it is not done, or nobody knows; on a new connection it may be asked again. So is a server that heard
# nothing of us for so long, in the middle of a transaction, that it has ended it.
AWAY_ERRORS = (psycopg.OperationalError, pg.ReadOnlySqlTransaction, pg.IdleInTransactionSessionTimeout)

# These detect a dead connection, and end an abandoned transaction, without a message from the other side. Without
# the last one, a statement on a dead connection would wait until TCP gives up, after a quarter of an hour.
_CONNECT_OPTIONS: dict[str, Any] = {
    "connect_timeout": 5,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 11_000,
}
# A gateway that freezes in the middle of a transaction holds its locks no longer than this: or else nobody could
# declare it dead, and take over its chats, when its lease is over.
_SESSION_SETTINGS = "SET idle_in_transaction_session_timeout = '5s'; SET lock_timeout = '60s'"
PATIENT_SETTINGS = "SET idle_in_transaction_session_timeout = '60s'"  # for a start, which has much to do in one

# What only a person can mend. A failed login has no error code, and the server may speak another language: then
# the gateway waits as for a server that is away, and the log has the server's words.
_REFUSALS = re.compile(
    r"password authentication failed|no password supplied|no pg_hba\.conf entry|authentication failed"
    r"|(database|role) \".*\" does not exist|permission denied for database|is not permitted to log in"
)


def connect_options(url: str) -> dict[str, Any]:
    """Return what the URL does not say itself. Of several hosts, only one that takes writes is of use to us."""
    given = conninfo_to_dict(url)
    several = "," in str(given.get("host", ""))
    options = _CONNECT_OPTIONS | ({"target_session_attrs": "read-write"} if several else {})
    return {name: value for name, value in options.items() if name not in given}


def connect(url: str, settings: str = "") -> psycopg.Connection[Row]:
    """Connect to the server; `settings` are further SET statements for the session."""
    connection = psycopg.connect(url, autocommit=True, **connect_options(url))
    try:
        connection.execute(f"{_SESSION_SETTINGS}; {settings}".encode())
    except BaseException:  # also an interrupt: nobody else knows of this connection
        connection.close()
        raise
    return connection


def away_sentence(error: psycopg.Error) -> str:
    if isinstance(error, pg.ReadOnlySqlTransaction):
        return f"the database server takes no writes: {error}"
    return f"the database server does not answer: {error}"


def start_error(error: psycopg.Error) -> PerdureError:
    """Return what a failure of the first connection means: a person must act, or the server is not there now."""
    if isinstance(error, psycopg.ProgrammingError) or _REFUSALS.search(str(error)):
        return DatabaseRefused(
            f"the PostgreSQL server of store.url refuses us: {error}",
            hint="Correct the user, the password or the database in store.url, or the rights on the server.",
        )
    return StoreUnreachable(
        f"the PostgreSQL server of store.url cannot be reached: {error}",
        hint="Start the server, or correct store.url; Perdure tries again by itself.",
    )

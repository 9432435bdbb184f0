"""The empty PostgreSQL database that somebody gives to a drill: it is filled, harmed, and emptied again.

Each call makes a connection of its own, past whatever stands between the gateways and the server.
"""

from __future__ import annotations

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from perdure.core import texts
from perdure.errors import ConfigurationError
from perdure.store.backends.postgres_connect import connect, start_error
from perdure.store.database import Row

_RELATIONS = (
    "SELECT n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
    "WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f', 'S') AND n.nspname <> 'information_schema' "
    "AND n.nspname NOT LIKE 'pg\\_%' ORDER BY 1, 2"
)
_OWN_TABLES = "SELECT tablename FROM pg_tables WHERE schemaname = current_schema()"


class DrillDatabase:
    def __init__(self, url: str) -> None:
        self._url = url

    def check_empty(self) -> None:
        """Refuse a database in which there is anything: it may be somebody's."""
        with self._connect() as connection:
            found = connection.execute(_RELATIONS.encode()).fetchall()
        if found:
            names = [f"{schema}.{name}" for schema, name in found]
            raise ConfigurationError(texts.cli.drill_database_used(names), hint=texts.cli.DRILL_DATABASE_HINT)

    def set_read_only(self, on: bool) -> None:
        """Let the sessions of this database that begin from now on refuse writes, or take them again."""
        statement = "ALTER DATABASE {} SET default_transaction_read_only = on"
        if not on:
            statement = "ALTER DATABASE {} RESET default_transaction_read_only"
        with self._connect() as connection:
            connection.execute("SET default_transaction_read_only = off")
            name = connection.execute("SELECT current_database()").fetchall()[0][0]
            connection.execute(sql.SQL(statement).format(sql.Identifier(name)))

    def may_set_read_only(self) -> bool:
        """Say whether the role may do that: only the owner of a database may."""
        owned = "SELECT pg_has_role(datdba, 'USAGE') FROM pg_database WHERE datname = current_database()"
        with self._connect() as connection:
            return bool(connection.execute(owned.encode()).fetchall()[0][0])

    def remove_tables(self) -> None:
        """Remove the tables of the drill: there was nothing else before."""
        with self._connect() as connection:
            connection.execute("SET default_transaction_read_only = off")
            names = [sql.Identifier(name) for (name,) in connection.execute(_OWN_TABLES.encode()).fetchall()]
            if names:
                connection.execute(sql.SQL("DROP TABLE {} CASCADE").format(sql.SQL(", ").join(names)))

    def _connect(self) -> psycopg.Connection[Row]:
        try:
            return connect(self._url)
        except (psycopg.OperationalError, psycopg.ProgrammingError) as error:
            raise start_error(error) from error


def server_address(url: str) -> tuple[str, int]:
    """Return host and port of the server of a URL; several hosts are refused."""
    given = conninfo_to_dict(url)
    host, port = str(given.get("host") or "localhost"), str(given.get("port") or "5432")
    if "," in host or "," in port or host.startswith(("/", "@")):
        raise ConfigurationError(texts.cli.DRILL_ONE_HOST, hint=texts.cli.DRILL_DATABASE_HINT)
    return str(given.get("hostaddr") or host), int(port)


def through_port(url: str, port: int) -> str:
    """Return the URL that reaches the same database through a port of this machine.

    The host keeps its name, by which its certificate is known.
    """
    joint = "&" if "?" in url else "?"
    return f"{url}{joint}hostaddr=127.0.0.1&port={port}"

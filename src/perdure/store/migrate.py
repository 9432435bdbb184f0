"""Makes a new database, migrates an older one, and refuses a foreign or damaged one without writing to it.

A new database is made from `schema.sql` alone. Alembic, whose import costs more than the rest of a start together,
is imported only to migrate an older database.
"""

from __future__ import annotations

import os
import sqlite3
import struct
from collections.abc import Callable
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perdure.errors import DatabaseRefused

if TYPE_CHECKING:
    from sqlalchemy import Engine

REVISIONS = tuple(f"{number:04}" for number in range(1, 15))  # the files of migrations/, in order
HEAD = REVISIONS[-1]
APPLICATION_ID = 0x50455244  # "PERD", in the header of every SQLite file of ours

_VERSION_TABLE = (  # as Alembic makes it
    "CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL, "
    "CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num))"
)
_MAGIC = b"SQLite format 3\x00"
_HEADER_BYTES = 100
_WAL_HEADER_BYTES = 32
_WAL_FRAME_HEADER_BYTES = 24


def schema() -> list[str]:
    """Return the statements that make a new database, its version included."""
    text = resources.files("perdure.store").joinpath("schema.sql").read_text()
    lines = [line.split("--", 1)[0] for line in text.splitlines()]
    return [
        *(statement.strip() for statement in "\n".join(lines).split(";") if statement.strip()),
        _VERSION_TABLE,
        f"INSERT INTO alembic_version (version_num) VALUES ('{HEAD}')",
    ]


def check_revision(revision: str | None, name: str) -> bool:
    """Say whether a database is of the newest version; an unknown version is refused."""
    if revision in REVISIONS:
        return revision == HEAD
    raise DatabaseRefused(
        f"{name} has the schema version {revision!r}; this Perdure knows versions up to {HEAD}",
        hint="It was written by a newer Perdure: run that version, or choose another store.url.",
    )


# ── SQLite ──────────────────────────────────────────────────────────────────────────────────────────────────


def prepare_sqlite(path: Path) -> None:
    """Make the file if there is none, migrate an older one, refuse one that is not ours."""
    if not path.exists():
        _make_sqlite(path)
    elif not is_current_sqlite(path):
        upgrade(f"sqlite:///{path}")


def is_current_sqlite(path: Path) -> bool:
    """Say whether the file is of the newest version; refuse one that is not ours. The file is not written to."""
    _refuse_damaged(path)
    return check_revision(_sqlite_revision(path), str(path))


def _make_sqlite(path: Path) -> None:
    """Make the database under another name and rename it: a crash leaves no half-made file."""
    draft = path.with_name(path.name + ".new")
    for leftover in (draft, draft.with_name(draft.name + "-journal")):
        leftover.unlink(missing_ok=True)
    os.close(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    connection = sqlite3.connect(draft, isolation_level=None)
    try:
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("BEGIN")
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        for statement in schema():
            connection.execute(statement)
        connection.execute("COMMIT")
    finally:
        connection.close()
    draft.rename(path)
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def _refuse_damaged(path: Path) -> None:
    """Read the header without SQLite, which would begin to repair the file."""
    with path.open("rb") as file:
        header = file.read(_HEADER_BYTES)
    size = path.stat().st_size
    if len(header) < _HEADER_BYTES and _MAGIC.startswith(header[: len(_MAGIC)]):
        raise DatabaseRefused(f"{path} is truncated: it has {size} bytes", hint=_RESTORE_HINT)
    if not header.startswith(_MAGIC):
        raise DatabaseRefused(f"{path} is not a SQLite database", hint=_ELSEWHERE_HINT)
    if struct.unpack(">I", header[68:72])[0] != APPLICATION_ID:
        raise DatabaseRefused(f"{path} is a SQLite database of another program", hint=_ELSEWHERE_HINT)
    page_size, pages = struct.unpack(">H", header[16:18])[0], struct.unpack(">I", header[28:32])[0]
    page_size = 65536 if page_size == 1 else page_size
    pages, logged = _wal_pages(path.with_name(path.name + "-wal"), page_size, pages)
    # Pages missing in the file are no loss if they are in the log: SQLite completes the file from there.
    if any(page not in logged for page in range(size // page_size + 1, pages + 1)):
        raise DatabaseRefused(
            f"{path} is truncated: it has {size} of {page_size * pages} bytes", hint=_RESTORE_HINT
        )


def _wal_pages(log: Path, page_size: int, pages: int) -> tuple[int, set[int]]:
    """Return how many pages the database has with its log, and which of them are in the log."""
    committed: set[int] = set()
    pending: set[int] = set()
    if not log.exists():
        return pages, committed
    with log.open("rb") as file:
        salt = file.read(_WAL_HEADER_BYTES)[16:24]
        while len(frame := file.read(_WAL_FRAME_HEADER_BYTES)) == _WAL_FRAME_HEADER_BYTES and frame[8:16] == salt:
            page, size_after = struct.unpack(">II", frame[:8])
            pending.add(page)
            if size_after:  # the last frame of a transaction
                pages = size_after
                committed |= pending
                pending.clear()
            file.seek(page_size, os.SEEK_CUR)
    return pages, committed


_RESTORE_HINT = "Put back the whole file from a backup, or move it away to begin anew."
_ELSEWHERE_HINT = "Choose another store.url, or move that file away."


def _sqlite_revision(path: Path) -> str | None:
    # Without a log, `immutable` keeps SQLite from making files beside one that we may refuse.
    log, index = path.with_name(path.name + "-wal"), path.with_name(path.name + "-shm")
    mode, indexed = "mode=ro" if log.exists() else "mode=ro&immutable=1", index.exists()
    connection = sqlite3.connect(f"{path.absolute().as_uri()}?{mode}", uri=True)
    try:
        row = connection.execute("SELECT version_num FROM alembic_version").fetchone()
    except sqlite3.DatabaseError as error:
        raise DatabaseRefused(f"{path} is damaged: {error}", hint=_RESTORE_HINT) from error
    finally:
        connection.close()
        if not indexed:
            index.unlink(missing_ok=True)  # a connection that may only read leaves it behind
    return row[0] if row else None


# ── PostgreSQL ──────────────────────────────────────────────────────────────────────────────────────────────

_LOCK_MIGRATION = "SELECT pg_advisory_xact_lock(1346720324)"  # "PERD": two gateways starting at once take turns


def prepare_postgres(execute: Callable[[str], list[tuple[Any, ...]]], url: str, name: str) -> None:
    """Make, migrate or refuse the database, inside one transaction of the caller."""
    execute(_LOCK_MIGRATION)
    tables = {row[0] for row in execute("SELECT tablename FROM pg_tables WHERE schemaname = current_schema()")}
    if not tables:
        for statement in schema():
            execute(statement)
        return
    if not {"alembic_version", "sessions", "journal"} <= tables:
        raise DatabaseRefused(
            f"{name} holds tables of another program: {', '.join(sorted(tables)[:5])}",
            hint="Give Perdure an empty database of its own.",
        )
    rows = execute("SELECT version_num FROM alembic_version")
    if not check_revision(rows[0][0] if rows else None, name):
        upgrade(url)


# ── Alembic ─────────────────────────────────────────────────────────────────────────────────────────────────


def upgrade(url: str, scripts: Path | None = None) -> None:
    """Migrate the database at a URL to the newest version, in one transaction."""
    from alembic import command  # rarely needed, and slow to import
    from alembic.config import Config
    from sqlalchemy.exc import DBAPIError

    config = Config()
    config.set_main_option("script_location", str(scripts or Path(__file__).with_name("migrations")))
    try:
        with _engine(url).begin() as connection:
            if url.startswith("sqlite:"):
                connection.exec_driver_sql("BEGIN IMMEDIATE")
            config.attributes["connection"] = connection
            command.upgrade(config, "head")
    except DBAPIError as error:
        raise error.orig or error from None  # the driver's own, as everywhere else


def _engine(url: str) -> Engine:
    from sqlalchemy import create_engine
    from sqlalchemy.pool import NullPool

    if url.startswith("sqlite:"):
        # The driver would begin its transaction at the first change of a row, after the changes of tables.
        return create_engine(url, poolclass=NullPool, connect_args={"isolation_level": None})
    import psycopg

    from perdure.store.backends.postgres_connect import connect_options

    # SQLAlchemy does not understand every URL that the driver does: one with several hosts, for one.
    return create_engine(
        "postgresql+psycopg://", poolclass=NullPool, creator=lambda: psycopg.connect(url, **connect_options(url))
    )

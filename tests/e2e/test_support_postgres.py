"""The PostgreSQL and the proxy that other tests lean on do what they promise.

Drives no module: it tests `tests/support/postgres.py` and `tests/support/postgres_proxy.py`.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from support.postgres import PostgresServer, copy_binaries, installed_binaries
from support.postgres_proxy import CuttingProxy
from support.process_state import is_alive
from support.waiting import wait_for

SSL_REQUEST = struct.pack("!II", 8, 80877103)


@pytest.fixture
def notes(postgres_url: str) -> str:
    """The URL of a database with an empty table `note`."""
    with psycopg.connect(postgres_url) as connection:
        connection.execute("CREATE TABLE note (text text PRIMARY KEY)")
    return postgres_url


@pytest.fixture
def proxy(postgres_server: PostgresServer) -> Iterator[CuttingProxy]:
    with CuttingProxy("127.0.0.1", postgres_server.port) as proxy:
        yield proxy


def rows(url: str) -> list[str]:
    """What a new connection sees."""
    with psycopg.connect(url) as connection:
        return [text for (text,) in connection.execute("SELECT text FROM note ORDER BY text")]


def insert(connection: psycopg.Connection, text: str = "kept") -> None:
    connection.execute("INSERT INTO note VALUES (%s)", (text,))


def has_backend(url: str, pid: int) -> bool:
    with psycopg.connect(url) as connection:
        return connection.execute("SELECT 1 FROM pg_stat_activity WHERE pid = %s", (pid,)).fetchone() is not None


def commit_in_pipeline(connection: psycopg.Connection) -> None:
    with connection.pipeline():
        connection.execute("SELECT 1")
        connection.commit()


COMMITS: dict[str, Callable[[psycopg.Connection], object]] = {
    "commit()": psycopg.Connection.commit,
    "a statement": lambda connection: connection.execute("commit work"),
    "the last of several statements": lambda connection: connection.execute("SELECT 1; /* now */ COMMIT"),
    "a prepared statement": lambda connection: connection.execute("COMMIT", prepare=True),
    "a pipeline": commit_in_pipeline,
}
every_commit = pytest.mark.parametrize("commit", COMMITS.values(), ids=COMMITS.keys())


# ── the server ──────────────────────────────────────────────────────────────────────────────────────────────


def test_database_is_empty_when_it_is_created(postgres_server: PostgresServer, notes: str) -> None:
    other = postgres_server.create_database("another")
    with psycopg.connect(other) as connection:
        assert connection.execute("SELECT to_regclass('note')").fetchone() == (None,)
        assert connection.execute("SHOW server_encoding").fetchone() == ("UTF8",)
    postgres_server.drop_database("another")
    assert rows(notes) == []


@pytest.mark.parametrize("setting", ["fsync", "synchronous_commit", "full_page_writes"])
def test_commit_is_durable_when_it_returns(postgres_url: str, setting: str) -> None:
    with psycopg.connect(postgres_url) as connection:
        assert connection.execute(f"SHOW {setting}").fetchone() == ("on",)


def test_server_is_never_root_whoever_runs_the_tests(postgres_url: str) -> None:
    with psycopg.connect(postgres_url) as connection:
        owner = Path(f"/proc/{connection.info.backend_pid}").stat().st_uid
    assert owner != 0
    assert os.geteuid() in (0, owner)


def test_only_committed_rows_are_there_when_the_server_was_killed(
    postgres_server: PostgresServer, notes: str
) -> None:
    with psycopg.connect(notes) as connection:
        insert(connection, "committed")
        connection.commit()
        insert(connection, "uncommitted")
        postgres_server.kill()
        with pytest.raises(psycopg.OperationalError):
            connection.commit()
    postgres_server.start()
    assert rows(notes) == ["committed"]


def test_no_process_is_left_when_the_server_was_killed(postgres_server: PostgresServer, notes: str) -> None:
    with psycopg.connect(notes, autocommit=True) as connection:
        pids = [pid for (pid,) in connection.execute("SELECT pid FROM pg_stat_activity")]
        assert connection.info.backend_pid in pids
        assert len(pids) > 1
        assert all(is_alive(pid) for pid in pids)
        postgres_server.kill()
        assert not postgres_server.running
        assert not any(is_alive(pid) for pid in pids)


def test_fresh_database_is_given_when_the_server_was_left_dead(
    postgres_server: PostgresServer, request: pytest.FixtureRequest
) -> None:
    postgres_server.kill()
    url: str = request.getfixturevalue("postgres_url")
    with psycopg.connect(url) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)


def test_rows_are_there_when_the_server_was_stopped_and_started(
    postgres_server: PostgresServer, notes: str
) -> None:
    with psycopg.connect(notes) as connection:
        insert(connection)
    postgres_server.stop()
    assert not postgres_server.running
    postgres_server.start()
    assert rows(notes) == ["kept"]


def test_server_runs_from_a_folder_closed_to_its_user_and_leaves_nothing_behind(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    with PostgresServer(copy_binaries(installed_binaries(), closed / "site")) as server:
        psycopg.connect(server.url()).close()
        assert server.folder.exists()
        server.kill()
    assert not server.running
    assert not server.folder.exists()


def test_failed_start_says_why_when_the_port_is_taken() -> None:
    server = PostgresServer()
    with socket.socket() as occupant:
        occupant.bind(("127.0.0.1", server.port))
        with pytest.raises(AssertionError, match="Address already in use"), server:
            pass
    assert not server.folder.exists()


# ── the proxy ───────────────────────────────────────────────────────────────────────────────────────────────


@every_commit
def test_row_is_there_when_the_connection_is_cut_after_commit(
    proxy: CuttingProxy, notes: str, commit: Callable[[psycopg.Connection], object]
) -> None:
    with psycopg.connect(proxy.through(notes)) as connection:
        insert(connection)
        proxy.cut_after_commit()
        with pytest.raises(psycopg.OperationalError):
            commit(connection)
    assert proxy.sprung == 1
    assert rows(notes) == ["kept"]


@every_commit
def test_row_is_not_there_when_the_connection_is_cut_before_commit(
    proxy: CuttingProxy, notes: str, commit: Callable[[psycopg.Connection], object]
) -> None:
    with psycopg.connect(proxy.through(notes)) as connection:
        insert(connection)
        proxy.cut_before_commit()
        with pytest.raises(psycopg.OperationalError):
            commit(connection)
        pid = connection.info.backend_pid
    assert proxy.sprung == 1
    wait_for("the server has ended the session", lambda: not has_backend(notes, pid))
    assert rows(notes) == []


@every_commit
def test_row_comes_late_when_the_commit_is_held(
    proxy: CuttingProxy, notes: str, commit: Callable[[psycopg.Connection], object]
) -> None:
    with psycopg.connect(proxy.through(notes)) as connection:
        insert(connection)
        proxy.hold_commit()
        with pytest.raises(psycopg.OperationalError):
            commit(connection)
    assert proxy.sprung == 1
    assert rows(notes) == []
    assert proxy.release()
    assert rows(notes) == ["kept"]


def hold(proxy: CuttingProxy, url: str) -> int:
    """Leave an unfinished twin at the server and return the process that carries it."""
    with psycopg.connect(proxy.through(url)) as connection:
        pid = connection.info.backend_pid
        insert(connection)
        proxy.hold_commit()
        with pytest.raises(psycopg.OperationalError):
            connection.commit()
    return pid


def test_unfinished_twin_blocks_the_same_row_until_it_is_released(proxy: CuttingProxy, notes: str) -> None:
    pid = hold(proxy, notes)
    with psycopg.connect(proxy.through(notes)) as again:
        again.execute("SET lock_timeout = '50ms'")
        again.commit()
        with pytest.raises(psycopg.errors.LockNotAvailable):
            insert(again)
        again.rollback()
        assert has_backend(notes, pid)
        assert proxy.release()
        with pytest.raises(psycopg.errors.UniqueViolation):
            insert(again)


def test_unfinished_twin_is_rolled_back_when_it_is_cut(proxy: CuttingProxy, notes: str) -> None:
    pid = hold(proxy, notes)
    proxy.cut()
    wait_for("the server has ended the session", lambda: not has_backend(notes, pid))
    assert not proxy.release()
    assert rows(notes) == []


def test_unfinished_twin_is_rolled_back_when_the_server_dies(
    proxy: CuttingProxy, postgres_server: PostgresServer, notes: str
) -> None:
    hold(proxy, notes)
    postgres_server.kill()
    assert not proxy.release()
    postgres_server.start()
    assert rows(notes) == []


def test_release_objects_when_nothing_is_held(proxy: CuttingProxy) -> None:
    with pytest.raises(AssertionError, match="No COMMIT is held"):
        proxy.release()


def test_trap_springs_once_when_several_clients_commit(proxy: CuttingProxy, notes: str) -> None:
    url = proxy.through(notes)
    with psycopg.connect(url) as unlucky, psycopg.connect(url) as lucky:
        insert(unlucky, "unlucky")
        insert(lucky, "lucky")
        proxy.cut_before_commit()
        with pytest.raises(psycopg.OperationalError):
            unlucky.commit()
        lucky.commit()
    with psycopg.connect(url) as connection:
        insert(connection, "later")
    assert proxy.sprung == 1
    assert rows(notes) == ["later", "lucky"]


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO note VALUES ('it''s one; COMMIT')",
        "INSERT INTO note VALUES ($q$; COMMIT$q$)",
        'SELECT 1 AS "; COMMIT" /* ; COMMIT */ -- ; COMMIT',
        "CREATE TEMPORARY TABLE commit (at int) ON COMMIT DROP",
        "ROLLBACK",
    ],
)
@pytest.mark.parametrize("prepare", [False, True], ids=["simple", "extended"])
def test_trap_waits_when_a_statement_only_speaks_of_commit(
    proxy: CuttingProxy, notes: str, statement: str, prepare: bool
) -> None:
    with psycopg.connect(proxy.through(notes)) as connection:
        proxy.cut_after_commit()
        connection.execute(statement.encode(), prepare=prepare)
        assert proxy.sprung == 0
        connection.execute("SELECT 1")
        with pytest.raises(psycopg.OperationalError):
            connection.commit()
    assert proxy.sprung == 1


def test_large_values_pass_unharmed(proxy: CuttingProxy, notes: str) -> None:
    large = "ä" * 3_000_000
    with psycopg.connect(proxy.through(notes)) as connection:
        assert connection.execute("SELECT %s", (large,)).fetchone() == (large,)


def test_all_connections_break_when_the_proxy_cuts(proxy: CuttingProxy, notes: str) -> None:
    url = proxy.through(notes)
    with psycopg.connect(url) as first, psycopg.connect(url) as second:
        proxy.cut()
        for connection in (first, second):
            with pytest.raises(psycopg.OperationalError):
                connection.execute("SELECT 1")
    assert rows(url) == []


def test_cut_is_a_reset_and_not_a_farewell(proxy: CuttingProxy, notes: str) -> None:
    with socket.create_connection(("127.0.0.1", proxy.port)) as raw:
        raw.sendall(SSL_REQUEST)
        assert raw.recv(1) == b"N"
        proxy.cut()
        with pytest.raises(ConnectionResetError):
            raw.recv(1)


def test_only_new_connections_fail_while_the_proxy_refuses(proxy: CuttingProxy, notes: str) -> None:
    url = proxy.through(notes)
    with psycopg.connect(url) as before:
        proxy.refuse = True
        with pytest.raises(psycopg.OperationalError):
            psycopg.connect(url)
        insert(before)
    proxy.refuse = False
    assert rows(url) == ["kept"]


def test_proxy_serves_again_when_the_server_is_back(
    proxy: CuttingProxy, postgres_server: PostgresServer, notes: str
) -> None:
    url = proxy.through(notes)
    postgres_server.kill()
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(url)
    postgres_server.start()
    assert rows(url) == []

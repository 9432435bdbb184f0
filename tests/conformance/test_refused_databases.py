"""B6: a database that is truncated, foreign or newer is refused with a hint, and is not written to.

Drives `store/migrate` and `store/backends`.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import sqlite3
import stat
from pathlib import Path

import psycopg
import pytest

from perdure.errors import DatabaseRefused, LockHeld, StoreUnreachable
from perdure.store import migrate
from perdure.store.api import open_database
from support.postgres import PostgresServer
from support.store_gateway import DatabaseLocation, StoreGateway, key_of, python_child
from support.waiting import wait_for

pytestmark = pytest.mark.anyio


@pytest.fixture
def postgres_place(tmp_path: Path, postgres_url: str) -> DatabaseLocation:
    """A PostgreSQL database of the test's own, since its tables are at stake."""
    return DatabaseLocation(postgres_url, tmp_path)


@pytest.fixture
async def filled(sqlite_place: DatabaseLocation) -> Path:
    """A database of ours with something in it, closed in good order."""
    gateway = await StoreGateway(sqlite_place).open()
    for number in range(40):
        await gateway.finishes_turn(await gateway.begins_turn(f"m{number} {'x' * 500}"), "reply")
    await gateway.stop()
    return sqlite_place.folder / "perdure.db"


def contents(folder: Path) -> dict[str, str]:
    """Every file with its contents, the lock aside, which is taken before anything is looked at.

    Of the index that SQLite keeps beside its log only the name counts: it is shared memory, not a record.
    """
    files = [path for path in folder.rglob("*") if path.is_file() and path.name not in ("lock", "perdure.db.lock")]
    return {str(path.relative_to(folder)): "" if path.match("*-shm") else digest(path) for path in files}


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def whole(path: Path) -> bytes:
    return path.read_bytes()


def put(path: Path, content: bytes) -> None:
    path.write_bytes(content)


def crash_image(database: Path, *changes: str) -> dict[str, bytes]:
    """Change the database, and see its files as they are before anything was cleaned up."""
    connection = sqlite3.connect(database, isolation_level=None)
    for change in changes:
        connection.execute(change)
    image = {path.name: path.read_bytes() for path in database.parent.glob("perdure.db*")}
    connection.close()
    return image


async def refused(place: DatabaseLocation) -> DatabaseRefused:
    """Open in vain: the error, once it is certain that nothing was changed and that the lock is free again."""
    before = contents(place.folder)
    errors = []
    for _ in range(2):
        with pytest.raises(DatabaseRefused) as caught:
            await open_database(place.url, home=place.folder)
        errors.append(caught.value)
    assert contents(place.folder) == before
    assert errors[0].hint
    assert errors[0].exit_code == 78
    assert str(errors[0]) == str(errors[1])
    return errors[0]


# ── SQLite ──────────────────────────────────────────────────────────────────────────────────────────────────


async def test_b6_truncated_file_is_refused_at_every_length(filled: Path, sqlite_place: DatabaseLocation) -> None:
    content = whole(filled)
    pages = range(4096, len(content), 4096)
    for length in sorted(
        {0, 1, 15, 16, 17, 99, 100, 101, 4095, *pages, *(page + 1 for page in pages), len(content) - 1}
    ):
        put(filled, content[:length])
        error = await refused(sqlite_place)
        assert f"{filled} is truncated" in error.message
        assert f"{length} " in error.message
        assert "backup" in error.hint


async def test_b6_truncated_file_is_refused_when_a_crash_left_a_log_beside_it(
    filled: Path, sqlite_place: DatabaseLocation
) -> None:
    image = crash_image(filled, "UPDATE sessions SET updated_at = updated_at + 1")
    content = image["perdure.db"]
    put(filled, content[: len(content) // 2 // 4096 * 4096])
    put(filled.with_name("perdure.db-wal"), image["perdure.db-wal"])
    error = await refused(sqlite_place)
    assert f"{filled} is" in error.message


async def test_b6_file_is_opened_when_a_crash_left_a_log_beside_it(
    filled: Path, sqlite_place: DatabaseLocation
) -> None:
    """The other side of the rule: what SQLite can complete from its log is not refused."""
    image = crash_image(filled, "UPDATE sessions SET updated_at = 77")
    for name in ("perdure.db", "perdure.db-wal"):
        put(filled.with_name(name), image[name])
    gateway = await StoreGateway(sqlite_place).open()
    assert await gateway.query("SELECT updated_at FROM sessions") == [(77,)]
    await gateway.crash()


async def test_b6_damaged_file_is_refused(filled: Path, sqlite_place: DatabaseLocation) -> None:
    content = whole(filled)
    put(filled, content[:100] + bytes(len(content) - 100))
    error = await refused(sqlite_place)
    assert f"{filled} is damaged" in error.message


async def test_b6_other_programs_sqlite_file_is_refused(sqlite_place: DatabaseLocation) -> None:
    path = sqlite_place.folder / "perdure.db"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE sessions (id TEXT)")
    connection.execute("INSERT INTO sessions VALUES ('precious')")
    connection.commit()
    connection.close()
    error = await refused(sqlite_place)
    assert f"{path} is a SQLite database of another program" in error.message
    assert "store.url" in error.hint


@pytest.mark.parametrize(
    "content",
    [b"Dear diary,\n" * 50, b"{}", b"\x00" * 8192, b"SQLite format 4\x00" + bytes(200)],
    ids=["a diary", "a short JSON", "nothing but zeros", "nearly SQLite"],
)
async def test_b6_file_that_is_no_database_is_refused(sqlite_place: DatabaseLocation, content: bytes) -> None:
    path = sqlite_place.folder / "perdure.db"
    path.write_bytes(content)
    error = await refused(sqlite_place)
    assert f"{path} is not a SQLite database" in error.message


async def test_b6_newer_file_is_refused(filled: Path, sqlite_place: DatabaseLocation) -> None:
    connection = sqlite3.connect(filled)
    connection.execute("UPDATE alembic_version SET version_num = '9999'")
    connection.commit()
    connection.close()
    error = await refused(sqlite_place)
    assert "'9999'" in error.message
    assert migrate.HEAD in error.message
    assert "newer Perdure" in error.hint


@pytest.mark.parametrize("with_index", [True, False], ids=["with its index", "without its index"])
async def test_b6_newer_file_is_refused_when_a_crash_left_a_log_beside_it(
    filled: Path, sqlite_place: DatabaseLocation, with_index: bool
) -> None:
    image = crash_image(filled, "UPDATE alembic_version SET version_num = '9999'")
    for name in ("perdure.db", "perdure.db-wal", *(["perdure.db-shm"] if with_index else [])):
        put(filled.with_name(name), image[name])
    error = await refused(sqlite_place)
    assert "'9999'" in error.message


async def test_b6_file_without_a_version_is_refused(filled: Path, sqlite_place: DatabaseLocation) -> None:
    connection = sqlite3.connect(filled, isolation_level=None)
    connection.execute("DELETE FROM alembic_version")
    connection.close()
    await refused(sqlite_place)


async def test_half_made_leftover_is_harmless(sqlite_place: DatabaseLocation) -> None:
    """A crash while the database was being made leaves a draft, and nothing at the real place."""
    draft = sqlite_place.folder / "perdure.db.new"
    draft.write_bytes(b"SQLite format 3\x00 half of a")
    draft.with_name("perdure.db.new-journal").write_bytes(b"whatever was in there")
    gateway = await StoreGateway(sqlite_place).open()
    await gateway.receives("hello")
    await gateway.stop()
    assert sorted(contents(sqlite_place.folder)) == ["perdure.db"]


async def test_database_file_is_for_its_owner_alone(sqlite_place: DatabaseLocation) -> None:
    before = os.umask(0)
    try:
        gateway = await StoreGateway(sqlite_place).open()
        await gateway.receives("hello")
        files = [path for path in sqlite_place.folder.iterdir() if path.is_file()]
        assert {path.name for path in files} == {"lock", "perdure.db", "perdure.db-wal", "perdure.db-shm"}
        assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}
        await gateway.stop()
    finally:
        os.umask(before)


async def test_nothing_but_the_database_is_left_after_a_clean_stop(sqlite_place: DatabaseLocation) -> None:
    gateway = await StoreGateway(sqlite_place).open()
    await gateway.receives("hello")
    await gateway.stop()
    assert list(contents(sqlite_place.folder)) == ["perdure.db"]


# ── PostgreSQL ──────────────────────────────────────────────────────────────────────────────────────────────


def tables(url: str) -> dict[str, list[tuple[object, ...]]]:
    with psycopg.connect(url) as connection:
        names = connection.execute(
            "SELECT tablename FROM pg_tables WHERE schemaname = 'public' ORDER BY 1"
        ).fetchall()
        return {
            name: connection.execute(f'SELECT * FROM "{name}" ORDER BY 1'.encode()).fetchall() for (name,) in names
        }


async def refused_postgres(place: DatabaseLocation) -> DatabaseRefused:
    before = tables(place.url)
    error = await refused(place)
    assert tables(place.url) == before
    return error


@pytest.mark.parametrize(
    "names", [["orders"], ["alembic_version", "orders"], ["sessions", "journal"]], ids=" and ".join
)
async def test_b6_other_programs_tables_are_refused(postgres_place: DatabaseLocation, names: list[str]) -> None:
    with psycopg.connect(postgres_place.url) as connection:
        for name in names:
            connection.execute(f"CREATE TABLE {name} (version_num TEXT)".encode())
            connection.execute(f"INSERT INTO {name} VALUES ('precious')".encode())
    error = await refused_postgres(postgres_place)
    assert "tables of another program" in error.message
    assert names[-1] in error.message
    assert "empty database" in error.hint


async def test_b6_newer_postgres_database_is_refused(postgres_place: DatabaseLocation) -> None:
    gateway = await StoreGateway(postgres_place).open()
    await gateway.receives("hello")
    await gateway.execute_sql("UPDATE alembic_version SET version_num = '9999'")
    await gateway.stop()
    error = await refused_postgres(postgres_place)
    assert "'9999'" in error.message
    assert "newer Perdure" in error.hint


async def test_b164_server_that_cannot_be_reached_is_away_and_not_refused(tmp_path: Path) -> None:
    for _ in range(2):
        with pytest.raises(StoreUnreachable, match="cannot be reached") as caught:
            await open_database(f"postgresql://nobody:s3cr3t-word@/none?host={tmp_path}", home=tmp_path)
        assert caught.value.hint
        assert "s3cr3t-word" not in str(caught.value)


async def test_b164_database_and_role_that_the_server_does_not_have_are_refused(
    tmp_path: Path, postgres_server: PostgresServer
) -> None:
    for url in (postgres_server.url("nowhere"), postgres_server.url().replace("test@", "nobody@")):
        error = await refused(DatabaseLocation(url, tmp_path))
        assert "does not exist" in error.message


# ── the lock ────────────────────────────────────────────────────────────────────────────────────────────────


async def test_second_gateway_of_the_same_home_is_refused(gateway: StoreGateway) -> None:
    before = await gateway.all_rows()
    with pytest.raises(LockHeld) as caught:
        await open_database(gateway.place.url, home=gateway.place.home(gateway.instance))
    assert caught.value.exit_code == 78
    assert f"process {os.getpid()}" in caught.value.message
    assert "PERDURE_HOME" in caught.value.hint
    assert await gateway.all_rows() == before
    await gateway.reopen()


async def test_second_gateway_of_the_same_file_is_refused_when_its_home_is_another(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/elsewhere/perdure.db"
    (tmp_path / "elsewhere").mkdir()
    first = await open_database(url, home=tmp_path / "one")
    with pytest.raises(LockHeld, match=r"perdure\.db\.lock"):
        await open_database(url, home=tmp_path / "two")
    await first.close()
    for home in ("two", "elsewhere"):
        await (await open_database(url, home=tmp_path / home)).close()


async def test_home_is_free_again_when_its_database_was_refused(sqlite_place: DatabaseLocation) -> None:
    path = sqlite_place.folder / "perdure.db"
    path.write_bytes(b"no database")
    await refused(sqlite_place)
    path.unlink()
    await (await open_database(sqlite_place.url, home=sqlite_place.folder)).close()


HOLDER = """
import asyncio, sys
from pathlib import Path
from support.store_gateway import DatabaseLocation, StoreGateway

async def hold() -> None:
    gateway = await StoreGateway(DatabaseLocation(sys.argv[1], Path(sys.argv[2]))).open()
    await gateway.receives("before the kill")
    print("held", flush=True)
    await asyncio.Event().wait()

asyncio.run(hold())
"""


def is_zombie(pid: int) -> bool:
    """Whether a process is dead with all its threads, and nobody has asked yet how it ended."""
    process = Path(f"/proc/{pid}")
    state = (process / "stat").read_text().rpartition(")")[2].split()[0]
    return state == "Z" and len(list((process / "task").iterdir())) == 1


async def test_lock_of_a_killed_process_is_free_at_once_even_while_it_is_a_zombie(place: DatabaseLocation) -> None:
    with python_child(HOLDER, place.url, str(place.folder)) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"held\n"
        with pytest.raises(LockHeld, match=f"process {child.pid}"):
            await open_database(place.url, home=place.home("one"))
        child.send_signal(signal.SIGKILL)
        wait_for("the child is a zombie", lambda: is_zombie(child.pid))
        gateway = await StoreGateway(place).open()
        assert is_zombie(child.pid), "the child was buried too early to prove anything"
    assert await gateway.store.inbox.count_waiting(key_of()) == 1
    await gateway.stop()


async def test_database_is_whole_when_its_files_are_copied_after_a_stop(filled: Path, tmp_path: Path) -> None:
    home = tmp_path / "copy"
    home.mkdir()
    shutil.copy(filled, home / "perdure.db")
    gateway = await StoreGateway(DatabaseLocation(f"sqlite:///{home}/perdure.db", home)).open()
    assert await gateway.query("SELECT count(*) FROM turns WHERE state = 'done'") == [(40,)]
    await gateway.stop()

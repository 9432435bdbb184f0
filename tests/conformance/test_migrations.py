"""Migrations: forward only, all or nothing, and loaded only when one is due.

Drives `store/migrate`.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from perdure.errors import DatabaseRefused
from perdure.store import migrate
from support.ports import free_port
from support.postgres import PostgresServer
from support.store_gateway import DatabaseLocation, StoreGateway, key_of

pytestmark = pytest.mark.anyio

FIRST = Path(__file__).with_name("schema_0001.sql")
SCRIPTS = Path(migrate.__file__).with_name("migrations")

NEWER = f'''
"""Adds a mood to sessions."""

import sqlalchemy as sa
from alembic import op

revision = "9999"
down_revision = "{migrate.HEAD}"


def upgrade() -> None:
    """Every session so far was calm."""
    op.add_column("sessions", sa.Column("mood", sa.Text, server_default="calm", nullable=False))
    op.create_table("moods", sa.Column("id", sa.Text, primary_key=True))
    op.execute("INSERT INTO moods (id) VALUES ('calm')")
'''


@pytest.fixture
def postgres_place(tmp_path: Path, postgres_url: str) -> DatabaseLocation:
    """A PostgreSQL database of the test's own, since its tables are at stake."""
    return DatabaseLocation(postgres_url, tmp_path)


@pytest.fixture
def scripts(tmp_path: Path) -> Path:
    """Our migrations and one more, as a newer version has them."""
    folder = tmp_path / "migrations"
    shutil.copytree(SCRIPTS, folder, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "versions" / "9999_mood.py").write_text(NEWER)
    return folder


async def fill(place: DatabaseLocation) -> None:
    """Make the database at this version, with one message in it."""
    gateway = await StoreGateway(place).open()
    await gateway.receives("hello")
    await gateway.stop()


def test_revisions_are_the_files_in_order() -> None:
    names = sorted(path.name for path in (SCRIPTS / "versions").glob("*.py"))
    assert [name.split("_")[0] for name in names] == list(migrate.REVISIONS)
    assert migrate.REVISIONS[-1] == migrate.HEAD


def test_each_revision_follows_the_one_before() -> None:
    texts = [path.read_text() for path in sorted((SCRIPTS / "versions").glob("*.py"))]
    before = [None, *migrate.REVISIONS[:-1]]
    for text, revision, previous in zip(texts, migrate.REVISIONS, before, strict=True):
        assert re.search(rf'^revision = "{revision}"$', text, re.MULTILINE)
        assert f"down_revision = {previous!r}".replace("'", '"') in text


async def test_new_database_is_made_at_the_newest_version(gateway: StoreGateway) -> None:
    assert await gateway.query("SELECT version_num FROM alembic_version") == [(migrate.HEAD,)]


async def test_upgrade_changes_nothing_when_the_database_is_new_enough(place: DatabaseLocation) -> None:
    await fill(place)
    migrate.upgrade(place.url)
    gateway = await StoreGateway(place).open()
    assert await gateway.query("SELECT version_num FROM alembic_version") == [(migrate.HEAD,)]
    await gateway.crash()


async def test_upgrade_brings_an_older_database_up_to_date_and_keeps_its_rows(
    place: DatabaseLocation, scripts: Path
) -> None:
    await fill(place)
    migrate.upgrade(place.url, scripts)
    query = "SELECT s.key, s.mood, m.id, v.version_num FROM sessions s, moods m, alembic_version v"
    assert raw(place, query) == [(key_of(), "calm", "calm", "9999")]


async def test_b164_upgrade_and_start_find_the_server_when_the_url_names_several_hosts(
    postgres_place: DatabaseLocation, postgres_server: PostgresServer
) -> None:
    """Nobody listens at the first one."""
    hosts = f"127.0.0.1:{free_port()},127.0.0.1:{postgres_server.port}"
    url = postgres_place.url.replace(f"127.0.0.1:{postgres_server.port}", hosts)
    empty(postgres_place)
    make_first_version(postgres_place)
    for options in ("", "?target_session_attrs=read-write"):
        gateway = await StoreGateway(DatabaseLocation(url + options, postgres_place.folder)).open()
        assert await gateway.query("SELECT version_num FROM alembic_version") == [(migrate.HEAD,)]
        await gateway.stop()


async def test_b6_older_version_refuses_the_database_after_an_upgrade(
    place: DatabaseLocation, scripts: Path
) -> None:
    await fill(place)
    migrate.upgrade(place.url, scripts)
    with pytest.raises(DatabaseRefused, match="'9999'"):
        await StoreGateway(place).open()


async def test_upgrade_that_fails_half_way_leaves_the_database_as_it_was(
    place: DatabaseLocation, scripts: Path
) -> None:
    await fill(place)
    faulty = NEWER + "    raise RuntimeError('half way')\n"
    (scripts / "versions" / "9999_mood.py").write_text(faulty)
    with pytest.raises(RuntimeError, match="half way"):
        migrate.upgrade(place.url, scripts)
    gateway = await StoreGateway(place).open()
    assert await gateway.store.inbox.count_waiting(key_of()) == 1
    with pytest.raises(Exception, match=r"(?i)mood"):
        await gateway.query("SELECT mood FROM sessions")
    with pytest.raises(Exception, match=r"(?i)moods"):
        await gateway.query("SELECT * FROM moods")
    await gateway.crash()


async def test_b65_turn_begun_in_a_database_of_the_first_version_is_found_and_read(
    place: DatabaseLocation,
) -> None:
    make_first_version(place)
    gateway = await StoreGateway(place).open()
    assert await gateway.query("SELECT version_num FROM alembic_version") == [(migrate.HEAD,)]
    (lost,) = await gateway.lost_turns()
    view = await gateway.view(lost)
    assert [call.request.tool for call in view.open_calls] == ["once"]
    assert view.causes[0].text == "hello"
    assert await gateway.store.previews.begin(lost.id, lost.key, lost.epoch, 5) is not None
    await gateway.stop()


async def test_migrations_lead_to_the_same_tables_as_the_schema(place: DatabaseLocation) -> None:
    await fill(place)
    made_new = shape(place)
    empty(place)
    make_first_version(place)
    await fill(place)
    assert shape(place) == made_new


def empty(place: DatabaseLocation) -> None:
    """Take everything away."""
    if place.shared:
        run(place, ["DROP SCHEMA public CASCADE", "CREATE SCHEMA public"])
    else:
        Path(place.url.removeprefix("sqlite:///")).unlink()


def shape(place: DatabaseLocation) -> set[tuple[object, ...]]:
    """Every column of every table, and every index."""
    if place.shared:
        columns = (
            "SELECT table_name, column_name, data_type, is_nullable FROM information_schema.columns "
            "WHERE table_schema = current_schema()"
        )
        return {*raw(place, columns), *raw(place, "SELECT indexdef FROM pg_indexes WHERE schemaname = 'public'")}
    columns = (
        'SELECT m.name, c.name, c.type, c."notnull" FROM sqlite_master m, pragma_table_info(m.name) c '
        "WHERE m.type = 'table'"
    )
    return {*raw(place, columns), *raw(place, "SELECT name, sql FROM sqlite_master WHERE type = 'index'")}


TURN_OF_THE_FIRST_VERSION = [
    (
        "INSERT INTO runs (id, instance, version, started_at, heartbeat_at, ended_at, ending) "
        "VALUES ('r_1', 'there:/home', '0.1', 1, 1, 1, 'lost')"
    ),
    (
        "INSERT INTO sessions (id, key, state, created_at, updated_at) "
        "VALUES ('s_1', 'agent:main:web:dm:1', 'open', 1, 1)"
    ),
    "INSERT INTO leases (key, run, epoch, generation, position) VALUES ('agent:main:web:dm:1', 'r_1', 1, 1, 1)",
    (
        "INSERT INTO turns (id, session, key, generation, state, epoch, attempt, first_seq, began_at, updated_at) "
        "VALUES ('t_1', 's_1', 'agent:main:web:dm:1', 1, 'running', 1, 1, 1, 1, 1)"
    ),
    *(
        f"INSERT INTO journal (session, seq, turn, kind, version, body, at) "
        f"VALUES ('s_1', {seq}, 't_1', '{kind}', 1, '{body}', 1)"
        for seq, (kind, body) in enumerate(
            [
                ("began", '{"causes":[{"inbox":"in_1","text":"hello","sender":{"id":"ann"},"message":"1"}]}'),
                ("claimed", '{"run":"r_1","epoch":1,"attempt":1}'),
                ("model_asked", '{"step":1,"model":"offline"}'),
                ("model_answered", '{"step":1,"text":"","calls":[{"id":"c1.1","tool":"once","arguments":{}}]}'),
                ("tool_started", '{"call":"c1.1","tool":"once","effect":"once","key":"t_1:c1.1"}'),
            ],
            1,
        )
    ),
]


def make_first_version(place: DatabaseLocation) -> None:
    """A database as the first version made it, with a turn in the middle of a call."""
    version = "INSERT INTO alembic_version (version_num) VALUES ('0001')"
    lines = [line.split("--", 1)[0] for line in FIRST.read_text().splitlines()]
    table = migrate._VERSION_TABLE
    statements = [*"\n".join(lines).split(";"), table, version, *TURN_OF_THE_FIRST_VERSION]
    run(place, [statement for statement in statements if statement.strip()])


def run(place: DatabaseLocation, statements: list[str]) -> None:
    if place.shared:
        import psycopg

        with psycopg.connect(place.url) as connection:
            for statement in statements:
                connection.execute(statement.encode())
        return
    import sqlite3

    file = sqlite3.connect(place.url.removeprefix("sqlite:///"))
    for statement in [f"PRAGMA application_id = {migrate.APPLICATION_ID}", *statements]:
        file.execute(statement)
    file.commit()
    file.close()


def raw(place: DatabaseLocation, query: str) -> list[tuple[object, ...]]:
    """Read a database that this version would refuse to open."""
    if place.shared:
        import psycopg

        with psycopg.connect(place.url) as connection:
            return connection.execute(query.encode()).fetchall()
    import sqlite3

    file = sqlite3.connect(place.url.removeprefix("sqlite:///"))
    try:
        return file.execute(query).fetchall()
    finally:
        file.close()


OPENING = """
import asyncio, sys
from pathlib import Path
from perdure.store.api import Store, open_database
from perdure.store.runs import Instance

async def main() -> None:
    database = await open_database(sys.argv[1], home=Path(sys.argv[2]))
    store = Store(database)
    await store.runs.begin(Instance("one"), "0")
    await store.close()

asyncio.run(main())
loaded = {name.split(".")[0] for name in sys.modules}
print(sorted(loaded & {"alembic", "sqlalchemy", "mako", "pydantic", "httpx"}))
"""


def test_opening_imports_no_migration_tool_when_none_is_due(place: DatabaseLocation) -> None:
    """Neither when the database is made nor when it is there already."""
    for _ in ("made", "there already"):
        arguments = [sys.executable, "-c", OPENING, place.url, str(place.home("one"))]
        child = subprocess.run(arguments, capture_output=True, text=True, check=False, timeout=60)
        assert child.stdout == "[]\n", child.stderr

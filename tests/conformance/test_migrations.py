"""Migrations: forward only, all or nothing, and loaded only when one is due."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from perdure.errors import DatabaseRefused
from perdure.store import migrate
from support.stores import Gateway, Place, key_of

pytestmark = pytest.mark.anyio

SCRIPTS = Path(migrate.__file__).with_name("migrations")

SECOND = '''
"""Adds a mood to sessions."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Every session so far was calm."""
    op.add_column("sessions", sa.Column("mood", sa.Text, server_default="calm", nullable=False))
    op.create_table("moods", sa.Column("id", sa.Text, primary_key=True))
    op.execute("INSERT INTO moods (id) VALUES ('calm')")
'''


@pytest.fixture
def postgres_place(tmp_path: Path, postgres_url: str) -> Place:
    """A PostgreSQL database of the test's own, since its tables are at stake."""
    return Place(postgres_url, tmp_path)


@pytest.fixture
def scripts(tmp_path: Path) -> Path:
    """Our migrations and one more, as a newer version has them."""
    folder = tmp_path / "migrations"
    shutil.copytree(SCRIPTS, folder, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "versions" / "0002_mood.py").write_text(SECOND)
    return folder


async def fill(place: Place) -> None:
    """Make the database at this version, with one message in it."""
    gateway = await Gateway(place).open()
    await gateway.hears("hello")
    await gateway.stop()


def sqlalchemy_url(place: Place) -> str:
    return place.url.replace("postgresql://", "postgresql+psycopg://", 1)


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


async def test_new_database_is_made_at_the_newest_version(gateway: Gateway) -> None:
    assert await gateway.rows("SELECT version_num FROM alembic_version") == [(migrate.HEAD,)]


async def test_upgrade_changes_nothing_when_the_database_is_new_enough(place: Place) -> None:
    await fill(place)
    migrate.upgrade(sqlalchemy_url(place))
    gateway = await Gateway(place).open()
    assert await gateway.rows("SELECT version_num FROM alembic_version") == [(migrate.HEAD,)]
    await gateway.crash()


async def test_upgrade_brings_an_older_database_up_to_date_and_keeps_its_rows(place: Place, scripts: Path) -> None:
    await fill(place)
    migrate.upgrade(sqlalchemy_url(place), scripts)
    query = "SELECT s.key, s.mood, m.id, v.version_num FROM sessions s, moods m, alembic_version v"
    assert raw(place, query) == [(key_of(), "calm", "calm", "0002")]


async def test_b6_older_version_refuses_the_database_after_an_upgrade(place: Place, scripts: Path) -> None:
    await fill(place)
    migrate.upgrade(sqlalchemy_url(place), scripts)
    with pytest.raises(DatabaseRefused, match="'0002'"):
        await Gateway(place).open()


async def test_upgrade_that_fails_half_way_leaves_the_database_as_it_was(place: Place, scripts: Path) -> None:
    await fill(place)
    faulty = SECOND + "    raise RuntimeError('half way')\n"
    (scripts / "versions" / "0002_mood.py").write_text(faulty)
    with pytest.raises(RuntimeError, match="half way"):
        migrate.upgrade(sqlalchemy_url(place), scripts)
    gateway = await Gateway(place).open()
    assert await gateway.store.inbox.waiting(key_of()) == 1
    with pytest.raises(Exception, match=r"(?i)mood"):
        await gateway.rows("SELECT mood FROM sessions")
    with pytest.raises(Exception, match=r"(?i)moods"):
        await gateway.rows("SELECT * FROM moods")
    await gateway.crash()


def raw(place: Place, query: str) -> list[tuple[object, ...]]:
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

async def main() -> None:
    database = await open_database(sys.argv[1], home=Path(sys.argv[2]))
    store = Store(database)
    await store.runs.begin("one", "0")
    await store.close()

asyncio.run(main())
loaded = {name.split(".")[0] for name in sys.modules}
print(sorted(loaded & {"alembic", "sqlalchemy", "mako", "pydantic", "httpx"}))
"""


def test_opening_imports_no_migration_tool_when_none_is_due(place: Place) -> None:
    """Neither when the database is made nor when it is there already."""
    for _ in ("made", "there already"):
        arguments = [sys.executable, "-c", OPENING, place.url, str(place.home("one"))]
        child = subprocess.run(arguments, capture_output=True, text=True, check=False, timeout=60)
        assert child.stdout == "[]\n", child.stderr

"""The manifest of a version's home: its rows by state, and what people must see after an upgrade."""

from __future__ import annotations

import sqlite3
import tarfile
from pathlib import Path

import msgspec
from msgspec import Struct, field

from upgrade.chat_scripts import ChatScript

FOLDER = Path(__file__).parent / "versions"


class Manifest(Struct, frozen=True):
    version: str
    made_at: int
    found: dict[str, dict[str, int]]  # how many rows of each state there are, by table
    scripts: tuple[ChatScript, ...] = field(name="scenes")


def versions() -> list[str]:
    return sorted(path.name for path in FOLDER.iterdir())


def read(version: str) -> Manifest:
    return msgspec.json.decode((FOLDER / version / "manifest.json").read_bytes(), type=Manifest)


def unpack(version: str, home: Path) -> Path:
    """Unpack the home of a version; return the path of its database."""
    home.mkdir(mode=0o700, parents=True)
    with tarfile.open(FOLDER / version / "home.tar.xz") as archive:
        archive.extraction_filter = getattr(tarfile, "data_filter", None)  # which Python 3.11.2 has not
        archive.extractall(home)  # noqa: S202 reason: we have made it ourselves
    return home / "perdure.db"


def counted(database: sqlite3.Connection, table: str) -> dict[str, int]:
    return dict(database.execute(f"SELECT state, count(*) FROM {table} GROUP BY state ORDER BY state"))

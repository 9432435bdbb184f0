"""Hermes Agent, in an environment of its own: `python -m bench.recovery_hermes fill|measure SESSIONS CUT_OFF`.

Its gateway keeps one entry per session in a table and a JSON file. A start loads every entry, marks those that
were active shortly before, and writes all of them anew; so does each single mark when it stops.
"""

from __future__ import annotations

import json
import os
import sqlite3
import sys
import time
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

HOME = Path(os.environ.get("HERMES_HOME", "."))


def _open() -> Any:
    from gateway.config import GatewayConfig  # type: ignore[import-not-found, unused-ignore]
    from gateway.session import SessionStore  # type: ignore[import-not-found, unused-ignore]

    return SessionStore(HOME / "sessions", GatewayConfig())


def fill(sessions: int, cut_off: int) -> None:
    """Make one session through its own door, and copies of it; the first few were active just now."""
    from gateway.config import Platform
    from gateway.session import SessionSource

    store = _open()
    source = SessionSource(platform=Platform.TELEGRAM, chat_id="0", user_id="0", chat_name="Ada")
    first = store.get_or_create_session(source)
    copies = [_copy(first, number, number < cut_off) for number in range(sessions)]
    store._entries = {entry.session_key: entry for entry in copies}
    store._save_entries()
    with closing(sqlite3.connect(HOME / "state.db", isolation_level=None)) as connection:
        _multiply(connection, first.session_id, [(entry.session_id, entry.session_key) for entry in copies])


def _copy(first: Any, number: int, active: bool) -> Any:
    at = first.updated_at if active else first.updated_at - timedelta(days=1)
    source = replace(first.origin, chat_id=str(number), user_id=str(number))
    key = f"{first.session_key.removesuffix(':0')}:{number}"
    name = f"{first.session_id[:-8]}{number:08d}"
    return replace(first, session_key=key, session_id=name, origin=source, created_at=at, updated_at=at)


def _multiply(connection: sqlite3.Connection, first: str, names: list[tuple[str, str]]) -> None:
    """Give every entry its row among the sessions, like that of the first."""
    found = connection.execute("SELECT * FROM sessions WHERE id = ?", (first,))
    columns = [column[0] for column in found.description]
    row = dict(zip(columns, found.fetchone(), strict=True))
    connection.execute("BEGIN")
    connection.execute("DELETE FROM sessions WHERE id = ?", (first,))
    connection.executemany(
        f"INSERT INTO sessions ({', '.join(columns)}) VALUES ({', '.join(':' + name for name in columns)})",
        ({**row, "id": name, "session_key": key, "chat_id": key.rpartition(":")[2]} for name, key in names),
    )
    connection.execute("COMMIT")


def measure(cut_off: int) -> list[float]:
    """Seconds to open and load, to mark those that were active, and to mark one more; loading the code is free."""
    import gateway.session  # type: ignore[import-not-found, unused-ignore]  # noqa: F401 reason: only loaded
    import hermes_state  # type: ignore[import-not-found, unused-ignore]  # noqa: F401 reason: only loaded

    begin = time.perf_counter()
    store = _open()
    store._ensure_loaded()
    loaded = time.perf_counter()
    marked = store.suspend_recently_active()
    ended = time.perf_counter()
    assert marked == cut_off, f"{marked} of {cut_off} sessions were marked"
    another = next(key for key, entry in store._entries.items() if not entry.resume_pending)
    assert store.mark_resume_pending(another), f"{another} was not marked"
    return [loaded - begin, ended - loaded, time.perf_counter() - ended]


def main(what: str, sessions: str, cut_off: str) -> None:
    if what == "fill":
        fill(int(sessions), int(cut_off))
    else:
        print(json.dumps(measure(int(cut_off))))


if __name__ == "__main__":
    main(*sys.argv[1:])

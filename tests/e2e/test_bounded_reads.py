"""A gateway reads what is open, never all there ever was, however many sessions it knows.

Drives `store` and `runtime/wiring`.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, TypeVar

import pytest

from perdure.store.backends.sqlite import add_functions
from perdure.store.database import Database, Row, Tx
from perdure.testing import SimulatedPlatform
from support.inprocess import crashing_at_the_end, serving
from support.recovery import AgentHarness
from support.waiting import eventually

pytestmark = pytest.mark.anyio

T = TypeVar("T")

RUNS = {"runs", "r"}  # the starts of gateways, and their alias: nobody has many of them
SCAN = re.compile(r"SCAN (\S+)(?: USING (?:COVERING )?INDEX (\S+))?")


class Overheard:
    """A database, and a transaction of it, whose every statement is kept with its last values."""

    def __init__(self, database: Database, statements: dict[str, dict[str, Any]]) -> None:
        self.beneath = database
        self.ids = database.ids
        self.exclusive = database.exclusive
        self.statements = statements

    async def write(self, transaction: Callable[[Tx], T], *, key: str = "", at: int | None = None) -> T:
        return await self.beneath.write(lambda tx: transaction(OverheardTx(tx, self.statements)), key=key, at=at)

    async def read(self, transaction: Callable[[Tx], T], *, at: int | None = None) -> T:
        return await self.beneath.read(lambda tx: transaction(OverheardTx(tx, self.statements)), at=at)

    @property
    def problem(self) -> str | None:
        return self.beneath.problem

    async def close(self) -> None:
        await self.beneath.close()


class OverheardTx:
    def __init__(self, tx: Tx, statements: dict[str, dict[str, Any]]) -> None:
        self._tx = tx
        self._statements = statements
        self.ids, self.time = tx.ids, tx.time
        self.for_update, self.lease_clock = tx.for_update, tx.lease_clock

    def one(self, sql: str, **values: Any) -> Row | None:
        self._statements[sql] = values
        return self._tx.one(sql, **values)

    def all(self, sql: str, **values: Any) -> list[Row]:
        self._statements[sql] = values
        return self._tx.all(sql, **values)

    def run(self, sql: str, **values: Any) -> int:
        self._statements[sql] = values
        return self._tx.run(sql, **values)


def walks(path: Path, statements: dict[str, dict[str, Any]]) -> list[str]:
    """The statements for which SQLite walks through a table, or through an index of all of its rows."""
    found = []
    with closing(sqlite3.connect(path)) as connection:
        add_functions(connection)
        partial = {
            name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE sql LIKE '%WHERE%'")
        }
        for sql, values in statements.items():
            for *_, step in connection.execute(f"EXPLAIN QUERY PLAN {sql}", values):
                scan = SCAN.match(step)
                if scan and scan[1] not in RUNS and scan[2] not in partial:
                    found.append(f"{step}: {sql}")
    return found


async def test_no_statement_walks_through_a_table_when_work_is_recovered_and_done(tmp_path: Path) -> None:
    statements: dict[str, dict[str, Any]] = {}
    platform, bench = SimulatedPlatform(), AgentHarness("cut")
    async with crashing_at_the_end(tmp_path, platform, agent=bench.agent):
        platform.write("step cut\nsay: gone on")
        await eventually("the step hangs", lambda: bench.hung_steps)
    bench.release()
    async with serving(tmp_path, platform, agent=bench.agent, wrap=lambda d: Overheard(d, statements)):
        platform.write("say: new", chat="2")
        await eventually("both are answered", lambda: platform.replies() and platform.replies("2"))
        platform.write("/stop", chat="2")
        await eventually("the command is obeyed", lambda: len(platform.replies("2")) == 2)
    assert len(statements) > 30, "the gateway has hardly been listened to"
    assert walks(tmp_path / "perdure.db", statements) == []

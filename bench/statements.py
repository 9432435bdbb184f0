"""The statements of one append, taken down from our store itself."""

from __future__ import annotations

import asyncio
from typing import Any

from bench.window import tool_result
from perdure.store.database import Row, T, Transaction
from perdure.store.ids import Ids, wall_clock
from perdure.store.transitions import as_turn
from perdure.store.turns import Turns

Statements = list[tuple[str, dict[str, Any]]]


class Scribe:
    """A database and its transaction that write nothing but down what they are told."""

    exclusive = True
    problem: str | None = None

    def __init__(self, for_update: str) -> None:
        self.ids = Ids()
        self.time = wall_clock()
        self.for_update = for_update
        self.statements: Statements = []

    async def write(self, transaction: Transaction[T], *, key: str = "", at: int | None = None) -> T:
        return transaction(self)

    async def read(self, transaction: Transaction[T], *, at: int | None = None) -> T:
        return transaction(self)

    async def close(self) -> None: ...

    def one(self, sql: str, **values: Any) -> Row | None:
        self.statements.append((sql, values))
        return (1,)

    def all(self, sql: str, **values: Any) -> list[Row]:
        self.statements.append((sql, values))
        return [(1,)]

    def run(self, sql: str, **values: Any) -> int:
        self.statements.append((sql, values))
        return 1

    def lease_clock(self) -> int:
        return wall_clock()


def statements_of(turn: Row, hold: str) -> Statements:
    """What our store executes for one append to a turn, on a database that holds rows in this way."""
    scribe = Scribe(hold)
    asyncio.run(Turns(scribe).append(as_turn(turn), [tool_result(0)], wall_clock()))
    assert scribe.statements, "an append executed nothing"
    return scribe.statements

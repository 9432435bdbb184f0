"""One real session of each kind, made through the store, as rows from which a million others are made."""

from __future__ import annotations

import asyncio
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

from perdure.core.address import Address, session_key
from perdure.core.effects import Effect
from perdure.core.journal import ModelAnswered, ModelAsked, TokenUsage, ToolCall, ToolStarted, TurnFinished
from perdure.core.messages import Inbound, Sender
from perdure.store.api import Store, open_database
from perdure.store.claims import Claim
from perdure.store.ids import wall_clock
from perdure.store.outbox import OutboxReply
from perdure.store.runs import Instance
from support.store_gateway import everybody_may_join

DIGITS = 10
MARK = "#" * DIGITS  # stands in a pattern where its copies have their number
START = "06gy00000000"  # how the ids of all copies begin: their order is that of their numbers
SCRIPT = "step look\nsay: I have looked."
FINISHED, CUT_OFF = "chat-finished", "chat-cut-off"
OF_KEY, OF_SESSION = "key = ?", "session = (SELECT id FROM sessions WHERE key = ?)"
TABLES = {
    "sessions": OF_KEY,
    "leases": OF_KEY,
    "turns": OF_KEY,
    "journal": OF_SESSION,
    "inbox": OF_KEY,
    "outbox": OF_KEY,
}


class Pattern(NamedTuple):
    """The rows of one table that belong to one session; a mark stands for what differs between copies."""

    table: str
    columns: list[str]
    rows: list[tuple[Any, ...]]


class Template(NamedTuple):
    runs: Pattern  # one, which has not ended
    run: str
    finished: list[Pattern]  # a turn that ended, and whose reply has arrived
    cut_off: list[Pattern]  # a turn whose process died inside a tool call
    session: str  # of the one that was cut off
    entries: int  # that its journal has


def make() -> Template:
    with tempfile.TemporaryDirectory(prefix="perdure-bench-") as home:
        path = Path(home) / "perdure.db"
        asyncio.run(_live(f"sqlite:///{path}", Path(home)))
        with closing(sqlite3.connect(path)) as connection:
            return _read(connection)


async def _live(url: str, home: Path) -> None:
    """What a gateway does until it is killed: one session is answered, another is inside a tool call."""
    store = Store(await open_database(url, home=home))
    run = (await store.runs.begin(Instance("bench"), "0")).run
    await _answer(store, run, await _claim(store, run, FINISHED))
    await _begin_tool(store, await _claim(store, run, CUT_OFF))
    await store.close()


async def _claim(store: Store, run: str, chat: str) -> Claim:
    inbound = Inbound(Address("web", "dm", chat), "m1", Sender("ada", "Ada"), SCRIPT)
    key = session_key("main", inbound.address)
    await store.inbox.receive(inbound, "{}", key, wall_clock(), may_join=everybody_may_join)
    claim = await store.turns.claim(key, run, wall_clock(), may_join=everybody_may_join)
    assert claim is not None, f"the turn of {key} was not claimed"
    await store.turns.append(claim.turn, [ModelAsked(1, "offline")], wall_clock())
    return claim


async def _answer(store: Store, run: str, claim: Claim) -> None:
    text, turn = "I have looked.", claim.turn
    answered = ModelAnswered(1, text, finish="stop", usage=TokenUsage(1, 4))
    owed = OutboxReply(Address("web", "dm", FINISHED), turn.id, (text,), "m1")
    await store.turns.append(turn, [answered, TurnFinished(text)], wall_clock(), replies=[owed])
    [row] = await store.outbox.lane_heads(run, ["web"])
    await store.outbox.start_sending(row, run, wall_clock())
    await store.outbox.record_sent(row, row.delivery_key, wall_clock())


async def _begin_tool(store: Store, claim: Claim) -> None:
    call = ToolCall("c1.1", "step", {"name": "look", "seconds": 0.0})
    wished = ModelAnswered(1, "", (call,), "tool_calls", TokenUsage(1, 1))
    started = ToolStarted(call.id, call.tool, Effect.PURE, f"{claim.turn.id}:{call.id}")
    for entry in (wished, started):
        await store.turns.append(claim.turn, [entry], wall_clock())


def _read(connection: sqlite3.Connection) -> Template:
    finished, cut_off = (_patterns(connection, chat) for chat in (FINISHED, CUT_OFF))
    runs = connection.execute("SELECT * FROM runs")
    [row] = runs.fetchall()
    session = next(pattern.rows[0][0] for pattern in cut_off if pattern.table == "sessions")
    entries = next(len(pattern.rows) for pattern in cut_off if pattern.table == "journal")
    return Template(Pattern("runs", _names(runs), [row]), row[0], finished, cut_off, session, entries)


def _patterns(connection: sqlite3.Connection, chat: str) -> list[Pattern]:
    key = session_key("main", Address("web", "dm", chat))
    found = []
    for table, condition in TABLES.items():
        rows = connection.execute(f"SELECT * FROM {table} WHERE {condition}", (key,))
        found.append(Pattern(table, _names(rows), rows.fetchall()))
    named = [row[0] for pattern in found if pattern.columns[0] == "id" for row in pattern.rows]
    marked = {name: f"{name.partition('_')[0]}_{START}{MARK}" for name in named} | {chat: f"chat-{MARK}"}
    return [pattern._replace(rows=[_marked(row, marked) for row in pattern.rows]) for pattern in found]


def _names(rows: sqlite3.Cursor) -> list[str]:
    return [column[0] for column in rows.description]


def _marked(row: tuple[Any, ...], names: dict[str, str]) -> tuple[Any, ...]:
    """The row with other names for its session and all that belongs to it."""

    def marked(value: Any) -> Any:
        if isinstance(value, str):
            for name, new in names.items():
                value = value.replace(name, new)
        return value

    return tuple(map(marked, row))

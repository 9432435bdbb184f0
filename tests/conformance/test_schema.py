"""The database refuses by itself what the code must never write, on both databases alike.

Drives `store/schema.sql`.
"""

from __future__ import annotations

import sqlite3
from typing import Any

import psycopg
import pytest

from perdure.core.delivery import OPEN_DELIVERY_STATES, DeliveryState
from perdure.core.states import OPEN_STATES, SessionState, TurnState
from perdure.store import migrate
from perdure.store.transitions import Turn
from support.store_gateway import TABLES, StoreGateway

pytestmark = pytest.mark.anyio

REFUSED = (sqlite3.IntegrityError, psycopg.IntegrityError)

RUN = {"id": "r", "instance": "i", "version": "0", "started_at": 1, "heartbeat_at": 1}
SESSION = {"id": "s", "key": "k", "state": "open", "created_at": 1, "updated_at": 1}
INBOX = {
    "id": "i",
    "event_key": "e",
    "key": "k",
    "state": "waiting",
    "body": "{}",
    "raw": "",
    "position": 9,
    "received_at": 1,
}
OUTBOX = {
    "id": "o",
    "delivery_key": "d",
    "lane": "l",
    "key": "k",
    "reply": "r",
    "part": 0,
    "text": "t",
    "state": "owed",
    "attempts": 0,
    "due_at": 1,
    "created_at": 1,
    "updated_at": 1,
}
PERSON = {"platform": "web", "person": "p", "name": "", "role": "guest", "added_at": 1}
LOGIN: dict[str, Any] = {
    "id": "lo",
    "kind": "token",
    "name": "phone",
    "digest": "d",
    "person": "p",
    "person_name": "",
    "scopes": "read",
    "created_at": 1,
}
PAIRING: dict[str, Any] = {
    "id": "pr",
    "platform": "web",
    "person": "p",
    "name": "",
    "key": "k",
    "digest": "d",
    "asked_at": 1,
    "expires_at": 2,
}


async def insert(gateway: StoreGateway, table: str, row: dict[str, Any]) -> int:
    names = ", ".join(row)
    return await gateway.execute_sql(
        f"INSERT INTO {table} ({names}) VALUES ({', '.join(':' + name for name in row)})", **row
    )


def turn_row(turn: Turn, **changes: Any) -> dict[str, Any]:
    row = {name: getattr(turn, name) for name in Turn.__struct_fields__}
    return row | {"id": "t2", "key": "another", "state": "running"} | changes


def attachment(inbox: str) -> dict[str, Any]:
    named = {"id": "a", "inbox": inbox, "ordinal": 0, "name": "", "reference": ""}
    return named | {"media_type": "", "state": "referenced"}


def process(turn: Turn) -> dict[str, Any]:
    named: dict[str, Any] = {
        "id": "p",
        "key": turn.key,
        "session": turn.session,
        "turn": turn.id,
        "call": "c",
        "directory": "d",
    }
    counts = dict.fromkeys(("notify", "watching", "scanned", "notices", "unnoticed", "strikes"), 0)
    named |= {"generation": 1, "person": "ada", "instance": "i", "command": "c", "patterns": "[]"}
    return named | counts | {"state": "live", "started_at": 1}


async def test_rows_that_break_no_rule_are_taken(gateway: StoreGateway) -> None:
    """So that the refusals below are refusals of the one thing that is wrong."""
    turn = await gateway.begins_turn("work")
    (inbox,) = (await gateway.view(turn)).causes
    rows: list[tuple[str, dict[str, Any]]] = [
        ("runs", RUN),
        ("sessions", SESSION),
        ("inbox", INBOX),
        ("outbox", OUTBOX),
        ("people", PERSON),
        ("people", PERSON | {"chat": "c"}),
        ("pairings", PAIRING),
        ("pair_tries", {"id": "try", "at": 1}),
        ("logins", LOGIN),
        ("logins", LOGIN | {"id": "co", "kind": "cookie", "digest": "e", "token": "lo"}),
        ("turns", turn_row(turn)),
        ("attachments", attachment(inbox.inbox)),
        ("processes", process(turn)),
    ]
    for table, row in rows:
        assert await insert(gateway, table, row) == 1, table


@pytest.mark.parametrize(
    ("table", "row"),
    [
        pytest.param("runs", RUN | {"ended_at": 2, "ending": "tired"}, id="run with an unknown ending"),
        pytest.param("runs", RUN | {"ended_at": 2}, id="run that ended without an ending"),
        pytest.param("runs", RUN | {"ending": "clean"}, id="run with an ending that has not ended"),
        pytest.param("sessions", SESSION | {"state": "sleepy"}, id="session in an unknown state"),
        pytest.param("sessions", SESSION | {"key": None}, id="session without a key"),
        pytest.param("inbox", INBOX | {"state": "lost"}, id="message in an unknown state"),
        pytest.param("inbox", INBOX | {"state": "taken"}, id="message taken by no turn"),
        pytest.param("inbox", INBOX | {"state": "rejected"}, id="message rejected for no reason"),
        pytest.param("inbox", INBOX | {"problem": "p"}, id="message with a problem that waits"),
        pytest.param("inbox", INBOX | {"key": None}, id="message of no key"),
        pytest.param("inbox", INBOX | {"body": None}, id="message without a body"),
        pytest.param("inbox", INBOX | {"position": None}, id="message without a place"),
        pytest.param("inbox", INBOX | {"session": "s_unknown"}, id="message of an unknown session"),
        pytest.param("outbox", OUTBOX | {"state": "flying"}, id="reply in an unknown state"),
        pytest.param("outbox", OUTBOX | {"state": "sending"}, id="reply that nobody sends"),
        pytest.param("outbox", OUTBOX | {"state": "sent"}, id="reply that was sent to no place"),
        pytest.param("outbox", OUTBOX | {"position": 3}, id="reply with a place that was not sent"),
        pytest.param("outbox", OUTBOX | {"turn": "t_unknown"}, id="reply of an unknown turn"),
        pytest.param("people", PERSON | {"role": "king"}, id="person in an unknown role"),
        pytest.param("logins", LOGIN | {"kind": "ring"}, id="login of an unknown kind"),
        pytest.param("logins", LOGIN | {"digest": None}, id="login without a digest"),
        pytest.param("logins", LOGIN | {"kind": "cookie", "token": "lo_unknown"}, id="cookie of an unknown token"),
        pytest.param("logins", LOGIN | {"token": "lo"}, id="token of a token"),
        pytest.param(
            "leases",
            {"key": "k", "run": "run_unknown", "epoch": 1, "generation": 0, "position": 0},
            id="lease of an unknown run",
        ),
        pytest.param(
            "journal",
            {"session": "s", "seq": 1, "turn": "t", "kind": "k", "version": 1, "body": "{}", "at": 1},
            id="entry of an unknown session",
        ),
    ],
)
async def test_database_refuses(gateway: StoreGateway, table: str, row: dict[str, Any]) -> None:
    before = await gateway.all_rows()
    with pytest.raises(REFUSED):
        await insert(gateway, table, row)
    assert await gateway.all_rows() == before


@pytest.mark.parametrize(
    "changes",
    [
        {"state": "dreaming"},
        {"session": "s_unknown"},
        {"state": None},
    ],
    ids=["in an unknown state", "of an unknown session", "in no state"],
)
async def test_database_refuses_a_turn(gateway: StoreGateway, changes: dict[str, Any]) -> None:
    turn = await gateway.begins_turn("work")
    with pytest.raises(REFUSED):
        await insert(gateway, "turns", turn_row(turn, **changes))


@pytest.mark.parametrize(
    "changes",
    [
        {"state": "eaten"},
        {"state": "fetched"},
        {"state": "failed"},
        {"path": "somewhere"},
        {"problem": "p"},
        {"inbox": "in_unknown"},
    ],
    ids=lambda changes: " ".join(f"{name} {value}" for name, value in changes.items()),
)
async def test_database_refuses_an_attachment(gateway: StoreGateway, changes: dict[str, Any]) -> None:
    stored = await gateway.receives("look")
    with pytest.raises(REFUSED):
        await insert(gateway, "attachments", attachment(stored.message) | changes)


@pytest.mark.parametrize(
    "changes",
    [
        {"state": "undead"},
        {"state": "ended", "ended_at": 2},
        {"state": "ended", "exit_code": 0},
        {"state": "lost"},
        {"ended_at": 2},
        {"exit_code": 0},
        {"turn": "t_unknown"},
    ],
    ids=lambda changes: " ".join(f"{name} {value}" for name, value in changes.items()),
)
async def test_database_refuses_a_process(gateway: StoreGateway, changes: dict[str, Any]) -> None:
    turn = await gateway.begins_turn("work")
    with pytest.raises(REFUSED):
        await insert(gateway, "processes", process(turn) | changes)


async def test_database_refuses_what_must_be_there_once(gateway: StoreGateway) -> None:
    turn = await gateway.begins_turn("work")
    (cause,) = (await gateway.view(turn)).causes
    once: list[tuple[str, dict[str, Any]]] = [
        ("sessions", SESSION),
        ("inbox", INBOX),
        ("outbox", OUTBOX),
        ("people", PERSON),
        ("pairings", PAIRING),
        ("logins", LOGIN),
        ("attachments", attachment(cause.inbox)),
        ("processes", process(turn)),
    ]
    for table, row in once:
        assert await insert(gateway, table, row) == 1
        another = row if table == "people" else row | {"id": "another"}
        with pytest.raises(REFUSED):
            await insert(gateway, table, another)
    with pytest.raises(REFUSED):
        await gateway.execute_sql("INSERT INTO journal SELECT * FROM journal")


@pytest.mark.parametrize("state", TurnState)
async def test_database_allows_one_begun_turn_per_key(gateway: StoreGateway, state: TurnState) -> None:
    turn = await gateway.begins_turn("work")
    row = turn_row(turn, key=turn.key, state=state.value)
    if state in OPEN_STATES:
        with pytest.raises(REFUSED):
            await insert(gateway, "turns", row)
    else:
        assert await insert(gateway, "turns", row) == 1


async def test_database_allows_one_session_per_key_that_is_not_closed(gateway: StoreGateway) -> None:
    stored = await gateway.receives("hello")
    for state in ("open", "suspended"):
        with pytest.raises(REFUSED):
            await insert(gateway, "sessions", SESSION | {"key": stored.key, "state": state})
    assert await insert(gateway, "sessions", SESSION | {"key": stored.key, "state": "closed"}) == 1


def test_schema_spells_the_states_as_the_core_does() -> None:
    statements = {
        statement.split()[2]: " ".join(statement.split()) for statement in migrate.schema() if "TABLE" in statement
    }
    for table, states in (("turns", TurnState), ("sessions", SessionState), ("outbox", DeliveryState)):
        spelled = ", ".join(f"'{state}'" for state in states)
        assert f"CHECK (state IN ({spelled}))" in statements[table], table
    indexes = " ".join(" ".join(statement.split()) for statement in migrate.schema() if "INDEX" in statement)
    for states_ in (OPEN_STATES, OPEN_DELIVERY_STATES):
        assert f"WHERE state IN ({', '.join(repr(str(state)) for state in states_)})" in indexes
    assert set(TABLES) | {"writers", "alembic_version"} == set(statements)

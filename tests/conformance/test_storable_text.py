"""Text that no database takes is cleaned at the store's door, on every database (B14).

Drives `core/storable_text` and `store`.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from perdure.core.journal import ModelAnswered, ToolCall, TurnFailed
from perdure.core.messages import Button
from perdure.core.transfer.export_format import read_document
from perdure.operations.transfer import read_import
from perdure.store.outbox import OutboxReply
from support.store_gateway import StoreGateway, chat_address, key_of

pytestmark = pytest.mark.anyio

BAD = "a\ud83db\0c"
CLEAN = "a\N{REPLACEMENT CHARACTER}b\N{REPLACEMENT CHARACTER}c"


async def test_b14_entry_is_on_record_as_it_is_given_back(gateway: StoreGateway) -> None:
    turn = await gateway.begins_turn("hello")
    answered = ModelAnswered(1, BAD, (ToolCall("c1", "look", {BAD: [BAD]}),), "tool_calls", native={"id": BAD})
    records = await gateway.appends(turn, answered)
    assert records is not None
    clean = ModelAnswered(
        1, CLEAN, (ToolCall("c1", "look", {CLEAN: [CLEAN]}),), "tool_calls", native={"id": CLEAN}
    )
    assert [record.entry for record in records] == [clean]
    await gateway.reopen()
    assert (await gateway.view(turn)).responses == [clean]


async def test_b14_failure_and_reply_are_on_record(gateway: StoreGateway) -> None:
    turn = await gateway.begins_turn("hello")
    owed = OutboxReply(chat_address(), turn.id, (BAD,), reply_to=BAD, buttons=(Button(BAD, BAD),))
    assert await gateway.store.turns.append(turn, [TurnFailed(BAD)], gateway.now(), replies=[owed])
    [row] = await gateway.outbox_heads()
    assert (row.text, row.reply_to, row.outbound().buttons) == (CLEAN, CLEAN, (Button(CLEAN, CLEAN),))


async def test_b14_message_and_its_raw_event_are_on_record(gateway: StoreGateway) -> None:
    await gateway.receives(BAD, id="1")
    await gateway.store.inbox.reject(BAD, BAD, BAD, gateway.now())
    rows = await gateway.query("SELECT raw, problem FROM inbox ORDER BY id")
    assert rows == [(f"raw {CLEAN}", None), (CLEAN, CLEAN)]
    claim = await gateway.claims()
    assert claim is not None
    [began] = [record.entry for record in claim.records if record.entry.kind == "began"]
    assert [cause.text for cause in began.causes] == [CLEAN]  # type: ignore[attr-defined]


async def test_b14_name_that_no_database_takes_finds_nothing(gateway: StoreGateway) -> None:
    assert await gateway.store.sessions.find_by_name(BAD) == []
    assert await gateway.store.turns.claim(BAD, gateway.run, gateway.now()) is None
    assert await gateway.store.inbox.count_waiting(key_of(BAD)) == 0


async def test_b14_import_with_half_a_character_can_be_read(tmp_path: Path) -> None:
    path = tmp_path / "export.json"
    path.write_text(json.dumps({"perdure": {"format": 1}, "sessions": [{"key": BAD}]}))
    [record], _ = read_document(read_import(path))
    assert json.loads(bytes(record)) == {"key": "a\N{REPLACEMENT CHARACTER}b\0c"}

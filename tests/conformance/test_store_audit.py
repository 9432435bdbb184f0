"""Questions about a whole database: what is under way, and what became of everything.

Drives `store/audit`.
"""

from __future__ import annotations

import pytest

from perdure.core.effects import Effect
from perdure.core.journal import ModelAnswered, ToolEnded, ToolStarted
from perdure.store.audit import AuditedMessage, StoreAudit
from support.store_gateway import StoreGateway, answer_with_calls, key_of, message

pytestmark = pytest.mark.anyio


async def test_nothing_is_quiet_until_the_answer_has_been_sent(gateway: StoreGateway) -> None:
    audit = StoreAudit(gateway.store.database)
    assert await audit.is_idle()
    await gateway.receives("hello")
    assert not await audit.is_idle(), "a message waits"
    claim = await gateway.claims()
    assert claim is not None
    assert not await audit.is_idle(), "a turn runs"
    await gateway.finishes_turn(claim.turn, "hello")
    assert not await audit.is_idle(), "a reply is owed"
    await gateway.delivers()
    assert await audit.is_idle()


async def test_calls_are_told_with_their_ends(gateway: StoreGateway) -> None:
    audit, turn = StoreAudit(gateway.store.database), await gateway.begins_turn("hello")
    ended = ToolEnded("b", "unknown", "nobody knows")
    begun = [ToolStarted(call, "look", Effect.ONCE, f"key of {call}") for call in ("a", "b")]
    await gateway.appends(turn, answer_with_calls("a", "b"), *begun, ended)
    found = {call.key: (call.turn, call.tool, call.ended) for call in await audit.calls()}
    assert found == {"key of a": (turn.id, "look", None), "key of b": (turn.id, "look", ended)}
    assert await audit.calls(turn.id) == [], "behind it there is no other turn"


async def test_final_answers_are_counted_by_turn(gateway: StoreGateway) -> None:
    audit, turn = StoreAudit(gateway.store.database), await gateway.begins_turn("hello")
    await gateway.appends(turn, answer_with_calls("a"))
    assert await audit.final_answers() == {}
    await gateway.appends(turn, ModelAnswered(2, "hello", (), "stop"))
    assert await audit.final_answers() == {turn.id: 1}
    await gateway.appends(turn, ModelAnswered(3, "hello", (), "stop"))
    assert await audit.final_answers() == {turn.id: 2}
    assert await audit.final_answers(turn.id) == {}


async def test_messages_and_turns_are_told_with_what_became_of_them(gateway: StoreGateway) -> None:
    audit, first = StoreAudit(gateway.store.database), await gateway.begins_turn("one")
    await gateway.cancels_turn(first, "replaced")
    second = await gateway.begins_turn("two", chat_name="c2")
    [one, two] = await audit.turns()
    assert [(one.id, one.key, one.state), two.id] == [(first.id, key_of(), "cancelled"), second.id]
    assert await audit.turns(first.id) == [two]
    received = {each.event_key: each for each in await audit.messages()}
    event = message("one").event_key
    assert received[event] == AuditedMessage(event, "taken", first.id)
    assert await audit.cancelled_turns("replaced") == {first.id}
    assert await audit.cancelled_turns("stopped") == set()


async def test_replies_that_were_given_up_are_told_by_their_turn(gateway: StoreGateway) -> None:
    audit, turn = StoreAudit(gateway.store.database), await gateway.begins_turn("hello")
    await gateway.finishes_turn(turn, "hello")
    assert await audit.turns_with_expired_replies() == set()
    [row] = await gateway.outbox_heads()
    await gateway.store.outbox.expire(row, gateway.now(), problem="too old")
    assert await audit.turns_with_expired_replies() == {turn.id}
    assert await audit.lost_commands() == []

"""What the console reads: the life of a turn, the turns of a session, decisions, and counts of what is open.

Drives `store/timeline` and `store/metrics`.
"""

from __future__ import annotations

import msgspec
import pytest

from perdure.core.journal import ModelAsked, RecoveryDecided, TurnClaimed, TurnRequeued
from perdure.core.states import TurnState
from perdure.store import session_verbs
from perdure.store.metrics import OpenCounts
from perdure.store.sessions import SessionFilter
from perdure.store.transitions import Turn
from support.store_gateway import StoreGateway, key_of

pytestmark = pytest.mark.anyio


async def is_cut_off(gateway: StoreGateway, chat_name: str = "c1", decision: str = "resume") -> Turn:
    """A turn that a crash cut off, and that was decided about."""
    turn = await gateway.begins_turn("work", chat_name=chat_name)
    await gateway.reopen()
    return await decides(gateway, turn, decision)


async def decides(gateway: StoreGateway, turn: Turn, decision: str) -> Turn:
    taken = await gateway.interrupts_turn(turn)
    assert taken is not None
    more = [TurnRequeued()] if decision == "resume" else []
    assert await gateway.appends(taken, RecoveryDecided(decision, "because", rule="resume"), *more)
    return taken


async def test_life_of_a_turn_has_its_message_entries_replies_and_runs(gateway: StoreGateway) -> None:
    turn = await is_cut_off(gateway)
    claim = await gateway.claims()
    assert claim is not None
    await gateway.appends(claim.turn, ModelAsked(1, "offline"))
    await gateway.finishes_turn(claim.turn, "done")
    await gateway.delivers()
    life = await gateway.store.timelines.of_turn(turn.id)
    assert life is not None and life.whole
    assert [message.inbound.text for message in life.messages] == ["work"]
    kinds = [record.entry.kind for record in life.records]
    expected = "began claimed interrupted decided requeued claimed model_asked finished"
    assert kinds == expected.split()
    assert [(row.text, row.state) for row in life.deliveries] == [("done", "sent")]
    claims = [record.entry for record in life.records if isinstance(record.entry, TurnClaimed)]
    assert {run.id for run in life.runs} == {entry.run for entry in claims} and len(life.runs) == 2
    assert [run.ending for run in life.runs] == ["lost", None]
    assert await gateway.store.timelines.of_turn("t_0") is None


async def test_turns_of_a_session_come_newest_first_page_by_page(gateway: StoreGateway) -> None:
    turns = []
    for number in range(5):
        turns.append(await gateway.begins_turn(f"message {number}"))
        await gateway.finishes_turn(turns[-1])
    session = turns[0].session
    first = await gateway.store.timelines.turns_of_session(session, limit=3)
    rest = await gateway.store.timelines.turns_of_session(session, after=first[-1].turn.id, limit=3)
    assert [past.began.causes[0].text[-1] for past in [*first, *rest]] == list("43210")
    await is_cut_off(gateway)
    assert [past.interruptions for past in await gateway.store.timelines.turns_of_session(session, limit=2)] == [
        1,
        0,
    ]


async def test_decisions_come_newest_first_with_the_interruption_that_they_are_about(
    gateway: StoreGateway,
) -> None:
    for name in ("a", "b", "c"):
        await is_cut_off(gateway, name, "skip")
    await decides_again(gateway, "a")
    found, after = await gateway.store.decisions.page()
    assert after is None
    assert [(each.key[-1], each.decision.decision) for each in found] == [
        ("a", "resume"),
        ("c", "skip"),
        ("b", "skip"),
        ("a", "skip"),
    ]
    assert {each.reason for each in found} == {"restart_interrupted"}


async def decides_again(gateway: StoreGateway, chat_name: str) -> None:
    """A person wants the turn to go on."""
    turn = await gateway.store.turns.current(key_of(chat_name))
    assert turn is not None
    assert await gateway.appends(
        turn, RecoveryDecided("resume", "a person asked for it", rule="person"), TurnRequeued()
    )


async def test_pages_of_decisions_give_each_one_once(gateway: StoreGateway) -> None:
    for name in "abcde":
        await is_cut_off(gateway, name, "skip")
    seen, after = [], ""
    for _ in range(5):
        found, place = await gateway.store.decisions.page(after, 2)
        seen += [each.key[-1] for each in found]
        if place is None:
            break
        after = place
    assert sorted(seen) == list("abcde")


async def test_counts_are_of_what_has_not_ended(gateway: StoreGateway) -> None:
    assert await gateway.store.gauges.counts() == OpenCounts()
    await gateway.finishes_turn(await gateway.begins_turn("one", chat_name="a"), "owed")
    await gateway.begins_turn("two", chat_name="b")
    await gateway.receives("three", chat_name="b")
    await is_cut_off(gateway, "c", "skip")
    key = key_of("d")
    await gateway.receives("four", chat_name="d")
    await gateway.store.chat_commands.execute_verb(key, session_verbs.suspend(key), at=gateway.now())
    counts = {name: n for name, n in msgspec.structs.asdict(await gateway.store.gauges.counts()).items() if n}
    assert counts["owed"] == counts["interrupted"] == counts["suspended"] == 1
    assert counts["running"] == 1 and counts["messages"] >= 1


async def test_sessions_are_found_by_state_and_turn_and_key(gateway: StoreGateway) -> None:
    await gateway.finishes_turn(await gateway.begins_turn("one", chat_name="a"))
    await gateway.begins_turn("two", chat_name="b")
    await gateway.store.chat_commands.execute_verb(
        key_of("a"), session_verbs.suspend(key_of("a")), at=gateway.now()
    )

    async def keys(which: SessionFilter) -> list[str]:
        return [session.key[-1] for session in await gateway.store.sessions.page(matching=which)]

    assert await keys(SessionFilter()) == ["a", "b"]
    assert await keys(SessionFilter(newest=True)) == ["b", "a"]
    assert await keys(SessionFilter(state="suspended")) == ["a"]
    assert await keys(SessionFilter(state="open")) == ["b"]
    assert await keys(SessionFilter(turn="running")) == ["b"]
    assert await keys(SessionFilter(key=key_of("b"))) == ["b"]
    (running,) = await gateway.store.turns.open([TurnState.RUNNING])
    assert running.key == key_of("b")

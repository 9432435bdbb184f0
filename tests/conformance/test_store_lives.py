"""What the console reads: the life of a turn, the turns of a session, decisions, and counts of what is open."""

from __future__ import annotations

import msgspec
import pytest

from perdure.core.journal import Claimed, Decided, ModelAsked, Requeued
from perdure.core.turn import State
from perdure.store import verbs
from perdure.store.moves import Turn
from perdure.store.overview import Counts
from perdure.store.sessions import Which
from support.stores import Gateway, key_of

pytestmark = pytest.mark.anyio


async def is_cut_off(gateway: Gateway, chat_name: str = "c1", decision: str = "resume") -> Turn:
    """A turn that a crash cut off, and that was decided about."""
    turn = await gateway.begins("work", chat_name=chat_name)
    await gateway.reopen()
    return await decides(gateway, turn, decision)


async def decides(gateway: Gateway, turn: Turn, decision: str) -> Turn:
    taken = await gateway.interrupts(turn)
    assert taken is not None
    more = [Requeued()] if decision == "resume" else []
    assert await gateway.appends(taken, Decided(decision, "because", rule="resume"), *more)
    return taken


async def test_life_of_a_turn_has_its_message_entries_replies_and_runs(gateway: Gateway) -> None:
    turn = await is_cut_off(gateway)
    claim = await gateway.claims()
    assert claim is not None
    await gateway.appends(claim.turn, ModelAsked(1, "offline"))
    await gateway.finishes(claim.turn, "done")
    await gateway.delivers()
    life = await gateway.store.lives.of_turn(turn.id)
    assert life is not None and life.whole
    assert [message.inbound.text for message in life.messages] == ["work"]
    kinds = [record.entry.kind for record in life.records]
    expected = "began claimed interrupted decided requeued claimed model_asked finished"
    assert kinds == expected.split()
    assert [(row.text, row.state) for row in life.deliveries] == [("done", "sent")]
    claims = [record.entry for record in life.records if isinstance(record.entry, Claimed)]
    assert {run.id for run in life.runs} == {entry.run for entry in claims} and len(life.runs) == 2
    assert [run.ending for run in life.runs] == ["lost", None]
    assert await gateway.store.lives.of_turn("t_0") is None


async def test_turns_of_a_session_come_newest_first_page_by_page(gateway: Gateway) -> None:
    turns = []
    for number in range(5):
        turns.append(await gateway.begins(f"message {number}"))
        await gateway.finishes(turns[-1])
    session = turns[0].session
    first = await gateway.store.lives.past(session, limit=3)
    rest = await gateway.store.lives.past(session, after=first[-1].turn.id, limit=3)
    assert [past.began.causes[0].text[-1] for past in [*first, *rest]] == list("43210")
    await is_cut_off(gateway)
    assert [past.interruptions for past in await gateway.store.lives.past(session, limit=2)] == [1, 0]


async def test_decisions_come_newest_first_with_the_interruption_that_they_are_about(gateway: Gateway) -> None:
    for name in ("a", "b", "c"):
        await is_cut_off(gateway, name, "skip")
    await decides_again(gateway, "a")
    found, after = await gateway.store.decisions.page()
    assert after is None
    assert [(each.key[-1], each.decided.decision) for each in found] == [
        ("a", "resume"),
        ("c", "skip"),
        ("b", "skip"),
        ("a", "skip"),
    ]
    assert {each.reason for each in found} == {"restart_interrupted"}


async def decides_again(gateway: Gateway, chat_name: str) -> None:
    """A person wants the turn to go on."""
    turn = await gateway.store.turns.begun(key_of(chat_name))
    assert turn is not None
    assert await gateway.appends(turn, Decided("resume", "a person asked for it", rule="person"), Requeued())


async def test_pages_of_decisions_give_each_one_once(gateway: Gateway) -> None:
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


async def test_counts_are_of_what_has_not_ended(gateway: Gateway) -> None:
    assert await gateway.store.overview.counts() == Counts()
    await gateway.finishes(await gateway.begins("one", chat_name="a"), "owed")
    await gateway.begins("two", chat_name="b")
    await gateway.hears("three", chat_name="b")
    await is_cut_off(gateway, "c", "skip")
    key = key_of("d")
    await gateway.hears("four", chat_name="d")
    await gateway.store.orders.perform(key, verbs.suspend(gateway.store.ids, key, gateway.now()))
    counts = {name: n for name, n in msgspec.structs.asdict(await gateway.store.overview.counts()).items() if n}
    assert counts["owed"] == counts["interrupted"] == counts["suspended"] == 1
    assert counts["running"] == 1 and counts["messages"] >= 1


async def test_sessions_are_found_by_state_and_turn_and_key(gateway: Gateway) -> None:
    await gateway.finishes(await gateway.begins("one", chat_name="a"))
    await gateway.begins("two", chat_name="b")
    await gateway.store.orders.perform(key_of("a"), verbs.suspend(gateway.store.ids, key_of("a"), gateway.now()))

    async def keys(which: Which) -> list[str]:
        return [session.key[-1] for session in await gateway.store.sessions.page(which=which)]

    assert await keys(Which()) == ["a", "b"]
    assert await keys(Which(newest=True)) == ["b", "a"]
    assert await keys(Which(state="suspended")) == ["a"]
    assert await keys(Which(state="open")) == ["b"]
    assert await keys(Which(turn="running")) == ["b"]
    assert await keys(Which(key=key_of("b"))) == ["b"]
    (running,) = await gateway.store.turns.open([State.RUNNING])
    assert running.key == key_of("b")

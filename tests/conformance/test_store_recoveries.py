"""What recovery asks of the store: requests that are carried out, messages that wait again, the line for slots."""

from __future__ import annotations

import pytest

from perdure.core.journal import Answered, Asked, Cancelled, Decided, Interrupted, Requeued, TurnView, returning
from perdure.core.messages import Sender
from perdure.core.recovery import ALONE, Choice, Rule
from perdure.core.requests import request_of
from perdure.core.turn import State
from perdure.store import verbs
from perdure.store.database import Tx
from perdure.store.moves import Requested, Turn
from support.stores import Gateway, key_of

pytestmark = pytest.mark.anyio

ASKED = Asked("q1", "Which one?", ("this", "that"))
ANSWERED = Answered("q1", "this", Sender("ada"))
CUT = Interrupted("shutdown_timeout")
OFF = Decided(Choice.SKIP, "it is off here", rule=Rule.OFF)
RESUMED = Decided(Choice.RESUME, "it may go on", rule=Rule.RESUME)


def carried(tx: Tx, turn: Turn, view: TurnView) -> Requested | None:
    return Requested() if request_of(view) else None


async def taken_over(gateway: Gateway, turn: Turn, *, stands: bool = True) -> State:
    """A new run takes the turn over, and finds that what a person asked for stands, or not."""
    await gateway.reopen()
    answer = carried if stands else lambda tx, turn, view: Requested(again=ASKED)
    taken = await gateway.store.turns.interrupt(turn.id, turn.key, "x", gateway.run, gateway.now(), answer)
    assert taken is not None
    assert (await gateway.row(turn)).state is (await gateway.view(turn)).state is taken.state
    return taken.state


async def test_b32_answered_turn_is_taken_over_without_a_mark_and_claimed(gateway: Gateway) -> None:
    turn = await gateway.begins("work")
    await gateway.appends(turn, ASKED)
    await gateway.appends(turn, ANSWERED)
    assert await taken_over(gateway, turn) is State.QUEUED
    assert await gateway.store.turns.claimable(gateway.run) == [key_of()]
    claim = await gateway.claims()
    assert claim is not None
    assert ((await gateway.view(turn)).interruptions, claim.turn.attempt) == ([], 2)
    assert await taken_over(gateway, claim.turn) is State.INTERRUPTED, "an attempt had taken the answer up"


async def test_b32_question_is_put_again_without_a_mark(gateway: Gateway) -> None:
    turn = await gateway.begins("work")
    await gateway.appends(turn, ASKED)
    await gateway.appends(turn, ANSWERED)
    assert await taken_over(gateway, turn, stands=False) is State.WAITING
    view = await gateway.view(turn)
    assert (view.answer, view.interruptions) == (None, [])


async def test_b32_turn_that_nobody_asked_for_is_marked_though_it_was_only_queued(gateway: Gateway) -> None:
    turn = await gateway.begins("work")
    await gateway.appends(turn, CUT)
    await gateway.appends(turn, RESUMED, Requeued())
    assert await taken_over(gateway, turn) is State.INTERRUPTED


async def joined(gateway: Gateway) -> Turn:
    """A turn that a message has joined."""
    old = await gateway.begins("old work")
    await gateway.appends(old, CUT)
    await gateway.appends(old, OFF)
    await gateway.hears("one more")
    claim = await gateway.claims()
    assert claim is not None
    assert [cause.text for cause in (await gateway.view(old)).causes] == ["old work", "one more"]
    return claim.turn


async def test_b16_joined_message_waits_again_when_its_session_is_suspended(gateway: Gateway) -> None:
    turn = await joined(gateway)
    await gateway.store.orders.perform(key_of(), verbs.suspend(gateway.store.ids, key_of(), gateway.now()))
    view = await gateway.view(turn)
    assert ([cause.text for cause in view.causes], view.ended) == (["old work"], Cancelled("suspended"))
    claim = await gateway.claims()
    assert claim is not None
    assert claim.turn.session != turn.session
    assert [cause.text for cause in (await gateway.view(claim.turn)).causes] == ["one more"]


async def test_b16_joined_message_supersedes_the_turn_that_it_left(gateway: Gateway) -> None:
    turn = await joined(gateway)
    await gateway.appends(turn, CUT)
    stale = Decided(Choice.SKIP, "it is stale", rule=Rule.STALE)
    assert await gateway.appends(turn, stale, *returning(await gateway.view(turn))) is not None
    claim = await gateway.claims()
    assert claim is not None
    assert [cause.text for cause in (await gateway.view(claim.turn)).causes] == ["one more"]
    assert (await gateway.view(turn)).ended == Cancelled("superseded")


async def test_b16_nothing_waits_again_when_the_turn_has_moved_on(gateway: Gateway) -> None:
    turn = await joined(gateway)
    left = returning(await gateway.view(turn))
    await gateway.finishes(turn, "done")
    before = await gateway.everything()
    assert await gateway.appends(turn, *left) is None
    assert await gateway.everything() == before


async def in_line(gateway: Gateway, chat: str, **evidence: bool) -> Turn:
    turn = await gateway.begins("work", chat_name=chat)
    await gateway.appends(turn, CUT)
    await gateway.appends(turn, Decided(Choice.RESUME, "it may go on", evidence, Rule.RESUME))
    return turn


async def ahead(gateway: Gateway, chat: str) -> int | None:
    session = await gateway.store.sessions.current(key_of(chat))
    assert session is not None
    return (await gateway.store.situations.of_session(session)).ahead


async def test_b58_turns_that_wait_for_a_slot_are_counted(gateway: Gateway) -> None:
    await gateway.appends(await gateway.begins("work", chat_name="held"), CUT)
    for chat in ("a", "b", "c"):
        await in_line(gateway, chat)
    assert [await ahead(gateway, chat) for chat in ("a", "b", "c", "held")] == [0, 1, 2, None]
    await gateway.hears("more", chat_name="a")
    claim = await gateway.claims("a")
    assert claim is not None, "a message takes the turn at once"
    assert [await ahead(gateway, chat) for chat in ("a", "b", "c")] == [None, 0, 1]


async def test_b58_b52_message_goes_to_the_head_of_the_line_while_recoveries_run_one_at_a_time(
    gateway: Gateway,
) -> None:
    for chat in ("a", "b"):
        await in_line(gateway, chat, **{ALONE: True})
    await gateway.hears("more", chat_name="b")
    assert await gateway.claims("b") is None
    assert [await ahead(gateway, chat) for chat in ("a", "b")] == [1, 0]

"""What recovery asks of the store: requests that are carried out, messages that wait again, the line for slots.

Drives `store/turns` and `store/claims`.
"""

from __future__ import annotations

import pytest

from perdure.core.journal import (
    QuestionAnswered,
    QuestionAsked,
    RecoveryDecided,
    TurnCancelled,
    TurnInterrupted,
    TurnRequeued,
    TurnView,
    return_entries,
)
from perdure.core.messages import Sender
from perdure.core.recovery.decision import ALONE_EVIDENCE, RecoveryChoice, RecoveryRule, pending_request
from perdure.core.states import TurnState
from perdure.store import session_verbs
from perdure.store.database import Tx
from perdure.store.transitions import RequestOutcome, Turn
from support.store_gateway import StoreGateway, key_of

pytestmark = pytest.mark.anyio

ASKED = QuestionAsked("q1", "Which one?", ("this", "that"))
ANSWERED = QuestionAnswered("q1", "this", Sender("ada"))
CUT = TurnInterrupted("shutdown_timeout")
OFF = RecoveryDecided(RecoveryChoice.SKIP, "it is off here", rule=RecoveryRule.OFF)
RESUMED = RecoveryDecided(RecoveryChoice.RESUME, "it may go on", rule=RecoveryRule.RESUME)


def carried(tx: Tx, turn: Turn, view: TurnView) -> RequestOutcome | None:
    return RequestOutcome() if pending_request(view) else None


async def taken_over(gateway: StoreGateway, turn: Turn, *, stands: bool = True) -> TurnState:
    """A new run takes the turn over, and finds that what a person asked for stands, or not."""
    await gateway.reopen()
    answer = carried if stands else lambda tx, turn, view: RequestOutcome(again=ASKED)
    taken = await gateway.store.turns.take_over(turn.id, turn.key, "x", gateway.run, gateway.now(), answer)
    assert taken is not None
    assert (await gateway.turn_row(turn)).state is (await gateway.view(turn)).state is taken.state
    return taken.state


async def test_b32_answered_turn_is_taken_over_without_a_mark_and_claimed(gateway: StoreGateway) -> None:
    turn = await gateway.begins_turn("work")
    await gateway.appends(turn, ASKED)
    await gateway.appends(turn, ANSWERED)
    assert await taken_over(gateway, turn) is TurnState.QUEUED
    assert await gateway.store.turns.claimable_keys(gateway.run) == [key_of()]
    claim = await gateway.claims()
    assert claim is not None
    assert ((await gateway.view(turn)).interruptions, claim.turn.attempt) == ([], 2)
    assert await taken_over(gateway, claim.turn) is TurnState.INTERRUPTED, "an attempt had taken the answer up"


async def test_b32_question_is_put_again_without_a_mark(gateway: StoreGateway) -> None:
    turn = await gateway.begins_turn("work")
    await gateway.appends(turn, ASKED)
    await gateway.appends(turn, ANSWERED)
    assert await taken_over(gateway, turn, stands=False) is TurnState.WAITING
    view = await gateway.view(turn)
    assert (view.answer, view.interruptions) == (None, [])


async def test_b32_turn_that_nobody_asked_for_is_marked_though_it_was_only_queued(gateway: StoreGateway) -> None:
    turn = await gateway.begins_turn("work")
    await gateway.appends(turn, CUT)
    await gateway.appends(turn, RESUMED, TurnRequeued())
    assert await taken_over(gateway, turn) is TurnState.INTERRUPTED


async def joined(gateway: StoreGateway) -> Turn:
    """A turn that a message has joined."""
    old = await gateway.begins_turn("old work")
    await gateway.appends(old, CUT)
    await gateway.appends(old, OFF)
    await gateway.receives("one more")
    claim = await gateway.claims()
    assert claim is not None
    assert [cause.text for cause in (await gateway.view(old)).causes] == ["old work", "one more"]
    return claim.turn


async def test_b16_joined_message_waits_again_when_its_session_is_suspended(gateway: StoreGateway) -> None:
    turn = await joined(gateway)
    await gateway.store.chat_commands.execute_verb(key_of(), session_verbs.suspend(key_of()), at=gateway.now())
    view = await gateway.view(turn)
    assert ([cause.text for cause in view.causes], view.ended) == (["old work"], TurnCancelled("suspended"))
    claim = await gateway.claims()
    assert claim is not None
    assert claim.turn.session != turn.session
    assert [cause.text for cause in (await gateway.view(claim.turn)).causes] == ["one more"]


async def test_b16_joined_message_supersedes_the_turn_that_it_left(gateway: StoreGateway) -> None:
    turn = await joined(gateway)
    await gateway.appends(turn, CUT)
    stale = RecoveryDecided(RecoveryChoice.SKIP, "it is stale", rule=RecoveryRule.STALE)
    assert await gateway.appends(turn, stale, *return_entries(await gateway.view(turn))) is not None
    claim = await gateway.claims()
    assert claim is not None
    assert [cause.text for cause in (await gateway.view(claim.turn)).causes] == ["one more"]
    assert (await gateway.view(turn)).ended == TurnCancelled("superseded")


async def test_b16_nothing_waits_again_when_the_turn_has_moved_on(gateway: StoreGateway) -> None:
    turn = await joined(gateway)
    left = return_entries(await gateway.view(turn))
    await gateway.finishes_turn(turn, "done")
    before = await gateway.all_rows()
    assert await gateway.appends(turn, *left) is None
    assert await gateway.all_rows() == before


async def in_line(gateway: StoreGateway, chat: str, **evidence: bool) -> Turn:
    turn = await gateway.begins_turn("work", chat_name=chat)
    await gateway.appends(turn, CUT)
    await gateway.appends(
        turn, RecoveryDecided(RecoveryChoice.RESUME, "it may go on", evidence, RecoveryRule.RESUME)
    )
    return turn


async def ahead(gateway: StoreGateway, chat: str) -> int | None:
    session = await gateway.store.sessions.current(key_of(chat))
    assert session is not None
    return (await gateway.store.snapshots.of_session(session)).turns_ahead


async def test_b58_turns_that_wait_for_a_slot_are_counted(gateway: StoreGateway) -> None:
    await gateway.appends(await gateway.begins_turn("work", chat_name="held"), CUT)
    for chat in ("a", "b", "c"):
        await in_line(gateway, chat)
    assert [await ahead(gateway, chat) for chat in ("a", "b", "c", "held")] == [0, 1, 2, None]
    await gateway.receives("more", chat_name="a")
    claim = await gateway.claims("a")
    assert claim is not None, "a message takes the turn at once"
    assert [await ahead(gateway, chat) for chat in ("a", "b", "c")] == [None, 0, 1]


async def test_b58_b52_message_goes_to_the_head_of_the_line_while_recoveries_run_one_at_a_time(
    gateway: StoreGateway,
) -> None:
    for chat in ("a", "b"):
        await in_line(gateway, chat, **{ALONE_EVIDENCE: True})
    await gateway.receives("more", chat_name="b")
    assert await gateway.claims("b") is None
    assert [await ahead(gateway, chat) for chat in ("a", "b")] == [1, 0]

"""Sessions: made once for a key, kept for ever, with a recovery state that is derived from their turns.

Drives `store/sessions`.
"""

from __future__ import annotations

import asyncio

import pytest

from perdure.core.journal import TurnInterrupted, TurnRequeued
from perdure.core.states import CancelReason, RecoveryState, SessionState
from support.store_gateway import StoreGateway, key_of

pytestmark = pytest.mark.anyio


async def interrupted_turn_of_a_dead_run(gateway: StoreGateway, text: str = "work") -> str:
    """Begin a turn, crash, come back and mark it; the id of its session."""
    turn = await gateway.begins_turn(text)
    await gateway.reopen()
    assert await gateway.interrupts_turn(turn) is not None
    return turn.session


async def test_session_is_made_by_the_first_message_of_its_key(gateway: StoreGateway) -> None:
    assert await gateway.store.sessions.current(key_of()) is None
    first = await gateway.receives("hello")
    session = await gateway.store.sessions.current(key_of())
    assert session is not None
    assert (session.id, session.key, session.state) == (first.session, key_of(), SessionState.OPEN)
    assert session.auto_reset_reason is None
    assert session.created_at == session.updated_at > 0


async def test_session_is_the_same_for_every_message_of_its_key_when_reopened(gateway: StoreGateway) -> None:
    first = await gateway.receives("one")
    second = await gateway.receives("two")
    await gateway.reopen()
    third = await gateway.receives("three")
    assert first.session == second.session == third.session


async def test_session_is_made_once_when_many_messages_come_at_once(gateway: StoreGateway) -> None:
    stored = await asyncio.gather(*(gateway.receives(f"m{n}") for n in range(20)))
    assert len({one.session for one in stored}) == 1
    assert len(await gateway.store.sessions.page()) == 1


async def test_session_is_made_once_when_two_gateways_hear_at_once(
    two_gateways: tuple[StoreGateway, StoreGateway],
) -> None:
    one, two = two_gateways
    stored = await asyncio.gather(
        *(gateway.receives(f"{n} to {gateway.instance}") for n in range(10) for gateway in (one, two))
    )
    assert len({found.session for found in stored}) == 1
    positions = await one.query("SELECT position FROM inbox ORDER BY position")
    assert positions == [(n,) for n in range(1, 21)]


async def test_keys_have_sessions_of_their_own(gateway: StoreGateway) -> None:
    stored = [await gateway.receives("hello", chat_name=name) for name in ("a", "b", "c")]
    assert len({one.session for one in stored}) == 3
    assert [one.key for one in stored] == [key_of("a"), key_of("b"), key_of("c")]


async def test_page_lists_sessions_in_order_behind_a_place(gateway: StoreGateway) -> None:
    ids = [(await gateway.receives("hello", chat_name=f"c{n}")).session for n in range(5)]
    sessions = gateway.store.sessions
    assert [session.id for session in await sessions.page()] == ids
    assert [session.id for session in await sessions.page(after=ids[1], limit=2)] == ids[2:4]
    assert await sessions.page(after=ids[-1]) == []


async def test_generation_numbers_the_turns_of_a_key(gateway: StoreGateway) -> None:
    assert await gateway.store.sessions.generation(key_of()) == 0
    for number in (1, 2):
        turn = await gateway.begins_turn(f"m{number}")
        assert turn.generation == await gateway.store.sessions.generation(key_of()) == number
        await gateway.finishes_turn(turn)
        await gateway.reopen()


# ── the recovery state ──────────────────────────────────────────────────────────────────────────────────────


async def test_b1_new_session_has_no_recovery_state(gateway: StoreGateway) -> None:
    stored = await gateway.receives("hello")
    recovery = await gateway.store.sessions.recovery(stored.session)
    assert recovery == RecoveryState(False, None, None, 0)


async def test_b1_running_and_finished_turns_give_no_recovery_state(gateway: StoreGateway) -> None:
    turn = await gateway.begins_turn("hello")
    assert await gateway.store.sessions.recovery(turn.session) == RecoveryState()
    await gateway.finishes_turn(turn, "hi")
    assert await gateway.store.sessions.recovery(turn.session) == RecoveryState()


async def test_b2_recovery_state_survives_close_and_reopen_with_every_field(gateway: StoreGateway) -> None:
    turn = await gateway.begins_turn("work")
    await gateway.reopen()
    marked_at = gateway.now() + 1
    assert await gateway.interrupts_turn(turn, "shutdown_timeout") is not None
    expected = RecoveryState(True, "shutdown_timeout", marked_at, 1)
    assert await gateway.store.sessions.recovery(turn.session) == expected
    for clean in (True, False):
        await gateway.reopen(clean=clean)
        assert await gateway.store.sessions.recovery(turn.session) == expected


async def test_b2_recovery_state_has_the_newest_reason_and_counts_every_mark(gateway: StoreGateway) -> None:
    turn = await gateway.begins_turn("work")
    await gateway.appends(turn, TurnInterrupted("shutdown_timeout", gateway.run))
    await gateway.appends(turn, TurnRequeued())
    again = await gateway.claims()
    assert again is not None
    await gateway.appends(again.turn, TurnInterrupted("restart_timeout", gateway.run))
    await gateway.reopen()
    recovery = await gateway.store.sessions.recovery(turn.session)
    assert (recovery.resume_pending, recovery.resume_reason, recovery.interruptions) == (
        True,
        "restart_timeout",
        2,
    )


async def test_b7_recovery_state_of_an_unknown_session_is_none(gateway: StoreGateway) -> None:
    assert await gateway.store.sessions.recovery("s_unknown") == RecoveryState()
    assert await gateway.store.sessions.get("s_unknown") is None


async def test_b7_marking_a_session_without_a_turn_reports_nothing_and_changes_nothing(
    gateway: StoreGateway,
) -> None:
    stored = await gateway.receives("hello")
    await gateway.reopen()
    before = await gateway.all_rows()
    marked = await gateway.store.turns.take_over("t_unknown", stored.key, "restart_interrupted", gateway.run, 1)
    assert marked is None
    assert await gateway.all_rows() == before


async def test_b7_marking_an_unknown_session_reports_nothing_and_changes_nothing(gateway: StoreGateway) -> None:
    before = await gateway.all_rows()
    nobody = key_of("nobody")
    assert await gateway.store.turns.take_over("t_1", nobody, "restart_interrupted", gateway.run, 1) is None
    assert await gateway.all_rows() == before


async def test_b10_mark_id_and_transcript_stay_when_the_next_message_comes(gateway: StoreGateway) -> None:
    session = await interrupted_turn_of_a_dead_run(gateway)
    before = await gateway.store.sessions.recovery(session)
    journal = await gateway.store.journal.read_after(session, 0)
    stored = await gateway.receives("are you there?")
    assert stored.session == session
    assert await gateway.store.sessions.recovery(session) == before
    assert await gateway.store.journal.read_after(session, 0) == journal


async def test_b10_reading_never_clears_the_mark(gateway: StoreGateway) -> None:
    session = await interrupted_turn_of_a_dead_run(gateway)
    seen = [await gateway.store.sessions.recovery(session) for _ in range(3)]
    assert seen[0].resume_pending
    assert seen == [seen[0]] * 3


async def test_b11_mark_outlives_generation_until_every_part_is_delivered(gateway: StoreGateway) -> None:
    session = await interrupted_turn_of_a_dead_run(gateway)
    (turn,) = await gateway.store.turns.interrupted(gateway.run)
    marked = await gateway.store.sessions.recovery(session)
    assert await gateway.delivers_final_answer(turn, "first part", "second part")
    assert await gateway.store.sessions.recovery(session) == marked
    await gateway.delivers()
    assert await gateway.store.sessions.recovery(session) == marked
    await gateway.reopen()
    assert await gateway.store.sessions.recovery(session) == marked
    await gateway.delivers()
    assert await gateway.store.sessions.recovery(session) == RecoveryState(False, None, None, 0)


async def test_b11_delivery_clears_every_field_and_the_count_together(gateway: StoreGateway) -> None:
    turn = await gateway.begins_turn("work")
    for _ in range(3):
        await gateway.appends(turn, TurnInterrupted("restart_timeout", gateway.run), TurnRequeued())
        claim = await gateway.claims()
        assert claim is not None
        turn = claim.turn
    assert (await gateway.store.sessions.recovery(turn.session)).interruptions == 3
    await gateway.finishes_turn(turn, "done")
    await gateway.delivers()
    assert await gateway.store.sessions.recovery(turn.session) == RecoveryState()


async def test_b11_failed_attempt_keeps_the_mark_until_a_later_turn_is_delivered(gateway: StoreGateway) -> None:
    turn = await gateway.begins_turn("work")
    await gateway.appends(turn, TurnInterrupted("restart_timeout", gateway.run), TurnRequeued())
    claim = await gateway.claims()
    assert claim is not None
    await gateway.fails_turn(claim.turn)
    assert (await gateway.store.sessions.recovery(turn.session)).resume_pending
    later = await gateway.begins_turn("next")
    assert (await gateway.store.sessions.recovery(turn.session)).resume_pending
    await gateway.finishes_turn(later, "here you are")
    await gateway.delivers()
    assert await gateway.store.sessions.recovery(turn.session) == RecoveryState()


@pytest.mark.parametrize(
    "why", [CancelReason.STOPPED, CancelReason.DROPPED, CancelReason.RESET, CancelReason.CLEARED]
)
async def test_b11_mark_counts_no_longer_when_a_person_or_a_clear_ended_the_turn(
    gateway: StoreGateway, why: CancelReason
) -> None:
    session = await interrupted_turn_of_a_dead_run(gateway)
    (turn,) = await gateway.store.turns.interrupted(gateway.run)
    assert await gateway.cancels_turn(turn, why)
    assert await gateway.store.sessions.recovery(session) == RecoveryState()


@pytest.mark.parametrize("why", [CancelReason.SUSPENDED, CancelReason.SUPERSEDED])
async def test_b11_mark_stays_when_the_gateway_gave_the_turn_up(gateway: StoreGateway, why: CancelReason) -> None:
    session = await interrupted_turn_of_a_dead_run(gateway)
    (turn,) = await gateway.store.turns.interrupted(gateway.run)
    marked = await gateway.store.sessions.recovery(session)
    assert await gateway.cancels_turn(turn, why)
    assert await gateway.store.sessions.recovery(session) == marked


async def test_b11_mark_of_one_session_is_nobody_elses(gateway: StoreGateway) -> None:
    other = await gateway.receives("hello", chat_name="c2")
    session = await interrupted_turn_of_a_dead_run(gateway)
    assert (await gateway.store.sessions.recovery(session)).resume_pending
    assert await gateway.store.sessions.recovery(other.session) == RecoveryState()


async def test_suspending_a_turn_suspends_its_session_and_no_other(gateway: StoreGateway) -> None:
    other = await gateway.receives("hello", chat_name="c2")
    turn = await gateway.begins_turn("work")
    assert await gateway.cancels_turn(turn, CancelReason.SUSPENDED)
    await gateway.reopen()
    session, neighbour = [await gateway.store.sessions.get(one) for one in (turn.session, other.session)]
    assert session is not None
    assert neighbour is not None
    assert (session.state, neighbour.state) == (SessionState.SUSPENDED, SessionState.OPEN)

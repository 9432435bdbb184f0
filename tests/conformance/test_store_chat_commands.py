"""Orders: a command acts once, on the turn that was current when it came, together with its answer.

Drives `store/chat_commands` and `store/session_verbs`.
"""

from __future__ import annotations

import asyncio
import itertools

import pytest

from perdure.core.journal import TurnCancelled, TurnInterrupted
from perdure.core.states import CancelReason, RecoveryState, SessionState, TurnState
from perdure.store import session_verbs
from perdure.store.chat_commands import ChatCommand
from perdure.store.session_verbs import StopResult
from support.store_gateway import StoreGateway, answer_with_calls, key_of, message

pytestmark = pytest.mark.anyio


async def commands(gateway: StoreGateway, text: str, *, id: str | None = None) -> bool:  # noqa: A002 reason: reads best
    """Receive a command; whether it was new."""
    inbound = message(text, id=id)
    stored = await gateway.store.inbox.receive(inbound, f"raw {text}", key_of(), gateway.now(), "command")
    return stored.fresh


async def waiting(gateway: StoreGateway) -> list[ChatCommand]:
    return await gateway.store.chat_commands.waiting(gateway.run)


async def stops(gateway: StoreGateway, command: ChatCommand, *, everything: bool = False) -> StopResult | None:
    verb = session_verbs.stop(command.key, command.bound, everything=everything)
    return await gateway.store.chat_commands.execute(
        command, verb, lambda stopped: f"stopped {stopped.turn}", gateway.now()
    )


async def performs_suspend(gateway: StoreGateway) -> bool:
    verb = session_verbs.suspend(key_of())
    return (await gateway.store.chat_commands.execute_verb(key_of(), verb, at=gateway.now())).changed


async def test_command_waits_until_it_is_obeyed_and_never_becomes_a_turn(gateway: StoreGateway) -> None:
    assert await commands(gateway, "/stop")
    await gateway.reopen()
    (command,) = await waiting(gateway)
    assert (command.text, command.key, command.bound) == ("/stop", key_of(), None)
    assert await gateway.store.turns.claimable_keys(gateway.run) == []
    assert await gateway.claims() is None
    assert await gateway.store.inbox.count_waiting(key_of()) == 0


async def test_commands_of_one_chat_wait_in_the_order_in_which_they_came(gateway: StoreGateway) -> None:
    for number in range(3):
        gateway.clock = itertools.repeat(9_000_000 - number).__next__  # it goes back
        await gateway.reopen()
        await commands(gateway, "/stop", id=str(number))
    assert [command.message for command in await waiting(gateway)] == ["0", "1", "2"]


async def test_b71_command_acts_once_when_it_comes_twice(gateway: StoreGateway) -> None:
    turn = await gateway.begins_turn("work")
    assert await commands(gateway, "/stop")
    (command,) = await waiting(gateway)
    assert await stops(gateway, command) == StopResult(turn.id, 0, 0, 0)
    await gateway.reopen()
    assert not await commands(gateway, "/stop")
    assert await waiting(gateway) == []
    before = await gateway.all_rows()
    assert await stops(gateway, command) is None
    assert await gateway.all_rows() == before


async def test_b71_command_acts_once_when_it_is_obeyed_many_times_at_once(gateway: StoreGateway) -> None:
    await gateway.begins_turn("work")
    await commands(gateway, "/stop")
    (command,) = await waiting(gateway)
    stopped = await asyncio.gather(*(stops(gateway, command) for _ in range(5)))
    assert len([one for one in stopped if one]) == 1
    assert len(await gateway.store.outbox.open_deliveries()) == 1


async def test_b71_command_spares_the_turn_that_began_after_it_was_stored(gateway: StoreGateway) -> None:
    first = await gateway.begins_turn("first")
    await gateway.receives("second")
    await commands(gateway, "/stop")
    await gateway.finishes_turn(first)
    second = await gateway.claims()
    assert second is not None
    (command,) = await waiting(gateway)
    assert command.bound == first.id
    assert await stops(gateway, command) == StopResult(None, 0, 0, 0)
    assert (await gateway.turn_row(second.turn)).state is TurnState.RUNNING


async def test_message_behind_a_command_waits_until_that_is_obeyed(gateway: StoreGateway) -> None:
    await gateway.receives("first")
    await commands(gateway, "/new")
    await gateway.receives("second")
    (command,) = await waiting(gateway)
    first = await gateway.claims()
    assert first is not None
    await gateway.finishes_turn(first.turn)
    assert await gateway.claims() is None
    verb = session_verbs.renew(command.key, before=command.position)
    renewed = await gateway.store.chat_commands.execute(command, verb, lambda _: "", gateway.now())
    second = await gateway.claims()
    assert renewed is not None
    assert second is not None
    assert (renewed.dropped, second.turn.session) == (0, renewed.session)


async def test_command_and_its_answer_are_done_together_or_not_at_all(gateway: StoreGateway) -> None:
    turn = await gateway.begins_turn("work")
    await commands(gateway, "/stop")
    (command,) = await waiting(gateway)
    before = await gateway.all_rows()

    def fall_over(stopped: StopResult) -> str:
        raise RuntimeError("no words")

    verb = session_verbs.stop(command.key, command.bound)
    with pytest.raises(RuntimeError, match="no words"):
        await gateway.store.chat_commands.execute(command, verb, fall_over, gateway.now())
    assert await gateway.all_rows() == before
    assert await stops(gateway, command) is not None
    assert await gateway.delivers() == [f"stopped {turn.id}"]


async def test_b54_stop_is_final_and_leaves_no_mark_and_no_open_call(gateway: StoreGateway) -> None:
    turn = await gateway.begins_turn("work")
    await gateway.appends(turn, answer_with_calls("a"), TurnInterrupted("shutdown_timeout", gateway.run))
    await gateway.receives("next")
    await commands(gateway, "/stop")
    (command,) = await waiting(gateway)
    assert await stops(gateway, command) == StopResult(turn.id, 0, 1, 0)
    view = await gateway.view(turn)
    assert (view.ended, view.open_calls) == (TurnCancelled(CancelReason.STOPPED), [])
    assert await gateway.store.sessions.recovery(turn.session) == RecoveryState()
    await gateway.reopen()
    assert await gateway.lost_turns() == []
    claim = await gateway.claims()
    assert claim is not None
    assert claim.turn.id != turn.id


async def test_b54_stop_all_drops_what_waits_and_b75_withdraws_what_was_not_sent(gateway: StoreGateway) -> None:
    await gateway.finishes_turn(await gateway.begins_turn("first"), "one", "two")
    await gateway.delivers()
    turn = await gateway.begins_turn("second")
    await gateway.receives("third")
    await commands(gateway, "/stop all")
    (command,) = await waiting(gateway)
    assert await stops(gateway, command, everything=True) == StopResult(turn.id, 1, 0, 1)
    assert await gateway.claims() is None
    assert await gateway.delivers() == [f"stopped {turn.id}"]


async def test_b9_next_message_gets_a_new_session_when_the_old_one_is_suspended(gateway: StoreGateway) -> None:
    turn = await gateway.begins_turn("work")
    await gateway.appends(turn, TurnInterrupted("shutdown_timeout", gateway.run))
    assert await performs_suspend(gateway)
    await gateway.reopen()
    stored = await gateway.receives("hello again")
    assert stored.session != turn.session
    fresh = await gateway.store.sessions.get(stored.session)
    old = await gateway.store.sessions.get(turn.session)
    assert fresh is not None
    assert old is not None
    assert (fresh.state, fresh.auto_reset_reason) == (SessionState.OPEN, "suspended")
    assert (old.state, old.auto_reset_reason) == (SessionState.CLOSED, None)
    assert (await gateway.view(turn)).causes[0].text == "work"
    claim = await gateway.claims()
    assert claim is not None
    assert (claim.turn.session, claim.turn.first_seq) == (stored.session, 1)


async def test_b7_suspending_changes_nothing_when_there_is_no_session(gateway: StoreGateway) -> None:
    before = await gateway.all_rows()
    assert not await performs_suspend(gateway)
    assert await gateway.all_rows() == before


async def test_b13_renewing_cancels_the_open_turn_and_drops_what_waits(gateway: StoreGateway) -> None:
    turn = await gateway.begins_turn("work")
    await gateway.appends(turn, answer_with_calls("a"))
    await gateway.receives("next")
    renewed = await gateway.store.chat_commands.execute_verb(
        key_of(), session_verbs.renew(key_of()), at=gateway.now()
    )
    assert (renewed.turn, renewed.dropped, renewed.session != turn.session) == (turn.id, 1, True)
    view = await gateway.view(turn)
    assert (view.ended, view.open_calls) == (TurnCancelled(CancelReason.RESET), [])
    assert await gateway.appends(turn, answer_with_calls("b")) is None
    assert await gateway.claims() is None
    assert (await gateway.receives("hello")).session == renewed.session


async def test_orders_of_a_live_run_belong_to_nobody_else(two_gateways: tuple[StoreGateway, StoreGateway]) -> None:
    one, two = two_gateways
    await one.begins_turn("work")
    await commands(two, "/stop")
    assert await waiting(two) == []
    assert len(await waiting(one)) == 1
    await one.stop()
    assert len(await waiting(two)) == 1

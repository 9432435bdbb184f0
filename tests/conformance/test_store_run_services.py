"""Capabilities of runs: claims, take-overs, sends and commands are offered only to a run that can serve the chat.

Drives `store/run_services`, `store/leases`, `store/conditions` and `store/turns`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from perdure.core import texts
from perdure.core.address import Address, session_key
from perdure.core.effects import Effect
from perdure.core.journal import (
    MessagesJoined,
    QuestionAsked,
    ToolEnded,
    ToolStarted,
    TurnBegan,
    TurnInterrupted,
    TurnRequeued,
)
from perdure.core.messages import Inbound, Sender
from perdure.core.states import TurnState
from perdure.store.inbox import InboxKind
from perdure.store.journal import append
from perdure.store.leases import holder
from perdure.store.outbox import OutboxReply
from perdure.store.run_services import PutAside, RunCapabilities, RunService, UnservedChats
from perdure.store.session_verbs import drop
from perdure.store.transitions import Turn
from support.newer_version import Pondered
from support.store_gateway import DatabaseLocation, StoreGateway, answer_with_calls

pytestmark = pytest.mark.anyio

FAR = Address("far", "dm", "c1")
FAR_KEY = session_key("main", FAR)
WEB_ONLY = RunCapabilities((RunService("web", "main"),))
BOTH = RunCapabilities((RunService("web", "main"), RunService("far", "main", "bot7")))


class Foreseen(Pondered, frozen=True):
    """An entry of a newer version."""

    version = 2


async def receive_far(gateway: StoreGateway, text: str, key: str = FAR_KEY) -> None:
    inbound = Inbound(FAR, text, Sender("ada", "Ada"), text)
    kind: InboxKind = "command" if text.startswith("/") else "message"
    await gateway.store.inbox.receive(inbound, text, key, gateway.now(), kind)


async def begin_far(gateway: StoreGateway, key: str = FAR_KEY) -> Turn:
    await receive_far(gateway, "go", key)
    claim = await gateway.store.turns.claim(key, gateway.run, gateway.now())
    assert claim is not None
    return claim.turn


async def lease_holder(gateway: StoreGateway, key: str = FAR_KEY) -> str | None:
    return await gateway.store.database.read(lambda tx: holder(tx, key))


@pytest.fixture
async def pair(postgres_place: DatabaseLocation) -> AsyncIterator[tuple[StoreGateway, StoreGateway]]:
    """One gateway that has both platforms, and one that has only the web, on one PostgreSQL."""
    both, near = StoreGateway(postgres_place, "both"), StoreGateway(postgres_place, "near")
    await both.open(capabilities=BOTH)
    await near.open(capabilities=WEB_ONLY)
    yield both, near
    await both.crash()
    await near.crash()


# ── claims, sends and commands ──────────────────────────────────────────────────────────────────────────────


async def test_b160_message_is_claimed_only_by_a_run_that_has_its_platform(
    pair: tuple[StoreGateway, StoreGateway],
) -> None:
    both, near = pair
    await receive_far(near, "hello")
    assert await near.store.turns.claimable_keys(near.run) == []
    assert await near.store.turns.claim(FAR_KEY, near.run, near.now()) is None
    assert await lease_holder(near) is None
    assert await both.store.turns.claimable_keys(both.run) == [FAR_KEY]
    assert await both.store.turns.claim(FAR_KEY, both.run, both.now()) is not None


async def test_b160_agent_and_its_background_sessions_belong_to_the_run_that_has_it(
    pair: tuple[StoreGateway, StoreGateway],
) -> None:
    both, near = pair
    sales, background = session_key("sales", FAR), session_key("main~2", FAR)
    await receive_far(both, "buy", sales)
    await receive_far(both, "work", background)
    assert await both.store.turns.claimable_keys(both.run) == [background]
    assert await near.store.run_services.unserved() == [UnservedChats("far", "sales", 1, newer=False)]


async def test_b160_reply_and_command_wait_for_a_run_that_has_their_platform(
    pair: tuple[StoreGateway, StoreGateway],
) -> None:
    both, near = pair
    await near.store.outbox.enqueue(FAR_KEY, OutboxReply(FAR, "note", ("hi",)), near.now())
    await receive_far(near, "/status")
    platforms = ["web", "far"]
    assert await near.store.outbox.lane_heads(near.run, platforms) == []
    assert await near.store.chat_commands.waiting(near.run) == []
    [row] = await both.store.outbox.lane_heads(both.run, platforms)
    assert not await near.store.outbox.start_sending(row, near.run, near.now())
    assert await both.store.outbox.start_sending(row, both.run, both.now())
    assert [command.text for command in await both.store.chat_commands.waiting(both.run)] == ["/status"]


async def test_b160_session_of_a_newer_version_is_offered_only_to_runs_that_read_it(
    postgres_place: DatabaseLocation,
) -> None:
    older, newer = StoreGateway(postgres_place, "older"), StoreGateway(postgres_place, "newer")
    await newer.open(capabilities=RunCapabilities(BOTH.services, entry_version=2))
    turn = await begin_far(newer)
    await newer.store.database.write(lambda tx: append(tx, turn.session, turn.id, [Foreseen("deeply")]))
    await newer.stop()
    await older.open(capabilities=BOTH)
    assert await older.lost_turns() == []
    assert await older.interrupts_turn(turn) is None
    assert await older.store.run_services.unserved() == [UnservedChats("far", "main", 1, newer=True)]
    await newer.open(capabilities=RunCapabilities(BOTH.services, entry_version=2))
    assert await older.store.run_services.unserved() == []
    assert [lost.id for lost in await newer.lost_turns()] == [turn.id]
    await newer.crash()
    await older.crash()


async def test_b160_session_that_cannot_be_read_is_let_go_once_a_newer_gateway_lives(
    pair: tuple[StoreGateway, StoreGateway], postgres_place: DatabaseLocation
) -> None:
    both, near = pair
    turn = await begin_far(both)
    await both.store.turns.require_version(turn.session, 2)
    assert await both.store.turns.release_unreadable(both.run) == 0, "nobody can read it"
    newer = StoreGateway(postgres_place, "newer")
    await newer.open(capabilities=RunCapabilities(BOTH.services, entry_version=2))
    assert await near.store.turns.release_unreadable(near.run) == 0, "it is not its own"
    assert await both.store.turns.release_unreadable(both.run) == 1
    assert await lease_holder(both) is None
    assert [lost.id for lost in await newer.lost_turns()] == [turn.id]
    await newer.crash()


# ── take-overs ──────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("clean", [True, False], ids=["after a clean stop", "after a crash"])
async def test_b160_turn_of_a_dead_run_is_taken_over_only_by_a_run_that_has_its_platform(
    pair: tuple[StoreGateway, StoreGateway], clean: bool
) -> None:
    both, near = pair
    turn = await begin_far(both)
    await (both.stop() if clean else both.crash())
    if not clean:
        await both.open(capabilities=WEB_ONLY)  # ends its former run as lost
    assert await near.lost_turns() == []
    assert await near.interrupts_turn(turn) is None
    assert await near.store.run_services.unserved() == [UnservedChats("far", "main", 1, newer=False)]
    await both.crash()
    await both.open(capabilities=BOTH)
    assert [lost.id for lost in await both.lost_turns()] == [turn.id]
    assert await both.interrupts_turn(turn) is not None


async def test_b160_drop_ends_a_turn_that_nobody_can_take_over(pair: tuple[StoreGateway, StoreGateway]) -> None:
    both, near = pair
    turn = await begin_far(both)
    running = await near.store.chat_commands.execute_verb(FAR_KEY, drop(FAR_KEY))
    assert running.turn is None, "its run lives: it is not interrupted"
    await both.stop()
    dropped = await near.store.chat_commands.execute_verb(FAR_KEY, drop(FAR_KEY))
    assert dropped.turn == turn.id
    assert (await near.turn_row(turn)).state is TurnState.CANCELLED


async def test_b160_reply_that_nobody_can_send_expires_through_any_gateway(
    pair: tuple[StoreGateway, StoreGateway],
) -> None:
    both, near = pair
    await near.store.outbox.enqueue(FAR_KEY, OutboxReply(FAR, "note", ("hi",)), near.now())
    assert await near.store.outbox.expire_unserved(1 << 40, near.now()) == 0, "a living run has its platform"
    await both.stop()
    assert await near.store.outbox.expire_unserved(1, near.now()) == 0, "it is too young"
    assert await near.store.outbox.expire_unserved(1 << 40, near.now()) == 1
    assert await near.store.run_services.unserved() == []


async def test_b160_another_account_of_the_same_platform_is_a_conflict(
    pair: tuple[StoreGateway, StoreGateway], postgres_place: DatabaseLocation
) -> None:
    both, _ = pair
    other = StoreGateway(postgres_place, "other")
    await other.open(capabilities=RunCapabilities((RunService("far", "sales", "bot8"),)))
    assert await other.store.run_services.account_conflict(other.run) == ("far", "bot7", "bot8")
    await both.stop()
    assert await other.store.run_services.account_conflict(other.run) is None
    await other.crash()


async def test_b162_turn_that_was_put_aside_waits_for_its_time(pair: tuple[StoreGateway, StoreGateway]) -> None:
    both, near = pair
    turn = await near.begins_turn("work")
    await near.stop()
    assert await both.store.turns.put_aside(turn, 1 << 60, "ValueError: odd")
    assert await both.lost_turns() == []
    assert await both.store.run_services.put_aside() == [PutAside(turn.key, "ValueError: odd", 1 << 60)]
    assert await both.store.run_services.count_put_aside() == 1
    assert await both.store.turns.put_aside(turn, 1, "ValueError: odd")
    assert [lost.id for lost in await both.lost_turns()] == [turn.id]
    assert await both.interrupts_turn(turn) is not None
    assert await both.store.run_services.count_put_aside() == 0
    assert not await both.store.turns.put_aside(turn, 1 << 60, "late"), "somebody has taken it meanwhile"


# ── what is on one machine ──────────────────────────────────────────────────────────────────────────────────

COMMAND = ToolStarted("c1", "shell", Effect.ATTACHED, "t:c1", {"command": "make"})
DAY_MS = 86_400_000


async def begin_command(gateway: StoreGateway) -> Turn:
    turn = await gateway.begins_turn("work")
    await gateway.appends(turn, answer_with_calls("c1"))
    assert await gateway.appends(turn, COMMAND)
    return turn


async def test_b161_turn_with_a_command_waits_for_its_gateway_after_a_planned_stop(
    two_gateways: tuple[StoreGateway, StoreGateway],
) -> None:
    one, two = two_gateways
    turn = await begin_command(one)
    await one.store.runs.end(one.run, DAY_MS)
    assert await two.lost_turns() == []
    assert await two.interrupts_turn(turn) is None
    await one.crash()
    await one.open()
    assert await two.lost_turns() == [], "its gateway lives again"
    assert await two.interrupts_turn(turn) is None
    assert await one.lost_turns() == [turn]
    assert await one.interrupts_turn(turn) is not None


@pytest.mark.parametrize("clean", [True, False], ids=["after the wait", "after a crash"])
async def test_b161_model_is_told_what_stayed_behind_when_the_turn_moves_after_all(
    two_gateways: tuple[StoreGateway, StoreGateway], clean: bool
) -> None:
    one, two = two_gateways
    turn = await begin_command(one)
    await (one.stop() if clean else end_as_lost(one))
    mine = await two.interrupts_turn(turn)
    assert mine is not None
    assert await two.appends(mine, TurnRequeued())
    claim = await two.claims()
    assert claim is not None
    told = [record.entry for record in claim.records if isinstance(record.entry, MessagesJoined)]
    assert [(cause.text, cause.note) for entry in told for cause in entry.causes] == [
        (texts.recovery.NOTE_STAYED_BEHIND, True)
    ]
    assert await two.appends(claim.turn, TurnInterrupted("shutdown_timeout"), TurnRequeued())
    again = await two.claims()
    assert again is not None
    joined = [record for record in again.records if isinstance(record.entry, MessagesJoined)]
    assert len(joined) == 1, "it is told once"


async def test_b161_idle_chat_with_files_waits_and_its_next_turn_is_told(
    two_gateways: tuple[StoreGateway, StoreGateway],
) -> None:
    one, two = two_gateways
    turn = await begin_command(one)
    await one.appends(turn, ToolEnded("c1", "ok", "made"))
    await one.finishes_turn(turn)
    await two.receives("more")
    await one.store.runs.start_draining(one.run)
    assert await two.claims() is None, "its gateway lives"
    assert await two.store.turns.claimable_keys(two.run) == []
    await one.stop()
    claim = await two.claims()
    assert claim is not None
    [began] = [record.entry for record in claim.records if isinstance(record.entry, TurnBegan)]
    assert [cause.text for cause in began.causes] == [texts.recovery.NOTE_STAYED_BEHIND, "more"]


async def end_as_lost(gateway: StoreGateway) -> None:
    """Let a gateway die, and its next start say so; that one has ended, too, when this returns."""
    await gateway.crash()
    await gateway.open()
    await gateway.stop()


# ── draining ────────────────────────────────────────────────────────────────────────────────────────────────


async def test_b161_idle_chat_of_a_draining_run_is_claimed_by_another_and_its_open_turn_is_not(
    two_gateways: tuple[StoreGateway, StoreGateway],
) -> None:
    one, two = two_gateways
    idle = await one.begins_turn("first", chat_name="idle")
    await one.finishes_turn(idle)
    busy = await one.begins_turn("first", chat_name="busy")
    asking = await one.begins_turn("first", chat_name="asking")
    await one.appends(asking, QuestionAsked("q", "which?"))
    for name in ("idle", "busy", "asking"):
        await two.receives("second", chat_name=name, id=f"second {name}")
    assert await two.claims("idle") is None
    await one.store.runs.start_draining(one.run)
    assert await two.claims("busy") is None
    assert await two.claims("asking") is None
    claim = await two.claims("idle")
    assert claim is not None
    assert claim.turn.epoch > idle.epoch
    assert await one.appends(idle) in ([], None)
    assert await one.finishes_turn(busy) is not None, "it ends what it has begun"
    assert await one.claims("busy") is None, "and begins nothing more"
    assert await two.claims("busy") is not None


async def test_b161_row_that_a_draining_run_sends_is_left_to_that_run(
    two_gateways: tuple[StoreGateway, StoreGateway],
) -> None:
    one, two = two_gateways
    turn = await one.begins_turn("first")
    await one.finishes_turn(turn, "answer")
    [row] = await one.outbox_heads()
    assert await one.starts_delivery(row)
    await one.store.runs.start_draining(one.run)
    await two.receives("second")
    claim = await two.claims()
    assert claim is not None
    assert await two.outbox_heads() == [], "another living run is sending it"
    assert await one.store.outbox.record_sent(row, "receipt", one.now())


async def test_b161_draining_run_takes_over_nothing(two_gateways: tuple[StoreGateway, StoreGateway]) -> None:
    one, two = two_gateways
    turn = await one.begins_turn("work")
    await two.store.runs.start_draining(two.run)
    await one.stop()
    assert await two.interrupts_turn(turn) is None
    await one.open()
    assert await one.interrupts_turn(turn) is not None

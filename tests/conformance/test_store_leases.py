"""Runs and leases: a dead run's turns are taken over and fenced, a live run's are left alone.

Drives `store/leases` and `store/runs`.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator

import msgspec
import pytest

from perdure.core.journal import (
    ModelAsked,
    QuestionAsked,
    ToolEnded,
    TurnCancelled,
    TurnClaimed,
    TurnFinished,
    TurnInterrupted,
    TurnRequeued,
)
from perdure.core.turn import FINAL_STATES, TurnState
from perdure.store.runs import LEASE_MS
from perdure.store.transitions import Turn
from support.store_gateway import DatabaseLocation, SpyDatabase, StoreGateway, answer_with_calls, key_of
from support.waiting import eventually

pytestmark = pytest.mark.anyio

INTERRUPTED = TurnInterrupted("restart_timeout")


async def silence(gateway: StoreGateway, run: str) -> None:
    """Make the run's last heartbeat older than any lease."""
    await gateway.execute_sql(
        "UPDATE runs SET heartbeat_at = heartbeat_at - :age WHERE id = :run", age=LEASE_MS + 1_000, run=run
    )


async def ending(gateway: StoreGateway, run: str) -> str | None:
    found = await gateway.store.runs.get(run)
    assert found is not None, f"no run {run}"
    assert (found.ended_at is None) == (found.ending is None)
    return found.ending


# ── runs ────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_run_is_on_record_and_alive_when_begun(gateway: StoreGateway) -> None:
    run = await gateway.store.runs.get(gateway.run)
    assert run is not None
    assert (run.instance, run.version, run.ended_at, run.ending) == ("one", "0", None, None)
    assert run.started_at == run.heartbeat_at > 1_600_000_000_000
    assert await gateway.store.runs.get("run_unknown") is None


async def test_run_ends_clean_when_it_is_stopped_and_lost_when_it_crashed(gateway: StoreGateway) -> None:
    stopped = gateway.run
    await gateway.reopen(clean=True)
    crashed = gateway.run
    assert await ending(gateway, stopped) == "clean"
    await gateway.reopen()
    assert await ending(gateway, crashed) == "lost"
    assert await ending(gateway, gateway.run) is None


async def test_end_is_told_once(gateway: StoreGateway) -> None:
    run = gateway.run
    await gateway.reopen()
    await gateway.store.runs.end(run)
    assert await ending(gateway, run) == "lost"


async def test_beat_says_whether_the_run_is_still_alive(gateway: StoreGateway) -> None:
    runs = gateway.store.runs
    await gateway.execute_sql("UPDATE runs SET heartbeat_at = 5")
    assert await runs.record_heartbeat(gateway.run)
    run = await runs.get(gateway.run)
    assert run is not None
    assert run.heartbeat_at >= run.started_at
    await runs.end(gateway.run)
    assert not await runs.record_heartbeat(gateway.run)
    assert not await runs.record_heartbeat("run_unknown")


async def test_reap_spares_our_own_run_and_those_that_beat(
    two_gateways: tuple[StoreGateway, StoreGateway],
) -> None:
    one, two = two_gateways
    await silence(one, one.run)
    assert await one.store.runs.reap(one.run) == 0
    assert await one.store.runs.record_heartbeat(one.run)
    assert await two.store.runs.reap(two.run) == 0
    assert [await ending(one, run) for run in (one.run, two.run)] == [None, None]


async def test_reap_ends_a_silent_run_and_its_beat_says_so(
    two_gateways: tuple[StoreGateway, StoreGateway],
) -> None:
    one, two = two_gateways
    await silence(two, one.run)
    assert await two.store.runs.reap(two.run) == 1
    assert await ending(two, one.run) == "lost"
    assert not await one.store.runs.record_heartbeat(one.run)
    assert await two.store.runs.reap(two.run) == 0


async def test_b89_dead_run_is_reaped_after_its_lease_when_the_clock_was_set_back(
    two_gateways: tuple[StoreGateway, StoreGateway],
) -> None:
    """Its heartbeat seems to come from tomorrow: its silence is counted from the first look."""
    one, two = two_gateways
    ahead = "UPDATE runs SET heartbeat_at = heartbeat_at + 86400000 WHERE id = :run"
    await one.execute_sql(ahead, run=one.run)
    assert await two.store.runs.reap(two.run) == 0
    await silence(two, one.run)
    assert await two.store.runs.reap(two.run) == 1
    assert await ending(two, one.run) == "lost"


async def test_begin_ends_only_runs_of_the_same_home_when_gateways_share_the_database(
    two_gateways: tuple[StoreGateway, StoreGateway],
) -> None:
    one, two = two_gateways
    before = one.run
    await one.reopen()
    assert await ending(one, before) == "lost"
    assert await ending(one, two.run) is None


# ── lost turns ──────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("clean", [True, False], ids=["after a clean stop", "after a crash"])
async def test_b40_running_turn_is_lost_when_its_run_is_over(gateway: StoreGateway, clean: bool) -> None:
    turn = await gateway.begins_turn("work")
    assert await gateway.lost_turns() == []
    old = gateway.run
    await gateway.reopen(clean=clean)
    assert await gateway.lost_turns() == [turn]
    mine = await gateway.interrupts_turn(turn)
    assert mine == await gateway.turn_row(turn)
    assert mine.state is TurnState.INTERRUPTED
    assert mine.epoch > turn.epoch
    assert await gateway.lost_turns() == []
    assert await gateway.store.turns.interrupted(gateway.run) == [mine]
    mark = (await gateway.view(turn)).records[-1].entry
    assert isinstance(mark, TurnInterrupted)
    assert (mark.reason, mark.run) == ("restart_interrupted", old)


async def test_b40_finished_turn_is_never_lost(gateway: StoreGateway) -> None:
    for number, ending_entry in enumerate([TurnFinished("x"), TurnCancelled("stopped")]):
        turn = await gateway.begins_turn("work", chat_name=f"c{number}")
        await gateway.appends(turn, ending_entry)
    await gateway.reopen()
    assert await gateway.lost_turns() == []


async def test_b24_message_that_no_turn_has_begun_is_not_lost_but_claimable(gateway: StoreGateway) -> None:
    await gateway.receives("hello")
    await gateway.reopen()
    assert await gateway.lost_turns() == []
    assert await gateway.store.turns.claimable_keys(gateway.run) == [key_of()]
    assert await gateway.claims() is not None


async def test_b40_queued_turn_is_marked_when_its_run_is_over(gateway: StoreGateway) -> None:
    turn = await gateway.begins_turn("work")
    await gateway.appends(turn, INTERRUPTED, TurnRequeued())
    await gateway.reopen()
    assert await gateway.claims() is None
    assert await gateway.store.turns.claimable_keys(gateway.run) == []
    assert [lost.id for lost in await gateway.lost_turns()] == [turn.id]
    mine = await gateway.interrupts_turn(turn)
    assert mine is not None
    assert await gateway.appends(mine, TurnRequeued())
    assert await gateway.store.turns.claimable_keys(gateway.run) == [key_of()]
    claim = await gateway.claims()
    assert claim is not None
    assert (claim.turn.id, claim.turn.attempt) == (turn.id, 2)


@pytest.mark.parametrize(
    ("entry", "state"),
    [(INTERRUPTED, TurnState.INTERRUPTED), (QuestionAsked("q", "Which?"), TurnState.WAITING)],
    ids=["interrupted", "waiting"],
)
async def test_turn_is_taken_over_without_a_second_mark_when_it_was_not_running(
    gateway: StoreGateway, entry: TurnInterrupted | QuestionAsked, state: TurnState
) -> None:
    turn = await gateway.begins_turn("work")
    await gateway.appends(turn, entry)
    journal = await gateway.store.journal.of_turn(turn.session, turn.id)
    await gateway.reopen()
    mine = await gateway.interrupts_turn(turn)
    assert mine == await gateway.turn_row(turn)
    assert (mine.state, mine.epoch > turn.epoch) == (state, True)
    assert await gateway.store.journal.of_turn(turn.session, turn.id) == journal
    assert await gateway.lost_turns() == []


async def test_interrupted_turn_goes_on_in_the_next_run_when_the_gateway_died_before_requeueing(
    gateway: StoreGateway,
) -> None:
    turn = await gateway.begins_turn("work")
    await gateway.reopen()
    assert await gateway.interrupts_turn(turn)
    await gateway.reopen()
    mine = await gateway.interrupts_turn(turn)
    assert mine is not None
    assert await gateway.appends(mine, TurnRequeued())
    claim = await gateway.claims()
    assert claim is not None
    assert claim.turn.id == turn.id
    assert len((await gateway.view(turn)).interruptions) == 1


async def test_interrupt_does_nothing_when_the_run_is_alive(
    two_gateways: tuple[StoreGateway, StoreGateway],
) -> None:
    one, two = two_gateways
    turn = await one.begins_turn("work")
    before = await one.all_rows()
    assert await two.interrupts_turn(turn) is None
    assert await one.interrupts_turn(turn) is None
    assert await one.all_rows() == before


@pytest.mark.parametrize("entry", [TurnFinished("x"), TurnCancelled("stopped")], ids=["done", "cancelled"])
async def test_b7_interrupt_changes_nothing_when_the_turn_is_over(
    gateway: StoreGateway, entry: TurnFinished | TurnCancelled
) -> None:
    turn = await gateway.begins_turn("work")
    await gateway.appends(turn, entry)
    await gateway.reopen()
    before = await gateway.all_rows()
    assert await gateway.interrupts_turn(turn) is None
    assert await gateway.all_rows() == before


async def test_interrupt_marks_once_when_two_gateways_race(postgres_place: DatabaseLocation) -> None:
    dead = await StoreGateway(postgres_place, "dead").open()
    turns = [await dead.begins_turn("work", chat_name=f"c{n}") for n in range(6)]
    await dead.crash()
    one, two = await StoreGateway(postgres_place, "one").open(), await StoreGateway(postgres_place, "two").open()
    await silence(one, dead.run)
    await asyncio.gather(*(gateway.store.runs.reap(gateway.run) for gateway in (one, two)))
    for turn in turns:
        marked = await asyncio.gather(*(gateway.interrupts_turn(turn) for gateway in (one, two)))
        assert len([mark for mark in marked if mark]) == 1
        assert len((await one.view(turn)).interruptions) == 1
    await one.crash()
    await two.crash()


# ── fencing ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
async def frozen(
    two_gateways: tuple[StoreGateway, StoreGateway],
) -> AsyncIterator[tuple[StoreGateway, Turn, StoreGateway]]:
    """A gateway that was declared dead with a running turn, though its process still lives; and its neighbour."""
    one, two = two_gateways
    turn = await one.begins_turn("work")
    await one.appends(turn, answer_with_calls("a"))
    await silence(two, one.run)
    assert await two.store.runs.reap(two.run) == 1
    yield one, turn, two


async def test_old_owner_writes_nothing_when_its_turn_was_taken_over(
    frozen: tuple[StoreGateway, Turn, StoreGateway],
) -> None:
    one, turn, two = frozen
    mine = await two.interrupts_turn(turn, "lease_lost")
    assert mine is not None
    before = await two.all_rows()
    assert await one.appends(turn, ModelAsked(2, "m")) is None
    assert await one.appends(turn, ToolEnded("a", "ok", "")) is None
    assert await one.finishes_turn(turn, "a reply of the dead") is None
    assert await one.cancels_turn(turn) is None
    assert await two.all_rows() == before
    assert await two.appends(mine, TurnRequeued()) is not None


async def test_old_owner_claims_nothing_when_its_run_was_declared_dead(
    frozen: tuple[StoreGateway, Turn, StoreGateway],
) -> None:
    one, _, two = frozen
    await one.receives("a new chat", chat_name="c2")
    assert await one.claims("c2") is None
    assert await two.claims("c2") is not None


async def test_old_owner_interrupts_nothing_when_its_run_was_declared_dead(
    frozen: tuple[StoreGateway, Turn, StoreGateway],
) -> None:
    one, _, two = frozen
    other = await two.begins_turn("work", chat_name="c2")
    await two.crash()
    await silence(one, two.run)
    assert await one.store.runs.reap(one.run) == 1
    assert await one.interrupts_turn(other) is None


async def test_new_owner_carries_the_turn_on(frozen: tuple[StoreGateway, Turn, StoreGateway]) -> None:
    _, turn, two = frozen
    mine = await two.interrupts_turn(turn, "lease_lost")
    assert mine is not None
    assert await two.appends(mine, TurnRequeued())
    claim = await two.claims()
    assert claim is not None
    assert claim.records[-1].entry == TurnClaimed(two.run, claim.turn.epoch, 2)
    assert await two.finishes_turn(claim.turn, "done")
    view = await two.view(turn)
    assert view.state in FINAL_STATES
    assert view.open_calls == []


async def test_live_runs_sessions_belong_to_nobody_else_until_it_ends(
    two_gateways: tuple[StoreGateway, StoreGateway],
) -> None:
    one, two = two_gateways
    await one.finishes_turn(await one.begins_turn("first"), "reply")
    await one.receives("second")
    before = await two.all_rows()
    assert await two.store.turns.claimable_keys(two.run) == []
    assert await two.claims() is None
    assert await two.outbox_heads() == []
    assert await two.all_rows() == before
    assert await one.store.turns.claimable_keys(one.run) == [key_of()]
    await one.stop()
    assert await two.store.turns.claimable_keys(two.run) == [key_of()]
    assert [row.text for row in await two.outbox_heads()] == ["reply"]
    claim = await two.claims()
    assert claim is not None
    assert [cause.text for cause in (await two.view(claim.turn)).causes] == ["second"]


async def test_reaped_runs_sessions_are_claimable_by_others(
    two_gateways: tuple[StoreGateway, StoreGateway],
) -> None:
    one, two = two_gateways
    await one.finishes_turn(await one.begins_turn("first"))
    await one.receives("second")
    await silence(two, one.run)
    assert await two.claims() is None
    await two.store.runs.reap(two.run)
    assert await two.claims() is not None


# ── races between two statements of one transaction ─────────────────────────────────────────────────────────


class Gate:
    """Holds the first write that is about to run a statement, until it is opened."""

    def __init__(self, statement: str) -> None:
        self._statement = statement
        self.reached = threading.Event()
        self.opened = threading.Event()

    def __call__(self, sql: str) -> None:
        if sql.startswith(self._statement) and not self.reached.is_set():
            self.reached.set()
            assert self.opened.wait(30), f"the gate before {self._statement!r} was never opened"


async def test_message_is_taken_once_when_it_was_answered_while_another_claim_hung(
    two_gateways: tuple[StoreGateway, StoreGateway],
) -> None:
    """One gateway hangs inside its claim; the other claims, answers and stops meanwhile."""
    one, two = two_gateways
    gate = Gate("UPDATE leases SET run")
    await one.crash()
    await one.open(lambda database: SpyDatabase(database, gate))
    await two.receives("hello")
    hanging = asyncio.create_task(one.claims())
    await eventually("the claim hangs", gate.reached.is_set)
    await two.finishes_turn((await two.claims() or pytest.fail("nothing to claim")).turn, "hi")
    await two.stop()
    gate.opened.set()
    assert await hanging is None
    assert await one.query("SELECT count(*) FROM turns") == [(1,)]


async def test_take_over_follows_the_journal_when_the_old_owner_wrote_at_the_same_time(
    frozen: tuple[StoreGateway, Turn, StoreGateway],
) -> None:
    """The gateway that takes over hangs between looking and writing; the one declared dead writes meanwhile."""
    one, turn, two = frozen
    gate = Gate("UPDATE turns SET")
    await two.crash()
    await two.open(lambda database: SpyDatabase(database, gate))
    hanging = asyncio.create_task(two.interrupts_turn(turn, "lease_lost"))
    await eventually("the take-over hangs", gate.reached.is_set)
    assert await one.appends(turn, QuestionAsked("q", "Which one?")) is not None
    gate.opened.set()
    await hanging
    row = await two.turn_row(turn)
    assert row.state is (await two.view(turn)).state
    assert msgspec.structs.asdict(row)["epoch"] >= turn.epoch

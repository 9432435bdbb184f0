"""Runs and leases: a dead run's turns are taken over and fenced, a live run's are left alone.

Drives `store/leases` and `store/runs`.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator

import msgspec
import psycopg
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
from perdure.core.states import FINAL_STATES, TurnState
from perdure.errors import Unavailable
from perdure.store.runs import LEASE_MS, Instance
from perdure.store.transitions import Turn
from support.store_gateway import DatabaseLocation, SpyDatabase, StoreGateway, answer_with_calls, key_of
from support.waiting import eventually

pytestmark = pytest.mark.anyio

INTERRUPTED = TurnInterrupted("restart_timeout")


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


async def beats(gateway: StoreGateway, run: str) -> int:
    """How many heartbeats a run has made."""
    ((count,),) = await gateway.query("SELECT beats FROM runs WHERE id = :run", run=run)
    return int(count)


async def test_beat_says_whether_the_run_is_still_alive(gateway: StoreGateway) -> None:
    runs = gateway.store.runs
    await gateway.execute_sql("UPDATE runs SET heartbeat_at = 5")
    assert await runs.beat(gateway.run, {})
    assert await runs.beat(gateway.run, {})
    assert await beats(gateway, gateway.run) == 2
    run = await runs.get(gateway.run)
    assert run is not None
    assert run.heartbeat_at >= run.started_at
    await runs.end(gateway.run)
    assert await runs.beat(gateway.run, {}) is None
    assert await runs.beat("run_unknown", {}) is None
    assert await beats(gateway, gateway.run) == 2


async def test_b163_beat_ends_only_runs_whose_count_has_not_moved(
    two_gateways: tuple[StoreGateway, StoreGateway],
) -> None:
    one, two = two_gateways
    found = await two.store.runs.beat(two.run, {})
    assert found is not None
    assert [(other.run, other.beats, other.lease_ms) for other in found.others] == [(one.run, 0, LEASE_MS)]
    assert await one.store.runs.beat(one.run, {one.run: 0, two.run: 0})
    found = await two.store.runs.beat(two.run, {one.run: 0, two.run: 1})
    assert found is not None
    assert not found.ended
    assert [await ending(one, run) for run in (one.run, two.run)] == [None, None]


async def test_b163_beat_ends_a_silent_run_and_its_own_beat_says_so(
    two_gateways: tuple[StoreGateway, StoreGateway],
) -> None:
    one, two = two_gateways
    assert await two.declares_dead(one)
    assert await ending(two, one.run) == "lost"
    assert await one.store.runs.beat(one.run, {two.run: 1}) is None, "the dead end nobody"
    assert await ending(two, two.run) is None
    assert not await two.declares_dead(one)


async def test_b163_beat_goes_on_when_somebody_holds_the_row_of_a_silent_run(
    two_gateways: tuple[StoreGateway, StoreGateway], postgres_place: DatabaseLocation
) -> None:
    one, two = two_gateways
    with psycopg.connect(postgres_place.url) as connection:
        connection.execute("SELECT 1 FROM runs WHERE id = %s FOR UPDATE", [one.run])
        assert not await two.declares_dead(one)
        assert await beats(two, two.run) == 1
    assert await two.declares_dead(one)


async def test_b163_beat_waits_for_no_session_and_for_no_lock(
    two_gateways: tuple[StoreGateway, StoreGateway], postgres_place: DatabaseLocation
) -> None:
    """Every writer is stuck behind a lock: the heartbeat goes on; stuck itself, it gives up soon."""
    one, _ = two_gateways
    with psycopg.connect(postgres_place.url) as connection:
        connection.execute("LOCK TABLE inbox")
        stuck = [asyncio.create_task(one.receives("hello", chat_name=f"c{n}")) for n in range(12)]
        for _ in range(3):
            assert await one.store.runs.beat(one.run, {})
        assert not any(task.done() for task in stuck)
        connection.execute("LOCK TABLE runs")
        with pytest.raises(Unavailable):
            await one.store.runs.beat(one.run, {})
    assert await one.store.runs.beat(one.run, {})
    await asyncio.gather(*stuck)


@pytest.mark.parametrize("jump", [-86_400_000, 86_400_000], ids=["back", "forward"])
async def test_b89_clock_of_the_server_ends_nobody_when_it_is_set(
    two_gateways: tuple[StoreGateway, StoreGateway], jump: int
) -> None:
    """The last heartbeat seems to be of another day: only the count of heartbeats tells who is dead."""
    one, two = two_gateways
    await one.execute_sql("UPDATE runs SET heartbeat_at = heartbeat_at + :jump", jump=jump)
    assert await two.store.runs.beat(two.run, {})
    assert await ending(two, one.run) is None
    assert await two.declares_dead(one)
    assert await ending(two, one.run) == "lost"


async def test_begin_ends_only_runs_of_the_same_home_when_gateways_share_the_database(
    two_gateways: tuple[StoreGateway, StoreGateway],
) -> None:
    one, two = two_gateways
    before = one.run
    await one.reopen()
    assert await ending(one, before) == "lost"
    assert await ending(one, two.run) is None


# ── who is who ──────────────────────────────────────────────────────────────────────────────────────────────


async def begins(gateway: StoreGateway, *, lock_id: str, former: str = "") -> str:
    """Begin a run with the id `shared`, in a home with that lock."""
    named = Instance("shared", former, lock_id, f"machine:/{lock_id}")
    return (await gateway.store.runs.begin(named, "0")).run


async def test_b168_lock_proves_death_only_to_those_who_hold_the_same_one(gateway: StoreGateway) -> None:
    """On SQLite everybody holds the same lock: that of the file."""
    first, copy = await begins(gateway, lock_id="first"), await begins(gateway, lock_id="copy")
    assert await ending(gateway, first) == ("lost" if gateway.store.database.exclusive else None)
    again = await begins(gateway, lock_id="first")
    assert await ending(gateway, first) == "lost"
    assert await ending(gateway, copy) == ("lost" if gateway.store.database.exclusive else None)
    assert await ending(gateway, again) is None


async def test_b168_same_machine_name_and_path_are_two_gateways(
    two_gateways: tuple[StoreGateway, StoreGateway],
) -> None:
    one, two = two_gateways
    named = [Instance(name, "machine:/home", f"lock of {name}", "machine:/home") for name in ("first", "second")]
    runs = [
        (await gateway.store.runs.begin(instance, "0")).run
        for gateway, instance in zip((one, two), named, strict=True)
    ]
    assert [await ending(one, run) for run in runs] == [None, None]
    assert [await one.store.runs.copies(instance) for instance in named] == [[], []]


async def test_b168_copies_are_the_living_with_our_id_and_another_lock(
    two_gateways: tuple[StoreGateway, StoreGateway],
) -> None:
    one, _ = two_gateways
    first = await begins(one, lock_id="first")
    assert await one.store.runs.copies(Instance("shared", lock_id="first")) == []
    assert await one.store.runs.copies(Instance("another", lock_id="copy")) == []
    (found,) = await one.store.runs.copies(Instance("shared", lock_id="copy"))
    assert (found.beats.run, found.beats.beats, found.home) == (first, 0, "machine:/first")
    await one.store.runs.end_silent({first: 1})
    assert await ending(one, first) is None, "its count has moved"
    await one.store.runs.end_silent({first: 0})
    assert await ending(one, first) == "lost"
    assert await one.store.runs.copies(Instance("shared", lock_id="copy")) == []


async def test_b168_run_of_an_older_version_is_found_by_the_name_that_it_had(
    two_gateways: tuple[StoreGateway, StoreGateway],
) -> None:
    """Its row says neither an id nor a lock."""
    one, two = two_gateways
    await one.execute_sql("UPDATE runs SET lock_id = NULL, former = NULL, instance = 'machine:/home'")
    await begins(two, lock_id="first", former="machine:/home")
    assert await ending(two, one.run) == "lost"


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
    ended = await asyncio.gather(*(gateway.declares_dead(dead) for gateway in (one, two)))
    assert any(ended)
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
    assert await two.declares_dead(one)
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
    three = await StoreGateway(one.place, "three").open()
    assert await three.declares_dead(two)
    assert await one.interrupts_turn(other) is None
    await three.crash()


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
    assert await two.claims() is None
    assert await two.declares_dead(one)
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

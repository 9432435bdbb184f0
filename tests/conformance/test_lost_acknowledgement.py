"""PostgreSQL: whatever happens to the connection around a commit, each write is done once, and says so.

Drives `store/backends/postgres` and `store/backends/postgres_writer`.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from perdure.core.journal import ModelAsked
from perdure.core.states import TurnState
from perdure.errors import StoreBroken, StoreError, Unavailable
from perdure.store.transitions import Turn
from support.postgres import PostgresServer
from support.postgres_proxy import CuttingProxy
from support.store_gateway import DatabaseLocation, StoreGateway, key_of
from support.waiting import eventually, wait_for

pytestmark = pytest.mark.anyio


@pytest.fixture
def proxy(postgres_server: PostgresServer) -> Iterator[CuttingProxy]:
    with CuttingProxy("127.0.0.1", postgres_server.port) as proxy:
        yield proxy


@pytest.fixture
async def remote(postgres_place: DatabaseLocation, proxy: CuttingProxy) -> AsyncIterator[StoreGateway]:
    """A gateway whose way to the database leads through the proxy."""
    gateway = await StoreGateway(DatabaseLocation(proxy.through(postgres_place.url), postgres_place.folder)).open()
    yield gateway
    await gateway.crash()


async def steps(gateway: StoreGateway, turn: Turn) -> list[int]:
    """The steps of the model that the turn's journal tells of, in order."""
    records = await gateway.store.journal.of_turn(turn.session, turn.id)
    return [record.entry.step for record in records if isinstance(record.entry, ModelAsked)]


# ── one commit ──────────────────────────────────────────────────────────────────────────────────────────────


async def test_write_is_there_once_when_its_commit_was_done_and_the_answer_lost(
    remote: StoreGateway, proxy: CuttingProxy
) -> None:
    proxy.cut_after_commit()
    stored = await remote.receives("hello")
    assert proxy.sprung == 1
    assert stored.fresh
    assert await remote.query("SELECT id, position FROM inbox") == [(stored.message, 1)]
    assert not (await remote.receives("hello")).fresh
    assert remote.store.problem is None


async def test_write_is_there_once_when_it_was_cut_off_before_its_commit(
    remote: StoreGateway, proxy: CuttingProxy
) -> None:
    proxy.cut_before_commit()
    stored = await remote.receives("hello")
    assert proxy.sprung == 1
    assert stored.fresh
    assert await remote.query("SELECT id, position FROM inbox") == [(stored.message, 1)]


async def test_write_is_there_once_when_the_server_still_has_its_twin_open(
    remote: StoreGateway, proxy: CuttingProxy, postgres_place: DatabaseLocation
) -> None:
    proxy.hold_commit()
    writing = asyncio.create_task(remote.receives("hello"))
    await eventually("the commit is held", lambda: proxy.sprung)
    await eventually("the redo waits for its twin", lambda: waiting_for_a_lock(postgres_place.url))
    assert not writing.done()
    assert await asyncio.to_thread(proxy.release)
    stored = await writing
    assert stored.fresh
    assert await remote.query("SELECT id, position FROM inbox") == [(stored.message, 1)]


async def test_write_is_there_once_when_its_twin_on_the_server_dies(
    remote: StoreGateway, proxy: CuttingProxy, postgres_place: DatabaseLocation
) -> None:
    proxy.hold_commit()
    writing = asyncio.create_task(remote.receives("hello"))
    await eventually("the commit is held", lambda: proxy.sprung)
    await eventually("the redo waits for its twin", lambda: waiting_for_a_lock(postgres_place.url))
    end_idle_transactions(postgres_place.url)
    stored = await writing
    assert await remote.query("SELECT id, position FROM inbox") == [(stored.message, 1)]
    assert not await asyncio.to_thread(proxy.release)
    assert await remote.query("SELECT id, position FROM inbox") == [(stored.message, 1)]


def waiting_for_a_lock(url: str) -> bool:
    return bool(administer(url, "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'"))


def end_idle_transactions(url: str) -> None:
    idle = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE state = 'idle in transaction'"
    assert administer(url, idle) == [(True,)]


def administer(url: str, statement: str) -> list[tuple[object, ...]]:
    with psycopg.connect(url, autocommit=True) as connection:
        return connection.execute(sql.SQL(statement)).fetchall()


async def test_result_of_a_write_is_that_of_the_commit_that_counted(
    remote: StoreGateway, proxy: CuttingProxy
) -> None:
    """Ids are made inside the work, so a redo would make others: what is returned must be what is stored."""
    for trap in (proxy.cut_after_commit, proxy.cut_before_commit) * 3:
        trap()
        turn = await remote.begins_turn(f"m{proxy.sprung}")
        trap()
        records = await remote.finishes_turn(turn, "reply")
        assert records is not None
        assert await remote.turn_row(turn) is not None
        assert (await remote.store.journal.of_turn(turn.session, turn.id))[-1] == records[-1]
        assert (await remote.turn_row(turn)).state is TurnState.DONE
        assert len(await remote.store.outbox.of_turn(turn.id)) == 1
    assert await remote.query("SELECT count(*), count(DISTINCT turn) FROM inbox WHERE state = 'taken'") == [(6, 6)]


async def test_many_writes_with_many_cuts_are_each_there_once(remote: StoreGateway, proxy: CuttingProxy) -> None:
    turns = [await remote.begins_turn("work", chat_name=f"c{n}") for n in range(4)]
    chance = random.Random(7)  # noqa: S311 reason: which cut comes when is no secret
    for round_number in range(15):
        chance.choice([proxy.cut_after_commit, proxy.cut_before_commit])()
        await asyncio.gather(
            *(remote.appends(turn, ModelAsked(round_number, "m")) for turn in turns for _ in range(3))
        )
    assert proxy.sprung >= 14
    for turn in turns:
        assert await steps(remote, turn) == [number for number in range(15) for _ in range(3)]


async def test_faulty_work_fails_alone_when_the_connection_is_cut_in_the_same_batch(
    remote: StoreGateway, proxy: CuttingProxy
) -> None:
    turn = await remote.begins_turn("work")
    proxy.cut_after_commit()
    results = await asyncio.gather(
        remote.appends(turn, ModelAsked(1, "m")),
        remote.store.database.write(lambda tx: tx.run("SELECT nonsense FROM nowhere"), key=turn.key),
        remote.appends(turn, ModelAsked(2, "m")),
        return_exceptions=True,
    )
    assert isinstance(results[1], psycopg.errors.UndefinedTable | psycopg.errors.UndefinedColumn)
    assert await steps(remote, turn) == [1, 2]


@pytest.mark.parametrize("in_doubt", [False, True], ids=["afterwards", "while a commit is in doubt"])
async def test_b164_gateway_is_told_when_the_server_has_lost_acknowledged_writes(
    remote: StoreGateway, proxy: CuttingProxy, postgres_server: PostgresServer, in_doubt: bool
) -> None:
    """The server comes back as it was some time ago: nothing is made again, and nothing is said to be kept."""
    await remote.receives("before")
    await asyncio.to_thread(postgres_server.save)
    await remote.receives("acknowledged, then lost")
    if in_doubt:
        proxy.refuse = True
        proxy.cut_before_commit()
    writing = asyncio.create_task(remote.receives("after")) if in_doubt else None
    if writing is not None:
        await eventually("the commit is in doubt", lambda: proxy.sprung and remote.store.problem)
    await asyncio.to_thread(postgres_server.put_back)
    proxy.refuse = False
    with pytest.raises(StoreBroken, match="lost acknowledged writes"):
        await (writing or remote.receives("after"))
    assert "lost acknowledged writes" in (remote.store.problem or "")
    assert await remote.query("SELECT count(*) FROM inbox") == [(1,)]


async def test_b164_gateway_is_told_when_the_server_does_not_know_its_writers(
    remote: StoreGateway, proxy: CuttingProxy, postgres_server: PostgresServer
) -> None:
    await asyncio.to_thread(postgres_server.save)
    await remote.receives("acknowledged, then lost", chat_name="new")
    await asyncio.to_thread(postgres_server.put_back)
    with pytest.raises(StoreBroken, match="knows of none"):
        await remote.receives("after", chat_name="new")


# ── the connection ──────────────────────────────────────────────────────────────────────────────────────────


async def test_reads_and_writes_go_on_when_every_connection_was_cut(
    remote: StoreGateway, proxy: CuttingProxy
) -> None:
    for number in range(3):
        stored = await remote.receives(f"m{number}")
        assert await remote.store.inbox.position_of(key_of(), stored.message) == number + 1
        await asyncio.to_thread(proxy.cut)
    assert await remote.store.inbox.count_waiting(key_of()) == 3


async def test_writes_wait_while_the_server_is_away_and_are_done_when_it_is_back(
    remote: StoreGateway, proxy: CuttingProxy
) -> None:
    await remote.receives("before")
    proxy.refuse = True
    await asyncio.to_thread(proxy.cut)
    writing = asyncio.create_task(remote.receives("during"))
    problem = await eventually("the problem is told", lambda: remote.store.problem)
    assert "does not answer" in problem
    proxy.refuse = False
    assert (await writing).fresh
    assert remote.store.problem is None


async def test_close_gives_up_waiting_for_a_server_that_is_away(remote: StoreGateway, proxy: CuttingProxy) -> None:
    await remote.receives("before")
    proxy.refuse = True
    await asyncio.to_thread(proxy.cut)
    writing = asyncio.create_task(remote.receives("during"))
    await eventually("the problem is told", lambda: remote.store.problem)
    await remote.crash()
    with pytest.raises(StoreError):
        await writing
    proxy.refuse = False


async def test_close_does_not_say_not_done_when_a_commit_is_in_doubt(
    remote: StoreGateway, proxy: CuttingProxy, postgres_place: DatabaseLocation
) -> None:
    await remote.receives("before")
    proxy.refuse = True
    proxy.hold_commit()
    writing = asyncio.create_task(remote.receives("in doubt"))
    await eventually("the commit is held", lambda: proxy.sprung)
    await eventually("the problem is told", lambda: remote.store.problem)
    await remote.crash()
    with pytest.raises(StoreError) as caught:
        await writing
    assert not isinstance(caught.value, Unavailable)
    assert await asyncio.to_thread(proxy.release)
    assert len(administer(postgres_place.url, "SELECT 1 FROM inbox")) == 2


async def test_close_is_quiet_when_the_server_has_gone(remote: StoreGateway, proxy: CuttingProxy) -> None:
    await remote.receives("before")
    proxy.refuse = True
    await asyncio.to_thread(proxy.cut)
    await remote.crash()
    proxy.refuse = False


async def test_no_writer_is_left_on_record_after_a_close(
    remote: StoreGateway, postgres_place: DatabaseLocation
) -> None:
    await asyncio.gather(*(remote.receives("hello", chat_name=f"c{n}") for n in range(10)))
    await remote.stop()
    assert administer(postgres_place.url, "SELECT * FROM writers") == []


async def test_b164_cancelled_reads_leave_no_connection_behind(
    remote: StoreGateway, postgres_place: DatabaseLocation
) -> None:
    others = "FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    cancel = f"SELECT pg_cancel_backend(pid) {others} AND query = 'SELECT pg_sleep(60)' AND state = 'active'"
    for _ in range(4):
        reading = asyncio.create_task(remote.query("SELECT pg_sleep(60)"))

        async def cancelled(reading: asyncio.Task[object] = reading) -> bool:
            administer(postgres_place.url, cancel)
            return reading.done()

        await eventually("the read is given up", cancelled)
        with pytest.raises(Unavailable):
            await reading
    ours = f"SELECT 1 {others}"
    await eventually("the writer alone is left", lambda: len(administer(postgres_place.url, ours)) == 1)
    assert await remote.query("SELECT 1") == [(1,)]


# ── the server ──────────────────────────────────────────────────────────────────────────────────────────────


async def each_moves_on(returned: dict[str, list[int]]) -> None:
    so_far = {turn: len(numbers) for turn, numbers in returned.items()}
    await eventually("each turn has moved on", lambda: all(len(returned[t]) > n + 5 for t, n in so_far.items()))


async def test_every_write_is_there_once_when_the_server_was_killed_and_restarted(
    postgres_place: DatabaseLocation, postgres_server: PostgresServer
) -> None:
    gateway = await StoreGateway(postgres_place).open()
    turns = [await gateway.begins_turn("work", chat_name=f"c{n}") for n in range(6)]
    returned: dict[str, list[int]] = {turn.id: [] for turn in turns}
    going = True

    async def work(turn: Turn) -> None:
        step = 0
        while going:
            step += 1
            assert await gateway.appends(turn, ModelAsked(step, "m")) is not None
            returned[turn.id].append(step)

    tasks = [asyncio.create_task(work(turn)) for turn in turns]
    await each_moves_on(returned)
    for _ in range(2):
        await asyncio.to_thread(postgres_server.kill)
        await asyncio.to_thread(postgres_server.start)
        await each_moves_on(returned)
    going = False
    await asyncio.gather(*tasks)
    for turn in turns:
        assert await steps(gateway, turn) == returned[turn.id]
    await gateway.stop()


async def test_reads_say_that_the_server_is_away_and_go_on_when_it_is_back(
    postgres_place: DatabaseLocation, postgres_server: PostgresServer
) -> None:
    gateway = await StoreGateway(postgres_place).open()
    await gateway.receives("hello")
    await asyncio.to_thread(postgres_server.kill)
    with pytest.raises(StoreError, match="does not answer"):
        await gateway.store.inbox.count_waiting(key_of())
    await asyncio.to_thread(postgres_server.start)
    wait_for("the server runs", lambda: postgres_server.running)
    assert await gateway.store.inbox.count_waiting(key_of()) == 1
    await gateway.stop()


async def test_b164_writes_wait_while_the_server_only_reads(
    postgres_place: DatabaseLocation, postgres_server: PostgresServer
) -> None:
    gateway = await StoreGateway(postgres_place).open()
    await gateway.receives("before")
    await asyncio.to_thread(postgres_server.set_read_only, True)
    try:
        writing = [asyncio.create_task(gateway.receives("during", chat_name=f"c{n}")) for n in range(6)]
        problem = await eventually("the problem is told", lambda: gateway.store.problem)
        assert "takes no writes" in problem
        with pytest.raises(Unavailable, match="takes no writes"):
            await gateway.store.runs.beat(gateway.run, {})
        assert await gateway.store.inbox.count_waiting(key_of()) == 1
    finally:
        await asyncio.to_thread(postgres_server.set_read_only, False)
    assert all(stored.fresh for stored in await asyncio.gather(*writing))
    assert gateway.store.problem is None
    assert await gateway.store.runs.beat(gateway.run, {})
    await gateway.stop()


async def test_b164_start_waits_while_the_server_only_reads_and_has_no_tables(
    postgres_url: str, postgres_server: PostgresServer, tmp_path: Path
) -> None:
    await asyncio.to_thread(postgres_server.set_read_only, True)
    try:
        with pytest.raises(Unavailable, match="takes no writes"):
            await StoreGateway(DatabaseLocation(postgres_url, tmp_path)).open()
    finally:
        await asyncio.to_thread(postgres_server.set_read_only, False)

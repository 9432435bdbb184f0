"""Writing: many works in one transaction, each with its own result or its own error; a full and a broken disk.

Drives `store/backends/sqlite_commit` and `store/backends/postgres_writer`.
"""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

from perdure.core.entries import decode_entry
from perdure.errors import NewerEntry, StoreError, StoreFull, Unavailable
from perdure.store.api import Store
from perdure.store.backends.sqlite import SqliteDatabase, open_sqlite
from perdure.store.database import Row, Tx
from perdure.store.runs import Instance
from support.store_gateway import StoreGateway, everybody_may_join, key_of, message, python_child
from support.waiting import eventually, wait_for

pytestmark = pytest.mark.anyio

NOTE = "INSERT INTO people (platform, person, name, role, added_at) VALUES ('notes', :person, :name, 'guest', 0)"
NOTES = "SELECT person FROM people WHERE platform = 'notes' ORDER BY person"


class Faulty(Exception):
    """A fault of a transaction."""


def note(person: str, name: str = "") -> Callable[[Tx], str]:
    """A transaction that writes one row and returns its name."""

    def transaction(tx: Tx) -> str:
        tx.run(NOTE, person=person, name=name)
        return person

    return transaction


def faulty(person: str) -> Callable[[Tx], str]:
    """A transaction that writes a row and then fails."""

    def transaction(tx: Tx) -> str:
        note(person)(tx)
        raise Faulty(person)

    return transaction


def nonsense(tx: Tx) -> int:
    """A transaction with a statement that no database understands."""
    return tx.run("SELECT nonsense FROM nowhere")


async def notes(store: Store) -> list[str]:
    rows = await store.database.read(lambda tx: tx.all(NOTES))
    return [person for (person,) in rows]


class Plug:
    """A transaction that keeps the writer busy, so that those submitted meanwhile form one batch."""

    def __init__(self) -> None:
        self.running = threading.Event()
        self.pulled = threading.Event()

    def __call__(self, tx: Tx) -> None:
        tx.one("SELECT 1")
        self.running.set()
        assert self.pulled.wait(30), "the plug was never pulled"


async def together(store: Store, *transactions: Callable[[Tx], Any], first_at: int | None = None) -> list[Any]:
    """Run transactions in one batch, the n-th with the time `first_at` + n; their results and errors, in order."""
    times = [None if first_at is None else first_at + number for number in range(len(transactions))]
    submitted = list(zip(transactions, times, strict=True))
    if store.database.exclusive:  # transactions run on the event loop: those of one tick form a batch
        writes = [store.database.write(transaction, at=at) for transaction, at in submitted]
        return await asyncio.gather(*writes, return_exceptions=True)
    plug = Plug()
    first = asyncio.create_task(store.database.write(plug))
    await eventually("the writer is busy", plug.running.is_set)
    tasks = [asyncio.create_task(store.database.write(transaction, at=at)) for transaction, at in submitted]
    await asyncio.sleep(0)  # lets every task submit its transaction
    plug.pulled.set()
    await first
    return await asyncio.gather(*tasks, return_exceptions=True)


# ── batches ─────────────────────────────────────────────────────────────────────────────────────────────────


async def test_write_returns_what_its_work_returns_and_is_seen_by_the_next_read(gateway: StoreGateway) -> None:
    for number in range(20):
        assert await gateway.store.database.write(note(f"{number:02}")) == f"{number:02}"
        assert (await notes(gateway.store))[-1] == f"{number:02}"


async def test_works_of_one_key_run_in_the_order_of_their_calls(gateway: StoreGateway) -> None:
    ran: list[tuple[str, int]] = []
    calls = [(key, number) for number in range(100) for key in ("a", "b", "c")]

    def remember(call: tuple[str, int]) -> Callable[[Tx], None]:
        return lambda tx: ran.append(call)

    write = gateway.store.database.write
    await asyncio.gather(*(write(remember(call), key=call[0]) for call in calls))
    for key in ("a", "b", "c"):
        assert [number for ran_key, number in ran if ran_key == key] == list(range(100))


async def test_batch_gives_each_work_its_own_result(gateway: StoreGateway) -> None:
    names = [f"{number:03}" for number in range(200)]
    assert await together(gateway.store, *map(note, names)) == names
    await gateway.reopen()
    assert await notes(gateway.store) == names


async def test_faulty_work_fails_alone_while_its_batch_mates_succeed(gateway: StoreGateway) -> None:
    results = await together(gateway.store, note("a"), note("b"), faulty("c"), note("d"), faulty("e"))
    assert [result if isinstance(result, str) else type(result) for result in results] == [
        "a",
        "b",
        Faulty,
        "d",
        Faulty,
    ]
    await gateway.reopen()
    assert await notes(gateway.store) == ["a", "b", "d"]
    assert gateway.store.problem is None


async def test_b59_unreadable_journal_of_one_session_fails_no_other_transaction(gateway: StoreGateway) -> None:
    def read_newer_entry(tx: Tx) -> object:
        return decode_entry("pondered", 1, "{}")

    first, unreadable, last = await together(gateway.store, note("a"), read_newer_entry, note("b"))
    assert (first, type(unreadable), last) == ("a", NewerEntry, "b")
    assert await notes(gateway.store) == ["a", "b"]


async def test_transaction_keeps_its_time_when_its_batch_is_run_again(gateway: StoreGateway) -> None:
    ran: list[int] = []

    def see_time(tx: Tx) -> int:
        ran.append(tx.time)
        return tx.time

    results = await together(gateway.store, see_time, see_time, faulty("c"), see_time, first_at=1_000)
    assert [result for result in results if isinstance(result, int)] == [1_000, 1_001, 1_003]
    assert ran == [1_000, 1_001, 1_000, 1_001, 1_003], "the batch failed as a whole, and was run one by one"


async def test_transaction_has_the_time_of_its_submission(gateway: StoreGateway) -> None:
    before = gateway.clock()
    written, read = (
        await gateway.store.database.write(lambda tx: tx.time),
        await gateway.store.database.read(lambda tx: tx.time),
    )
    assert before <= written <= read <= gateway.clock()
    assert await gateway.store.database.read(lambda tx: tx.time, at=7) == 7


async def test_work_that_the_database_refuses_fails_alone(gateway: StoreGateway) -> None:
    results = await together(gateway.store, note("a"), note("a"), nonsense, note("b"))
    assert [isinstance(result, Exception) for result in results] == [False, True, True, False]
    assert not any(isinstance(result, StoreError) for result in results)
    assert await notes(gateway.store) == ["a", "b"]
    assert gateway.store.problem is None


async def test_faulty_work_alone_leaves_nothing_behind(gateway: StoreGateway) -> None:
    with pytest.raises(Faulty):
        await gateway.store.database.write(faulty("a"))
    assert await notes(gateway.store) == []
    assert await gateway.store.database.write(note("a")) == "a"


async def test_failed_guard_is_a_result_and_disturbs_no_batch(gateway: StoreGateway) -> None:
    turn = await gateway.begins_turn("hello")
    results = await asyncio.gather(*(gateway.finishes_turn(turn, "hi") for _ in range(10)))
    assert len([result for result in results if result]) == 1


async def test_cancelled_caller_disturbs_nobody_and_its_write_is_done(gateway: StoreGateway) -> None:
    given_up = asyncio.create_task(gateway.store.database.write(note("given up")))
    kept = asyncio.create_task(gateway.store.database.write(note("kept")))
    await asyncio.sleep(0)
    given_up.cancel()
    assert await kept == "kept"
    assert await notes(gateway.store) == ["given up", "kept"]


async def test_close_waits_for_every_write_that_was_begun(gateway: StoreGateway) -> None:
    write = gateway.store.database.write
    tasks = [asyncio.create_task(write(note(f"{number:03}"), key=str(number))) for number in range(100)]
    await asyncio.sleep(0)
    await gateway.reopen()
    assert len(await asyncio.gather(*tasks)) == 100
    assert len(await notes(gateway.store)) == 100


async def test_write_fails_when_the_store_is_closed(gateway: StoreGateway) -> None:
    store = gateway.store
    await gateway.crash()
    with pytest.raises(StoreError):
        await asyncio.wait_for(store.database.write(note("too late")), 10)


async def test_read_sees_one_moment(gateway: StoreGateway) -> None:
    """A write that comes between two statements of a read changes nothing for that read."""
    looked, written = threading.Event(), threading.Event()

    def look(tx: Tx) -> tuple[list[Row], list[Row]]:
        before = tx.all(NOTES)
        looked.set()
        assert written.wait(30)
        return before, tx.all(NOTES)

    reading = asyncio.create_task(gateway.store.database.read(look))
    await eventually("the read has begun", looked.is_set)
    await gateway.store.database.write(note("a"))
    written.set()
    before, after = await reading
    assert before == after == []
    assert await notes(gateway.store) == ["a"]


async def test_read_goes_on_after_a_faulty_one(gateway: StoreGateway) -> None:
    def fault(tx: Tx) -> None:
        tx.all(NOTES)
        raise Faulty

    for _ in range(6):
        with pytest.raises(Faulty):
            await gateway.store.database.read(fault)
    assert await notes(gateway.store) == []


async def test_write_is_done_when_its_transaction_stood_still_for_too_long(postgres_place: Any) -> None:
    """The server ends a transaction that is idle for long, as when our process was frozen: it is made again."""
    gateway = await StoreGateway(postgres_place).open()
    frozen: list[int] = []

    def freeze(tx: Tx) -> str:
        note("a")(tx)
        if not frozen:
            (pid,) = tx.one("SELECT pg_backend_pid()") or pytest.fail("no pid")
            frozen.append(pid)
            tx.run("SET LOCAL idle_in_transaction_session_timeout = '1ms'")
            wait_for("the server has ended the transaction", lambda: not alive(postgres_place.url, pid))
        return "a"

    assert await gateway.store.database.write(freeze) == "a"
    assert await notes(gateway.store) == ["a"]
    await gateway.stop()


def alive(url: str, pid: int) -> bool:
    with psycopg.connect(url) as connection:
        return bool(connection.execute("SELECT 1 FROM pg_stat_activity WHERE pid = %s", [pid]).fetchall())


# ── another program ─────────────────────────────────────────────────────────────────────────────────────────


async def test_write_waits_while_another_program_writes_and_holds_up_nobody(tmp_path: Path) -> None:
    store = Store(open_sqlite(tmp_path / "perdure.db", home=tmp_path))
    with closing(sqlite3.connect(tmp_path / "perdure.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        writing = [asyncio.create_task(store.database.write(note(name))) for name in ("a", "b")]
        await eventually("somebody has noticed", lambda: store.problem)
        assert await notes(store) == []  # reads go on, and so does everything else
        assert not any(task.done() for task in writing)
        other.execute("ROLLBACK")
    assert await asyncio.gather(*writing) == ["a", "b"]
    assert store.problem is None
    assert await notes(store) == ["a", "b"]
    await store.close()


# ── a full disk ─────────────────────────────────────────────────────────────────────────────────────────────

PAGES = 80  # the empty database takes some fifty pages


@pytest.fixture
async def small(tmp_path: Path) -> AsyncIterator[Store]:
    """A store whose disk is nearly full."""
    store = Store(open_sqlite(tmp_path / "perdure.db", home=tmp_path, max_pages=PAGES))
    yield store
    await store.close()


async def make_room(store: Store) -> None:
    await store.database.write(lambda tx: tx.one("PRAGMA max_page_count = 1000000"))


BIG = "x" * 4096 * PAGES


async def test_full_disk_means_not_done(small: Store) -> None:
    await small.database.write(note("a"))
    with pytest.raises(StoreFull) as caught:
        await small.database.write(note("b", BIG))
    assert isinstance(caught.value, Unavailable)
    assert caught.value.hint
    assert small.problem is not None
    assert "full" in small.problem
    assert await notes(small) == ["a"]


async def test_full_disk_is_forgotten_when_there_is_room_again(small: Store, tmp_path: Path) -> None:
    for _ in range(3):
        with pytest.raises(StoreFull):
            await small.database.write(note("big", BIG))
    await make_room(small)
    assert small.problem is None
    assert await small.database.write(note("big", BIG)) == "big"
    await small.close()
    again = Store(open_sqlite(tmp_path / "perdure.db", home=tmp_path))
    assert await notes(again) == ["big"]
    await again.close()


async def test_small_writes_go_on_when_only_a_big_one_found_no_room(small: Store) -> None:
    with pytest.raises(StoreFull):
        await small.database.write(note("big", BIG))
    assert await small.database.write(note("small")) == "small"
    assert small.problem is None


async def test_full_disk_in_a_batch_means_that_each_work_is_done_or_not_done(small: Store) -> None:
    results = await together(small, note("a"), note("big", BIG), note("b"))
    done = [result for result in results if isinstance(result, str)]
    assert all(isinstance(result, str | StoreFull) for result in results)
    assert isinstance(results[1], StoreFull)
    assert await notes(small) == sorted(done)
    await make_room(small)
    missing = [name for name in ("a", "b", "big") if name not in done]
    assert await asyncio.gather(*(small.database.write(note(name)) for name in missing)) == missing
    assert await notes(small) == ["a", "b", "big"]


async def test_full_disk_while_messages_come_loses_none_that_was_taken_in(small: Store) -> None:
    run = (await small.runs.begin(Instance("one"), "0")).run
    received, number = [], 0
    with pytest.raises(StoreFull):
        for number in range(10_000):
            await small.inbox.receive(
                message(f"m{number}"), "raw" * 500, key_of(), number, may_join=everybody_may_join
            )
            received.append(f"m{number}")
    assert [one.text for one in await small.inbox.chat_messages(key_of(), 0)] == received
    await make_room(small)
    assert (
        await small.inbox.receive(message(f"m{number}"), "", key_of(), number, may_join=everybody_may_join)
    ).fresh
    claim = await small.turns.claim(key_of(), run, 1, may_join=everybody_may_join)
    assert claim is not None
    assert await small.inbox.count_waiting(key_of()) == number


# ── a broken disk ───────────────────────────────────────────────────────────────────────────────────────────

BROKEN = """
import asyncio, resource, sys
from pathlib import Path
from perdure.errors import StoreBroken
from perdure.store.api import Store
from perdure.store.backends.sqlite import open_sqlite
from support.store_gateway import everybody_may_join, key_of, message

async def main() -> None:
    home = Path(sys.argv[1])
    store = Store(open_sqlite(home / "perdure.db", home=home))
    size = (home / "perdure.db").stat().st_size
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 200_000, size + 200_000))
    seen = []
    for number in range(10_000):
        try:
            inbound = message(f"m{number}")
            await store.inbox.receive(inbound, "raw" * 500, key_of(), number, may_join=everybody_may_join)
            print(number, flush=True)
        except StoreBroken as error:
            seen.append(error)
            if len(seen) == 3:
                break
    assert store.problem, "no problem is told"
    print("broken", flush=True)

asyncio.run(main())
"""


async def test_broken_disk_ends_all_writing_and_what_was_done_is_there_at_the_next_start(tmp_path: Path) -> None:
    """A real process whose files may not grow any further: the kernel answers a write with an error."""
    with python_child(BROKEN, str(tmp_path)) as child:
        output, _ = child.communicate(timeout=60)
    said = output.decode().split()
    assert said[-1:] == ["broken"]
    numbers = [int(word) for word in said[:-1]]
    assert numbers == list(range(len(numbers))), "it wrote again after the first failure"
    store = Store(open_sqlite(tmp_path / "perdure.db", home=tmp_path))
    seen = [one.text for one in await store.inbox.chat_messages(key_of(), 0, limit=10_000)]
    assert seen[: len(numbers)] == [f"m{number}" for number in numbers]
    assert len(seen) in (len(numbers), len(numbers) + 1)
    await store.close()


async def test_database_is_closed_with_its_lock_free_when_closed_twice_over(tmp_path: Path) -> None:
    for _ in range(3):
        database = open_sqlite(tmp_path / "perdure.db", home=tmp_path)
        assert isinstance(database, SqliteDatabase)
        await database.close()

"""Sessions leave one database and come into another, of either kind, unchanged.

Drives `operations/transfer` and `core/transfer`.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
import tempfile
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perdure.core.effects import Effect
from perdure.core.journal import QuestionAsked, ToolEnded, ToolStarted, TurnBegan, TurnRequeued
from perdure.core.messages import Attachment, Inbound, Sender
from perdure.core.states import RecoveryState, TurnState
from perdure.errors import BadImport, DatabaseRefused, LockHeld, StoreError
from perdure.operations.transfer import ImportProblem, ImportReport, export_sessions, import_sessions, read_import
from perdure.store.api import Store, open_database
from perdure.store.backends.read_only import open_read_only
from perdure.store.outbox import OutboxReply
from perdure.store.transitions import Turn
from support.store_gateway import DatabaseLocation, StoreGateway, answer_with_calls, chat_address, key_of, message

if TYPE_CHECKING:
    from support.postgres import PostgresServer

pytestmark = pytest.mark.anyio

Json = dict[str, Any]
RECOVERY_FIELDS = ("resume_pending", "resume_reason", "last_resume_marked_at")
NOT_A_TIME = "last_resume_marked_at: not a time, so it was dropped"


@pytest.fixture
async def source(sqlite_place: DatabaseLocation) -> AsyncIterator[StoreGateway]:
    """A gateway on SQLite, to export from where the kind of database makes no difference."""
    gateway = await StoreGateway(sqlite_place).open()
    yield gateway
    await gateway.crash()


@pytest.fixture
def second_sqlite(tmp_path: Path) -> DatabaseLocation:
    return DatabaseLocation(f"sqlite:///{tmp_path}/elsewhere/perdure.db", tmp_path / "elsewhere")


@pytest.fixture
def second_postgres(tmp_path: Path, postgres_server: PostgresServer) -> Iterator[DatabaseLocation]:
    postgres_server.start()
    name = f"test_{uuid.uuid4().hex}"
    yield DatabaseLocation(postgres_server.create_database(name), tmp_path / "elsewhere")
    postgres_server.drop_database(name)


@pytest.fixture(params=["sqlite", "postgres"])
def target(request: pytest.FixtureRequest) -> DatabaseLocation:
    """Another database, of either kind, with nothing in it."""
    found: DatabaseLocation = request.getfixturevalue(f"second_{request.param}")
    return found


@asynccontextmanager
async def opened(place: DatabaseLocation) -> AsyncIterator[Store]:
    """The store at a place, as the operator's commands open it: with the lock, and without a run."""
    store = Store(await open_database(place.url, home=place.home("one")))
    try:
        yield store
    finally:
        await store.close()


async def exported(store: Store) -> str:
    pieces: list[str] = []
    count = await export_sessions(store, pieces.append, clock=lambda: 0)
    text = "".join(pieces)
    assert len(json.loads(text)["sessions"]) == count
    return text


async def imported(place: DatabaseLocation, text: str) -> tuple[ImportReport, str]:
    """Import a text, close the store, open it again and export."""
    async with opened(place) as store:
        report = await import_sessions(store, text)
    async with opened(place) as store:
        return report, await exported(store)


async def recoveries(store: Store) -> dict[str, RecoveryState]:
    """The recovery state of every session."""
    return {session.id: await store.sessions.recovery(session.id) for session in await store.sessions.page()}


def edited(text: str, change: Callable[[list[Json]], object]) -> str:
    """The export after a change to its sessions, laid out and spelled in another way."""
    document = json.loads(text)
    change(document["sessions"])
    return json.dumps(document, indent=2)


def bare(name: str = "c1", **fields: object) -> Json:
    """A session as a program without a journal would hand it over."""
    return {"key": key_of(name), "id": f"s_{name}", "state": "open", "created_at": 5, "updated_at": 9} | fields


def document(*sessions: Json) -> str:
    return json.dumps({"perdure": {"format": 1, "version": "0.0.1", "exported_at": 1}, "sessions": sessions})


# ── B3: the same again ──────────────────────────────────────────────────────────────────────────────────────


async def live_through_everything(gateway: StoreGateway) -> None:
    """Bring sessions into every state that a gateway brings them into."""
    await gateway.receives("waits alone", chat_name="waiting")
    await gateway.finishes_turn(await gateway.begins_turn("done", chat_name="done"), "all sent", chat_name="done")
    await gateway.delivers()
    await gateway.finishes_turn(
        await gateway.begins_turn("two", chat_name="parts"), "one", "two", chat_name="parts"
    )
    await gateway.delivers()
    await gateway.fails_turn(await gateway.begins_turn("bad luck", chat_name="failed"))
    await gateway.cancels_turn(await gateway.begins_turn("too often", chat_name="suspended"), "suspended")
    lost = await gateway.begins_turn("cut off", chat_name="interrupted")
    again = await gateway.begins_turn("cut off, went on", chat_name="resumed")
    await gateway.appends(again, answer_with_calls("look"), ToolStarted("look", "look", Effect.PURE, "k"))
    await gateway.reopen()
    for turn in (lost, again):
        assert await gateway.interrupts_turn(turn) is not None
    await gateway.appends(await gateway.turn_row(again), TurnRequeued())
    claim = await gateway.claims("resumed")
    assert claim is not None
    await gateway.appends(claim.turn, ToolEnded("look", "ok", "ünïcode \x00 \u2028"))
    await gateway.appends(
        await gateway.begins_turn("?", chat_name="asking"), QuestionAsked("q", "which?", ("a", "b"))
    )
    await gateway.receives("and then", chat_name="asking")
    files = (Attachment("a.txt", "ref-1"), Attachment("b.png", "ref-2", "image/png", 12))
    with_files = Inbound(chat_address("files"), "f1", Sender("ada", "Ada"), "look", attachments=files, sent_at=3)
    await gateway.store.inbox.receive(with_files, "raw", key_of("files"), gateway.now())
    await gateway.store.outbox.enqueue(
        key_of("files"), OutboxReply(chat_address("files"), "notice", ("a notice",)), gateway.now()
    )


async def test_sessions_are_the_same_when_exported_and_imported(
    gateway: StoreGateway, target: DatabaseLocation
) -> None:
    """B3, on each database and from each to the other: the file, the recovery state, and every row but leases."""
    await live_through_everything(gateway)
    before = await exported(gateway.store)
    report, after = await imported(target, before)
    assert report == ImportReport(imported=9)
    assert after == before
    there = await StoreGateway(target).open()
    states = await recoveries(there.store)
    assert states == await recoveries(gateway.store)
    assert [state.resume_reason for state in states.values()].count("restart_interrupted") == 2
    left = ["runs", "leases"]
    assert await there.all_rows(but=left) == await gateway.all_rows(but=left)
    await there.crash()


async def test_second_import_changes_nothing_and_says_so(source: StoreGateway, target: DatabaseLocation) -> None:
    """Whitespace, the spelling of letters, the order of records and the order within them mean nothing."""
    await live_through_everything(source)
    before = await exported(source.store)

    def turn_round(sessions: list[Json]) -> None:
        sessions.reverse()
        for session in sessions:
            session["inbox"].reverse()
            session["outbox"].reverse()

    report, after = await imported(target, edited(before, turn_round))
    assert (report, after) == (ImportReport(imported=9), before)
    report, after = await imported(target, before)
    assert (report, after) == (ImportReport(unchanged=9), before)
    assert report.to_lines() == ["0 sessions were imported.", "9 sessions were here already and unchanged."]


async def test_export_without_the_recovery_fields_imports_with_none_set(
    source: StoreGateway, second_sqlite: DatabaseLocation
) -> None:
    """B3: as an older version wrote it."""
    await source.finishes_turn(await source.begins_turn("hello"), "hi")
    await source.delivers()

    def forget(sessions: list[Json]) -> None:
        for name in RECOVERY_FIELDS:
            del sessions[0][name]

    report, _ = await imported(second_sqlite, edited(await exported(source.store), forget))
    assert report == ImportReport(imported=1)
    async with opened(second_sqlite) as store:
        assert list((await recoveries(store)).values()) == [RecoveryState()]


async def test_bare_session_imports_with_nothing_set(second_sqlite: DatabaseLocation) -> None:
    """B3."""
    report, after = await imported(second_sqlite, document(bare(run_generation=4, position=12)))
    assert report == ImportReport(imported=1)
    (session,) = json.loads(after)["sessions"]
    assert (session["run_generation"], session["position"]) == (4, 12)
    assert [session[name] for name in RECOVERY_FIELDS] == [False, None, None]
    assert (session["turns"], session["inbox"], session["outbox"]) == ([], [], [])


async def test_sessions_of_one_key_are_the_same_when_imported(
    source: StoreGateway, target: DatabaseLocation
) -> None:
    """B3: a message that was received in one session and answered in the next, and a notice to their chat."""
    await source.finishes_turn(await source.begins_turn("old"), "old answer")
    await source.receives("received before, answered after")
    await source.execute_sql("UPDATE sessions SET state = 'closed'")
    claim = await source.claims()
    assert claim is not None
    await source.finishes_turn(claim.turn, "new answer")
    await source.store.outbox.enqueue(key_of(), OutboxReply(chat_address(), "notice", ("a notice",)), source.now())
    before = await exported(source.store)
    old, new = json.loads(before)["sessions"]
    assert (old["state"], new["state"]) == ("closed", "open")
    assert [len(session["inbox"]) for session in (old, new)] == [1, 1]
    assert [row["text"] for row in new["outbox"]] == ["new answer", "a notice"]
    report, after = await imported(target, before)
    assert (report, after) == (ImportReport(imported=2), before)


async def test_send_under_way_is_exported_as_unknown(
    source: StoreGateway, second_sqlite: DatabaseLocation
) -> None:
    await source.finishes_turn(await source.begins_turn("hello"), "hi")
    (row,) = await source.outbox_heads()
    assert await source.starts_delivery(row)
    text = await exported(source.store)
    (delivery,) = json.loads(text)["sessions"][0]["outbox"]
    assert (delivery["state"], delivery["attempts"]) == ("unknown", 1)
    assert (await imported(second_sqlite, text))[1] == text


async def test_fetched_file_is_exported_as_a_reference(
    source: StoreGateway, second_sqlite: DatabaseLocation
) -> None:
    files = (Attachment("a", "r1"), Attachment("b", "r2"))
    inbound = Inbound(chat_address(), "f1", Sender("ada"), "look", attachments=files)
    await source.store.inbox.receive(inbound, "raw", key_of(), source.now())
    await source.execute_sql("UPDATE attachments SET state = 'fetched', path = '/here/a' WHERE ordinal = 0")
    await source.execute_sql("UPDATE attachments SET state = 'failed', problem = 'gone' WHERE ordinal = 1")
    text = await exported(source.store)
    found = json.loads(text)["sessions"][0]["inbox"][0]["attachments"]
    assert [(file["state"], file["problem"]) for file in found] == [("referenced", None), ("failed", "gone")]
    assert "/here/a" not in text
    assert (await imported(second_sqlite, text))[1] == text


# ── life goes on ────────────────────────────────────────────────────────────────────────────────────────────


async def test_imported_session_goes_on_where_it_was(source: StoreGateway, target: DatabaseLocation) -> None:
    """Waiting messages are answered, known ones act once, owed replies are sent, and numbers go on."""
    await source.finishes_turn(await source.begins_turn("first"), "one", "two")
    await source.delivers()
    await source.receives("second")
    await imported(target, await exported(source.store))
    there = await StoreGateway(target).open()
    assert not (await there.receives("first")).fresh
    assert not (await there.receives("second")).fresh
    assert await there.delivers() == ["two"]
    claim = await there.claims()
    assert claim is not None
    began = claim.records[0].entry
    assert isinstance(began, TurnBegan)
    assert ([cause.text for cause in began.causes], claim.turn.generation) == (["second"], 2)
    seen = await there.store.inbox.chat_messages(key_of(), 0)
    assert [(one.position, one.text) for one in seen] == [(1, "first"), (2, "one"), (3, "second"), (4, "two")]
    await there.crash()


async def test_imported_running_turn_is_found_lost_at_the_next_start(
    source: StoreGateway, second_sqlite: DatabaseLocation
) -> None:
    turn = await source.begins_turn("work")
    await imported(second_sqlite, await exported(source.store))
    there = await StoreGateway(second_sqlite).open()
    assert [(lost.id, lost.state) for lost in await there.lost_turns()] == [(turn.id, TurnState.RUNNING)]
    taken = await there.interrupts_turn(turn)
    assert taken is not None
    assert (taken.state, taken.epoch) == (TurnState.INTERRUPTED, turn.epoch + 1)
    await there.crash()


# ── B4: the mark ────────────────────────────────────────────────────────────────────────────────────────────


async def test_mark_stays_when_its_time_cannot_be_read(place: DatabaseLocation) -> None:
    """B4: the mark and its reason are kept, only the time is dropped, and it is an interrupted turn."""
    mark = {"resume_pending": True, "resume_reason": "shutdown_timeout"}
    times = ["not a time", "2026-13-45", "", -1, 1.5, True, {}, None]
    records = [bare(f"c{n}", **mark, last_resume_marked_at=time) for n, time in enumerate(times)]
    text = document(*records)
    report, after = await imported(place, text)
    assert (report.imported, report.problems) == (8, [])
    assert report.warnings == [f"sessions[{n}].{NOT_A_TIME}" for n in range(7)]
    async with opened(place) as store:
        states = await recoveries(store)
        assert states == {record["id"]: RecoveryState(True, "shutdown_timeout", None, 1) for record in records}
        turns = [await store.turns.of_session(session) for session in states]
        assert [[turn.state for turn in of_session] for of_session in turns] == [[TurnState.INTERRUPTED]] * 8
    for session in json.loads(after)["sessions"]:
        assert [session[name] for name in RECOVERY_FIELDS] == [True, "shutdown_timeout", None]
    report, again = await imported(place, text)
    assert (report.imported, report.unchanged, report.problems, again) == (0, 8, [], after)


async def test_mark_becomes_an_interrupted_turn_with_its_time(
    source: StoreGateway, second_sqlite: DatabaseLocation
) -> None:
    """B4, and B3 for what came of it."""
    times = ["1970-01-01T00:00:07Z", "1970-01-01T02:00:07+02:00", 7000]
    mark = {"resume_pending": True, "resume_reason": "restart_timeout"}
    records = [bare(f"c{n}", **mark, last_resume_marked_at=time) for n, time in enumerate(times)]
    report = await import_sessions(source.store, document(*records))
    assert report == ImportReport(imported=3)
    states = await recoveries(source.store)
    assert list(states.values()) == [RecoveryState(True, "restart_timeout", 7000, 1)] * 3
    text = await exported(source.store)
    sessions = json.loads(text)["sessions"]
    assert {session["last_resume_marked_at"] for session in sessions} == {"1970-01-01T00:00:07.000Z"}
    assert await imported(second_sqlite, text) == (ImportReport(imported=3), text)


async def test_mark_told_by_the_journal_loses_a_time_that_cannot_be_read(
    source: StoreGateway, second_sqlite: DatabaseLocation
) -> None:
    """B4."""
    turn = await source.begins_turn("work")
    await source.reopen()
    await source.interrupts_turn(turn, "lease_lost")
    text = edited(await exported(source.store), lambda all_: all_[0].update(last_resume_marked_at="long ago"))
    report, _ = await imported(second_sqlite, text)
    assert report.warnings == [f"sessions[0].{NOT_A_TIME}"]
    async with opened(second_sqlite) as store:
        assert await store.sessions.recovery(turn.session) == RecoveryState(True, "lease_lost", None, 1)
        assert [found.id for found in await store.turns.of_session(turn.session)] == [turn.id]


async def test_mark_interrupts_the_turn_that_is_under_way(
    source: StoreGateway, second_sqlite: DatabaseLocation
) -> None:
    """B4: the turn keeps what is known of it."""
    turn = await source.begins_turn("work")
    mark = {"resume_pending": True, "resume_reason": "restart_timeout", "last_resume_marked_at": 77}
    text = edited(await exported(source.store), lambda all_: all_[0].update(mark, interruptions=1))
    report, _ = await imported(second_sqlite, text)
    assert report == ImportReport(imported=1)
    there = await StoreGateway(second_sqlite).open()
    assert (await there.turn_row(turn)).state is TurnState.INTERRUPTED
    assert [cause.text for cause in (await there.view(turn)).causes] == ["work"]
    assert await there.store.sessions.recovery(turn.session) == RecoveryState(True, "restart_timeout", 77, 1)
    await there.crash()


async def test_imported_mark_is_taken_over_and_cleared_like_any_other(second_sqlite: DatabaseLocation) -> None:
    """B4."""
    record = bare(resume_pending=True, resume_reason="restart_timeout", last_resume_marked_at=7)
    await imported(second_sqlite, document(record))
    there = await StoreGateway(second_sqlite).open()
    (lost,) = await there.lost_turns()
    taken = await there.interrupts_turn(lost)
    assert taken is not None
    await there.cancels_turn(taken, "cleared")
    assert await there.store.sessions.recovery("s_c1") == RecoveryState()
    await there.finishes_turn(await there.begins_turn("hello"), "hi")
    assert await there.delivers() == ["hi"]
    await there.crash()


# ── B5: one bad record, and others that are here already ────────────────────────────────────────────────────


async def test_malformed_records_are_reported_and_all_others_imported(
    source: StoreGateway, target: DatabaseLocation
) -> None:
    """B5."""
    for name in "abcd":
        await source.finishes_turn(await source.begins_turn("hello", chat_name=name), "hi", chat_name=name)

    def spoil(sessions: list[Json]) -> None:
        sessions[1]["turns"][0]["journal"][1]["at"] = "noon"
        sessions.insert(3, "no session at all")  # type: ignore[arg-type]

    report, after = await imported(target, edited(await exported(source.store), spoil))
    assert report.imported == 3
    assert report.problems == [
        ImportProblem(1, "sessions[1].turns[0].journal[1].at", "expected `int`, got `str`"),
        ImportProblem(3, "sessions[3]", "expected `object`, got `str`"),
    ]
    assert [session["key"] for session in json.loads(after)["sessions"]] == [key_of(name) for name in "acd"]
    assert report.to_lines() == [
        "3 sessions were imported.",
        "2 sessions were not imported:",
        "  sessions[1].turns[0].journal[1].at: expected `int`, got `str`",
        "  sessions[3]: expected `object`, got `str`",
    ]


async def test_session_that_went_on_since_is_reported_and_left_alone(source: StoreGateway) -> None:
    await source.receives("hello")
    text = await exported(source.store)
    await source.receives("more")
    before = await source.all_rows()
    report = await import_sessions(source.store, text)
    (problem,) = report.problems
    assert (problem.position, problem.place) == (0, "sessions[0].id")
    assert "is here already, and is not the same" in problem.reason
    assert await source.all_rows() == before


def renamed(session: Json, *, but: str = "") -> Json:
    """The session in another chat, with new names for all that is in it, but for one kind of thing."""
    names = {
        "chat": [(key_of(), key_of("new")), ("web:dm:c1", "web:dm:new")],
        "turn": [(session["turns"][0]["id"], "t_new")],
        "message": [(session["inbox"][0]["id"], "in_new"), (session["inbox"][0]["event_key"], "event_new")],
        "reply": [(session["outbox"][0]["id"], "out_new"), (session["outbox"][0]["delivery_key"], "new:0")],
    }
    text = json.dumps(session | {"id": "s_new", "address": None})
    for kind, pairs in names.items():
        for old, new in pairs if kind != but else ():
            text = text.replace(old, new)
    renewed: Json = json.loads(text)
    return renewed


async def test_sessions_that_clash_are_reported_and_nothing_of_them_written(gateway: StoreGateway) -> None:
    await gateway.finishes_turn(await gateway.begins_turn("hello"), "hi")
    (session,) = json.loads(await exported(gateway.store))["sessions"]
    await gateway.stop()
    old = renamed(session, but="chat") | {"state": "closed"}
    renumbered = old | {"turns": [old["turns"][0] | {"generation": 9}]}
    clashes = [
        (renamed(session, but="chat"), ".key", "has another current session here"),
        (old, ".turns", "has a turn of the number 1 here"),
        (renumbered, "", "has another message at the place 1 here"),
        (renamed(session, but="turn"), ".turns[0]", "is here already"),
        (renamed(session, but="message"), ".inbox[0]", "is here already"),
        (renamed(session, but="reply"), ".outbox[0]", "is here already"),
    ]
    async with opened(gateway.place) as store:
        before = await exported(store)
        report = await import_sessions(store, document(*(clash[0] for clash in clashes)))
        assert [problem.place for problem in report.problems] == [
            f"sessions[{number}]{clash[1]}" for number, clash in enumerate(clashes)
        ]
        for problem, (_, _, reason) in zip(report.problems, clashes, strict=True):
            assert reason in problem.reason
        assert await exported(store) == before
        assert (await import_sessions(store, document(renamed(session)))).imported == 1


async def test_b14_text_that_the_database_cannot_hold_is_imported_clean(
    source: StoreGateway, second_postgres: DatabaseLocation
) -> None:
    """PostgreSQL has no place for a zero byte in a text, and no database for half a character."""
    for name, answer in (("a", "h~i"), ("b", "hi")):
        await source.finishes_turn(await source.begins_turn("hello", chat_name=name), answer, chat_name=name)
    text = (await exported(source.store)).replace("h~i", "h\\u0000i\\ud83d")
    report, after = await imported(second_postgres, text)
    assert (report.imported, report.problems) == (2, [])
    assert {session["key"] for session in json.loads(after)["sessions"]} == {key_of("a"), key_of("b")}
    assert "h\N{REPLACEMENT CHARACTER}i\N{REPLACEMENT CHARACTER}" in after


# ── the file, the lock, and the reader ──────────────────────────────────────────────────────────────────────


async def test_file_that_is_no_export_is_refused_and_nothing_written(source: StoreGateway) -> None:
    await source.receives("hello")
    before = await source.all_rows()
    for text in ("", "{", '{"perdure": {"format": 99}, "sessions": []}', '{"some": "thing"}'):
        with pytest.raises(BadImport):
            await import_sessions(source.store, text)
    assert await source.all_rows() == before


def test_import_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    (tmp_path / "picture").write_bytes(b"\x89PNG\r\n")
    (tmp_path / "good").write_bytes("\ufeff{}".encode())
    for name, says in (("nowhere", "No such file"), ("picture", "expected UTF-8"), ("", "Is a directory")):
        with pytest.raises(BadImport, match=says):
            read_import(tmp_path / name)
    assert read_import(tmp_path / "good") == "{}"


async def test_import_is_refused_when_a_gateway_has_the_database(source: StoreGateway) -> None:
    with pytest.raises(LockHeld):
        async with opened(source.place):
            pass


async def test_import_is_refused_when_a_gateway_elsewhere_is_at_work(postgres_place: DatabaseLocation) -> None:
    elsewhere = await StoreGateway(postgres_place, "two").open()
    async with opened(postgres_place) as store:
        with pytest.raises(LockHeld, match="a gateway is at work on this database: two"):
            await import_sessions(store, document(bare()))
        assert await store.sessions.page() == []
        await elsewhere.stop()
        assert (await import_sessions(store, document(bare()))).imported == 1


async def test_export_reads_beside_a_gateway_at_work_and_after_its_crash(gateway: StoreGateway) -> None:
    """B3: without its lock, and without a word written."""
    turn = await gateway.begins_turn("work")
    reader = Store(await open_read_only(gateway.place.url))
    first = await exported(reader)
    assert first == await exported(gateway.store)
    await gateway.finishes_turn(turn, "done")
    second = await exported(reader)
    assert second == await exported(gateway.store) != first
    with pytest.raises(StoreError, match="opened only to be read"):
        await reader.inbox.receive(message("no"), "raw", key_of(), 1)
    await gateway.crash()
    assert await exported(reader) == second
    await reader.close()
    reader = Store(await open_read_only(gateway.place.url))
    assert await exported(reader) == second
    await reader.close()


async def test_reader_refuses_a_database_that_is_not_there(postgres_url: str) -> None:
    with pytest.raises(DatabaseRefused, match="holds nothing of Perdure"):
        await open_read_only(postgres_url)


def test_reader_refuses_a_file_that_is_not_ours_and_leaves_it(tmp_path: Path) -> None:
    (tmp_path / "text.db").write_text("nothing of the kind, at some length, " * 9)
    connection = sqlite3.connect(tmp_path / "other.db")
    connection.execute("CREATE TABLE theirs (x)")
    connection.close()
    for name in ("none.db", "text.db", "other.db"):
        with pytest.raises(DatabaseRefused):
            asyncio.run(open_read_only(f"sqlite:///{tmp_path}/{name}"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["other.db", "text.db"]


async def test_reader_says_when_the_database_broke_beneath_it(source: StoreGateway) -> None:
    await source.receives("hello")
    await source.stop()
    reader = Store(await open_read_only(source.place.url))
    (source.place.folder / "perdure.db").write_bytes(b"overwritten " * 1000)
    with pytest.raises(StoreError, match="the database cannot be read: "):
        await exported(reader)
    await reader.close()


# ── whatever happened ───────────────────────────────────────────────────────────────────────────────────────

ACTS = ("hear", "call", "result", "finish", "deliver", "start", "fail", "stop", "ask", "crash")


async def act(gateway: StoreGateway, name: str, what: str, text: str) -> None:
    """Do one thing in a chat, if the state it is in allows for it."""
    if what == "hear":
        await gateway.receives(text, chat_name=name)
    elif what == "crash":
        await gateway.reopen()
        for lost in await gateway.lost_turns():
            await gateway.interrupts_turn(lost)
    elif what in ("deliver", "start"):
        for row in (await gateway.outbox_heads())[:1]:
            started = await gateway.starts_delivery(row)
            assert started or row.state == "sending"
            assert what == "start" or await gateway.store.outbox.record_sent(row, "receipt", gateway.now())
    else:
        await gateway.claims(name)
        session = await gateway.store.sessions.current(key_of(name))
        turns = await gateway.store.turns.of_session(session.id) if session else []
        for turn in [turn for turn in turns if turn.state is TurnState.RUNNING]:
            await proceed(gateway, turn, what, text, name)


async def proceed(gateway: StoreGateway, turn: Turn, what: str, text: str, name: str) -> None:
    """Do one thing with a running turn."""
    if what == "call":
        await gateway.appends(turn, answer_with_calls(f"call-{gateway.now()}"))
    elif what == "result":
        open_calls = (await gateway.view(turn)).open_calls
        await gateway.appends(turn, *(ToolEnded(call.request.id, "ok", text) for call in open_calls))
    elif what == "finish":
        await gateway.finishes_turn(turn, text, text, chat_name=name)
    elif what == "fail":
        await gateway.fails_turn(turn)
    elif what == "stop":
        await gateway.cancels_turn(turn)
    elif what == "ask":
        await gateway.appends(turn, QuestionAsked("q", text))


@settings(max_examples=20)
@given(st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from(ACTS), st.text(max_size=20)), max_size=25))
def test_sessions_are_the_same_after_export_and_import_whatever_happened(
    steps: list[tuple[str, str, str]],
) -> None:
    """B3."""

    async def live() -> None:
        with tempfile.TemporaryDirectory() as folder:
            here, there = Path(folder, "here"), Path(folder, "there")
            gateway = await StoreGateway(DatabaseLocation(f"sqlite:///{here}/perdure.db", here)).open()
            for number, (name, what, text) in enumerate(steps):
                await act(gateway, name, what, f"{number}{text}")
            before = await exported(gateway.store)
            await gateway.crash()
            report, after = await imported(DatabaseLocation(f"sqlite:///{there}/perdure.db", there), before)
            assert (report.problems, report.warnings) == ([], [])
            assert after == before

    asyncio.run(live())

"""Erasing: every row of a session goes, and nothing of it comes back; what is not its own stays as it is.

Drives `store/erasure`.
"""

from __future__ import annotations

import pytest

from perdure.core.effects import Effect
from perdure.core.file_names import chat_folder
from perdure.core.journal import ModelAnswered, ToolCall, ToolEnded, ToolStarted, fold
from perdure.core.messages import Attachment, Inbound, Sender
from perdure.core.queue import Fate
from perdure.core.states import TurnState
from perdure.store import erasure, session_verbs
from perdure.store.background_sessions import begin_background_session
from perdure.store.erasure import MAX_ROWS_PER_TRANSACTION, ErasedSession, delete_some_rows
from perdure.store.goals import set_goal
from perdure.store.processes import Process, ProcessEnd, ProcessRequest
from perdure.store.transitions import Turn
from support.store_gateway import StoreGateway, answer_with_calls, chat_address, key_of, message

pytestmark = pytest.mark.anyio

WORDS = "marzipan"
DAY = 86_400_000


async def fills(gateway: StoreGateway, *, chat_name: str = "c1") -> tuple[Turn, Process]:
    """A session with words in every table that may hold any."""
    file = (Attachment(f"{WORDS}.png", f"ref {WORDS}", "image/png", 3),)
    said = Inbound(chat_address(chat_name), f"m {chat_name}", Sender("ada", "Ada"), WORDS, attachments=file)
    await gateway.store.inbox.receive(said, WORDS, key_of(chat_name), gateway.now())
    claim = await gateway.claims(chat_name)
    assert claim is not None
    turn = claim.turn
    await gateway.appends(turn, ModelAnswered(1, WORDS, (ToolCall("c1", "shell", {"command": WORDS}),), "tool"))
    wish = ProcessRequest(turn.id, "c1", f"{turn.id}~c1", f"echo {WORDS}", patterns=(WORDS,))
    process = await gateway.store.processes.record(wish, gateway.run, gateway.now())
    await gateway.store.previews.begin(turn.id, turn.key, turn.epoch, gateway.now())
    await gateway.finishes_turn(turn, WORDS, WORDS, chat_name=chat_name)
    ordered = message(f"/goal {WORDS}", chat_name=chat_name, id=f"g {chat_name}")
    await gateway.store.inbox.receive(ordered, WORDS, key_of(chat_name), gateway.now(), "command")
    order = (await gateway.store.chat_commands.waiting(gateway.run))[-1]
    setting = set_goal(key_of(chat_name), ordered, 5)
    await gateway.store.chat_commands.execute(order, setting, lambda _: f"A goal: {WORDS}", gateway.now())
    sql = "UPDATE attachments SET state = 'fetched', path = :path WHERE path IS NULL"
    await gateway.execute_sql(sql, path=f"attachments/{turn.id}.png")
    return turn, process


async def erases(gateway: StoreGateway, session: str) -> ErasedSession:
    assert await gateway.store.erasure.begin(session, gateway.now()) is not None
    found = await gateway.store.erasure.finish(session, gateway.now())
    assert found is not None
    return found


async def test_nothing_of_a_session_is_left_but_names(gateway: StoreGateway) -> None:
    """B104."""
    turn, _ = await fills(gateway)
    assert await erases(gateway, turn.session) == ErasedSession(turn.session, turn.key, 1, 2, 3, 1, 1)
    await gateway.reopen()
    left = {table: rows for table, rows in (await gateway.all_rows()).items() if rows}
    assert set(left) == {"runs", "leases", "erased"}
    assert WORDS not in str(left)
    assert await gateway.store.erasure.files_to_remove() == (
        {turn.id},
        {f"attachments/{turn.id}.png", chat_folder(turn.key)},
    )
    assert await gateway.store.erasure.unfinished() == []


async def test_other_sessions_stay_as_they_are(gateway: StoreGateway) -> None:
    mine, _ = await fills(gateway)
    before = await gateway.all_rows()
    other, _ = await fills(gateway, chat_name="c2")
    await erases(gateway, other.session)
    after = await gateway.all_rows(but=["leases", "erased"])
    assert after == {table: rows for table, rows in before.items() if table in after}
    assert (await gateway.turn_row(mine)).state is TurnState.DONE


async def test_message_that_was_erased_does_not_come_back(gateway: StoreGateway) -> None:
    turn, _ = await fills(gateway)
    await erases(gateway, turn.session)
    said = Inbound(chat_address(), "m c1", Sender("ada"), WORDS)
    stored = await gateway.store.inbox.receive(said, WORDS, key_of(), gateway.now())
    assert (stored.fresh, stored.fate, stored.message) == (False, Fate.ERASED, "")
    await gateway.store.inbox.reject(said.event_key, WORDS, "garbled", gateway.now())
    assert await gateway.query("SELECT 1 FROM inbox") == []
    fresh = await gateway.begins_turn("something else")
    assert fresh.session != turn.session
    assert fresh.generation == turn.generation + 1


async def test_turn_that_runs_is_ended_first_and_what_waits_is_dropped(gateway: StoreGateway) -> None:
    turn = await gateway.begins_turn("work")
    await gateway.receives("more")
    begun = await gateway.store.erasure.begin(turn.session, gateway.now())
    assert begun is not None
    assert (begun.turns, begun.ended) == ((turn.id,), (turn.id,))
    assert (await gateway.turn_row(turn)).state is TurnState.CANCELLED
    assert await gateway.claims() is None
    assert await gateway.finishes_turn(turn, "too late") is None
    fresh = await gateway.begins_turn("another")
    assert fresh.session != turn.session
    await gateway.store.erasure.finish(turn.session, gateway.now())
    assert (await gateway.turn_row(fresh)).state is TurnState.RUNNING
    assert [one.text for one in (await gateway.snapshot()).inbox] == ["another"]


async def test_erasing_that_was_begun_is_found_after_a_crash(gateway: StoreGateway) -> None:
    turn, _ = await fills(gateway)
    await gateway.store.erasure.begin(turn.session, gateway.now())
    await gateway.reopen()
    assert await gateway.store.erasure.unfinished() == [turn.session]
    assert await gateway.store.erasure.finish(turn.session, gateway.now()) is not None
    assert await gateway.store.erasure.unfinished() == []
    assert await gateway.store.erasure.finish(turn.session, gateway.now()) is None
    assert await gateway.store.erasure.begin(turn.session, gateway.now()) is None


async def test_large_session_goes_some_rows_at_a_time_and_can_be_read_meanwhile(gateway: StoreGateway) -> None:
    turn = await gateway.begins_turn("work")
    for number in range(4):
        calls = [f"c{number}.{call}" for call in range(50)]
        await gateway.appends(turn, answer_with_calls(*calls, step=number))
        intents = [ToolStarted(call, "look", Effect.PURE, call) for call in calls]
        await gateway.appends(turn, *intents, *(ToolEnded(call, "ok", WORDS) for call in calls))
    await gateway.finishes_turn(turn, "done")
    for number in range(MAX_ROWS_PER_TRANSACTION):
        ordered = message("/help", id=f"h{number}")
        await gateway.store.inbox.receive(ordered, "", key_of(), gateway.now(), "command")
    await gateway.store.erasure.begin(turn.session, gateway.now())
    some = await gateway.store.database.write(lambda tx: delete_some_rows(tx, turn.session), at=1)
    assert some is not None
    assert some.total() == MAX_ROWS_PER_TRANSACTION
    assert fold(await gateway.store.journal.of_turn(turn.session, turn.id)).causes, "the turn cannot be read"
    assert await gateway.store.erasure.finish(turn.session, gateway.now()) is not None
    assert await gateway.query("SELECT 1 FROM inbox UNION ALL SELECT 1 FROM journal") == []
    names = await gateway.query("SELECT count(*) FROM erased WHERE kind = 'event'")
    assert names == [(MAX_ROWS_PER_TRANSACTION + 1,)]


async def test_session_that_is_brought_back_in_the_middle_goes_all_the_same(gateway: StoreGateway) -> None:
    turn = await gateway.begins_turn("work")
    await gateway.store.erasure.begin(turn.session, gateway.now())
    wish = message("", id="wish")
    verb = session_verbs.resume(key_of(), gateway.run, wish, session=turn.session)
    await gateway.store.chat_commands.execute_verb(key_of(), verb, at=gateway.now())
    again = await gateway.begins_turn("more")
    assert again.session == turn.session
    assert await gateway.store.erasure.finish(turn.session, gateway.now()) is not None
    assert await gateway.query("SELECT 1 FROM turns") == []


async def test_nobody_hears_of_a_process_that_is_ended_for_the_erasing(gateway: StoreGateway) -> None:
    turn, process = await fills(gateway)
    await gateway.store.erasure.begin(turn.session, gateway.now())
    row = await gateway.store.processes.get(process.id)
    assert row is not None
    assert (row.needs_report, row.active_patterns) == (False, [])
    assert (
        await gateway.store.processes.record_end(process, ProcessEnd(exit_code=0), lambda _: WORDS, gateway.now())
        == "nobody"
    )


async def test_message_received_by_an_erased_session_stays_with_the_turn_that_took_it(
    gateway: StoreGateway,
) -> None:
    old = await gateway.begins_turn("old")
    await gateway.finishes_turn(old)
    await gateway.receives("for the next")
    renew = session_verbs.renew(key_of(), before=0)
    await gateway.store.chat_commands.execute_verb(key_of(), renew, at=gateway.now())
    claim = await gateway.claims()
    assert claim is not None
    assert claim.turn.session != old.session
    await erases(gateway, old.session)
    rows = await gateway.query("SELECT session, turn FROM inbox")
    assert rows == [(claim.turn.session, claim.turn.id)]


async def test_command_bound_to_an_erased_turn_stays_with_its_own_session(gateway: StoreGateway) -> None:
    old = await gateway.begins_turn("old")
    await gateway.finishes_turn(old)
    await gateway.store.chat_commands.execute_verb(key_of(), session_verbs.renew(key_of()), at=gateway.now())
    await gateway.store.inbox.receive(message("/why"), "", key_of(), gateway.now(), "command")
    await gateway.execute_sql("UPDATE inbox SET bound = :turn WHERE kind = 'command'", turn=old.id)
    await erases(gateway, old.session)
    assert await gateway.query("SELECT bound FROM inbox WHERE kind = 'command'") == [(None,)]


async def test_key_names_all_that_was_in_its_chat(gateway: StoreGateway) -> None:
    first = await gateway.begins_turn("one")
    await gateway.finishes_turn(first)
    await gateway.store.chat_commands.execute_verb(key_of(), session_verbs.renew(key_of()), at=gateway.now())
    second = await gateway.begins_turn("two")
    beside = begin_background_session(key_of(), message("three"), "background:1", 9)
    await gateway.store.chat_commands.execute_verb(key_of(), beside, at=gateway.now())
    await gateway.receives("elsewhere", chat_name="c2")
    found = [session.id for session in await gateway.store.sessions.find_by_name(key_of())]
    assert found[:2] == [first.session, second.session]
    assert len(found) == 3
    assert [one.id for one in await gateway.store.sessions.find_by_name(first.session)] == [first.session]
    assert await gateway.store.sessions.find_by_name("nothing") == []
    for session in found:
        await erases(gateway, session)
    assert [one.text for one in (await gateway.snapshot()).inbox] == ["elsewhere"]


# ── retention ───────────────────────────────────────────────────────────────────────────────────────────────


async def idle(gateway: StoreGateway, limit: int = 10) -> list[str]:
    return await gateway.store.erasure.idle_sessions(1 << 40, limit)


async def test_idle_sessions_are_those_in_which_nothing_is_under_way_or_owed(gateway: StoreGateway) -> None:
    done = await gateway.begins_turn("done", chat_name="c1")
    await gateway.finishes_turn(done)
    running = await gateway.begins_turn("runs", chat_name="c2")
    owing = await gateway.begins_turn("owes", chat_name="c3")
    await gateway.finishes_turn(owing, "a reply", chat_name="c3")
    busy = await gateway.begins_turn("has a process", chat_name="c4")
    wish = ProcessRequest(busy.id, "c1", "d1", "sleep 9", notify=False)
    process = await gateway.store.processes.record(wish, gateway.run, gateway.now())
    await gateway.finishes_turn(busy)
    await gateway.receives("waits", chat_name="c5")
    assert await idle(gateway) == [done.session]
    await gateway.finishes_turn(running)
    await gateway.delivers()
    await gateway.store.processes.record_end(process, ProcessEnd(exit_code=0), lambda row: row.id, gateway.now())
    found = [done.session, running.session, owing.session, busy.session]
    assert sorted(await idle(gateway)) == sorted(found)
    assert len(await idle(gateway, 2)) == 2
    assert await gateway.store.erasure.idle_sessions(0, 10) == []


async def test_session_is_spared_when_somebody_writes_after_it_was_found_idle(gateway: StoreGateway) -> None:
    turn = await gateway.begins_turn("work")
    await gateway.finishes_turn(turn)
    assert await idle(gateway) == [turn.session]
    await gateway.receives("still here")
    assert await gateway.store.erasure.begin(turn.session, gateway.now(), idle_since=1 << 40) is None
    await gateway.finishes_turn((await gateway.claims()).turn)  # type: ignore[union-attr]
    assert await gateway.store.erasure.begin(turn.session, gateway.now(), idle_since=1 << 40) is not None


async def test_session_is_not_idle_while_its_last_turn_is_young(gateway: StoreGateway) -> None:
    turn = await gateway.begins_turn("work")
    began = (await gateway.turn_row(turn)).updated_at
    await gateway.finishes_turn(turn)
    assert await gateway.store.erasure.idle_sessions(began + 1, 10) == []


async def test_events_that_came_to_nothing_go_by_age_and_do_not_come_back(gateway: StoreGateway) -> None:
    kept = await gateway.begins_turn("taken")
    await gateway.store.inbox.reject("web:default:message:c1:r", WORDS, "garbled", gateway.now())
    await gateway.receives("withdrawn", chat_name="c2")
    stop = session_verbs.stop(key_of("c2"), None, everything=True)
    await gateway.store.chat_commands.execute_verb(key_of("c2"), stop, at=gateway.now())
    assert await gateway.store.erasure.delete_old_events(0, gateway.now(), 10) == 0
    assert await gateway.store.erasure.delete_old_events(1 << 40, gateway.now(), 1) == 1
    assert await gateway.store.erasure.delete_old_events(1 << 40, gateway.now(), 10) == 1
    assert await gateway.query("SELECT state FROM inbox") == [("taken",)]
    assert not (await gateway.receives("withdrawn", chat_name="c2")).fresh
    assert (await gateway.turn_row(kept)).state is TurnState.RUNNING


async def test_what_is_left_of_the_erased_goes_after_a_month_but_for_what_is_not_finished(
    gateway: StoreGateway,
) -> None:
    turn, _ = await fills(gateway)
    await erases(gateway, turn.session)
    open_ = await gateway.begins_turn("to be erased", chat_name="c2")
    await gateway.store.erasure.begin(open_.session, gateway.now())
    assert await gateway.store.erasure.delete_expired_tombstones(erasure.RETENTION_MS) == 0
    assert await gateway.store.erasure.delete_expired_tombstones(erasure.RETENTION_MS + DAY) > 0
    assert await gateway.query("SELECT name FROM erased") == [(open_.session,)]

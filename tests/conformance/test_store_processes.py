"""Processes: on record before they run, told of once, and to whom.

Drives `store/processes`.
"""

from __future__ import annotations

import asyncio

import pytest

from perdure.core.address import background_session_key
from perdure.core.effects import Effect
from perdure.core.journal import Cause, ObservedExit, ToolEnded, ToolStarted
from perdure.store import session_verbs
from perdure.store.background_sessions import begin_background_session
from perdure.store.ids import wall_clock
from perdure.store.processes import (
    MAX_STRIKES,
    NOTICE_INTERVAL_MS,
    MatchNotice,
    OutputScan,
    Process,
    ProcessEnd,
    ProcessRequest,
    mark_seen,
)
from perdure.store.transitions import Turn
from support.store_gateway import StoreGateway, everybody_may_join, key_of, message

pytestmark = pytest.mark.anyio

DONE = ProcessEnd(exit_code=0)


async def begins(
    gateway: StoreGateway, turn: Turn, call: str = "c1", *, notify: bool = True, watch: str = ""
) -> Process:
    patterns = (watch,) if watch else ()
    wish = ProcessRequest(turn.id, call, f"{turn.id}~{call}", "make", notify, patterns)
    return await gateway.store.processes.record(wish, gateway.run, gateway.now())


async def in_background(
    gateway: StoreGateway, *, notify: bool = True, watch: str = "", text: str = "go"
) -> Process:
    """A process whose turn is done."""
    turn = await gateway.begins_turn(text)
    process = await begins(gateway, turn, notify=notify, watch=watch)
    await gateway.finishes_turn(turn)
    return process


async def ends(gateway: StoreGateway, process: Process, end: ProcessEnd = DONE) -> str | None:
    def say(row: Process) -> str:
        return f"{row.state}, {row.unnoticed} more"

    return await gateway.store.processes.record_end(process, end, say, gateway.now(), starter_allowed=True)


async def sees(gateway: StoreGateway, process: Process) -> None:
    """Somebody reads of the end; which turn that is does not matter here."""
    sight = ObservedExit(process.id, exit_code=0)
    await gateway.store.database.write(lambda tx: mark_seen(tx, sight), key=process.key, at=gateway.now())


async def finds(gateway: StoreGateway, process: Process, count: int = 1, *, at: int | None = None) -> str | None:
    """Find something in the next ten bytes of output."""

    def say(notice: MatchNotice) -> str:
        return f"{notice.count} and {notice.before}{', the last' if notice.last else ''}"

    since = (await row_of(gateway, process)).scanned
    now = gateway.now() if at is None else at
    return await gateway.store.processes.record_matches(
        process, OutputScan(count, since, since + 10), say, now, starter_allowed=True
    )


async def row_of(gateway: StoreGateway, process: Process) -> Process:
    found = await gateway.store.processes.get(process.id)
    assert found is not None
    return found


async def causes(gateway: StoreGateway) -> list[Cause]:
    """What the next turn is about."""
    claim = await gateway.claims()
    return (await gateway.view(claim.turn)).causes if claim else []


async def owed(gateway: StoreGateway) -> list[str]:
    return [row.text for row in await gateway.store.outbox.open_deliveries()]


# ── on record ───────────────────────────────────────────────────────────────────────────────────────────────


async def test_b90_process_is_on_record_with_its_wish_chat_and_person_after_a_crash(gateway: StoreGateway) -> None:
    process = await in_background(gateway, watch="ready")
    await gateway.reopen()
    assert await gateway.store.processes.live() == [process]
    known = (process.key, process.person, process.notify, process.active_patterns, process.instance)
    assert known == (key_of(), "ada", 1, ["ready"], "one")


async def test_same_call_has_one_process_when_it_is_made_again(gateway: StoreGateway) -> None:
    turn = await gateway.begins_turn("go")
    assert await begins(gateway, turn) == await begins(gateway, turn)
    assert await begins(gateway, turn, "c2") != await begins(gateway, turn)
    assert len(await gateway.store.processes.live()) == 2


async def test_process_that_never_ran_is_not_on_record(gateway: StoreGateway) -> None:
    process = await in_background(gateway)
    await gateway.store.processes.delete(process)
    assert await gateway.store.processes.page() == []


async def test_processes_of_a_chat_are_listed_there_alone(gateway: StoreGateway) -> None:
    here, other = await gateway.begins_turn("go"), await gateway.begins_turn("go", chat_name="c2")
    first, second = await begins(gateway, here), await begins(gateway, here, "c2")
    await begins(gateway, other)
    await sees(gateway, second)
    assert [one.id for one in await gateway.store.processes.of_chat(here.id)] == [first.id, second.id]


# ── the end ─────────────────────────────────────────────────────────────────────────────────────────────────


async def test_b92_b96_end_begins_one_turn_when_it_is_found_twice(gateway: StoreGateway) -> None:
    process = await in_background(gateway)
    assert set(await asyncio.gather(ends(gateway, process), ends(gateway, process))) == {"report", None}
    await gateway.reopen()
    assert await ends(gateway, process) is None
    [cause] = await causes(gateway)
    assert (cause.text, cause.note, cause.sender.id) == ("ended, 0 more", True, "ada")
    assert await gateway.claims() is None
    [event] = await gateway.query("SELECT event_key FROM inbox WHERE kind = 'report'")
    assert event == (f"process:{process.id}:ended",)


async def test_process_that_nobody_can_tell_of_is_told_as_lost(gateway: StoreGateway) -> None:
    process = await in_background(gateway)
    await ends(gateway, process, ProcessEnd(lost=True))
    [cause] = await causes(gateway)
    assert cause.text == "lost, 0 more"


async def test_end_is_told_to_nobody_when_nobody_wishes_to_hear(gateway: StoreGateway) -> None:
    process = await in_background(gateway, notify=False)
    assert await ends(gateway, process) == "nobody"
    assert await gateway.claims() is None


async def test_b92_end_that_was_seen_is_not_told(gateway: StoreGateway) -> None:
    process = await in_background(gateway)
    await sees(gateway, process)
    await gateway.reopen()
    assert await ends(gateway, process) is None
    assert await gateway.claims() is None
    assert (await row_of(gateway, process)).told == "seen"


async def test_b92_end_is_seen_together_with_the_result_that_tells_of_it(gateway: StoreGateway) -> None:
    process, turn = await in_background(gateway), await gateway.begins_turn("look")
    saw = ToolEnded("c1", "ok", "ended", (ObservedExit(process.id, exit_code=0),))
    assert await gateway.appends(turn, ToolStarted("c1", "process", Effect.KEYED, "k"), saw)
    row = await row_of(gateway, process)
    assert (row.state, row.exit_code, row.told) == ("ended", 0, "seen")
    assert await ends(gateway, process) is None


async def test_b92_end_is_told_when_the_result_that_tells_of_it_was_not_kept(gateway: StoreGateway) -> None:
    """Somebody ends the turn, or we die, between the look and its record."""
    process, turn = await in_background(gateway), await gateway.begins_turn("look")
    await gateway.cancels_turn(turn)
    assert (
        await gateway.appends(turn, ToolEnded("c1", "ok", "ended", (ObservedExit(process.id, exit_code=0),)))
        is None
    )
    assert (await row_of(gateway, process)).state == "live"
    assert await ends(gateway, process) == "report"


async def test_notice_of_a_process_of_background_work_has_its_number(gateway: StoreGateway) -> None:
    await gateway.receives("hello")
    begin = begin_background_session(key_of(), message("dig"), "background:dig", 9)
    assert await gateway.store.chat_commands.execute_verb(key_of(), begin, at=gateway.now()) == 1
    key = background_session_key(key_of(), 1)
    claim = await gateway.store.turns.claim(key, gateway.run, gateway.now(), may_join=everybody_may_join)
    assert claim is not None
    first, last = [await begins(gateway, claim.turn, call) for call in ("c1", "c2")]
    await gateway.finishes_turn(claim.turn)
    assert await ends(gateway, first) == "report"
    await gateway.store.chat_commands.execute_verb(key, session_verbs.renew(key), at=gateway.now())
    assert await ends(gateway, last) == "notice"
    assert await owed(gateway) == ["[background 1] ended, 0 more"] * 2


async def test_process_is_given_up_when_its_installation_is_silent_for_long(
    two_gateways: tuple[StoreGateway, StoreGateway],
) -> None:
    """And no sooner: not while any of its runs lives, or has lived within a day."""
    one, two = two_gateways
    process = await in_background(one)
    assert await two.store.processes.abandoned() == []
    await two.execute_sql("UPDATE runs SET heartbeat_at = 1 WHERE id = :run", run=one.run)
    assert await two.store.processes.abandoned() == [], "nobody has ended its run"
    assert await two.declares_dead(one)
    await two.execute_sql("UPDATE runs SET heartbeat_at = 1 WHERE id = :run", run=one.run)
    assert [each.id for each in await two.store.processes.abandoned()] == [process.id]
    await two.execute_sql("UPDATE runs SET heartbeat_at = :now WHERE id = :run", run=one.run, now=wall_clock())
    assert await two.store.processes.abandoned() == []


async def test_b168_process_of_an_older_version_is_not_given_up_while_its_gateway_lives(
    two_gateways: tuple[StoreGateway, StoreGateway],
) -> None:
    """It was recorded by the name that the gateway had before it had an id."""
    one, two = two_gateways
    process = await in_background(one)
    await one.execute_sql("UPDATE processes SET instance = 'machine:/home'")
    assert [each.id for each in await two.store.processes.abandoned()] == [process.id]
    await one.execute_sql("UPDATE runs SET former = 'machine:/home' WHERE id = :run", run=one.run)
    assert await two.store.processes.abandoned() == []


async def test_b92_report_is_taken_back_when_the_end_is_seen_before_its_turn(gateway: StoreGateway) -> None:
    turn = await gateway.begins_turn("go")
    process = await begins(gateway, turn)
    assert await ends(gateway, process) == "report"
    await sees(gateway, process)
    await gateway.finishes_turn(turn)
    await gateway.reopen()
    assert await gateway.claims() is None
    assert (await row_of(gateway, process)).told == "seen"


async def test_end_that_began_a_turn_stays_told_when_it_is_seen_in_that(gateway: StoreGateway) -> None:
    process = await in_background(gateway)
    await ends(gateway, process)
    assert await causes(gateway)
    await sees(gateway, process)
    assert (await row_of(gateway, process)).told == "report"


async def test_b96_end_is_a_notice_when_a_fresh_conversation_was_begun(gateway: StoreGateway) -> None:
    process = await in_background(gateway)
    await gateway.store.chat_commands.execute_verb(key_of(), session_verbs.renew(key_of()), at=gateway.now())
    assert await ends(gateway, process) == "notice"
    assert await gateway.claims() is None
    assert await owed(gateway) == ["ended, 0 more"]


async def test_b96_waiting_report_becomes_a_notice_when_a_fresh_conversation_is_begun(
    gateway: StoreGateway,
) -> None:
    process = await in_background(gateway)
    await ends(gateway, process)
    await gateway.store.chat_commands.execute_verb(key_of(), session_verbs.renew(key_of()), at=gateway.now())
    assert await owed(gateway) == ["ended, 0 more"], "it is owed at once"
    assert await gateway.store.turns.claimable_keys(gateway.run) == []
    assert await gateway.claims() is None
    assert (await row_of(gateway, process)).told == "notice"


async def test_b92_notice_is_taken_back_when_the_end_is_seen_before_it_is_sent(gateway: StoreGateway) -> None:
    process = await in_background(gateway)
    await gateway.store.chat_commands.execute_verb(key_of(), session_verbs.renew(key_of()), at=gateway.now())
    await ends(gateway, process)
    await sees(gateway, process)
    assert await owed(gateway) == []


async def test_end_is_a_notice_when_the_session_is_set_aside(gateway: StoreGateway) -> None:
    process = await in_background(gateway)
    await gateway.store.chat_commands.execute_verb(key_of(), session_verbs.suspend(key_of()), at=gateway.now())
    assert await ends(gateway, process) == "notice"
    assert await gateway.claims() is None


async def test_news_joins_no_turn_that_was_cut_off(gateway: StoreGateway) -> None:
    turn = await gateway.begins_turn("go")
    process = await begins(gateway, turn)
    await gateway.crash()
    await gateway.open()
    await gateway.interrupts_turn(turn)
    await ends(gateway, process)
    assert await gateway.claims() is None
    assert await gateway.store.inbox.count_waiting(key_of()) == 0


async def test_news_is_not_seen_in_the_chat_as_words_of_a_person(gateway: StoreGateway) -> None:
    process = await in_background(gateway)
    await ends(gateway, process)
    assert [seen.text for seen in await gateway.store.inbox.chat_messages(key_of(), 0)] == ["go"]


# ── matches ─────────────────────────────────────────────────────────────────────────────────────────────────


async def test_b93_first_match_is_told_at_once_and_others_with_the_next_notice(gateway: StoreGateway) -> None:
    process = await in_background(gateway, watch="x")
    assert await finds(gateway, process, at=0) == "report"
    assert await finds(gateway, process, 2, at=NOTICE_INTERVAL_MS - 1) is None
    assert [cause.text for cause in await causes(gateway)] == ["1 and 0"]
    await gateway.reopen()
    assert (await row_of(gateway, process)).unnoticed == 2


async def test_b93_counted_matches_are_told_when_the_window_is_over(gateway: StoreGateway) -> None:
    process = await in_background(gateway, watch="x")
    await finds(gateway, process, at=0)
    await finds(gateway, process, 2, at=1)
    assert await finds(gateway, process, 0, at=NOTICE_INTERVAL_MS) == "report"
    texts = [
        row[0] for row in await gateway.query("SELECT body FROM inbox WHERE kind = 'report' ORDER BY position")
    ]
    assert "0 and 2" in texts[1]


async def test_b89_match_is_told_when_the_clock_was_set_back_since_the_last_notice(gateway: StoreGateway) -> None:
    process = await in_background(gateway, watch="x")
    await finds(gateway, process, at=0)
    assert await finds(gateway, process, at=-86_400_000) == "report"


async def test_b93_pattern_is_switched_off_after_three_windows_in_a_row_with_drops(gateway: StoreGateway) -> None:
    process = await in_background(gateway, notify=False, watch="x")
    for window in range(MAX_STRIKES):
        assert await finds(gateway, process, at=window * NOTICE_INTERVAL_MS) == "report"
        assert await finds(gateway, process, at=window * NOTICE_INTERVAL_MS + 1) is None
        assert (await row_of(gateway, process)).watching
    assert await finds(gateway, process, at=MAX_STRIKES * NOTICE_INTERVAL_MS) == "report"
    assert await finds(gateway, process, at=9 * NOTICE_INTERVAL_MS) is None
    assert not (await row_of(gateway, process)).watching
    texts = [
        row[0] for row in await gateway.query("SELECT body FROM inbox WHERE kind = 'report' ORDER BY position")
    ]
    assert len(texts) == MAX_STRIKES + 1
    assert "the last" in texts[-1]
    assert await ends(gateway, process) == "report", "the completion is told instead"


async def test_b93_quiet_window_begins_the_row_anew(gateway: StoreGateway) -> None:
    process = await in_background(gateway, watch="x")
    for window in (0, 1, 4, 5, 8, 9):
        await finds(gateway, process, at=window * NOTICE_INTERVAL_MS)
        await finds(gateway, process, at=window * NOTICE_INTERVAL_MS + 1)
        if window % 2:
            await finds(gateway, process, 0, at=(window + 1) * NOTICE_INTERVAL_MS)
    assert (await row_of(gateway, process)).watching


async def test_b93_matches_without_a_notice_are_told_with_the_end(gateway: StoreGateway) -> None:
    process = await in_background(gateway, notify=False, watch="x")
    await finds(gateway, process, at=0)
    await finds(gateway, process, 3, at=1)
    assert await ends(gateway, process) == "report"


async def test_same_piece_of_output_is_counted_once(gateway: StoreGateway) -> None:
    process = await in_background(gateway, watch="x")
    found = OutputScan(1, 0, 10)
    first, second = [
        await gateway.store.processes.record_matches(
            process, found, lambda _: "found", gateway.now(), starter_allowed=True
        )
        for _ in range(2)
    ]
    assert (first, second) == ("report", None)


async def test_b94_match_of_the_running_turn_is_given_to_the_next(gateway: StoreGateway) -> None:
    turn = await gateway.begins_turn("go")
    process = await begins(gateway, turn, watch="x")
    assert await finds(gateway, process) == "aside"
    await gateway.finishes_turn(turn)
    await gateway.reopen()
    assert await gateway.store.turns.claimable_keys(gateway.run) == []
    assert await gateway.claims() is None
    await gateway.receives("next")
    assert [(cause.text, cause.note) for cause in await causes(gateway)] == [("1 and 0", True), ("next", False)]


async def test_b94_match_of_an_older_generation_is_given_to_the_next_turn(gateway: StoreGateway) -> None:
    process = await in_background(gateway, watch="x")
    await gateway.finishes_turn(await gateway.begins_turn("another"))
    assert await finds(gateway, process) == "aside"
    assert await gateway.claims() is None
    await gateway.receives("next")
    assert [cause.text for cause in await causes(gateway)] == ["1 and 0", "next"]


async def test_turn_that_a_match_began_does_not_make_the_next_match_old(gateway: StoreGateway) -> None:
    process = await in_background(gateway, watch="x")
    await finds(gateway, process, at=0)
    claim = await gateway.claims()
    assert claim is not None
    await gateway.finishes_turn(claim.turn)
    assert await finds(gateway, process, at=NOTICE_INTERVAL_MS) == "report"


async def test_b95_nothing_is_told_after_the_end(gateway: StoreGateway) -> None:
    process = await in_background(gateway, watch="x")
    await ends(gateway, process)
    assert await finds(gateway, process) is None
    assert len(await causes(gateway)) == 1


async def test_b95_matches_are_taken_back_when_the_end_is_seen(gateway: StoreGateway) -> None:
    turn = await gateway.begins_turn("go")
    process = await begins(gateway, turn, watch="x")
    await finds(gateway, process)
    await sees(gateway, process)
    await gateway.finishes_turn(turn)
    await gateway.receives("next")
    assert [cause.text for cause in await causes(gateway)] == ["next"]

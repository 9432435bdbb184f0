"""A session and its recovery state, through a real gateway: what is marked, what clears it, what begins anew.

Drives `store/sessions` and `core/states`.
"""

from __future__ import annotations

import asyncio
import html
from pathlib import Path
from typing import Any

import pytest
from msgspec import to_builtins

from perdure.agents.api import Reply, TurnContext
from perdure.core import texts
from perdure.core.journal import RecoveryNoted, TurnCancelled, TurnView
from perdure.core.states import SessionState, TurnState
from perdure.operations.inspect import session_resource
from perdure.platforms.api import Capabilities
from perdure.store.api import Store
from perdure.store.journal import MAX_INLINE_ENTRIES
from perdure.store.sessions import Session
from perdure.testing import SettableClock, SimulatedPlatform
from support.gateway import Person, gateway
from support.inprocess import serving
from support.pairing import api_request
from support.recovery import (
    AgentHarness,
    crash_in_step,
    interruption_reasons,
    key_of,
    last_turn,
    turn_views,
    wait_for_replies,
    wait_for_rule,
)
from support.shutdown import HeldAgent, crashing_at_fact, read_only_store, wait_until_stopped
from support.waiting import eventually

pytestmark = pytest.mark.anyio

OFF = {"RECOVERY__POLICY": "off"}
NO_TIME = {"DRAIN__DEADLINE": "0s"}
HELD = texts.recovery.not_resumed("automatic resume is switched off here")
RECOVERY = ("resume_pending", "resume_reason", "last_resume_marked_at", "interruptions")
CLEAN = dict(zip(RECOVERY, (False, None, None, 0), strict=True))


async def current(store: Store, platform: SimulatedPlatform, chat: str = "1") -> Session:
    session = await store.sessions.current(key_of(platform, chat))
    assert session is not None
    return session


async def fields(store: Store, session: Session) -> dict[str, Any]:
    """The session as its JSON has it now."""
    found = await store.sessions.get(session.id)
    assert found is not None
    described: dict[str, Any] = to_builtins(await session_resource(store, found))
    return described


async def recovery(store: Store, session: Session) -> dict[str, Any]:
    return {name: value for name, value in (await fields(store, session)).items() if name in RECOVERY}


async def cleared(store: Store, session: Session) -> None:
    """Wait until nothing is pending: the mark goes when the receipt is recorded, just after the chat sees it."""

    async def probe() -> bool:
        return await recovery(store, session) == CLEAN

    await eventually("the mark is cleared", probe)


def noted(view: TurnView) -> list[str]:
    return [record.entry.text for record in view.records if isinstance(record.entry, RecoveryNoted)]


# ── the recovery state ──────────────────────────────────────────────────────────────────────────────────────


async def test_b1_session_has_no_recovery_state_when_it_is_new_and_when_it_was_never_cut_off(
    tmp_path: Path,
) -> None:
    platform, agent = SimulatedPlatform(), HeldAgent()
    async with serving(tmp_path, platform, agent=agent) as gateway:
        platform.write("work")
        await agent.wait_until_started("work")
        session = await current(gateway.store, platform)
        assert await recovery(gateway.store, session) == CLEAN
        agent.release("work")
        await wait_for_replies(platform, "work: done")
        assert await recovery(gateway.store, session) == CLEAN
    async with read_only_store(tmp_path) as store:
        columns = await store.database.read(lambda tx: tx.all("SELECT name FROM pragma_table_info('sessions')"))
    assert not {name for (name,) in columns} & {*RECOVERY}, "what can be derived is not stored"


async def test_b2_b10_recovery_state_survives_restarts_and_looking_and_the_id_survives_the_next_message(
    tmp_path: Path,
) -> None:
    platform, bench = SimulatedPlatform("web"), AgentHarness("slow")
    async with serving(tmp_path, platform, agent=bench.agent, **NO_TIME) as gateway:
        platform.write("step slow\nsay: one")
        await eventually("the step hangs", lambda: bench.hung_steps)
        gateway.stop()
        await wait_until_stopped(gateway)
    async with read_only_store(tmp_path) as store:
        before = await fields(store, await current(store, platform))
    assert [before[name] for name in ("resume_pending", "resume_reason", "interruptions")] == [
        True,
        "shutdown_timeout",
        1,
    ]
    assert before["last_resume_marked_at"] is not None
    for _ in range(3):
        async with serving(tmp_path, platform, agent=bench.agent, **OFF) as gateway:
            session = await current(gateway.store, platform)
            for _ in range(3):
                assert await fields(gateway.store, session) == before
            await wait_for_rule(gateway.store, key_of(platform), "off")
            assert await fields(gateway.store, session) == before
    bench.release()
    async with serving(tmp_path, platform, agent=bench.agent, **OFF) as gateway:
        platform.write("say: two")
        await eventually("both are answered", lambda: platform.replies()[-1:] == ["one\ntwo"])
        after = await current(gateway.store, platform)
        await cleared(gateway.store, after)
        [turn] = await turn_views(gateway.store, key_of(platform))
    assert (after.id, after.auto_reset_reason) == (before["id"], None)
    assert [cause.text for cause in turn.causes] == ["step slow\nsay: one", "say: two"]


async def test_b7_marking_and_clearing_what_cannot_be_reports_false_and_changes_nothing(tmp_path: Path) -> None:
    """The verbs that clear are `drop`, `stop` and `resume`; a drain marks."""
    platform, agent = SimulatedPlatform(), HeldAgent()
    agent.release("work")
    async with serving(tmp_path, platform, agent=agent) as gateway:
        platform.write("work")
        await wait_for_replies(platform, "work: done")
        session = await current(gateway.store, platform)
        await eventually("nothing is owed", lambda: _nothing_owed(gateway.store))
        before = await fields(gateway.store, session)
        operators = gateway.operator_verbs
        assert not await operators.drop(session)
        assert not await operators.resume(session)
        assert not await operators.stop(session)
        assert await fields(gateway.store, session) == before
        for command in ("/drop", "/resume"):
            platform.write(command)
        await wait_for_replies(
            platform,
            "work: done",
            texts.chat_commands.dropped(False),
            texts.chat_commands.RESUME_ANSWERS["nothing"],
        )
        assert await fields(gateway.store, session) == before
    async with read_only_store(tmp_path) as store:
        [turn] = await turn_views(store, key_of(platform))
        assert await fields(store, session) == before, "a drain marks nothing where no turn runs"
    assert turn.interruptions == []


async def _nothing_owed(store: Store) -> bool:
    return not await store.outbox.open_deliveries()


def test_b7_operator_is_told_when_there_is_nothing_of_that_name(tmp_path: Path) -> None:
    with gateway(tmp_path / "home") as process:
        person = Person(process)
        session = person.say("say: one").json()["session"]
        person.wait_for_replies(1)
        for verb in ("drop", "resume", "stop", "suspend"):
            answer = person.request("POST", f"/../../sessions/s_none/{verb}")
            assert answer.status_code == 404
        for verb in ("drop", "resume", "stop"):
            answer = person.request("POST", f"/../../sessions/{session}/{verb}")
            assert answer.json() == {"session": session, "verb": verb, "done": False}


class Lingering(HeldAgent):
    """An agent that takes its time to tidy up when it is cancelled: until it is cancelled again."""

    async def run(self, context: TurnContext) -> Reply:
        try:
            return await super().run(context)
        finally:
            await asyncio.Event().wait()


async def test_b8_suspended_session_is_not_marked_though_its_agent_still_runs(tmp_path: Path) -> None:
    platform, agent = SimulatedPlatform(), Lingering()
    async with serving(tmp_path, platform, agent=agent, **NO_TIME) as gateway:
        platform.write("work")
        await agent.wait_until_started("work")
        session = await current(gateway.store, platform)
        assert await gateway.operator_verbs.suspend(session)
        assert len(gateway.loops.runner.running) == 1, "its agent is still at work"
        gateway.stop()
        await wait_until_stopped(gateway)
    async with read_only_store(tmp_path) as store:
        session = await current(store, platform)
        [turn] = await turn_views(store, key_of(platform))
        assert await recovery(store, session) == CLEAN
    assert (session.state, turn.ended, turn.interruptions) == (
        SessionState.SUSPENDED,
        TurnCancelled("suspended"),
        [],
    )


# ── suspended ───────────────────────────────────────────────────────────────────────────────────────────────


async def set_aside(home: Path, platform: SimulatedPlatform, bench: AgentHarness, script: str) -> str:
    """Cut a turn off and suspend its session; the id of that."""
    await crash_in_step(home, platform, bench, script)
    async with serving(home, platform, agent=bench.agent, **OFF) as gateway:
        await wait_for_replies(platform, HELD)
        session = await current(gateway.store, platform)
        assert await gateway.operator_verbs.suspend(session)
        state = await fields(gateway.store, session)
    assert (state["state"], state["resume_pending"]) == ("suspended", True), "suspended and pending at once"
    return session.id


@pytest.mark.parametrize("killed", [False, True], ids=["", "when killed as soon as it was stored"])
async def test_b9_message_to_a_suspended_session_begins_a_fresh_one_and_the_chat_is_told(
    tmp_path: Path, killed: bool
) -> None:
    platform, bench = SimulatedPlatform("web"), AgentHarness("slow")
    old = await set_aside(tmp_path, platform, bench, "step slow\nsay: old")
    bench.release()
    platform.write("say: new")
    if killed:
        fact = "SELECT 1 FROM inbox WHERE body LIKE '%say: new%'"
        async with crashing_at_fact(tmp_path, platform, fact=fact, agent=bench.agent):
            pass
    told = texts.recovery.new_session_after_suspension(old)
    async with serving(tmp_path, platform, agent=bench.agent) as gateway:
        await wait_for_replies(platform, HELD, told, "new")
        state = await fields(gateway.store, await current(gateway.store, platform))
        assert bench.request_texts()[-1] == ["say: new"], "the old transcript stays behind"
        platform.write("/sessions")
        shown = await eventually("the sessions are listed", lambda: platform.replies()[3:])
        platform.write(f"/resume {old}")
        await wait_for_replies(
            platform, HELD, told, "new", *shown, texts.chat_commands.RESUME_ANSWERS["session"], "old"
        )
        back = await current(gateway.store, platform)
        await cleared(gateway.store, back)
    assert state["id"] != old
    assert (state["was_auto_reset"], state["auto_reset_reason"]) == (True, "suspended")
    listed = [line.split(", ")[0] for line in shown[0].splitlines()]
    assert listed == [f"{state['id']}  this one", f"{old}  earlier", "/resume ID brings one of them back."]
    assert "\n" not in told
    assert back.id == old
    assert bench.run_counts["slow"] == 2, "what was cut off, and may be repeated, is"


async def test_b9_suspended_session_comes_back_with_resume_alone_while_nobody_has_written(tmp_path: Path) -> None:
    platform, bench = SimulatedPlatform("web"), AgentHarness("slow")
    old = await set_aside(tmp_path, platform, bench, "step slow\nsay: old")
    bench.release()
    async with serving(tmp_path, platform, agent=bench.agent) as gateway:
        platform.write("/resume")
        await wait_for_replies(platform, HELD, texts.chat_commands.RESUME_ANSWERS["session"], "old")
        [session] = await gateway.store.sessions.of_key(key_of(platform))
    assert (session.id, session.state) == (old, SessionState.OPEN)


async def test_idle_session_that_was_suspended_comes_back_without_a_turn(tmp_path: Path) -> None:
    platform, agent = SimulatedPlatform(), HeldAgent()
    agent.release("one", "two")
    async with serving(tmp_path, platform, agent=agent) as gateway:
        platform.write("one")
        await wait_for_replies(platform, "one: done")
        assert await gateway.operator_verbs.suspend(await current(gateway.store, platform))
        platform.write("/resume")
        await wait_for_replies(platform, "one: done", texts.chat_commands.RESUME_ANSWERS["session"])
        platform.write("two")
        await wait_for_replies(platform, "one: done", texts.chat_commands.RESUME_ANSWERS["session"], "two: done")
    assert agent.seen_texts == [["one"], ["one", "two"]]


async def test_b13_waiting_messages_run_in_the_new_session_after_a_suspension(tmp_path: Path) -> None:
    platform, agent = SimulatedPlatform(), HeldAgent()
    agent.release("two", "three")
    async with serving(tmp_path, platform, agent=agent) as gateway:
        platform.write("one")
        await agent.wait_until_started("one")
        platform.write("two")
        platform.write("three")
        await eventually("all are stored", lambda: not platform.pending())
        old = await current(gateway.store, platform)
        assert await gateway.operator_verbs.suspend(old)
        await wait_for_replies(
            platform, texts.recovery.new_session_after_suspension(old.id), "two: done", "three: done"
        )
        new = await fields(gateway.store, await current(gateway.store, platform))
        first = (await turn_views(gateway.store, key_of(platform)))[0]
    assert agent.seen_texts == [["one"], ["two"], ["two", "three"]]
    assert (new["id"] != old.id, new["auto_reset_reason"]) == (True, "suspended")
    assert first.ended == TurnCancelled("suspended")


# ── /new ────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("waiting", [0, 1, 3])
async def test_b13_new_ends_the_turn_and_drops_waiting_messages_and_says_so(tmp_path: Path, waiting: int) -> None:
    platform, agent = SimulatedPlatform(), HeldAgent()
    agent.release("hello")
    async with serving(tmp_path, platform, agent=agent) as gateway:
        platform.write("work")
        await agent.wait_until_started("work")
        old = await current(gateway.store, platform)
        for number in range(waiting):
            platform.write(f"waits {number}")
        platform.write("/new")
        await eventually("it is answered", platform.replies)
        platform.write("hello")
        await wait_for_replies(platform, texts.chat_commands.new_conversation("a turn", waiting), "hello: done")
        new = await fields(gateway.store, await current(gateway.store, platform))
        first, second = await turn_views(gateway.store, key_of(platform))
        ended = await gateway.store.sessions.get(old.id)
    assert agent.seen_texts == [["work"], ["hello"]]
    assert (first.ended, second.state) == (TurnCancelled("reset"), TurnState.DONE)
    assert (new["id"] != old.id, new["was_auto_reset"]) == (True, False), "a person asked for it"
    assert ended is not None
    assert ended.state == SessionState.CLOSED


async def test_b13_new_is_done_whole_or_not_at_all_when_killed_at_any_of_its_facts(tmp_path: Path) -> None:
    facts = {
        "stored": "SELECT 1 FROM inbox WHERE kind = 'command'",
        "cancelled": "SELECT 1 FROM journal WHERE kind = 'cancelled'",
        "begun anew": "SELECT 1 FROM sessions WHERE state = 'closed'",
        "dropped": "SELECT 1 FROM inbox WHERE state = 'withdrawn'",
    }
    for name, fact in facts.items():
        home, platform, agent = tmp_path / name, SimulatedPlatform(), HeldAgent()
        agent.release("hello")
        async with crashing_at_fact(home, platform, fact=fact, agent=agent):
            platform.write("work")
            await agent.wait_until_started("work")
            platform.write("waits")
            platform.write("/new")
        async with read_only_store(home) as store:
            done = await store.database.read(
                lambda tx: [bool(tx.one(each)) for key, each in facts.items() if key != "stored"]
            )
        assert done == [name != "stored"] * 3, name
        platform.write("hello")
        async with serving(home, platform, agent=agent):
            await wait_for_replies(platform, texts.chat_commands.new_conversation("a turn", 1), "hello: done")
        assert agent.seen_texts == [["work"], ["hello"]], name


# ── what clears a mark ──────────────────────────────────────────────────────────────────────────────────────


async def test_b11_mark_outlives_the_answer_until_it_is_delivered_whole(tmp_path: Path) -> None:
    can = Capabilities(idempotent_send=True, keeps_missed=True, max_length=5)
    platform, bench = SimulatedPlatform(capabilities=can), AgentHarness("slow")
    await crash_in_step(tmp_path, platform, bench, "step slow\nsay: one two three")
    async with serving(tmp_path, platform, agent=bench.agent) as gateway:
        await eventually("the step hangs again", lambda: len(bench.hung_steps) == 2)
        session = await current(gateway.store, platform)
        marked = await recovery(gateway.store, session)
        assert (marked["resume_pending"], marked["interruptions"]) == (True, 1)
        platform.reachable = False
        platform.disconnect()
        bench.release()
        await eventually("the answer is owed", gateway.store.outbox.open_deliveries)
        assert (await last_turn(gateway.store, key_of(platform))).state is TurnState.DONE
        assert await recovery(gateway.store, session) == marked, "generated is not delivered"
        platform.reachable = True
        await wait_for_replies(platform, "one", "two", "three")
        await cleared(gateway.store, session)


async def test_b11_failed_turn_keeps_id_and_note_for_the_next_message_and_is_never_run_again(
    tmp_path: Path,
) -> None:
    platform, bench, clock = SimulatedPlatform(), AgentHarness("slow"), SettableClock()
    await crash_in_step(tmp_path, platform, bench, "step slow\nfail: no credit", clock=clock)
    bench.release()
    failed = texts.turns.failed("no credit")
    async with serving(tmp_path, platform, agent=bench.agent, clock=clock) as gateway:
        await wait_for_replies(platform, failed)
        session = await current(gateway.store, platform)
        marked = await recovery(gateway.store, session)
    asked = len(bench.requests)
    for _ in range(2):
        async with serving(tmp_path, platform, agent=bench.agent, clock=clock) as gateway:
            platform.write("say: hi", chat="2")
            await eventually("the other chat is answered", lambda: platform.replies("2"))
            assert await recovery(gateway.store, session) == marked
        asked += 1
        platform.posted = [posted for posted in platform.posted if posted.address.chat == "1"]
    assert (marked["resume_pending"], marked["resume_reason"]) == (True, "restart_interrupted")
    assert (len(bench.requests), platform.replies()) == (asked, [failed]), "it is not run again by itself"
    async with serving(tmp_path, platform, agent=bench.agent, clock=clock) as gateway:
        platform.write("say: next")
        await wait_for_replies(platform, failed, "next")
        await cleared(gateway.store, session)
        first, second = await turn_views(gateway.store, key_of(platform))
        platform.write("say: last")
        await wait_for_replies(platform, failed, "next", "last")
        third = await last_turn(gateway.store, key_of(platform))
        assert (await current(gateway.store, platform)).id == session.id
    assert (first.state, interruption_reasons(first)) == (TurnState.FAILED, ["restart_interrupted"])
    [note] = noted(second)
    assert "cut off by a gateway interruption" in note
    assert noted(third) == [], "it is told once"


@pytest.mark.parametrize("command", ["/stop", "/new", "/drop"])
async def test_b11_person_clears_all_fields_together(tmp_path: Path, command: str) -> None:
    platform, bench = SimulatedPlatform("web"), AgentHarness("slow")
    await crash_in_step(tmp_path, platform, bench, "step slow\nsay: old")
    async with serving(tmp_path, platform, agent=bench.agent, **OFF) as gateway:
        await wait_for_replies(platform, HELD)
        session = await current(gateway.store, platform)
        assert (await recovery(gateway.store, session))["resume_pending"]
        platform.write(command)
        await eventually("it is answered", lambda: len(platform.replies()) == 2)
        assert await recovery(gateway.store, session) == CLEAN


# ── /resume moves a session ─────────────────────────────────────────────────────────────────────────────────


async def test_b13_resume_moves_a_session_and_an_id_is_never_at_two_addresses(tmp_path: Path) -> None:
    platform, agent = SimulatedPlatform(), HeldAgent()
    agent.release("one", "two", "three", "four")
    async with serving(tmp_path, platform, agent=agent) as gateway:
        platform.write("one")
        await wait_for_replies(platform, "one: done")
        moved = await current(gateway.store, platform)
        platform.write("two", chat="2")
        await wait_for_replies(platform, "two: done", chat="2")
        there = await current(gateway.store, platform, "2")
        platform.write(f"/resume {moved.id}", chat="2")
        await wait_for_replies(platform, "two: done", texts.chat_commands.RESUME_ANSWERS["session"], chat="2")
        platform.write("three", chat="2")
        await wait_for_replies(
            platform, "two: done", texts.chat_commands.RESUME_ANSWERS["session"], "three: done", chat="2"
        )
        assert (await current(gateway.store, platform, "2")).id == moved.id
        assert await gateway.store.sessions.current(key_of(platform)) is None
        platform.write("four")
        await wait_for_replies(platform, "one: done", "four: done")
        fresh = await fields(gateway.store, await current(gateway.store, platform))
        left = await gateway.store.sessions.get(there.id)
    assert agent.seen_texts == [["one"], ["two"], ["one", "three"], ["four"]]
    assert fresh["id"] not in (moved.id, there.id)
    assert left is not None
    assert left.state == SessionState.CLOSED


async def test_b13_session_with_a_running_turn_is_not_moved(tmp_path: Path) -> None:
    platform, agent = SimulatedPlatform(), HeldAgent()
    async with serving(tmp_path, platform, agent=agent) as gateway:
        platform.write("work")
        await agent.wait_until_started("work")
        session = await current(gateway.store, platform)
        platform.write(f"/resume {session.id}", chat="2")
        await wait_for_replies(platform, texts.chat_commands.RESUME_ANSWERS["running"], chat="2")
        agent.release("work")
        await wait_for_replies(platform, "work: done")
        assert (await current(gateway.store, platform)).id == session.id


async def test_model_hears_all_of_a_conversation_that_is_too_long_to_come_with_the_claim(tmp_path: Path) -> None:
    platform, bench = SimulatedPlatform(), AgentHarness()
    script = "\n".join(f"step s{n}" for n in range(MAX_INLINE_ENTRIES // 4))
    async with serving(tmp_path, platform, agent=bench.agent) as gateway:
        for text in ("say: first", script, "say: last"):
            platform.write(text)
        await eventually("all are answered", lambda: len(platform.replies()) == 3)
        turn = await last_turn(gateway.store, key_of(platform))
    assert turn.records[0].seq > MAX_INLINE_ENTRIES, "the claim reads only so much"
    assert bench.request_texts()[-1] == ["say: first", script, "say: last"]


async def test_explanation_over_http_counts_by_the_clock_of_the_gateway_as_its_page_does(tmp_path: Path) -> None:
    platform, bench, clock = SimulatedPlatform(), AgentHarness("slow"), SettableClock()
    await crash_in_step(tmp_path, platform, bench, "step slow\nsay: one", clock=clock, **OFF)
    async with serving(tmp_path, platform, agent=bench.agent, clock=clock, **OFF) as gateway:
        await wait_for_replies(platform, HELD)
        clock.move(3 * 60 * 60)
        session = await current(gateway.store, platform)
        described = await api_request(gateway, "GET", f"/api/sessions/{session.id}")
        page = await api_request(gateway, "GET", f"/console/sessions/{session.id}")
    assert "3 h ago" in " ".join(described.json()["why"])
    assert all(html.escape(line) in page.text for line in described.json()["why"])

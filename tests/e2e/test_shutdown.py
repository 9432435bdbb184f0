"""Stopping: what people see of a stop or a restart, what is marked, and that it ends, whatever hangs.

Drives `runtime/drain` and `runtime/gateway`.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest

from perdure.agents.api import Reply, TurnContext
from perdure.core import texts
from perdure.core.delivery import DeliveryState
from perdure.core.roles import TOKEN_HOLDER
from perdure.core.states import TurnState
from perdure.errors import NotConnected
from perdure.runtime.gateway import StopKind
from perdure.testing import SettableClock, SimulatedPlatform
from support.gateway import COMMAND, GatewayProcess, Person, gateway
from support.inprocess import crashing_at_the_end, make_gateway, serving
from support.recovery import AgentHarness, interruption_reasons, key_of, last_turn, turn_views, wait_for_replies
from support.shutdown import (
    ChatFollower,
    HangingPlatform,
    HeldAgent,
    crashing_at_fact,
    read_only_store,
    wait_until_stopped,
)
from support.store_gateway import DelayedClaims
from support.waiting import eventually, wait_for

pytestmark = pytest.mark.anyio

STOPPING = texts.recovery.banner(restart=False)
RESTARTING = texts.recovery.banner(restart=True)
KEPT = texts.recovery.message_stored(restart=False)
NO_TIME = {"DRAIN__DEADLINE": "0s"}


# ── a drain that completes ──────────────────────────────────────────────────────────────────────────────────


async def test_b20_b21_nothing_begins_in_a_drain_and_what_comes_is_answered_after_it_in_order(
    tmp_path: Path,
) -> None:
    platform, agent = SimulatedPlatform(), HeldAgent()
    async with serving(tmp_path, platform, agent=agent) as gateway:
        platform.write("one")
        await agent.wait_until_started("one")
        platform.write("two")
        gateway.stop()
        platform.write("three")
        platform.write("other", chat="2")
        await eventually("everything is stored", lambda: not platform.pending())
        agent.release("one", "two", "three", "other")
        await wait_until_stopped(gateway)
    assert agent.started_texts == ["one"]
    assert platform.replies() == [STOPPING, "one: done"]
    async with read_only_store(tmp_path) as store:
        runs = await store.database.read(lambda tx: tx.all("SELECT ending FROM runs"))
        assert runs == [("clean",)]
    async with serving(tmp_path, platform, agent=agent) as gateway:
        await wait_for_replies(platform, STOPPING, "one: done", "two: done", "three: done")
        await wait_for_replies(platform, KEPT, "other: done", chat="2")
        turns = [turn for chat in ("1", "2") for turn in await turn_views(gateway.store, key_of(platform, chat))]
    assert [(turn.attempt, turn.interruptions, turn.last_decision) for turn in turns] == [(1, [], None)] * 4


async def test_b20_turn_that_is_being_claimed_when_the_stop_comes_is_drained_like_any_other(
    tmp_path: Path,
) -> None:
    platform, harness, late = SimulatedPlatform(), AgentHarness("slow"), DelayedClaims()
    async with serving(tmp_path, platform, agent=harness.agent, wrap=late.wrap, **NO_TIME) as gateway:
        platform.write("step slow\nsay: done")
        await late.claimed.wait()
        gateway.stop()
        await eventually("it drains", lambda: gateway.phase == "draining")
        late.release.set()
        await wait_until_stopped(gateway)
    async with read_only_store(tmp_path) as store:
        assert interruption_reasons(await last_turn(store, key_of(platform))) == ["shutdown_timeout"]
    assert platform.replies() == [STOPPING]


async def test_b24_message_that_was_not_begun_is_not_marked_and_runs_without_a_note(tmp_path: Path) -> None:
    platform, harness = SimulatedPlatform(), AgentHarness("slow")
    async with serving(tmp_path, platform, agent=harness.agent, **NO_TIME) as gateway:
        platform.write("step slow\nsay: one")
        await eventually("the step hangs", lambda: harness.hung_steps)
        platform.write("say: two")
        await eventually("both are stored", lambda: not platform.pending())
        gateway.stop()
        await wait_until_stopped(gateway)
    harness.release()
    async with serving(tmp_path, platform, agent=harness.agent) as gateway:
        await wait_for_replies(platform, STOPPING, "one", "two")
        first, second = await turn_views(gateway.store, key_of(platform))
    assert (interruption_reasons(first), interruption_reasons(second), second.attempt) == (
        ["shutdown_timeout"],
        [],
        1,
    )
    assert harness.request_texts()[-1][-1] == "say: two"
    assert harness.request_notes()[-1] == []


# ── the deadline ────────────────────────────────────────────────────────────────────────────────────────────


class Witness:
    """An agent that looks at the journal on the disk at the moment it is cancelled."""

    def __init__(self, home: Path) -> None:
        self._database = home / "perdure.db"
        self.running = asyncio.Event()
        self.found: list[tuple[str, str]] = []

    async def run(self, context: TurnContext) -> Reply:
        self.running.set()
        try:
            await asyncio.Event().wait()
        finally:
            with closing(sqlite3.connect(self._database)) as disk:
                marks = "SELECT state, body FROM turns JOIN journal ON turn = id WHERE kind = 'interrupted'"
                self.found = disk.execute(marks).fetchall()
        raise AssertionError("nobody wakes this agent")


@pytest.mark.parametrize(
    ("ending", "reason"), [(StopKind.STOP, "shutdown_timeout"), (StopKind.RESTART, "restart_timeout")]
)
async def test_b22_turn_is_marked_on_disk_before_it_is_cancelled(
    tmp_path: Path, ending: StopKind, reason: str
) -> None:
    platform, witness = SimulatedPlatform(), Witness(tmp_path)
    async with serving(tmp_path, platform, agent=witness, **NO_TIME) as gateway:
        platform.write("work")
        await witness.running.wait()
        gateway.stop(ending)
        await wait_until_stopped(gateway)
    assert witness.found, "it was cancelled before it was marked"
    [(state, body)] = witness.found
    assert state == TurnState.INTERRUPTED
    assert f'"reason":"{reason}"' in body


async def test_b23_b29_only_what_still_runs_is_marked_when_a_second_signal_ends_the_drain(tmp_path: Path) -> None:
    platform, agent = SimulatedPlatform(), HeldAgent()
    async with serving(tmp_path, platform, agent=agent, DRAIN__DEADLINE="1h") as gateway:
        platform.write("slow")
        platform.write("quick", chat="2")
        await agent.wait_until_started("slow", "quick")
        gateway.stop()
        agent.release("quick")
        await wait_for_replies(platform, STOPPING, "quick: done", chat="2")
        gateway.stop()
        await wait_until_stopped(gateway)
    async with read_only_store(tmp_path) as store:
        slow, quick = [await last_turn(store, key_of(platform, chat)) for chat in ("1", "2")]
        neighbour = await store.sessions.current(key_of(platform, "2"))
        assert neighbour is not None
        assert not (await store.sessions.recovery(neighbour.id)).resume_pending
    assert (interruption_reasons(slow), slow.state) == (["shutdown_timeout"], TurnState.INTERRUPTED)
    assert (interruption_reasons(quick), quick.state) == ([], TurnState.DONE)


async def test_b22_marks_are_made_side_by_side_when_many_turns_run(tmp_path: Path) -> None:
    platform, agent = SimulatedPlatform(), HeldAgent()
    chats = [str(number) for number in range(50)]
    async with serving(tmp_path, platform, agent=agent, **NO_TIME) as gateway:
        for chat in chats:
            platform.write(f"work {chat}", chat=chat)
        await agent.wait_until_started(*(f"work {chat}" for chat in chats))
        gateway.stop()
        await wait_until_stopped(gateway)
    async with read_only_store(tmp_path) as store:
        marks = [interruption_reasons(await last_turn(store, key_of(platform, chat))) for chat in chats]
    assert marks == [["shutdown_timeout"]] * 50
    assert all(platform.replies(chat) == [STOPPING] for chat in chats)


# ── a crash in the middle of it ─────────────────────────────────────────────────────────────────────────────


async def test_b25_crash_in_mid_drain_is_a_crash_like_any_other(tmp_path: Path) -> None:
    platform, agent = SimulatedPlatform(), HeldAgent()
    async with crashing_at_the_end(tmp_path, platform, agent=agent) as gateway:
        platform.write("one")
        await agent.wait_until_started("one")
        gateway.stop()
        await wait_for_replies(platform, STOPPING)
        platform.write("two")
        await eventually("the second is stored", lambda: not platform.pending())
    agent.release("one", "two")
    async with serving(tmp_path, platform, agent=agent) as gateway:
        await eventually("both are answered", lambda: "two: done" in platform.replies())
        turns = await turn_views(gateway.store, key_of(platform))
    assert platform.replies() == [STOPPING, "one: done", "two: done"]
    assert [interruption_reasons(turn) for turn in turns] == [["restart_interrupted"], []]


async def test_b25_turn_goes_on_once_when_the_crash_comes_between_its_mark_and_its_cancel(tmp_path: Path) -> None:
    platform, agent = SimulatedPlatform(), HeldAgent()
    fact = "SELECT 1 FROM journal WHERE kind = 'interrupted'"
    async with crashing_at_fact(tmp_path, platform, fact=fact, agent=agent, **NO_TIME) as gateway:
        platform.write("one")
        await agent.wait_until_started("one")
        gateway.stop()
    agent.release("one")
    async with serving(tmp_path, platform, agent=agent) as gateway:
        await wait_for_replies(platform, STOPPING, "one: done")
        [turn] = await turn_views(gateway.store, key_of(platform))
    assert (interruption_reasons(turn), turn.attempt) == (["shutdown_timeout"], 2)


# ── the banner, and notices ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("ending", "doing"), [(StopKind.STOP, "shutting down"), (StopKind.RESTART, "restarting")], ids=str
)
async def test_b26_banner_goes_once_to_each_chat_and_thread_with_a_running_turn_before_the_drain(
    tmp_path: Path, ending: StopKind, doing: str
) -> None:
    platform, agent = SimulatedPlatform(), HeldAgent()
    agent.release("idle")
    async with serving(tmp_path, platform, agent=agent) as gateway:
        platform.write("idle", chat="3")
        await wait_for_replies(platform, "idle: done", chat="3")
        platform.write("one")
        platform.write("topic", thread="7")
        platform.write("two", chat="2")
        await agent.wait_until_started("one", "topic", "two")
        before = len(platform.posted)
        gateway.stop(ending)
        await eventually("everybody is told", lambda: len(platform.posted) == before + 3)
        assert gateway.phase == "draining"
        banners = platform.posted[before:]
        agent.release("one", "topic", "two")
        await wait_until_stopped(gateway)
    told = sorted((posted.address.chat, posted.address.thread or "") for posted in banners)
    assert told == [("1", ""), ("1", "7"), ("2", "")]
    assert {posted.text for posted in banners} == {texts.recovery.banner(restart=ending is StopKind.RESTART)}
    assert all(word in banners[0].text for word in (doing, "try to resume"))
    assert len(platform.posted) == before + 6, "three banners and three answers"


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(None, id="it hangs"),
        pytest.param(NotConnected("gone"), id="the platform is gone"),
        pytest.param(RuntimeError("a bug"), id="the adapter has a bug"),
    ],
)
async def test_b26_banner_that_does_not_get_through_delays_no_mark_and_no_drain(
    tmp_path: Path, error: Exception | None
) -> None:
    broken, other, agent = HangingPlatform("broken"), SimulatedPlatform("other"), HeldAgent()
    broken.notice_hangs, broken.notice_fails = error is None, error
    async with serving(tmp_path, broken, other, agent=agent, **NO_TIME) as gateway:
        broken.write("one")
        other.write("two")
        await agent.wait_until_started("one", "two")
        gateway.stop()
        await wait_until_stopped(gateway)
    async with read_only_store(tmp_path) as store:
        marks = [interruption_reasons(await last_turn(store, key_of(platform))) for platform in (broken, other)]
        runs = await store.database.read(lambda tx: tx.all("SELECT ending FROM runs"))
    assert marks == [["shutdown_timeout"]] * 2
    assert runs == [("clean",)]
    assert (broken.notice_texts, broken.replies(), other.replies()) == ([STOPPING], [], [STOPPING])


async def test_b26_banner_is_switched_off_per_platform(tmp_path: Path) -> None:
    silent, other, agent = SimulatedPlatform("web"), SimulatedPlatform("other"), HeldAgent()
    settings = {"PLATFORMS__WEB__BANNER": "false", **NO_TIME}
    async with serving(tmp_path, silent, other, agent=agent, **settings) as gateway:
        silent.write("one")
        other.write("two")
        await agent.wait_until_started("one", "two")
        gateway.stop()
        await wait_until_stopped(gateway)
    assert (silent.replies(), other.replies()) == ([], [STOPPING])


async def test_b28_chat_that_writes_during_the_drain_gets_one_short_notice_and_no_error(tmp_path: Path) -> None:
    platform, agent = SimulatedPlatform(), HeldAgent()
    async with serving(tmp_path, platform, agent=agent) as gateway:
        platform.write("busy")
        await agent.wait_until_started("busy")
        gateway.stop()
        for number in range(5):
            platform.write(f"idle {number}", chat="2")
        platform.write("too", chat="3")
        platform.write("again")
        await eventually("everything is stored", lambda: not platform.pending())
        await wait_for_replies(platform, KEPT, chat="3")
        assert platform.turned_away == []
        agent.release("busy", "again", "too", *(f"idle {number}" for number in range(5)))
        await wait_until_stopped(gateway)
    assert platform.replies("2") == [KEPT]
    assert platform.replies() == [STOPPING, "busy: done"]
    async with serving(tmp_path, platform, agent=agent) as gateway:
        await wait_for_replies(platform, KEPT, *(f"idle {number}: done" for number in range(5)), chat="2")
        await wait_for_replies(platform, STOPPING, "busy: done", "again: done")
        turns = await turn_views(gateway.store, key_of(platform, "2"))
    assert [(turn.attempt, turn.interruptions) for turn in turns] == [(1, [])] * 5


# ── what is being sent ──────────────────────────────────────────────────────────────────────────────────────


async def test_b30_stop_waits_for_an_answer_that_is_being_sent(tmp_path: Path) -> None:
    platform = HangingPlatform()
    platform.hold = "before"
    async with serving(tmp_path, platform) as gateway:
        platform.write("say: done")
        await eventually("it is being sent", lambda: platform.send_texts)
        gateway.stop()
        await eventually("it drains", lambda: gateway.phase == "draining")
        assert platform.replies() == []
        platform.send_released.set()
        await wait_until_stopped(gateway)
    assert (platform.send_texts, platform.replies()) == (["done"], ["done"])
    async with read_only_store(tmp_path) as store:
        assert await store.outbox.open_deliveries() == []
    platform.hold = ""
    async with serving(tmp_path, platform):
        platform.write("say: next")
        await wait_for_replies(platform, "done", "next")


@pytest.mark.parametrize("hurried", [False, True], ids=["after a while", "at once when hurried"])
@pytest.mark.parametrize("hold", ["before", "after"])
async def test_b30_answer_whose_sending_hangs_is_there_once_after_the_restart(
    tmp_path: Path, hold: str, hurried: bool
) -> None:
    platform = HangingPlatform()
    platform.hold = hold
    async with serving(tmp_path, platform) as gateway:
        platform.write("say: done")
        await eventually("it is being sent", lambda: platform.send_texts)
        gateway.stop()
        if hurried:
            gateway.stop()
        await wait_until_stopped(gateway)
    async with read_only_store(tmp_path) as store:
        [row] = await store.outbox.open_deliveries()
        runs = await store.database.read(lambda tx: tx.all("SELECT ending FROM runs"))
    assert (row.state, runs) == (DeliveryState.SENDING, [("clean",)])
    platform.hold = ""
    async with serving(tmp_path, platform):
        await wait_for_replies(platform, "done")
        platform.write("say: next")
        await wait_for_replies(platform, "done", "next")
    assert platform.send_texts == ["done", "done", "next"]


async def test_b31_stop_ends_and_is_clean_when_an_adapter_does_not_close(tmp_path: Path) -> None:
    hanging, failing, good = HangingPlatform("a"), HangingPlatform("b"), SimulatedPlatform("c")
    hanging.close_hangs, failing.close_fails = True, RuntimeError("a bug")
    async with serving(tmp_path, hanging, failing, good) as gateway:
        gateway.stop()
        await wait_until_stopped(gateway)
    async with read_only_store(tmp_path) as store:
        assert await store.database.read(lambda tx: tx.all("SELECT ending FROM runs")) == [("clean",)]


# ── restarts ────────────────────────────────────────────────────────────────────────────────────────────────


OWNER = TOKEN_HOLDER.id  # only an owner may restart the gateway


async def until_it_ends(home: Path, *platforms: SimulatedPlatform, **options: Any) -> StopKind:
    async with asyncio.timeout(30):
        return await make_gateway(home, *platforms, **options).run()


async def stays_up(home: Path, platform: SimulatedPlatform, *seen: str, **options: Any) -> None:
    """A gateway serves: the chat sees this and no more, and is answered."""
    async with serving(home, platform, **options) as gateway:
        platform.write("say: on")
        await eventually("the chat is answered", lambda: "on" in platform.replies())
        assert gateway.stopping is None
    assert platform.replies() == [*seen, "on"]


async def test_b27_chat_that_asked_for_a_restart_hears_once_that_the_gateway_is_back(tmp_path: Path) -> None:
    platform = SimulatedPlatform("web")
    platform.redeliver = 1
    platform.write("/restart", sender=OWNER)
    assert await until_it_ends(tmp_path, platform) is StopKind.RESTART
    assert platform.replies() == [texts.recovery.RESTARTING]
    await stays_up(tmp_path, platform, texts.recovery.RESTARTING, texts.recovery.BACK)
    async with serving(tmp_path, platform):
        platform.write("say: still on")
        await wait_for_replies(platform, texts.recovery.RESTARTING, texts.recovery.BACK, "on", "still on")


async def test_b27_second_request_during_a_restart_is_refused(tmp_path: Path) -> None:
    platform, agent = SimulatedPlatform("web"), HeldAgent()
    async with serving(tmp_path, platform, agent=agent) as gateway:
        platform.write("work", chat="3")
        await agent.wait_until_started("work")
        platform.write("/restart", sender=OWNER)
        await wait_for_replies(platform, texts.recovery.RESTARTING)
        platform.write("/restart", chat="2", sender=OWNER)
        platform.write("/restart", sender=OWNER)
        await wait_for_replies(platform, texts.recovery.RESTART_UNDER_WAY, chat="2")
        await wait_for_replies(platform, texts.recovery.RESTARTING, texts.recovery.RESTART_UNDER_WAY)
        agent.release("work")
        await wait_until_stopped(gateway)
    async with serving(tmp_path, platform, agent=agent) as gateway:
        await wait_for_replies(
            platform, texts.recovery.RESTARTING, texts.recovery.RESTART_UNDER_WAY, texts.recovery.BACK
        )
        assert gateway.stopping is None
    assert platform.replies("2") == [texts.recovery.RESTART_UNDER_WAY]
    assert platform.replies("3") == [RESTARTING, "work: done"]


async def test_b27_chat_hears_once_that_the_gateway_is_back_when_the_restart_was_a_crash(tmp_path: Path) -> None:
    platform = SimulatedPlatform("web")
    platform.write("/restart", sender=OWNER)
    async with crashing_at_fact(tmp_path, platform, fact="SELECT 1 FROM runs WHERE restart_for IS NOT NULL"):
        pass
    await stays_up(tmp_path, platform, texts.recovery.RESTARTING, texts.recovery.BACK)
    async with serving(tmp_path, platform):
        platform.write("say: still on")
        await wait_for_replies(platform, texts.recovery.RESTARTING, texts.recovery.BACK, "on", "still on")


@pytest.mark.parametrize("seconds", [0, -600], ids=["by a good clock", "by a clock that went back"])
async def test_b27_request_that_was_stored_before_a_crash_does_not_restart_again(
    tmp_path: Path, seconds: int
) -> None:
    platform, clock = SimulatedPlatform("web"), SettableClock()
    platform.write("/restart", sender=OWNER)
    async with crashing_at_fact(
        tmp_path, platform, fact="SELECT 1 FROM inbox WHERE kind = 'command'", clock=clock
    ):
        pass
    clock.move(seconds)
    await stays_up(tmp_path, platform, texts.recovery.RESTARTED_SINCE, clock=clock)


async def test_b29_stop_that_comes_during_a_restart_is_a_stop(tmp_path: Path) -> None:
    platform, agent = SimulatedPlatform(), HeldAgent()
    gateway = make_gateway(tmp_path, platform, agent=agent, DRAIN__DEADLINE="1h")
    running = asyncio.create_task(gateway.run())
    platform.write("work")
    await agent.wait_until_started("work")
    assert gateway.restart()
    await wait_for_replies(platform, RESTARTING)
    assert not gateway.stop()
    assert await running is StopKind.STOP


# ── as a process ────────────────────────────────────────────────────────────────────────────────────────────

LONG = "once long 3000s\nsay: done"


def perdure(process: GatewayProcess, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run one command beside the gateway."""
    return subprocess.run(
        [*COMMAND, *arguments], env=process.environment(), capture_output=True, text=True, timeout=60
    )


def begin(person: Person, text: str = LONG) -> None:
    person.say(text)
    person.wait_for_event("the step runs", call="c1.1", state="started")


def is_draining(process: GatewayProcess) -> bool:
    return "the gateway is draining" in httpx.get(f"{process.url}/readyz", timeout=30).json()["reasons"]


def sees(person: Person, *texts: str) -> None:
    """Wait until the chat shows exactly this of us, though the gateway may be away meanwhile."""

    def probe() -> bool:
        try:
            found = person.request("GET", "/messages").json().get("messages", ())
        except httpx.TransportError:
            return False
        return [message["text"] for message in found if message["author"] == "agent"] == list(texts)

    wait_for(f"the chat shows {texts}", probe)


def marks(person: Person) -> list[str]:
    """The reasons with which the chat's first turn was marked, up to its answer."""
    found = []
    for _, name, data in person.events():
        if name == "turn" and data["move"] == "interrupted":
            found.append(data["reason"])
        if name == "message" and data["text"] == "done":
            return found
    raise AssertionError("the stream ended before the answer")


def holder_of(process: GatewayProcess) -> int:
    """The gateway that holds the home."""
    return int((process.home / "lock").read_text())


@pytest.mark.parametrize(
    ("number", "code", "reason"),
    [
        (signal.SIGTERM, 0, "shutdown_timeout"),
        (signal.SIGINT, 0, "shutdown_timeout"),
        (signal.SIGUSR1, 75, "restart_timeout"),
    ],
)
def test_b22_b26_b29_signal_is_told_marked_and_has_its_exit_code(
    tmp_path: Path, number: signal.Signals, code: int, reason: str
) -> None:
    with gateway(tmp_path / "home", DRAIN__DEADLINE="1s") as process:
        busy, idle = Person(process, "busy"), Person(process, "idle")
        begin(busy)
        watches = [ChatFollower(busy), ChatFollower(busy), ChatFollower(idle)]
        process.signal(number)
        wait_for("it drains", lambda: is_draining(process))
        assert idle.say("say: later").status_code == 202
        assert process.wait() == code
        for watch in watches:
            watch.wait_for_end()
        told = texts.recovery.banner(restart=code == 75)
        assert [watch.notices() for watch in watches[:2]] == [[told], [told]], "it is shown to all who follow"
        assert watches[2].notices() == [texts.recovery.message_stored(restart=code == 75)]
        assert all(place == "" for watch in watches for place, name, _ in watch.events if name == "notice")
        process.start()
        assert busy.wait_for_replies(1) == ["done"]
        assert idle.wait_for_replies(1) == ["later"]
        assert marks(busy) == [reason]
        late = ChatFollower(busy)
        assert process.stop() == 0
        late.wait_for_end()
        assert late.notices() == [], "a notice is kept for nobody"


def test_b25_process_killed_in_mid_drain_loses_nothing(tmp_path: Path) -> None:
    with gateway(tmp_path / "home", DRAIN__DEADLINE="1h") as process:
        busy, idle = Person(process, "busy"), Person(process, "idle")
        begin(busy)
        process.signal(signal.SIGTERM)
        wait_for("it drains", lambda: is_draining(process))
        idle.say("say: later")
        process.kill()
        process.start()
        assert busy.wait_for_replies(1) == ["done"]
        assert marks(busy) == ["restart_interrupted"]
        assert idle.wait_for_replies(1) == ["later"]


def test_b27_b29_restart_from_the_chat_exits_75_and_is_not_repeated_when_redelivered(tmp_path: Path) -> None:
    with gateway(tmp_path / "home") as process:
        person = Person(process)
        assert person.say("/restart", "mine").status_code == 202
        assert process.wait() == 75
        process.start()
        assert person.wait_for_replies(2) == [texts.recovery.RESTARTING, texts.recovery.BACK]
        assert person.say("/restart", "mine").status_code == 200
        person.say("say: on")
        assert person.wait_for_replies(3) == [texts.recovery.RESTARTING, texts.recovery.BACK, "on"]
        assert process.stop() == 0


def test_b27_restarts_and_stops_under_the_supervisor(tmp_path: Path) -> None:
    with gateway(tmp_path / "home", command="up", DRAIN__DEADLINE="0s") as process:
        person, first = Person(process), holder_of(process)
        begin(person)
        ran = perdure(process, "restart")
        assert (ran.returncode, ran.stderr) == (0, ""), ran
        sees(person, "done")
        assert marks(person) == ["restart_timeout"]
        second = holder_of(process)
        person.say("/restart")
        sees(person, "done", texts.recovery.RESTARTING, texts.recovery.BACK)
        assert len({first, second, holder_of(process)}) == 3
        ran = perdure(process, "stop")
        assert (ran.returncode, ran.stderr) == (0, ""), ran
        assert process.wait() == 0
        assert len(process.lines) == 1, "the ready line is printed once"
        again = [perdure(process, command) for command in ("stop", "restart")]
        assert [ran.returncode for ran in again] == [69, 69]
        assert all("no gateway is running" in ran.stderr for ran in again)


def test_b27_chat_hears_once_that_the_gateway_is_back_when_it_is_killed_in_mid_restart(tmp_path: Path) -> None:
    with gateway(tmp_path / "home", command="up", DRAIN__DEADLINE="1h") as process:
        person, other = Person(process), Person(process, "other")
        begin(other)
        person.say("/restart")
        wait_for("it drains", lambda: is_draining(process))
        os.kill(holder_of(process), signal.SIGKILL)
        sees(other, "done")
        sees(person, texts.recovery.RESTARTING, texts.recovery.BACK)
        assert perdure(process, "restart").returncode == 0
        sees(person, texts.recovery.RESTARTING, texts.recovery.BACK)
        person.say("say: on")
        sees(person, texts.recovery.RESTARTING, texts.recovery.BACK, "on")
        assert process.stop() == 0


# ── whatever hangs ──────────────────────────────────────────────────────────────────────────────────────────

WEDGED = Path(__file__).parents[1] / "support" / "hanging_gateway.py"


def wedged(home: Path, what: str) -> GatewayProcess:
    """A gateway in which something does not end, and a turn that runs into it."""
    process = GatewayProcess(home, DRAIN__DEADLINE="0s", DRAIN__TEARDOWN="1s")
    process.start(sys.executable, str(WEDGED), what)
    Person(process).say("say: done")
    (home / "go").touch()
    wait_for("it hangs", (home / "hangs").exists)
    return process


@pytest.mark.parametrize(
    ("what", "reason"),
    [
        pytest.param("agent", "shutdown_timeout", id="an agent that ignores being cancelled"),
        pytest.param("loop", "restart_interrupted", id="an agent that blocks the event loop"),
        pytest.param("thread", "shutdown_timeout", id="a thread that never ends"),
        pytest.param("close", "shutdown_timeout", id="an adapter that cannot be closed"),
        pytest.param("receive", "shutdown_timeout", id="an adapter that does not stop receiving"),
    ],
)
def test_b31_process_ends_by_a_deadline_when_something_is_wedged(tmp_path: Path, what: str, reason: str) -> None:
    process = wedged(tmp_path / "home", what)
    try:
        process.signal(signal.SIGTERM)
        assert process.wait() == 1
        assert "Timeout (" in process.log(), "the log tells where every thread was"
        process.start()
        person = Person(process)
        assert person.wait_for_replies(1) == ["done"]
        assert marks(person) == [reason]
        assert process.stop() == 0
    finally:
        process.close()


def test_b27_b31_restart_from_the_chat_ends_by_a_deadline_too(tmp_path: Path) -> None:
    process = wedged(tmp_path / "home", "agent")
    try:
        person = Person(process, "other")
        person.say("/restart")
        assert process.wait() == 1
        process.start()
        assert person.wait_for_replies(2) == [texts.recovery.RESTARTING, texts.recovery.BACK]
    finally:
        process.close()

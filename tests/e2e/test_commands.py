"""Commands, through a platform: each acts and answers once, on what was there when it came, and never as text.

Drives `runtime/commands/loop`, `runtime/commands/session` and `store/chat_commands`.
"""

from __future__ import annotations

import asyncio
import re
import threading
from pathlib import Path
from typing import TypeVar

import pytest
from msgspec import Struct

from perdure.agents.api import Reply, TurnContext
from perdure.core import texts
from perdure.core.delivery import DeliveryState
from perdure.core.journal import TurnCancelled
from perdure.core.states import TurnState
from perdure.platforms.api import Capabilities
from perdure.store.database import Database, Transaction
from perdure.testing import SettableClock, SimulatedPlatform
from support.inprocess import crashing_at_the_end, serving
from support.recovery import AgentHarness, crash_in_step, key_of, turn_views, wait_for_replies
from support.shutdown import HangingPlatform, HeldAgent, crashing_at_fact, read_only_store, wait_until_stopped
from support.store_gateway import DelayedClaims, SpyDatabase, SpyTx
from support.waiting import eventually

pytestmark = pytest.mark.anyio

T = TypeVar("T")

OWNED = {"PLATFORMS__WEB__ALLOW": "ann"}  # who may use every command
HELD_BACK = {"RECOVERY__POLICY": "off", "DRAIN__DEADLINE": "0s", "PLATFORMS__WEB__BANNER": "false", **OWNED}
HELD = texts.recovery.not_resumed("automatic resume is switched off here")
STORED = "SELECT 1 FROM inbox WHERE kind = 'command'"
OBEYED = "SELECT 1 FROM inbox WHERE kind = 'command' AND state = 'obeyed'"


# ── each command, delivered twice and across crashes ────────────────────────────────────────────────────────


class Case(Struct, frozen=True):
    """A command, where it is given, what it answers, and what becomes of the turn of `work`."""

    command: str
    answer: str  # a pattern
    cut_off: bool = False  # whether `work` was cut off before, and is held back; otherwise it runs
    ends: str = ""  # why the turn of `work` is cancelled; empty: it is answered in the end
    fresh: bool = False  # whether a new session begins

    def __str__(self) -> str:
        return f"{self.command}, {'cut off' if self.cut_off else 'running'}"


RENEWED = r"This is a fresh conversation\. What was running was ended\."

CASES = [
    Case("/help", r"/help +list the commands\n/status .*"),
    Case("/status", r"The gateway is (ready|starting), connected to .*\nThe last turn .*"),
    Case("/why", r"The last turn (is running|was interrupted) \(attempt 1\)\..*"),
    Case("/why", r"The last turn was interrupted .*Rule: off: .*Next: it stays as it is.*", cut_off=True),
    Case("/sessions", r"s_\w+  this one, \d+ (s|min) ago: “work”"),
    Case("/stop", r"Stopped\.", ends="stopped"),
    Case("/stop all", r"Stopped\.", ends="stopped"),
    Case("/STOP@our_bot ALL", r"Stopped\.", ends="stopped"),
    Case("/stop", r"Stopped\.", cut_off=True, ends="stopped"),
    Case("/new", RENEWED, ends="reset", fresh=True),
    Case("/reset", RENEWED, cut_off=True, ends="reset", fresh=True),
    Case("/resume", r"It is running already.*|Going on\."),  # the latter after a crash: then it was cut off
    Case("/resume", r"Going on\.", cut_off=True),
    Case("/resume s_none", r"I know no conversation with that id; /sessions lists them\."),
    Case("/drop", r"Given up\.", cut_off=True, ends="dropped"),
    Case("/stpo", r"There is no command /stpo\. Did you mean /stop\? /help lists them all\."),
    Case("/xyzzy", r"There is no command /xyzzy\. /help lists them all\."),
    Case("/stop everything", r"Write it as /stop \[all\]; I do not understand 'everything'\."),
    Case("/new song", r"Write it as /new; I do not understand 'song'\."),
    Case("/restart now", r"Write it as /restart; I do not understand 'now'\."),
]


@pytest.mark.parametrize("killed_when", ["", STORED, OBEYED], ids=["delivered twice", "stored", "obeyed"])
@pytest.mark.parametrize("case", CASES, ids=str)
async def test_b71_b81_command_acts_and_answers_once(tmp_path: Path, case: Case, killed_when: str) -> None:
    """B54 too: what was stopped is never taken up again, though the gateway is killed right behind the command."""
    platform, agent, clock = SimulatedPlatform("web"), HeldAgent(), SettableClock()
    if case.cut_off:
        async with crashing_at_the_end(tmp_path, platform, agent=agent, clock=clock):
            platform.write("work")
            await agent.wait_until_started("work")
        clock.move(600)  # so that two crashes are no crash loop
    if killed_when:
        async with crashing_at_fact(tmp_path, platform, fact=killed_when, agent=agent, clock=clock, **HELD_BACK):
            await give(case, platform, agent)
    else:
        async with serving(tmp_path, platform, agent=agent, clock=clock, **HELD_BACK):
            await give(case, platform, agent)
            await eventually("the command is answered", lambda: len(platform.replies()) == case.cut_off + 1)
    clock.move(600)
    agent.release("work", "after")
    wanted = [re.escape(HELD)] * case.cut_off + [case.answer] + ["work: done"] * (not case.ends)
    async with serving(tmp_path, platform, agent=agent, clock=clock, **OWNED) as gateway:
        await eventually("all is answered", lambda: len(platform.replies()) == len(wanted))
        platform.write("after")
        await eventually("the next message is answered", lambda: "after: done" in platform.replies())
        first = (await turn_views(gateway.store, key_of(platform)))[0]
        sessions = await gateway.store.sessions.of_key(key_of(platform))
    seen = platform.replies()
    assert len(seen) == len(wanted) + 1
    assert all(re.fullmatch(pattern, text, re.DOTALL) for pattern, text in zip(wanted, seen, strict=False)), seen
    assert first.ended == TurnCancelled(case.ends) if case.ends else first.state is TurnState.DONE
    assert not case.ends or agent.started_texts == ["work", "after"], "what was ended was taken up again"
    assert (agent.seen_texts[-1], len(sessions)) == ((["after"], 2) if case.fresh else (["work", "after"], 1))
    assert not [text for texts in agent.seen_texts for text in texts if text.startswith("/")], "a command was read"


async def give(case: Case, platform: SimulatedPlatform, agent: HeldAgent) -> None:
    """Bring about the situation, and give the command in it, which the platform delivers twice."""
    if case.cut_off:
        await wait_for_replies(platform, HELD)
    else:
        platform.write("work")
        await agent.wait_until_started("work")
    await eventually("the platform has nothing left", lambda: not platform.pending())
    platform.redeliver = 1
    platform.write(case.command)


async def test_b81_help_names_every_command(tmp_path: Path) -> None:
    platform = SimulatedPlatform()
    async with serving(tmp_path, platform) as gateway:
        platform.write("/help")
        [shown] = await eventually("it is answered", platform.replies)
        known = [command.usage for command in gateway.loops.commands.registry.values()]
    assert [re.split(r"  +", line)[0] for line in shown.splitlines()] == known


async def test_b81_text_that_only_looks_like_a_command_reaches_the_model(tmp_path: Path) -> None:
    platform, agent = SimulatedPlatform(), HeldAgent()
    texts = ["/usr/bin/env is missing", "what does /stop do?", "/ stop", "/1"]
    agent.release(*texts)
    async with serving(tmp_path, platform, agent=agent):
        for text in texts:
            platform.write(text)
        await wait_for_replies(platform, *(f"{text}: done" for text in texts))


async def test_b81_commands_work_while_a_turn_runs_and_while_the_gateway_drains(tmp_path: Path) -> None:
    platform, agent = SimulatedPlatform(), HeldAgent()
    async with serving(tmp_path, platform, agent=agent) as gateway:
        platform.write("work")
        await agent.wait_until_started("work")
        platform.write("/status")
        [status] = await eventually("it is answered", platform.replies)
        assert "The gateway is ready, connected to simulated; turns running: 1." in status
        assert "The last turn is running" in status
        gateway.stop()
        await eventually("it drains", lambda: gateway.phase == "draining")
        platform.write("/status", chat="2")
        [status] = await eventually("the other chat is answered", lambda: platform.replies("2"))
        assert status.startswith("The gateway is draining")
        platform.write("/stop")
        await wait_for_replies(platform, platform.replies()[0], texts.recovery.banner(restart=False), "Stopped.")
        await wait_until_stopped(gateway)


async def test_b81_command_of_somebody_who_may_not_talk_does_nothing(tmp_path: Path) -> None:
    platform, agent = SimulatedPlatform("web"), HeldAgent()
    async with serving(tmp_path, platform, agent=agent, ACCESS__UNKNOWN="ignore", **OWNED) as gateway:
        platform.write("work")
        await agent.wait_until_started("work")
        platform.write("/stop", sender="eve")
        await eventually("it is acknowledged", lambda: not platform.pending())
        agent.release("work")
        await wait_for_replies(platform, "work: done")
        assert gateway.stopping is None


# ── the order of commands and messages ──────────────────────────────────────────────────────────────────────


async def test_message_behind_new_is_answered_in_the_new_session_when_both_come_at_once(tmp_path: Path) -> None:
    platform, agent = SimulatedPlatform(), HeldAgent()
    chats = [str(number) for number in range(20)]
    agent.release("old", "hello")
    async with serving(tmp_path, platform, agent=agent):
        for chat in chats:
            platform.write("old", chat=chat)
            await wait_for_replies(platform, "old: done", chat=chat)
    for chat in chats:  # while nobody is there to take it
        platform.write("/new", chat=chat)
        platform.write("hello", chat=chat)
    async with serving(tmp_path, platform, agent=agent) as gateway:
        for chat in chats:
            answer = texts.chat_commands.new_conversation(None, 0)
            await wait_for_replies(platform, "old: done", answer, "hello: done", chat=chat)
            old, new = await gateway.store.sessions.of_key(key_of(platform, chat))
            assert len(await gateway.store.turns.of_session(old.id)) == 1
            assert len(await gateway.store.turns.of_session(new.id)) == 1
    assert agent.seen_texts[20:] == [["hello"]] * 20


async def test_b54_stop_all_spares_what_was_written_behind_it(tmp_path: Path) -> None:
    platform, agent = SimulatedPlatform(), HeldAgent()
    agent.release("later")
    async with serving(tmp_path, platform, agent=agent):
        platform.write("work")
        await agent.wait_until_started("work")
        platform.write("waits")
        platform.write("/stop all")
        platform.write("later")
        await wait_for_replies(platform, texts.chat_commands.stopped("a turn", 0, 1, 0), "later: done")
    assert agent.started_texts == ["work", "later"]


class HeldReads(SpyDatabase):
    """A database that can be held up in its reads too, each on its own."""

    async def read(self, transaction: Transaction[T], *, at: int | None = None) -> T:
        return await self._database.read(lambda tx: transaction(SpyTx(tx, self._spy)), at=at)


class Hold:
    """Holds up whoever runs a statement with these words, until it is let go of."""

    def __init__(self, *words: str) -> None:
        self._words = words
        self.on = False
        self.reached, self._go_on = threading.Event(), threading.Event()

    def __call__(self, sql: str) -> None:
        if self.on and all(word in sql for word in self._words):
            self.reached.set()
            self._go_on.wait(30)

    def wrap(self, database: Database) -> Database:
        return HeldReads(database, self)

    def let_go(self) -> None:
        self.on = False
        self._go_on.set()


async def test_b71_command_spares_the_turn_that_began_before_it_was_obeyed(tmp_path: Path) -> None:
    platform, agent, hold = SimulatedPlatform(), HeldAgent(), Hold("i.kind = 'command'")
    async with serving(tmp_path, platform, agent=agent, wrap=hold.wrap):
        platform.write("first")
        await agent.wait_until_started("first")
        platform.write("second")
        await eventually("both are stored", lambda: not platform.pending())
        hold.on = True
        platform.write("/stop")
        await eventually("the command is being looked for", hold.reached.is_set)
        agent.release("first")
        await agent.wait_until_started("second")
        hold.let_go()
        await wait_for_replies(platform, "first: done", "Nothing was running.")
        agent.release("second")
        await wait_for_replies(platform, "first: done", "Nothing was running.", "second: done")


async def test_b71_command_that_found_no_turn_spares_the_next_one_after_a_crash(tmp_path: Path) -> None:
    platform, agent = SimulatedPlatform(), HeldAgent()
    agent.release("next")
    platform.write("/stop")
    async with crashing_at_fact(tmp_path, platform, fact=STORED, agent=agent):
        pass
    platform.write("next")
    async with serving(tmp_path, platform, agent=agent):
        await wait_for_replies(platform, "Nothing was running.", "next: done")


async def test_b54_turn_is_not_begun_when_it_is_stopped_in_its_first_moment(tmp_path: Path) -> None:
    platform, agent, late = SimulatedPlatform(), HeldAgent(), DelayedClaims()
    agent.release("next")
    async with serving(tmp_path, platform, agent=agent, wrap=late.wrap):
        platform.write("work")
        await late.claimed.wait()
        platform.write("/stop")
        await wait_for_replies(platform, "Stopped.")
        late.release.set()
        platform.write("next")
        await wait_for_replies(platform, "Stopped.", "next: done")
    assert agent.started_texts == ["next"]


# ── /stop ───────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("command", "answer", "then"),
    [
        pytest.param("/stop", texts.chat_commands.stopped("a turn", 2, 0, 0), ["one", "two"], id="/stop"),
        pytest.param("/stop all", texts.chat_commands.stopped("a turn", 0, 2, 0), [], id="/stop all"),
    ],
)
async def test_b54_stop_ends_the_turn_and_says_what_becomes_of_waiting_messages(
    tmp_path: Path, command: str, answer: str, then: list[str]
) -> None:
    platform, agent = SimulatedPlatform(), HeldAgent()
    agent.release("one", "two", "last")
    async with serving(tmp_path, platform, agent=agent) as gateway:
        platform.write("work")
        await agent.wait_until_started("work")
        platform.write("one")
        platform.write("two")
        platform.write(command)
        await eventually("it is answered", platform.replies)
        platform.write("last")
        await wait_for_replies(platform, answer, *(f"{text}: done" for text in [*then, "last"]))
        [session] = await gateway.store.sessions.of_key(key_of(platform))
    assert session.state == "open", "it ends the turn, not the session"
    assert agent.started_texts == ["work", *then, "last"]


async def test_b54_stop_during_a_recovery_is_final(tmp_path: Path) -> None:
    platform, bench, clock = SimulatedPlatform(), AgentHarness("slow"), SettableClock()
    await crash_in_step(tmp_path, platform, bench, "step slow\nsay: done", clock=clock)
    clock.move(600)
    async with crashing_at_the_end(tmp_path, platform, agent=bench.agent, clock=clock):
        await eventually("the step hangs again", lambda: len(bench.hung_steps) == 2)
        platform.write("/stop")
        await wait_for_replies(platform, "Stopped.")
    clock.move(600)
    bench.release()
    async with serving(tmp_path, platform, agent=bench.agent, clock=clock) as gateway:
        platform.write("say: next")
        await wait_for_replies(platform, "Stopped.", "next")
        stopped_turn = (await turn_views(gateway.store, key_of(platform)))[0]
    assert (stopped_turn.ended, bench.run_counts["slow"]) == (TurnCancelled("stopped"), 2)


async def test_b75_stop_withdraws_the_parts_that_were_not_sent(tmp_path: Path) -> None:
    can = Capabilities(idempotent_send=True, keeps_missed=True, max_length=5)
    platform = HangingPlatform(capabilities=can)
    platform.hold = "before"
    async with serving(tmp_path, platform) as gateway:
        platform.write("say: one two three")
        await eventually("the first part is being sent", lambda: platform.send_texts == ["one"])
        platform.write("/stop")
        await eventually("it is obeyed", lambda: not platform.pending())
        await eventually("the rest is withdrawn", lambda: _withdrawn(gateway.store.database))
        platform.send_released.set()
        await wait_for_replies(platform, "one", "Stopp", "ed.")
    async with read_only_store(tmp_path) as store:
        rows = await store.database.read(lambda tx: tx.all("SELECT text, state FROM outbox ORDER BY id"))
    assert rows == [
        ("one", DeliveryState.SENT),
        ("two", DeliveryState.WITHDRAWN),
        ("three", DeliveryState.WITHDRAWN),
        ("Stopp", DeliveryState.SENT),
        ("ed.", DeliveryState.SENT),
    ]


async def _withdrawn(database: Database) -> bool:
    rows = await database.read(lambda tx: tx.all("SELECT 1 FROM outbox WHERE state = 'withdrawn'"))
    return len(rows) == 2


class Deaf:
    """An agent that goes on when it is cancelled, until it is let go of, and then answers and journals."""

    def __init__(self) -> None:
        self.running: list[str] = []
        self.cancelled: list[str] = []
        self.ended: list[str] = []
        self.let_go = asyncio.Event()

    async def run(self, context: TurnContext) -> Reply:
        text = context.view.causes[-1].text
        self.running.append(text)
        if text != "work":
            return Reply(f"{text}: done")
        while not self.let_go.is_set():
            try:
                await self.let_go.wait()
            except asyncio.CancelledError:
                self.cancelled.append(text)
        self.ended.append(text)
        return Reply("late")


@pytest.mark.parametrize("command", ["/stop", "/new"])
async def test_b77_late_answer_of_a_stopped_turn_is_dropped_and_harms_no_newer_one(
    tmp_path: Path, command: str
) -> None:
    """The agent goes on though it was cancelled; the chat is served all the same."""
    platform, agent = SimulatedPlatform(), Deaf()
    async with serving(tmp_path, platform, agent=agent) as gateway:
        platform.write("work")
        await eventually("it runs", lambda: agent.running)
        platform.write(command)
        await eventually("it was cancelled", lambda: agent.cancelled)
        platform.write("next")
        await eventually("the next message is answered", lambda: "next: done" in platform.replies())
        agent.let_go.set()
        await eventually("the late answer is there", lambda: agent.ended)
        platform.write("last")
        await eventually("the last message is answered", lambda: "last: done" in platform.replies())
        turns = await turn_views(gateway.store, key_of(platform))
    assert [turn.state for turn in turns] == [TurnState.CANCELLED, TurnState.DONE, TurnState.DONE]
    assert "late" not in platform.replies()
    assert len(platform.replies()) == 3

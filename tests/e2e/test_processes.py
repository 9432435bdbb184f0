"""Processes in the background, through a gateway: they outlive it, and are told of once, where they were begun.

Drives `runtime/process_watcher`, `store/processes` and `tools/process_tool`.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

import httpx
import pytest

from perdure.core.journal import TurnView
from perdure.core.tools import Use
from perdure.errors import OutcomeUnknown, StoreUnreachable
from perdure.platforms.api import Capabilities
from perdure.runtime.process_records import StoredProcessRecords
from perdure.store.conditions import PROCESS_IS_LIVE
from perdure.store.database import Transaction
from perdure.store.ids import wall_clock
from perdure.store.processes import NOTICE_INTERVAL_MS
from perdure.testing import SettableClock, SimulatedPlatform
from perdure.testing.faults import FaultyDatabase
from perdure.tools import keeper
from perdure.tools.process_tool import process_tool
from support.background_processes import (
    Switch,
    chat_turns,
    keeper_directory,
    wait_for_matches,
    wait_for_process,
    wait_for_replies,
    wait_for_stored_match,
    wait_until_quiet,
    wait_until_running,
)
from support.gateway import Person, gateway
from support.inprocess import crashing_at_the_end, serving
from support.keepers import end_all_commands, rewrite_record
from support.process_state import is_alive
from support.recovery import key_of
from support.shutdown import crashing_at_fact
from support.store_gateway import SpyTx
from support.waiting import eventually, wait_for

pytestmark = pytest.mark.anyio

T = TypeVar("T")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    """A home in which nothing runs any more after the test."""
    for _ in end_all_commands(tmp_path / "home" / "keepers"):
        (tmp_path / "home").mkdir(mode=0o700)
        (tmp_path / "home" / "workspace").mkdir(mode=0o700)
        (tmp_path / "home" / "workspace" / "file").touch()  # as in a home of 0.2.0: its chats share this folder
        yield tmp_path / "home"


def notes_of(view: TurnView) -> list[str]:
    return [cause.text for cause in view.causes if cause.note]


# ── outliving ───────────────────────────────────────────────────────────────────────────────────────────────


def test_b90_process_goes_on_and_is_told_where_it_began_when_the_whole_group_is_killed(home: Path) -> None:
    switch = Switch(home / "workspace")
    with gateway(home) as process:
        process.close()
        process.start("setsid")
        person, other = Person(process, "work"), Person(process, "play")
        person.say(f"background: echo before; {switch.wait}; echo after; exit 3\nsay: begun")
        person.wait_for_replies(1)
        assert process.process is not None
        os.killpg(process.process.pid, signal.SIGKILL)
        process.wait()
        process.start()
        assert person.replies() == ["begun"]
        switch.throw()
        [_, told] = person.wait_for_replies(2)
        assert "ended with exit code 3" in told
        assert "before\nafter" in told
        assert other.replies() == []


async def test_b90_process_goes_on_over_a_restart(home: Path) -> None:
    platform, switch = SimulatedPlatform(), Switch(home / "workspace")
    async with serving(home, platform):
        platform.write(f"background: {switch.wait}; echo late\nsay: begun")
        await wait_for_replies(platform, "begun")
    async with serving(home, platform):
        switch.throw()
        await wait_for_replies(platform, "begun", "late")


class AwayForOneLook(FaultyDatabase):
    """A database that cannot be reached when somebody looks for live processes, once one was recorded."""

    looks = 0

    async def read(self, transaction: Transaction[T], *, at: int | None = None) -> T:
        statements: list[str] = []
        result = await super().read(lambda tx: transaction(SpyTx(tx, statements.append)), at=at)
        if (
            result
            and not self.looks
            and any(f"FROM processes WHERE {PROCESS_IS_LIVE}" in sql for sql in statements)
        ):
            self.looks += 1
            raise StoreUnreachable("the database server does not answer")
        return result


async def test_b91_process_is_told_of_soon_though_the_database_was_away_when_it_began(home: Path) -> None:
    """The look for new processes is repeated as soon as the database may be back, and not only each minute."""
    platform = SimulatedPlatform()
    async with serving(home, platform, wrap=AwayForOneLook) as gateway:
        platform.write("background: echo quick\nsay: begun")
        await wait_for_replies(platform, "begun", "quick")
        database = gateway.store.database
        assert isinstance(database, AwayForOneLook)
        assert database.looks == 1


async def test_b13_conversation_is_not_begun_afresh_while_a_process_of_it_lives(home: Path) -> None:
    platform, switch, clock = SimulatedPlatform(), Switch(home / "workspace"), SettableClock()
    async with serving(home, platform, clock=clock, SESSION__IDLE="2h") as gateway:
        platform.write(f"background: {switch.wait}; echo late\nsay: begun")
        await wait_for_replies(platform, "begun")
        clock.move(3 * 3600)
        platform.write("say: two")
        await wait_for_replies(platform, "begun", "two")
        switch.throw()
        await wait_for_replies(platform, "begun", "two", "late")
        clock.move(3 * 3600)
        platform.write("say: three")
        await wait_for_replies(platform, "begun", "two", "late", "fresh", "three")
        assert len(await gateway.store.sessions.of_key(key_of(platform))) == 2


async def test_b91_process_that_ended_while_no_gateway_ran_is_told_once(home: Path) -> None:
    platform, switch, clock = SimulatedPlatform(), Switch(home / "workspace"), SettableClock()
    async with crashing_at_the_end(home, platform, clock=clock) as first:
        platform.write(f"background: {switch.wait}; echo alone\nsay: begun")
        await wait_for_replies(platform, "begun")
        place = keeper_directory(home, await wait_for_process(first))
    switch.throw()
    await eventually("the process has ended", lambda: isinstance(keeper.read_status(place), keeper.CommandEnded))
    for _ in range(2):
        async with crashing_at_the_end(home, platform, clock=clock) as again:
            await wait_for_replies(platform, "begun", "alone")
            await wait_until_quiet(again)
            assert len(await chat_turns(again, platform)) == 2


@pytest.mark.parametrize("fact", ["SELECT 1 FROM processes", "SELECT 1 FROM inbox WHERE kind = 'report'"])
async def test_b90_b92_process_runs_once_and_is_told_once_when_killed_at(fact: str, home: Path) -> None:
    platform, clock = SimulatedPlatform(), SettableClock()
    ran = home / "workspace" / "ran"
    async with crashing_at_fact(home, platform, fact=fact, clock=clock):
        platform.write(f"background: echo once >> {ran}; echo done\nsay: begun")
    async with serving(home, platform, clock=clock) as again:
        await wait_for_replies(platform, "begun", "done")
        await wait_until_quiet(again)
        assert [view.state for view in await chat_turns(again, platform)] == ["done", "done"]
    assert ran.read_text() == "once\n"


async def test_b90_recycled_process_id_is_neither_adopted_nor_killed(home: Path) -> None:
    platform, switch = SimulatedPlatform(), Switch(home / "workspace")
    async with crashing_at_the_end(home, platform) as first:
        platform.write(f"background: {switch.wait}\nsay: begun")
        await wait_for_replies(platform, "begun")
        process = await wait_for_process(first)
        was = await wait_until_running(home, process)
    os.kill(was.keeper, signal.SIGKILL)
    os.kill(was.pid, signal.SIGKILL)
    stranger = subprocess.Popen(["/bin/sleep", "600"])  # noqa: ASYNC220 reason: it takes no time
    try:
        for name in ("claim", "child"):
            rewrite_record(keeper_directory(home, process), name, lambda record: record | {"pid": stranger.pid})
        async with serving(home, platform) as again:
            await wait_for_replies(platform, "begun", "unknown")
            platform.write("process: list\nprocess: kill\nsay: killed")
            await wait_for_replies(platform, "begun", "unknown", "killed")
            assert (await again.store.processes.page())[0].state == "lost"
        assert is_alive(stranger.pid)
    finally:
        switch.throw()  # the command itself was not killed: only what is around it in the sandbox
        stranger.kill()
        stranger.wait()


# ── the end is told once ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("action", ["wait", "poll", "log", "kill"])
async def test_b92_end_that_the_agent_saw_is_told_no_other_way(action: str, home: Path) -> None:
    platform, switch = SimulatedPlatform(), Switch(home / "workspace")
    command = "sleep 600" if action == "kill" else "echo words"
    between = "" if action in ("wait", "kill") else f"run: {switch.wait}\n"
    async with crashing_at_the_end(home, platform) as first:
        platform.write(f"background: {command}\n{between}process: {action}\nsay: seen")
        if between:
            await eventually("it has ended", lambda: list(home.glob("keepers/*/result.json")))
            switch.throw()
        await wait_for_replies(platform, "seen")
        await wait_until_quiet(first)
    async with serving(home, platform) as again:
        await wait_until_quiet(again)
        [turn] = await chat_turns(again, platform)
        results = [call.ended.text for call in turn.calls.values() if call.ended]
        assert "ended by signal" in results[-1] if action == "kill" else "words" in results[-1]
        assert (await again.store.processes.page())[0].told == "seen"
    assert platform.replies() == ["seen"]


async def test_process_is_given_input_and_read_from(home: Path) -> None:
    platform = SimulatedPlatform()
    async with serving(home, platform) as running:
        platform.write("background: read line; echo got $line\nprocess: write hello")
        [said] = await wait_for_replies(platform, "5 bytes")
        assert "The process was given 5 bytes" in said
        process = await wait_for_process(running)
        await keeper.write_input(keeper_directory(home, process), b"\n")
        await wait_for_replies(platform, "5 bytes", "got hello")


async def test_input_is_not_given_twice_when_the_call_was_cut_off(home: Path) -> None:
    platform, switch = SimulatedPlatform(), Switch(home / "workspace")
    async with serving(home, platform) as running:
        platform.write(f"background: {switch.wait}; cat\nsay: begun")
        await wait_for_replies(platform, "begun")
        process = await wait_for_process(running)
        tool = process_tool(
            home / "keepers", StoredProcessRecords(running.store, "", wall_clock, running.loops.process_watcher)
        )
        use = Use({"action": "write", "id": process.id, "text": "once\n", "end": True}, f"{process.turn}:c9")
        assert "5 bytes" in await tool.run(use)
        with pytest.raises(OutcomeUnknown, match="may have been given this input already"):
            await tool.run(use)
        switch.throw()
        [_, told] = await wait_for_replies(platform, "begun", "once")
        assert told.count("once") == 1


# ── stopping and beginning anew ─────────────────────────────────────────────────────────────────────────────


def statuses(home: Path) -> list[str]:
    return sorted(type(status).__name__ for status in keeper.read_all_statuses(home / "keepers").values())


async def test_b68_process_goes_on_and_is_listed_when_its_turn_is_stopped(home: Path) -> None:
    platform, switch = SimulatedPlatform(), Switch(home / "workspace")
    async with serving(home, platform) as running:
        platform.write(f"background: {switch.wait}; echo late\nrun: sleep 600\nsay: never")
        await wait_until_running(home, await wait_for_process(running))
        await eventually("both run", lambda: statuses(home) == ["CommandRunning", "CommandRunning"])
        platform.write("/stop")
        await wait_for_replies(platform, "")
        platform.write("process: list")
        [_, listed] = await wait_for_replies(platform, "", "running")
        assert "until [" in listed
        platform.write("/status")
        [*_, status] = await wait_for_replies(platform, "", "running", "running")
        assert "until [" in status
        await eventually(
            "the foreground command was stopped", lambda: statuses(home) == ["CommandEnded", "CommandRunning"]
        )
        switch.throw()
        await wait_for_replies(platform, "", "running", "running", "late")


async def test_b96_end_is_a_notice_and_no_turn_when_a_fresh_conversation_was_begun(home: Path) -> None:
    platform, switch = SimulatedPlatform(), Switch(home / "workspace")
    async with serving(home, platform) as running:
        platform.write(f"background: {switch.wait}; echo late\nsay: begun")
        await wait_for_replies(platform, "begun")
        platform.write("/new")
        await wait_for_replies(platform, "begun", "")
        await wait_until_running(home, await wait_for_process(running))
        switch.throw()
        await wait_for_replies(platform, "begun", "", "late")
        await wait_until_quiet(running)
        assert len(await chat_turns(running, platform)) == 1


async def test_b96_long_notice_of_an_end_comes_in_as_many_messages_as_its_platform_needs(home: Path) -> None:
    can = Capabilities(idempotent_send=True, keeps_missed=True, max_length=200)
    platform, switch = SimulatedPlatform(capabilities=can), Switch(home / "workspace")
    platform.longest = can.max_length
    async with serving(home, platform) as running:
        platform.write(f"background: {switch.wait}; seq 1000 1099\nsay: begun")
        await wait_for_replies(platform, "begun")
        platform.write("/new")
        await eventually("a fresh conversation is begun", lambda: len(platform.replies()) == 2)
        await wait_until_running(home, await wait_for_process(running))
        switch.throw()
        await eventually("the end of the notice is there", lambda: "".join(platform.replies()).endswith("1099"))
        await wait_until_quiet(running)
    told = platform.replies()[2:]
    assert len(told) > 2
    assert " ".join(told).split()[-100:] == [str(number) for number in range(1000, 1100)]


async def test_b95_end_is_told_in_the_thread_that_began_the_process(home: Path) -> None:
    platform, switch = SimulatedPlatform(), Switch(home / "workspace")
    async with serving(home, platform):
        platform.write(f"background: {switch.wait}; echo here\nsay: begun", thread="t7")
        await wait_for_replies(platform, "begun")
        platform.write("say: elsewhere")
        await wait_for_replies(platform, "begun", "elsewhere")
        switch.throw()
        await wait_for_replies(platform, "begun", "elsewhere", "here")
    assert [posted.address.thread for posted in platform.posted] == ["t7", None, "t7"]


async def test_news_is_told_to_the_model_as_a_note_and_not_as_the_users_words(home: Path) -> None:
    platform = SimulatedPlatform()
    async with serving(home, platform) as running:
        platform.write("background: true\nsay: begun")
        await wait_for_replies(platform, "begun", "ended with exit code 0")
        [_, turn] = await chat_turns(running, platform)
        [cause] = turn.causes
        assert (cause.note, cause.sender.id) == (True, "ann")
        assert platform.posted[-1].reply_to is None


# ── watching ────────────────────────────────────────────────────────────────────────────────────────────────


async def test_b93_matches_are_told_promptly_then_counted_then_no_longer_watched_for(home: Path) -> None:
    platform, switch, clock = SimulatedPlatform(), Switch(home / "workspace"), SettableClock()
    async with serving(home, platform, clock=clock) as running:
        platform.write(f"watch: ERROR {switch.repeat}\nsay: watching")
        await wait_for_replies(platform, "watching")
        switch.write("fine", "ERROR one")
        [_, first] = await wait_for_replies(platform, "watching", "ERROR one")
        assert "fine" not in first
        told = ["watching", "ERROR one"]
        for window in range(3):
            switch.write(f"ERROR more {window}", f"ERROR again {window}")
            await wait_for_matches(running, 2)
            assert len(platform.replies()) == len(told)
            clock.move(NOTICE_INTERVAL_MS / 1000)
            told.append("2 lines more since the last notice")
            await wait_for_replies(platform, *told)
        assert "nothing is watched for any more" in platform.replies()[-1]
        switch.write("ERROR unheard")
        os.killpg((await wait_until_running(home, await wait_for_process(running))).pid, signal.SIGKILL)
        await wait_for_replies(platform, *told, "ended by signal 9")


async def test_b93_output_is_looked_at_once_when_the_gateway_is_killed_between(home: Path) -> None:
    platform, switch, clock = SimulatedPlatform(), Switch(home / "workspace"), SettableClock()
    async with crashing_at_the_end(home, platform, clock=clock):
        platform.write(f"watch: ERROR {switch.repeat}\nsay: watching")
        await wait_for_replies(platform, "watching")
        switch.write("ERROR one")
        await wait_for_replies(platform, "watching", "ERROR one")
    switch.write("ERROR two")
    clock.move(60)
    async with serving(home, platform, clock=clock) as again:
        [_, _, second] = await wait_for_replies(platform, "watching", "ERROR one", "ERROR two")
        assert "ERROR one" not in second
        await wait_until_quiet(again)


async def test_b94_match_in_its_own_turn_is_given_to_the_next(home: Path) -> None:
    platform, output, go = (
        SimulatedPlatform(),
        Switch(home / "workspace", "output"),
        Switch(home / "workspace", "go"),
    )
    async with serving(home, platform) as running:
        platform.write(f"watch: ERROR {output.repeat}\nrun: {go.wait}\nsay: done")
        await wait_until_running(home, await wait_for_process(running))
        output.write("ERROR early")
        await wait_for_stored_match(running)
        go.throw()
        await wait_for_replies(platform, "done")
        await wait_until_quiet(running)
        platform.write("say: next")
        await wait_for_replies(platform, "done", "next")
        first, second = await chat_turns(running, platform)
        assert notes_of(first) == []
        assert "ERROR early" in notes_of(second)[0]


async def test_b94_match_of_an_older_turn_begins_none(home: Path) -> None:
    platform, output = SimulatedPlatform(), Switch(home / "workspace")
    async with serving(home, platform) as running:
        platform.write(f"watch: ERROR {output.repeat}\nsay: watching")
        await wait_for_replies(platform, "watching")
        platform.write("say: newer")
        await wait_for_replies(platform, "watching", "newer")
        output.write("ERROR late")
        await wait_for_stored_match(running)
        await wait_until_quiet(running)
        platform.write("say: newest")
        await wait_for_replies(platform, "watching", "newer", "newest")
        assert "ERROR late" in notes_of((await chat_turns(running, platform))[-1])[0]


async def test_match_is_told_when_the_process_ends_at_once(home: Path) -> None:
    platform = SimulatedPlatform()
    async with serving(home, platform) as running:
        platform.write("watch: ERROR echo ERROR quick\nprocess: list")
        await eventually("it has ended", lambda: wait_for_process(running, "ended"))
        platform.write("say: next")
        await eventually("there are two turns", lambda: len(platform.replies()) >= 2)
        told = [text for view in await chat_turns(running, platform) for text in notes_of(view)]
        assert any("ERROR quick" in text for text in told), told


async def test_pattern_that_might_take_for_ever_is_refused(home: Path) -> None:
    platform = SimulatedPlatform()
    async with serving(home, platform) as running:
        platform.write("watch: (a+)+$ echo aaaa")
        await wait_for_replies(platform, "cannot be watched for")
        assert await running.store.processes.page() == []


# ── many ────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_command_that_cannot_be_started_is_not_on_record(home: Path) -> None:
    platform = SimulatedPlatform()
    async with serving(home, platform) as running:
        (home / "keepers").write_text("in the way")
        platform.write("background: true")
        await wait_for_replies(platform, "not started")
        assert await running.store.processes.page() == []
        (home / "keepers").unlink()


def test_processes_are_listed_over_http(home: Path) -> None:
    switch = Switch(home / "workspace")
    with gateway(home) as process:
        person = Person(process)
        person.say(f"background: {switch.wait}\nsay: begun")
        person.wait_for_replies(1)
        [listed] = _processes(process.url, process.token)
        assert (listed["state"], listed["command"], listed["key"]) == (
            "live",
            switch.wait,
            "agent:main:web:dm:home",
        )
        switch.throw()
        wait_for("it has ended", lambda: _processes(process.url, process.token)[0]["state"] == "ended")


def _processes(url: str, token: str) -> list[dict[str, object]]:
    answer = httpx.get(f"{url}/api/processes", headers={"Authorization": f"Bearer {token}"}, timeout=30)
    assert answer.status_code == 200, answer.text
    found: list[dict[str, object]] = json.loads(answer.text)["processes"]
    return found

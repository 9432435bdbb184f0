"""Erasing through a gateway: nothing of a session is left in the home, whoever dies on the way.

Drives `runtime/erasure`, `operations/personal_data` and `store/erasure`.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from perdure.core.file_names import chat_folder
from perdure.errors import Unavailable
from perdure.runtime.gateway import Gateway
from perdure.testing import Crash, SettableClock, SimulatedPlatform
from support.chat_folders import workspaces
from support.gateway import COMMAND, GatewayProcess, Person, gateway
from support.inprocess import serving
from support.keepers import end_all_commands
from support.recovery import key_of, wait_for_replies
from support.shutdown import HeldAgent, crashing_at_fact, read_only_store
from support.waiting import eventually, wait_for

pytestmark = pytest.mark.anyio

WORDS = "marzipan"
# What a session leaves behind: a foreground command, a process that lives, and their files; one in the workspace.
SCRIPT = f"run: echo {WORDS} | tee plan.txt\nbackground: echo {WORDS}; cat\nsay: {WORDS}"


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    """A home in which no command runs any more after the test."""
    for _ in end_all_commands(tmp_path / "home" / "keepers"):
        yield tmp_path / "home"


def holds(home: Path) -> list[str]:
    """The files of a home in which the words stand."""
    files = (path for path in home.rglob("*") if path.is_file())
    return [str(path.relative_to(home)) for path in files if WORDS.encode() in path.read_bytes()]


async def said(platform: SimulatedPlatform, running: Gateway, chat: str = "1") -> str:
    """Let a session come about that holds the words in many places; its id."""
    platform.write(SCRIPT, chat=chat)
    await wait_for_replies(platform, WORDS, chat=chat)
    platform.write(f"/goal {WORDS}", chat=chat)
    platform.write("/goal off", chat=chat)
    await eventually("the goal is over", lambda: len(platform.replies(chat)) >= 3)
    [session] = await running.store.sessions.of_key(key_of(platform, chat))

    async def is_quiet() -> bool:
        turns = await running.store.turns.of_session(session.id)
        return (
            all(turn.state in ("done", "cancelled") for turn in turns)
            and not await running.store.outbox.open_deliveries()
        )

    platform.write("/stop", chat=chat)
    await eventually("nothing is under way", is_quiet)
    return session.id


# ── erasing ─────────────────────────────────────────────────────────────────────────────────────────────────


async def test_b104_nothing_of_an_erased_session_is_left_in_the_home(home: Path) -> None:
    platform = SimulatedPlatform()
    async with serving(home, platform) as running:
        session = await said(platform, running)
        assert await running.store.processes.live()
        assert list((home / "keepers").iterdir())
        [erased] = await running.operator_verbs.erase(session)
        assert (erased.session, erased.processes) == (session, 1)
        assert await running.store.sessions.page() == []
        assert [path for path in (home / "keepers").iterdir() if path.is_dir()] == []
    assert holds(home) == []
    assert list((home / "chats").iterdir()) == []


async def test_b104_folder_of_a_chat_goes_with_its_last_session(home: Path) -> None:
    platform = SimulatedPlatform()
    async with serving(home, platform) as running:
        for chat in ("1", "2"):
            platform.write(
                f"run: mkdir -p sub && echo {WORDS} > sub/plan.txt && chmod 500 sub\nsay: {chat}", chat=chat
            )
            await wait_for_replies(platform, chat, chat=chat)
        platform.write("/new")
        await eventually("a fresh session", lambda: len(platform.replies()) == 2)
        platform.write("say: afresh")
        await eventually("it is answered", lambda: len(platform.replies()) == 3)
        first, second = await running.store.sessions.of_key(key_of(platform))
        folder = home / chat_folder(key_of(platform))
        await running.operator_verbs.erase(first.id)
        assert (folder / "workspace" / "sub" / "plan.txt").exists(), "its chat has another session"
        await running.operator_verbs.erase(second.id)
        assert [each.name for each in folder.parent.iterdir()] == [Path(chat_folder(key_of(platform, "2"))).name]
        platform.write("run: ls -A")
        await eventually("an empty folder", lambda: platform.replies()[-1].startswith("exit code 0"))
        await running.loops.eraser.finish_pending()
        assert (folder / "workspace").is_dir(), "the folder of a chat that began anew stays"


async def test_b104_running_turn_and_its_command_are_ended_before_they_are_erased(home: Path) -> None:
    platform = SimulatedPlatform()
    async with serving(home, platform) as running:
        platform.write(f"run: echo {WORDS}; cat > /dev/null; sleep 1000")
        await eventually("the command runs", lambda: list((home / "keepers").glob("*/output")))
        [session] = await running.store.sessions.page()
        [erased] = await running.operator_verbs.erase(session.id)
        assert erased.turns == 1
        assert running.loops.runner.running == {}
        platform.write("say: hello again")
        await wait_for_replies(platform, "hello again")
        [fresh] = await running.store.sessions.page()
        assert fresh.id != session.id
    assert holds(home) == []


async def test_b104_turn_that_waits_for_its_agent_is_cut_off(home: Path) -> None:
    platform, agent = SimulatedPlatform(), HeldAgent()
    agent.release("after")
    async with serving(home, platform, agent=agent) as running:
        platform.write(WORDS)
        await agent.wait_until_started(WORDS)
        await running.operator_verbs.erase(key_of(platform))
        platform.write("after")
        await wait_for_replies(platform, "after: done")
    assert agent.seen_texts[-1] == ["after"]
    assert holds(home) == []


BEGUN = "SELECT 1 FROM erased WHERE kind = 'session'"
GONE = "SELECT 1 FROM erased WHERE kind = 'turn'"


@pytest.mark.parametrize("fact", [BEGUN, GONE], ids=["begun", "rows gone, files not"])
async def test_b104_erasing_is_finished_by_the_next_start_when_killed_in_its_middle(home: Path, fact: str) -> None:
    platform, clock = SimulatedPlatform(), SettableClock()
    async with serving(home, platform, clock=clock) as running:
        session = await said(platform, running)
    assert holds(home)
    clock.move(600)
    async with crashing_at_fact(home, platform, fact=fact, clock=clock) as running:
        with suppress(Crash, Unavailable):
            await running.operator_verbs.erase(session)
    assert (fact == GONE) == (not await left(home))
    clock.move(600)
    async with serving(home, platform, clock=clock) as running:

        async def is_gone() -> bool:
            places = [path for path in (home / "keepers").iterdir() if path.is_dir()] + workspaces(home)
            return not places and await running.store.sessions.get(session) is None

        await eventually("nothing is left", is_gone)
    assert holds(home) == []


async def left(home: Path) -> list[str]:
    async with read_only_store(home) as store:
        return [session.id for session in await store.sessions.page()]


async def test_b104_event_of_an_erased_session_does_not_bring_it_back_when_it_comes_again(home: Path) -> None:
    platform = SimulatedPlatform()
    async with serving(home, platform) as running:
        platform.write(f"say: {WORDS}")
        await wait_for_replies(platform, WORDS)
        [session] = await running.store.sessions.page()
        [message] = await running.store.inbox.chat_messages(key_of(platform), 0, 1)
        await running.operator_verbs.erase(session.id)
        again = platform.write("say: other")
        await wait_for_replies(platform, WORDS, "other")
        assert again != message.id
    platform.mailbox._count = 0  # so that its next message has the id of the first
    platform.write(f"say: {WORDS}")
    async with serving(home, platform) as running:
        await eventually("it is acknowledged", lambda: not platform.pending())
        assert len(await running.store.sessions.page()) == 1
    assert platform.replies() == [WORDS, "other"]
    assert holds(home) == []


# ── retention ───────────────────────────────────────────────────────────────────────────────────────────────


async def test_b104_old_sessions_go_by_themselves_and_those_with_something_under_way_stay(home: Path) -> None:
    platform, agent, clock = SimulatedPlatform(), HeldAgent(), SettableClock()
    agent.release(WORDS, "young")
    options: dict[str, Any] = {"agent": agent, "clock": clock, "RETENTION__AGE": "7d"}
    async with serving(home, platform, **options):
        platform.write(WORDS, chat="1")
        await wait_for_replies(platform, f"{WORDS}: done", chat="1")
        platform.write("busy", chat="2")
        await agent.wait_until_started("busy")
        platform.garble(f"rejected {WORDS}")
        await eventually("it is kept", lambda: not platform.garbled_events())
        clock.move(6 * 86400)
        platform.write("young", chat="3")
        await wait_for_replies(platform, "young: done", chat="3")
    clock.move(2 * 86400)
    async with serving(home, platform, RECOVERY__FRESHNESS="0", **options) as running:
        await eventually("the old one is gone", lambda: is_gone(running, key_of(platform, "1")))
        kept = {session.key for session in await running.store.sessions.page()}
        assert kept == {key_of(platform, chat) for chat in ("2", "3")}
        agent.release("busy")
    assert holds(home) == []


async def is_gone(running: Gateway, key: str) -> bool:
    return await running.store.sessions.of_key(key) == []


async def test_b104_nothing_goes_by_itself_without_the_setting(home: Path) -> None:
    platform, clock = SimulatedPlatform(), SettableClock()
    async with serving(home, platform, clock=clock):
        platform.write("say: hello")
        await wait_for_replies(platform, "hello")
    clock.move(10_000 * 86400)
    async with serving(home, platform, clock=clock) as running:
        await running.loops.eraser.finish_pending()
        assert len(await running.store.sessions.page()) == 1


# ── the command line and HTTP ───────────────────────────────────────────────────────────────────────────────


def perdure(process: GatewayProcess, *words: str, typed: str = "") -> subprocess.CompletedProcess[str]:
    command = [*COMMAND, *words]
    return subprocess.run(
        command, env=process.environment(), input=typed, capture_output=True, text=True, check=False
    )


KEY = "agent:main:web:dm:home"


def test_b104_command_line_erases_through_the_gateway_and_asks_first(home: Path) -> None:
    with gateway(home) as process:
        ann = Person(process)
        ann.say(f"run: echo {WORDS} > plan.txt\nsay: {WORDS}", "first")
        ann.wait_for_replies(1)
        refused = perdure(process, "erase", KEY, typed="n\n")
        assert (refused.returncode, refused.stdout) == (1, "")
        assert "Erase this for good? [y/N]" in refused.stderr
        assert "turns: 1" in refused.stderr
        assert f"{chat_folder(KEY)}  the files of the chat" in refused.stderr
        assert ann.replies() == [WORDS]
        place = next(at for at, name, data in ann.events() if name == "message" and data["author"] == "agent")
        done = perdure(process, "erase", KEY, "--json", "--yes")
        [erased] = json.loads(done.stdout)
        assert (done.returncode, erased["turns"], erased["messages"], erased["replies"]) == (0, 1, 1, 1)
        assert not (home / chat_folder(KEY)).exists()
        assert ann.messages() == []
        assert next(ann.events(place))[1] == "gateway", "a stream goes on where it was"
        assert ann.say(f"run: echo {WORDS} > plan.txt\nsay: {WORDS}", "first").status_code == 410
        assert perdure(process, "erase", KEY, "--yes").returncode == 1
        ann.say("say: afresh")
        wait_for("it is answered", lambda: ann.replies() == ["afresh"])
        assert process.stop() == 0
    assert holds(home) == []


def test_b104_command_line_erases_without_a_gateway_what_a_killed_one_left(home: Path) -> None:
    with gateway(home) as process:
        ann = Person(process)
        ann.say(f"background: echo {WORDS}; cat\nrun: echo {WORDS}; sleep 1000")
        wait_for("the command runs", lambda: len(list((home / "keepers").glob("*/output"))) == 2)
        process.kill()
        [session] = json.loads(perdure(process, "sessions", "--json").stdout)
        done = perdure(process, "erase", session["id"], typed="y\n")
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith(f"Erased:\n{session['id']}  {KEY}  1 turn, 1 message")
        assert holds(home) == []
        assert [path for path in (home / "keepers").iterdir() if path.is_dir()] == []
        process.start()
        assert json.loads(perdure(process, "sessions", "--json").stdout) == []


def test_b104_gateway_is_asked_for_a_session_that_nobody_knows(home: Path) -> None:
    with gateway(home) as process:
        ann = Person(process)
        ann.say("say: hello")
        ann.wait_for_replies(1)
        response = ann.request("POST", "/../../sessions/s_none/erase")
        assert response.status_code == 404
        done = perdure(process, "erase", "s_none", "--yes")
        assert (done.returncode, done.stderr) == (
            1,
            "perdure: no session is named 's_none'\n  hint: `perdure sessions` lists ids and keys.\n",
        )


async def test_b104_two_who_erase_at_once_do_no_harm(home: Path) -> None:
    platform = SimulatedPlatform()
    async with serving(home, platform) as running:
        session = await said(platform, running)
        found = await asyncio.gather(
            *(running.operator_verbs.erase(session) for _ in range(3)), return_exceptions=True
        )
        assert sum(len(each) for each in found if isinstance(each, list)) == 1
    assert holds(home) == []

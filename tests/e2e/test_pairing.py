"""People whom nobody knows, and how they are let in, and out again.

Drives `runtime/access` and `store/pairings`.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest

from perdure.core import texts
from perdure.core.journal import TurnCancelled
from perdure.runtime.gateway import Gateway
from perdure.store.pairings import MAX_WRONG_CODES
from perdure.store.processes import Process
from perdure.testing import Crash
from support.chat_folders import workspaces
from support.gateway import GatewayProcess, gateway
from support.pairing import PairingScenario, api_request, change_people
from support.ports import free_port
from support.recovery import (
    decided_rules,
    key_of,
    run_command,
    run_perdure,
    turn_views,
    wait_for_rule,
    was_interrupted_in_step,
)
from support.waiting import eventually

pytestmark = pytest.mark.anyio

SCRIPT = "step a\nstep b\nsay: done"


# ── being let in ────────────────────────────────────────────────────────────────────────────────────────────


async def test_b100_stranger_is_told_a_code_is_paired_and_talks(tmp_path: Path) -> None:
    scenario = PairingScenario(tmp_path)
    async with scenario.serving() as here:
        scenario.say("say: let me in")
        code = await scenario.wait_for_code()
        [request_] = (await api_request(here, "GET", "/api/people")).json()["requests"]
        assert (request_["who"], request_["chat"]) == ("web:eve", "eve")
        assert code not in repr(request_)
        assert await change_people(here, "pair", code=code.lower()) == "web:eve is now a member."
        await scenario.wait_for_replies(texts.people.PAIRED)
        scenario.say("say: hello")
        await scenario.wait_for_replies("hello")
        assert scenario.agent_harness.request_texts() == [["say: hello"]], "what a stranger wrote reaches nobody"
        found = (await api_request(here, "GET", "/api/people")).json()
        assert [(one["who"], one["role"]) for one in found["people"]] == [("web:eve", "member")]
        assert (found["requests"], found["more"]) == ([], False)


async def test_b100_stranger_is_told_one_code_however_often_they_write(tmp_path: Path) -> None:
    scenario = PairingScenario(tmp_path)
    scenario.platform.redeliver = 1
    async with scenario.serving() as here:
        for number in range(5):
            scenario.say(f"hello {number}")
        scenario.platform.press("/approve", chat="eve", sender="eve")
        code = await scenario.wait_for_code()
        await scenario.wait_until_acknowledged()
        scenario.say("say: owner", "ann")
        await scenario.wait_for_replies("owner", chat="ann")
        scenario.clock.move(600)
        scenario.say("hello?")
        newer = await scenario.wait_for_code(number=2)
        assert (await api_request(here, "POST", "/api/people/pair", code=code)).status_code == 404, "one is open"
        await change_people(here, "pair", code=newer)
    assert not await turns_in_home(scenario, "eve")


async def turns_in_home(scenario: PairingScenario, chat: str) -> list[Any]:
    async with scenario.serving() as here:
        return list(await turn_views(here.store, key_of(scenario.platform, chat)))


@pytest.mark.parametrize("where", ["a group", "alone, but ignored"])
async def test_b100_stranger_is_told_nothing_in_a_group_or_by_configuration(tmp_path: Path, where: str) -> None:
    settings = {} if where == "a group" else {"ACCESS__UNKNOWN": "ignore"}
    scenario, chat = PairingScenario(tmp_path, **settings), "g" if where == "a group" else "eve"
    async with scenario.serving() as here:
        for text in ("hello", "/status", "/nonsense"):
            scenario.platform.write(text, chat=chat, sender="eve")
        await scenario.wait_until_acknowledged()
        scenario.platform.write("say: me", chat=chat)
        await eventually("the owner is answered", lambda: scenario.platform.replies(chat))
        assert scenario.platform.replies(chat) == ["me"]
        assert (await api_request(here, "GET", "/api/people")).json()["requests"] == []


async def test_b100_code_that_is_wrong_or_expired_lets_nobody_in_and_says_why(tmp_path: Path) -> None:
    scenario = PairingScenario(tmp_path)
    async with scenario.serving() as here:
        scenario.say("hello")
        code = await scenario.wait_for_code()
        scenario.clock.move(3600)
        expired = await api_request(here, "POST", "/api/people/pair", code=code)
        assert (expired.status_code, expired.json()["error"]) == (404, "that code has expired")
        for _ in range(MAX_WRONG_CODES):
            wrong = await api_request(here, "POST", "/api/people/pair", code="AAAA-AAAA")
            assert (wrong.status_code, wrong.json()["error"]) == (404, "nobody was told that code")
        scenario.say("hello again")
        newer = await scenario.wait_for_code(number=2)
        limited = await api_request(here, "POST", "/api/people/pair", code=newer)
        assert (limited.status_code, limited.json()["error"]) == (429, "too many wrong codes were tried lately")
    async with scenario.serving() as here:
        assert (await api_request(here, "POST", "/api/people/pair", code=newer)).status_code == 429, (
            "a restart is no way"
        )
        scenario.clock.move(600)
        await change_people(here, "pair", code=newer)
        await scenario.wait_for_replies(texts.people.PAIRED)


@pytest.mark.parametrize("fact", ["SELECT 1 FROM pairings", "SELECT 1 FROM outbox WHERE state = 'sending'"])
async def test_b100_code_is_told_once_and_good_when_the_gateway_is_killed_meanwhile(
    tmp_path: Path, fact: str
) -> None:
    scenario = PairingScenario(tmp_path)
    async with scenario.crashing_at_fact(fact):
        scenario.say("hello")
    async with scenario.serving() as here:
        code = await scenario.wait_for_code()
        await scenario.wait_until_acknowledged()
        await change_people(here, "pair", code=code)
        scenario.say("say: hello")
        await scenario.wait_for_replies(texts.people.PAIRED, "hello")
    assert len(scenario.platform.replies("eve")) == 3


async def test_b100_person_is_in_and_told_so_once_when_the_gateway_is_killed_at_the_pairing(
    tmp_path: Path,
) -> None:
    scenario = PairingScenario(tmp_path)
    async with scenario.serving():
        scenario.say("hello")
        code = await scenario.wait_for_code()
    async with scenario.crashing_at_fact("SELECT 1 FROM people") as here:
        with pytest.raises(Crash):  # it was killed while we asked it
            await change_people(here, "pair", code=code)
    async with scenario.serving():
        await scenario.wait_for_replies(texts.people.PAIRED)
        scenario.say("say: hello")
        await scenario.wait_for_replies(texts.people.PAIRED, "hello")


# ── the command line ────────────────────────────────────────────────────────────────────────────────────────


def configure(home: Path) -> None:
    """Whoever looks for a gateway of this home looks where there is none, unless told otherwise."""
    home.mkdir()
    (home / "config.toml").write_text(f'[web]\nport = {free_port()}\n[platforms.web]\nallow = ["ann"]\n')


async def test_b100_owner_pairs_from_the_command_line_with_a_gateway_and_without(tmp_path: Path) -> None:
    home = tmp_path / "home"
    configure(home)
    scenario = PairingScenario(home)
    async with scenario.serving():
        for person in ("eve", "bob"):
            scenario.say("hello", person)
        eve, bob = await scenario.wait_for_code("eve"), await scenario.wait_for_code("bob")
        code, _, problem = await run_command(home, "pair", eve)
        assert (code, "lock" in problem or "gateway" in problem) == (78, True), "it works on that home"
    listed = await run_perdure(home, "people")
    assert "asks    web:eve" in listed
    assert eve not in listed
    assert await run_perdure(home, "pair", eve, "--role", "guest", "--chat", "here") == (
        "web:eve is now a guest in chat eve.\n"
    )
    process = GatewayProcess(home).start()
    try:
        assert await run(process, "pair", bob) == (0, "web:bob is now a member.\n")
        assert (await run(process, "pair", bob))[0] == 1, "it is spent"
        code, said = await run(process, "people")
        assert [line.split()[:2] for line in said.splitlines()] == [
            ["owner", "web:ann"],
            ["owner", "web:owner"],
            ["member", "web:bob"],
            ["guest", "web:eve"],
        ]
    finally:
        process.close()
    async with scenario.serving():
        for person in ("eve", "bob"):
            scenario.say("say: hello", person)
            await scenario.wait_for_replies("hello", chat=person)


async def run(process: GatewayProcess, *arguments: str) -> tuple[int, str]:
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "perdure", *arguments, env=process.environment(), stdout=-1, stderr=-1
    )
    output, errors = await child.communicate()
    return child.returncode or 0, (output or errors).decode()


async def test_people_are_added_changed_and_removed_from_the_command_line(tmp_path: Path) -> None:
    with gateway(tmp_path / "home") as process:
        assert await run(process, "people", "role", "irc:eve", "guest") == (
            1,
            "perdure: irc:eve is not known by name\n  hint: `perdure people` lists who is; `add` lets them in.\n",
        )
        added = await run(process, "people", "add", "irc:eve", "--name", "Eve", "--chat", "#room")
        assert added == (0, "Eve (irc:eve) is now a member in chat #room.\n")
        changed = await run(process, "people", "role", "irc:eve", "owner", "--chat", "#room")
        assert changed == (0, "Eve (irc:eve) is now an owner in chat #room.\n")
        code, said = await run(process, "people")
        assert code == 0
        assert "web: everybody else" in said
        assert "owner   irc:eve  Eve in chat #room  since 20" in said
        code, said = await run(process, "people", "--json")
        assert '"who": "irc:eve"' in said
        assert (await run(process, "people", "remove", "irc:eve"))[1].startswith("irc:eve is removed.")
        assert (await run(process, "people", "remove", "irc:eve"))[0] == 1
        for wrong in ("eve", ":eve", "irc:"):
            code, said = await run(process, "people", "add", wrong)
            assert (code, said.splitlines()[0]) == (1, f"perdure: {wrong!r} names nobody")
        code, said = await run(process, "people", "add", "irc:eve", "--role", "king")
        assert code == 1


@pytest.mark.parametrize(
    ("verb", "body", "status"),
    [
        ("pair", {"code": "x", "role": "king"}, 400),
        ("pair", {"code": "x\0"}, 400),
        ("pair", {"cod": "x"}, 400),
        ("pair", {"code": "x" * 1001}, 400),
        ("add", {"who": "nobody"}, 400),
        ("role", {"who": "web:eve", "role": "guest"}, 404),
        ("fly", {"who": "web:eve"}, 404),
    ],
)
async def test_wrong_request_is_refused_with_a_hint(
    tmp_path: Path, verb: str, body: dict[str, Any], status: int
) -> None:
    scenario = PairingScenario(tmp_path)
    async with scenario.serving() as here:
        response = await api_request(here, "POST", f"/api/people/{verb}", **body)
        assert response.status_code == status
        assert response.json()["hint"]


async def test_people_are_paged_over_http(tmp_path: Path) -> None:
    scenario = PairingScenario(tmp_path)
    async with scenario.serving() as here:
        for number in range(101):
            await change_people(here, "add", who=f"web:p{number:03}")
        first = (await api_request(here, "GET", "/api/people")).json()
        assert (len(first["people"]), first["more"]) == (100, True)
        place = first["people"][-1]["place"]
        rest = (await api_request(here, "GET", f"/api/people?after={place}")).json()
        assert ([one["who"] for one in rest["people"]], rest["more"]) == (["web:p100"], False)


# ── being let out ───────────────────────────────────────────────────────────────────────────────────────────


async def known(scenario: PairingScenario, here: Gateway, person: str = "eve", **words: str) -> None:
    await change_people(here, "add", who=f"web:{person}", **words)


async def test_b101_person_removed_while_their_turn_was_cut_off_is_not_resumed(tmp_path: Path) -> None:
    scenario = PairingScenario(tmp_path / "home", "b")
    async with scenario.crashing() as here:
        await known(scenario, here)
        scenario.say(SCRIPT)
        await scenario.agent_harness.wait_until_hanging()
    (scenario.home / "config.toml").write_text(f'[web]\nport = {free_port()}\n[platforms.web]\nallow = ["ann"]\n')
    assert await run_perdure(scenario.home, "people", "remove", "web:eve") == "web:eve is removed.\n"
    async with scenario.serving() as here:
        view = await wait_for_rule(here.store, key_of(scenario.platform, "eve"), "unauthorised")
        assert was_interrupted_in_step(view)
    assert (scenario.agent_harness.run_counts["b"], scenario.platform.replies("eve")) == (1, [])


async def test_b101_person_removed_while_their_turn_waits_to_be_taken_up_is_not_resumed(tmp_path: Path) -> None:
    """A message of somebody else does not take it up either, but supersedes it."""
    scenario = PairingScenario(tmp_path, "b", RECOVERY__POLICY="ask")
    async with scenario.crashing() as here:
        await known(scenario, here)
        scenario.platform.write(SCRIPT, chat="g", sender="eve")
        await scenario.agent_harness.wait_until_hanging()
    async with scenario.serving() as here:
        key = key_of_group(scenario)
        await wait_for_rule(here.store, key, "ask")
        assert (await change_people(here, "remove", who="web:eve")) == "web:eve is removed."
        view = await wait_for_rule(here.store, key, "unauthorised")
        assert decided_rules(view) == ["ask", "unauthorised"]
        scenario.platform.write("say: mine", chat="g")
        await scenario.wait_for_replies("mine", chat="g")
        old, new = await turn_views(here.store, key)
        assert old.ended == TurnCancelled("superseded")
        assert [cause.text for cause in new.causes] == ["say: mine"]
    assert scenario.agent_harness.run_counts["b"] == 1


def key_of_group(scenario: PairingScenario, person: str = "") -> str:
    return f"agent:main:web:group:g{f'::{person}' if person else ''}"


async def test_b101_what_a_removed_person_wrote_and_still_waits_begins_no_turn(tmp_path: Path) -> None:
    scenario = PairingScenario(tmp_path, "b")
    async with scenario.serving() as here:
        await known(scenario, here)
        scenario.platform.write(SCRIPT, chat="g")
        await scenario.agent_harness.wait_until_hanging()
        scenario.platform.write("say: hers", chat="g", sender="eve")
        scenario.platform.write("say: his", chat="g")
        await scenario.wait_until_acknowledged()
        await change_people(here, "remove", who="web:eve")
        scenario.agent_harness.release()
        await scenario.wait_for_replies("done", "his", chat="g")
    assert scenario.platform.replies("g") == ["done", "his"]


async def test_b101_what_waits_of_people_whom_a_new_configuration_leaves_out_begins_no_turn(
    tmp_path: Path,
) -> None:
    scenario = PairingScenario(tmp_path, "b", PLATFORMS__WEB__ALLOW="ann,eve")
    async with scenario.crashing():
        scenario.platform.write(SCRIPT, chat="g")
        await scenario.agent_harness.wait_until_hanging()
        scenario.platform.write("say: hers", chat="g", sender="eve")
        await scenario.wait_until_acknowledged()
    scenario.agent_harness.release()
    async with scenario.serving(PLATFORMS__WEB__ALLOW="ann"):
        await scenario.wait_for_replies("done", chat="g")
        scenario.platform.write("say: his", chat="g")
        await scenario.wait_for_replies("done", "his", chat="g")


@pytest.mark.parametrize("chat", ["g", "eve"])
async def test_b101_process_of_a_removed_person_begins_no_turn(tmp_path: Path, chat: str) -> None:
    """In a group the others hear of it, and in a direct chat nobody does."""
    scenario = PairingScenario(tmp_path)
    async with scenario.serving(agent=None) as here:
        await known(scenario, here)
        script = "background: while [ ! -e go ]; do sleep 0.1; done; echo tea\nsay: begun"
        scenario.platform.write(script, chat=chat, sender="eve")
        await scenario.wait_for_replies("begun", chat=chat)
        await change_people(here, "remove", who="web:eve")
        [workspace] = workspaces(here.settings.home)
        (workspace / "go").touch()
        [process] = await eventually("it has ended", lambda: _ended(here))
        if chat == "g":
            await eventually(
                "the others hear of it", lambda: "tea" in "".join(scenario.platform.replies("g")[-1:])
            )
        assert process.told == ("notice" if chat == "g" else "nobody")
        [session] = await here.store.sessions.page()
        assert len(await here.store.turns.of_session(session.id)) == 1
    assert len(scenario.platform.replies(chat)) == (2 if chat == "g" else 1)


async def _ended(here: Gateway) -> list[Process]:
    return [process for process in await here.store.processes.page() if process.state == "ended"]


async def test_person_who_was_removed_is_a_stranger_again(tmp_path: Path) -> None:
    scenario = PairingScenario(tmp_path)
    async with scenario.serving() as here:
        await known(scenario, here)
        scenario.say("say: hello")
        await scenario.wait_for_replies("hello")
        await change_people(here, "remove", who="web:eve")
        scenario.say("say: hello?")
        assert await scenario.wait_for_code()
        assert scenario.platform.replies("eve")[0] == "hello"
        assert len(scenario.platform.replies("eve")) == 2

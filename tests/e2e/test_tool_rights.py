"""Which tools a turn may use: by the role of the person whose words began it, as that role is now.

Drives `agents/tool_calls` and `store/authorisation`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from perdure.core import texts
from perdure.core.journal import CallProgress
from perdure.core.logins import ALL_SCOPES, Login
from perdure.core.roles import TOKEN_HOLDER, ToolRights
from perdure.runtime.gateway import Gateway
from perdure.testing.providers import Asked, LocalProvider, Says, Wish
from support.chat_folders import chat_workspace, find_files
from support.mcp_process import HttpServer
from support.pairing import PairingScenario, change_people
from support.recovery import last_turn
from support.waiting import eventually

pytestmark = pytest.mark.anyio

OWN_TOOL = '''
from pathlib import Path

from perdure import tool


@tool(effect="once")
def ring() -> str:
    """Ring the bell."""
    Path(__file__).with_name("rung").touch()
    return "it rang"
'''
CALLS = [
    Wish("shell", {"command": "echo hi"}),
    Wish("process", {"action": "list"}),
    Wish("read_file", {"path": "here.txt"}),
    Wish("write_file", {"path": "new.txt", "content": "x"}),
    Wish("edit_file", {"path": "here.txt", "old": "old", "new": "new"}),
    Wish("search_files", {"pattern": "here"}),
    Wish("send_file", {"path": "here.txt"}),
    Wish("fetch_url", {"url": "http://127.0.0.1:9/"}),
    Wish("calc_add", {"a": 2, "b": 3}),
    Wish("ring", {}),
]
SCRIPT = "step a\nstep b\nstep c\nsay: done"


def key_of(person: str) -> str:
    return f"agent:main:web:dm:{person}"


async def people(gateway: Gateway) -> None:
    """Beside ann, who owns the gateway, bob is a member and gus is a guest."""
    await change_people(gateway, "add", who="web:bob")
    await change_people(gateway, "add", who="web:gus", role="guest")


def refused(tool: str, role: str | None) -> str:
    return texts.tool_calls.not_permitted(tool, role)


async def last_calls(gateway: Gateway, key: str) -> list[CallProgress]:
    return list((await last_turn(gateway.store, key)).calls.values())


async def rights_of_last_turn(gateway: Gateway, key: str) -> ToolRights:
    session = await gateway.store.sessions.current(key)
    assert session is not None
    return await gateway.loops.access.tool_rights((await gateway.store.turns.of_session(session.id))[-1])


# ── every kind of tool ──────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def mcp() -> Iterator[HttpServer]:
    with HttpServer() as server:
        yield server


@pytest.fixture
def provider() -> Iterator[LocalProvider]:
    with LocalProvider() as provider:
        yield provider
        assert provider.refusals == [], "every request was as its provider wants it"


def house_with_model(tmp_path: Path, provider: LocalProvider, **settings: str) -> PairingScenario:
    given = {
        "MODEL__NAME": "openai:local",
        "MODEL__BASE_URL": provider.openai_url,
        "MODEL__API_KEY": provider.key,
        "MODEL__CONTEXT": "100000",
    }
    return PairingScenario(tmp_path, **(given | settings))


@pytest.mark.parametrize("who", ["ann", "bob", "gus"], ids=["an owner", "a member", "a guest"])
async def test_b105_every_kind_of_tool_is_for_those_whose_role_has_it(
    tmp_path: Path, provider: LocalProvider, mcp: HttpServer, who: str
) -> None:
    (tmp_path / f"bell_of_{who}.py").write_text(OWN_TOOL)  # a module is loaded once in this process
    servers = {"calc": {"url": mcp.url, "startup_timeout": 60}}
    house = house_with_model(tmp_path, provider, TOOLS__LOAD=f"bell_of_{who}:ring", TOOLS__MCP=json.dumps(servers))
    provider.script = [Says(calls=CALLS), Says("done")]
    async with house.serving(agent=None) as here:
        await people(here)
        workspace = chat_workspace(tmp_path, key_of(who))
        (workspace / "here.txt").write_text("old\n")
        house.say("go", who)
        await eventually("it is done", lambda: "done" in house.platform.replies(who))
        calls = await last_calls(here, key_of(who))
    results = {call.request.tool: call.ended.text for call in calls if call.ended}
    assert set(results) == {wish.tool for wish in CALLS}
    refusals = {tool for tool, result in results.items() if result == refused(tool, "guest")}
    if who == "gus":
        assert (refusals, provider.requests[0].tools) == (set(results), ["clarify"])
        assert house.platform.replies("gus") == ["done"], "and no file was sent"
    else:
        assert refusals == set()
        assert {*results, "clarify"} <= {*provider.requests[0].tools}
    done = (workspace / "new.txt", tmp_path / "rung")
    assert [place.exists() for place in done] == [who != "gus"] * 2


async def test_b105_tools_of_a_role_are_a_setting_that_a_platform_may_override(
    tmp_path: Path, provider: LocalProvider
) -> None:
    house = house_with_model(
        tmp_path,
        provider,
        TOOLS__BY_ROLE='{"guest": ["search_*"], "member": ["read_file"]}',
        PLATFORMS__WEB__TOOLS_BY_ROLE='{"guest": ["clarify", "fetch_url"]}',
    )
    async with house.serving(agent=None) as here:
        await people(here)
        for who in ("gus", "bob"):
            house.say("go", who)
            await house.wait_for_replies("ok", chat=who)
    assert [asked.tools for asked in provider.requests] == [["clarify", "fetch_url"], ["read_file"]]


async def test_b105_guest_may_ask_back_unless_the_setting_takes_even_that(
    tmp_path: Path, provider: LocalProvider
) -> None:
    house = house_with_model(tmp_path, provider)
    question = Says(calls=[Wish("clarify", {"question": "Which?"})])
    provider.script = [question, Says("that one")]
    async with house.serving(agent=None) as here:
        await people(here)
        house.say("go", "gus")
        await house.wait_for_replies("Which?", chat="gus")
        house.say("the left", "gus")
        await house.wait_for_replies("that one", chat="gus")
    provider.script = [question, Says("no question")]
    async with house.serving(agent=None, TOOLS__BY_ROLE='{"guest": []}') as here:
        house.say("go", "gus")
        await house.wait_for_replies("no question", chat="gus")
        [call] = await last_calls(here, key_of("gus"))
        assert call.ended is not None
        assert call.ended.text == refused("clarify", "guest")


async def test_b105_guest_has_read_only_what_they_sent_themselves(tmp_path: Path, provider: LocalProvider) -> None:
    house = house_with_model(tmp_path, provider)
    sent: dict[str, str] = {}

    def read_all(asked: Asked) -> Says:
        found = re.findall(r"\[Attached file: (\S+) \(.*?\), at ([^\s\]]+)\]", json.dumps(asked.messages))
        sent.update(found)
        read = any(message["role"] == "tool" for message in asked.messages)
        paths = [*sent.values(), "here.txt", "../token", *(str(Path(path).parent) for path in sent.values())]
        return Says("done") if read else Says(calls=[Wish("read_file", {"path": path}) for path in paths])

    provider.script = read_all
    async with house.serving(agent=None) as here:
        await people(here)
        (chat_workspace(tmp_path, key_of("gus")) / "here.txt").write_text("old\n")
        house.platform.write("look", chat="ann", sender="ann", files=("anns.txt",))
        await house.wait_for_replies("done", chat="ann")
        house.platform.write("look", chat="gus", sender="gus", files=("mine.txt",))
        await house.wait_for_replies("done", chat="gus")
        calls = await last_calls(here, key_of("gus"))
    allowed = [call.request.arguments["path"] for call in calls if call.ended and call.ended.outcome == "ok"]
    assert allowed == [sent["mine.txt"]]
    assert len(calls) == 6
    assert {call.ended.text for call in calls if call.ended and call.ended.outcome == "error"} == {
        refused("read_file", "guest")
    }
    assert "read_file" in provider.requests[-1].tools


# ── as things are now ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("verb", "role"), [("role", "guest"), ("remove", None)], ids=["demoted", "removed"])
async def test_b105_person_who_loses_the_right_in_mid_turn_loses_the_tool_at_the_next_call(
    tmp_path: Path, verb: str, role: str | None
) -> None:
    house = PairingScenario(tmp_path, "b")
    async with house.serving() as here:
        await people(here)
        house.say(SCRIPT, "bob")
        await house.agent_harness.wait_until_hanging()
        await change_people(here, verb, who="web:bob", **({"role": role} if role else {}))
        house.agent_harness.release()
        await eventually("it has ended", lambda: "done" in house.platform.replies("bob"))
        results = [call.ended.text for call in await last_calls(here, key_of("bob")) if call.ended]
    assert results == ["a: done", "b: done", refused("step", role)]
    assert (house.agent_harness.run_counts["c"], house.agent_harness.requests[-1].tools) == (0, ())


async def test_b105_resumed_turn_has_what_its_person_may_after_the_crash(tmp_path: Path) -> None:
    house = PairingScenario(tmp_path, "b")
    async with house.crashing() as here:
        await people(here)
        house.say(SCRIPT, "bob")
        await house.agent_harness.wait_until_hanging()
        await change_people(here, "role", who="web:bob", role="guest")
    house.agent_harness.release()
    async with house.serving() as here:
        await eventually("it has ended", lambda: "done" in house.platform.replies("bob"))
        calls = [call.ended for call in await last_calls(here, key_of("bob")) if call.ended]
    assert [ended.outcome for ended in calls] == ["ok", "unknown", "error"]
    assert refused("step", "guest") in calls[1].text, "a call that was begun is not begun again"
    assert house.agent_harness.run_counts == {"a": 1, "b": 1}


async def test_b105_approved_call_is_not_run_for_a_person_who_was_demoted_meanwhile(tmp_path: Path) -> None:
    house = PairingScenario(tmp_path)
    async with house.serving(agent=None) as here:
        await people(here)
        house.say("danger: touch it-ran\nsay: gone", "bob")
        asked = await eventually("it is asked", lambda: [one for one in house.platform.posted if one.buttons])
        await change_people(here, "role", who="web:bob", role="guest")
        name = asked[0].buttons[0].command.split()[1]
        owner = Login("", "phone", TOKEN_HOLDER, ALL_SCOPES)
        assert await here.operator_verbs.decide_approval(name, owner, approve=True) == "approved"
        await house.wait_for_replies("gone", chat="bob")
        [call] = await last_calls(here, key_of("bob"))
    assert call.ended is not None
    assert call.ended.text == refused("danger", "guest")
    assert find_files(tmp_path, "it-ran") == []


async def test_b105_person_who_gains_the_right_in_mid_turn_gains_the_tool(tmp_path: Path) -> None:
    house = PairingScenario(tmp_path, "b", TOOLS__BY_ROLE='{"guest": ["step"]}')
    async with house.serving() as here:
        await people(here)
        house.say("step b\nonce c 0s\nsay: done", "gus")
        await house.agent_harness.wait_until_hanging()
        await change_people(here, "role", who="web:gus", role="member")
        house.agent_harness.release()
        await house.wait_for_replies("done", chat="gus")
    assert house.agent_harness.run_counts == {"b": 1, "c": 1}


# ── turns that nobody's message begins ──────────────────────────────────────────────────────────────────────

MEMBERS_ONLY_STEP = '{"member": ["step", "shell", "process", "clarify"]}'


@pytest.mark.parametrize("begin", ["/goal once c 0s\nsay: GOAL DONE", "/background once c 0s\nsay: all of it"])
@pytest.mark.parametrize(("who", "runs"), [("ann", 1), ("bob", 0)], ids=["an owner", "a member"])
async def test_b105_goals_and_background_sessions_have_the_right_of_who_set_them(
    tmp_path: Path, begin: str, who: str, runs: int
) -> None:
    house = PairingScenario(tmp_path, TOOLS__BY_ROLE=MEMBERS_ONLY_STEP, GOAL__MAX_TURNS="1")
    async with house.serving() as here:
        await people(here)
        house.platform.write(begin, chat="g", sender=who)
        last = begin.partition("say: ")[2]
        await eventually("it is done", lambda: any(last in text for text in house.platform.replies("g")[1:]))
        key = "agent:main~1:web:group:g" if "background" in begin else "agent:main:web:group:g"
        rights = await rights_of_last_turn(here, key)
    assert (rights.person, rights.role) == (who, "owner" if runs else "member")
    assert house.agent_harness.run_counts["c"] == runs


async def test_b105_report_of_a_process_has_the_right_of_who_began_the_turn_not_of_who_joined_it(
    tmp_path: Path,
) -> None:
    house = PairingScenario(tmp_path, QUEUE__MODE="steer", TOOLS__BY_ROLE=MEMBERS_ONLY_STEP)
    async with house.serving(agent=None) as here:
        await people(here)
        waits = "until test -e door; do sleep 0.05; done"
        house.platform.write(f"run: {waits}\nsay: first", chat="g", sender="bob")
        await eventually("the turn runs", lambda: here.loops.runner.running)
        house.platform.write("background: echo the end\nsay: second", chat="g", sender="ann")
        await house.wait_until_acknowledged()
        (chat_workspace(tmp_path, "agent:main:web:group:g") / "door").touch()
        await eventually("both are answered", lambda: "first\nsecond" in house.platform.replies("g"))
        assert (await rights_of_last_turn(here, "agent:main:web:group:g")).person == "bob"
        [process] = await here.store.processes.of_chat(await _last_turn_id(here))
        assert process.person == "bob", "though ann's words are the last in that turn"
        await eventually("the end is told", lambda: len(house.platform.replies("g")) == 2)
        assert (await rights_of_last_turn(here, "agent:main:web:group:g")).person == "bob"


async def _last_turn_id(gateway: Gateway) -> str:
    session = await gateway.store.sessions.current("agent:main:web:group:g")
    assert session is not None
    return (await gateway.store.turns.of_session(session.id))[-1].id


async def test_b105_session_that_an_operator_resumes_has_the_right_of_who_was_suspended(tmp_path: Path) -> None:
    house = PairingScenario(tmp_path, "b", TOOLS__BY_ROLE='{"guest": ["step"]}')
    async with house.serving() as here:
        await people(here)
        house.say("step b\nonce c 0s\nsay: done", "gus")
        await house.agent_harness.wait_until_hanging()
        session = await here.store.sessions.current(key_of("gus"))
        assert session is not None
        await here.operator_verbs.suspend(session)
        house.agent_harness.release()
        suspended = await here.store.sessions.get(session.id)
        assert suspended is not None
        assert await here.operator_verbs.resume(suspended)
        await eventually("it has ended", lambda: "done" in house.platform.replies("gus"))
        rights = await rights_of_last_turn(here, key_of("gus"))
    assert (rights.person, rights.role) == ("gus", "guest")
    assert house.agent_harness.run_counts["c"] == 0

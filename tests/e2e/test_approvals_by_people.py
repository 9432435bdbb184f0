"""Approvals come from people: the record says who decided, where and by what, and the home's token cannot always.

Drives `store/answers`, `runtime/operator_verbs`, `operations/inspect`, `web/auth/lookup` and `core/logins`.
"""

from __future__ import annotations

import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from perdure.core.journal import QuestionAnswered, TurnView
from perdure.core.logins import ALL_SCOPES, Login, Scope
from perdure.core.messages import Sender
from perdure.core.states import TurnState
from perdure.platforms.web import WebAdapter
from perdure.runtime.gateway import Gateway
from perdure.store.logins import new_token, token_digest
from perdure.store.transitions import Turn
from perdure.testing import gateways
from perdure.testing.faults import Crash
from perdure.web.app import create_app
from support.approvals import DONE, GUARDED, ApprovalScenario
from support.gateway import COMMAND, GatewayProcess, Person, gateway
from support.logins import add_login, ask
from support.recovery import key_of
from support.shell_commands import home_without_commands
from support.waiting import eventually

CHAT = "/api/chats/home/messages"
HOME_TOKEN = "the-token-of-the-home"  # noqa: S105 reason: of a gateway inside of the test


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    yield from home_without_commands(tmp_path)


def cli(process: GatewayProcess, *arguments: str) -> str:
    command = [*COMMAND, *arguments]
    return subprocess.run(command, env=process.environment(), capture_output=True, text=True, check=True).stdout


def pending_approval(person: Person) -> dict[str, Any]:
    return next(data for _, name, data in person.events() if name == "approval")


# ── the record ──────────────────────────────────────────────────────────────────────────────────────────────


def test_b107_approval_over_http_names_its_person_and_login_everywhere(home: Path) -> None:
    with gateway(home) as process:
        ask(process, process.token, "POST /api/people/add", {"who": "web:ann", "role": "owner", "name": "Ann"})
        token = add_login(process, "ann-phone", "read,approve", "--person", "ann")
        person = Person(process)
        message = person.say(GUARDED).json()["message"]
        approval = pending_approval(person)["id"]
        assert ask(process, token, f"POST /api/approvals/{approval}", {"approve": True}).is_success
        person.wait_for_replies(2)
        who = "Ann (ann) on web, login ann-phone"
        [answered] = [line for line in cli(process, "trace", message).splitlines() if " answered " in line]
        assert f"text approved, by {who}" in answered
        assert f"Approved: danger, by {who}." in cli(process, "why", "agent:main:web:dm:home").splitlines()
        turn = ask(process, token, f"GET /api/turns/{approval.partition('.')[0]}").json()
        assert [(span["text"], span["by"]) for span in turn["questions"]] == [("approved", who)]
        [move] = [data for _, _, data in iter_until_finished(person) if data.get("move") == "answered"]
        assert move["by"] == who
        page = httpx.get(
            f"{process.url}/console/turns/{turn['id']}", headers={"Authorization": f"Bearer {token}"}
        ).text
        assert f"approved (by {who})" in page


def iter_until_finished(person: Person) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for event in person.events():
        yield event
        if event[2].get("move") == "finished":
            return


def verdict(view: TurnView, call: str = "c1.1") -> QuestionAnswered:
    return view.verdicts[call]


@pytest.mark.anyio
async def test_b107_approval_on_a_platform_names_the_person_the_platform_and_the_press(home: Path) -> None:
    scenario = ApprovalScenario(home)
    async with scenario.serving():
        approve, _ = await scenario.ask()
        scenario.platform.press(approve.command)
        await scenario.wait_for_replies(DONE)
        found = verdict(await scenario.last_turn_view())
    assert found.text == "approved"
    assert (found.by.id, found.platform, found.login) == ("ann", scenario.platform.name, "")
    assert found.source, "the press by which it came"


@pytest.mark.anyio
async def test_b107_approval_of_another_platform_over_http_counts_also_after_a_crash(home: Path) -> None:
    """The person of the login is nobody on that platform; they are an owner where they gave it."""
    scenario = ApprovalScenario(home)
    async with scenario.crashing_at_fact("SELECT 1 FROM journal WHERE kind = 'answered'") as gateway:
        await scenario.ask()
        name = f"{(await current_turn(scenario)).id}.c1.1"
        login = Login("", "phone", Sender("owner"), ALL_SCOPES)
        with pytest.raises(Crash):
            await gateway.operator_verbs.decide_approval(name, login, approve=True)
    async with scenario.serving():
        await scenario.wait_for_replies(DONE)
        assert verdict(await scenario.last_turn_view()).login == "phone"
    assert scenario.runs() == 1


async def current_turn(scenario: ApprovalScenario) -> Turn:
    return await eventually("it waits", lambda: scenario.gateway.store.turns.current(key_of(scenario.platform)))


# ── the home's own token ────────────────────────────────────────────────────────────────────────────────────


def client(gateway: Gateway, **headers: str) -> httpx.AsyncClient:
    transport = httpx.ASGITransport(create_app(gateway, HOME_TOKEN))
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", headers=named)


@asynccontextmanager
async def using_home_token(gateway: Gateway, way: str) -> AsyncIterator[httpx.AsyncClient]:
    """A program with the home's token, or a page of ours in a browser that has logged in with it."""
    headers = {"Authorization": f"Bearer {HOME_TOKEN}"} if way == "a header" else {"Sec_Fetch_Site": "same-origin"}
    async with client(gateway, **headers) as http:
        if way == "a cookie":
            assert (await http.post("/login", data={"token": HOME_TOKEN})).status_code == 303
        yield http


async def ask_for_approval(gateway: Gateway, http: httpx.AsyncClient) -> str:
    """Write a message whose call waits for approval; return the path of the approval."""
    assert (await http.post(CHAT, json={"id": "1", "text": GUARDED})).status_code == 202

    async def waiting() -> Turn | None:
        turn = await gateway.store.turns.current("agent:main:web:dm:home")
        return turn if turn is not None and turn.state is TurnState.WAITING else None

    return f"/api/approvals/{(await eventually('it asks', waiting)).id}.c1.1"


@pytest.mark.anyio
@pytest.mark.parametrize("way", ["a header", "a cookie"])
async def test_b107_home_token_approves_while_a_sandbox_hides_it(home: Path, way: str) -> None:
    async with gateways.serving(home, [WebAdapter()]) as gateway:
        assert gateway.sandbox.is_on
        async with using_home_token(gateway, way) as http:
            path = await ask_for_approval(gateway, http)
            assert (await http.post(path, json={"approve": False})).json()["verdict"] == "denied"


@pytest.mark.anyio
@pytest.mark.parametrize("way", ["a header", "a cookie"])
async def test_b107_home_token_approves_nothing_where_commands_can_read_it(home: Path, way: str) -> None:
    async with gateways.serving(home, [WebAdapter()], TOOLS__SANDBOX="off") as gateway:
        async with using_home_token(gateway, way) as http:
            path = await ask_for_approval(gateway, http)
            for refused in (
                await http.post(path, json={"approve": True}),
                await http.post(CHAT, json={"id": "2", "text": "/approve"}),
                await http.put(f"{CHAT}/1", json={"text": "/approve"}),
            ):
                assert refused.status_code == 403
                assert "`perdure token add NAME --scopes read,approve`" in refused.json()["hint"]
        await approve_by_login(gateway, path)


async def approve_by_login(gateway: Gateway, path: str) -> None:
    """A person's login, whose token is in no file, approves."""
    token, scopes = new_token(), frozenset((Scope.READ, Scope.APPROVE))
    login = Login("", "ann", Sender("owner"), scopes)
    assert await gateway.store.logins.add(login, token_digest(token) or "")
    async with client(gateway, Authorization=f"Bearer {token}") as http:
        assert (await http.post(path, json={"approve": True})).json()["verdict"] == "approved"

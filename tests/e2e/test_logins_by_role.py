"""Logins of members and guests: they chat as their person, with the rights of that person, in chats of their own.

Drives `core/logins`, `web/auth`, `web/api`, `web/pages`, `store/logins` and `operations/logins`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from perdure.core.logins import SCOPES_BY_ROLE, Scope
from perdure.core.roles import Role
from perdure.web.routes import RouteSpec
from support.gateway import GatewayProcess, gateway
from support.logins import add_login, ask, run_token
from support.openapi_check import all_api_calls
from support.waiting import wait_for

PEOPLE: dict[str, Role] = {"bob": "member", "gus": "guest"}
NOT_OWNERS: list[Role] = ["member", "guest"]
PAGE = {"Accept": "text/html"}


class Client:
    """A person with a login on the gateway."""

    def __init__(self, process: GatewayProcess, token: str) -> None:
        self.process = process
        self.token = token

    def ask(self, call: str, body: object = None) -> httpx.Response:
        return ask(self.process, self.token, call, body)

    def get(self, path: str) -> Any:
        found = self.ask(f"GET {path}")
        assert found.is_success, found.text
        return found.json()

    def say(self, chat: str, text: str, name: str = "1", **more: Any) -> dict[str, Any]:
        said = self.ask(f"POST /api/chats/{chat}/messages", {"id": name, "text": text, **more})
        assert said.status_code == 202, said.text
        stored: dict[str, Any] = said.json()
        return stored

    def texts(self, chat: str) -> list[str]:
        return [each["text"] for each in self.get(f"/api/chats/{chat}/messages")["messages"]]

    def hear(self, chat: str, count: int = 2) -> list[str]:
        return wait_for("the chat is answered", lambda: found if len(found := self.texts(chat)) >= count else None)

    def open_turn(self, stored: dict[str, Any], state: str) -> str:
        """The id of the turn that a message began, once it is in a state."""
        path = f"/api/sessions/{stored['session']}"

        def turn() -> str | None:
            turns = self.get(path)["turns"]
            return turns[0]["id"] if turns and turns[0]["state"] == state else None

        return wait_for(f"a turn is {state}", turn)

    def call_of(self, turn: str) -> str:
        """The id of the question or approval that a turn waits for, as events name it."""
        [found] = [each for each in self.get("/api/overview")["attention"] if each["link"].endswith(turn)]
        name: str = found["acts"][0]["path"].removesuffix("/answer").rpartition("/")[2]
        return name


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    with gateway(tmp_path_factory.mktemp("roles") / "home") as process:
        for person, role in PEOPLE.items():
            added = ask(process, process.token, "POST /api/people/add", {"who": f"web:{person}", "role": role})
            assert added.is_success, added.text
        yield process


@pytest.fixture(scope="module")
def owner(process: GatewayProcess) -> Client:
    return Client(process, add_login(process, "ann", "read,chat,operate,approve"))


@pytest.fixture(scope="module")
def bob(process: GatewayProcess) -> Client:
    return Client(process, add_login(process, "bob", "read,chat,approve", "--person", "bob"))


@pytest.fixture(scope="module")
def gus(process: GatewayProcess) -> Client:
    return Client(process, add_login(process, "gus", "read,chat", "--person", "gus"))


# ── the table of roles and scopes ───────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def by_role(process: GatewayProcess) -> dict[tuple[Role, Scope], str]:
    """A login for every role and every scope that the role can have, with that scope alone."""
    return {
        (role, scope): add_login(process, f"{role}-{scope}", scope, "--person", person)
        for person, role in PEOPLE.items()
        for scope in SCOPES_BY_ROLE[role]
    }


@pytest.mark.parametrize(
    "spec",
    [each for each in all_api_calls() if each.login != "no"],
    ids=lambda spec: f"{spec.method} {spec.documented_path}",
)
def test_b105_call_is_open_to_the_roles_and_scopes_of_the_table_and_to_no_others(
    process: GatewayProcess, by_role: dict[tuple[Role, Scope], str], spec: RouteSpec
) -> None:
    call = f"{spec.method} {re.sub(r'{[^}]*}', 'x', spec.path)}"
    for (role, scope), token in by_role.items():
        answer = ask(process, token, call, {})
        if spec.own and scope is spec.scope:
            assert answer.status_code not in (401, 403), (role, scope)
        else:
            assert answer.status_code == 403, (role, scope)
            told = "lacks the scope" if spec.own else f"is for owners, and '{person_of(role)}' is a {role}"
            assert told in answer.json()["error"]


def person_of(role: Role) -> str:
    return next(person for person, theirs in PEOPLE.items() if theirs == role)


@pytest.mark.parametrize(
    ("person", "scopes", "problem"),
    [
        ("bob", "read,operate", "'bob' is a member on the web, whose login cannot have the scope operate"),
        ("gus", "read,approve", "'gus' is a guest on the web, whose login cannot have the scope approve"),
        ("nobody", "read", "'nobody' has no role on the web"),
    ],
)
def test_b105_login_is_not_made_with_more_than_its_role_may(
    process: GatewayProcess, person: str, scopes: str, problem: str
) -> None:
    refused = run_token(process, "add", "more", "--scopes", scopes, "--person", person)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert problem in refused.stderr


# ── chats of one's own ──────────────────────────────────────────────────────────────────────────────────────


def test_b106_chat_of_a_name_is_another_one_for_each_member_and_guest(
    owner: Client, bob: Client, gus: Client
) -> None:
    for who, words in ((owner, "of the owner"), (bob, "of Bob"), (gus, "of Gus")):
        who.say("home", f"say: {words}")
        assert who.hear("home") == [f"say: {words}", words]
    assert [each["chat"] for each in bob.get("/api/chats")["chats"]] == ["home"]
    assert [each["key"] for each in bob.get("/api/sessions")["sessions"]] == ["agent:main:web:dm:~bob/home"]
    assert bob.texts("~gus%2Fhome") == [], "this is a chat of Bob's, whatever it is called"
    seen = {each["chat"] for each in owner.get("/api/chats")["chats"]}
    assert {"home", "~bob/home", "~gus/home"} <= seen
    assert owner.texts("~bob%2Fhome") == ["say: of Bob", "of Bob"]


def test_b106_what_is_somebody_elses_is_as_if_it_were_not_there(owner: Client, bob: Client, gus: Client) -> None:
    file = owner.ask("POST /api/attachments?name=a.txt", "words").json()["id"]
    said = owner.say("private", "background: sleep 300\nsay: started", attachments=[file])
    owner.hear("private")
    turn = owner.open_turn(said, "done")
    [process] = [each["id"] for each in owner.get("/api/processes")["processes"] if each["turn"] == turn]
    paths = [
        f"/api/sessions/{said['session']}",
        f"/api/sessions/{said['key']}",
        f"/api/turns/{turn}",
        f"/api/processes/{process}",
        f"/api/attachments/{file}",
        f"/console/sessions/{said['session']}",
        f"/console/turns/{turn}",
        f"/console/processes/{process}",
    ]
    for path in paths:
        assert owner.ask(f"GET {path}").status_code == 200, path
        for who in (bob, gus):
            hidden = who.ask(f"GET {path}")
            assert hidden.status_code == 404, path
            assert "named" in hidden.text, path
    for who in (bob, gus):
        assert who.get("/api/processes")["processes"] == []
        assert said["key"] not in str(who.get("/api/sessions"))
        assert said["key"] not in who.ask("GET /console/sessions").text


def test_b106_member_sees_and_follows_what_is_their_own(bob: Client) -> None:
    file = bob.ask("POST /api/attachments?name=a.txt", "words").json()["id"]
    said = bob.say("work", "background: sleep 300\nsay: started", attachments=[file])
    bob.hear("work")
    turn = bob.open_turn(said, "done")
    [process] = bob.get("/api/processes")["processes"]
    for path in (
        f"/api/turns/{turn}",
        f"/api/processes/{process['id']}",
        f"/api/attachments/{file}",
        f"/console/sessions/{said['session']}",
        f"/console/turns/{turn}",
        f"/console/processes/{process['id']}",
        "/chats/work",
    ):
        assert bob.ask(f"GET {path}").status_code == 200, path
    [shown] = bob.get("/api/sessions?key=" + said["key"])["sessions"]
    assert shown["id"] == said["session"]
    bob.say("work", "/background step a 1s", "2")
    key = "agent:main~1:web:dm:~bob/work"
    wait_for("the background session is listed", lambda: key in str(bob.get("/api/sessions")))


# ── rights ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_b105_login_has_the_tools_of_its_person(bob: Client, gus: Client) -> None:
    bob.say("tools", "run: echo from the shell")
    assert "from the shell" in bob.hear("tools")[1]
    gus.say("tools", "run: echo from the shell")
    assert "from the shell" not in gus.hear("tools")[1]


def test_b107_member_approves_in_their_own_chat_and_nobody_in_another(
    owner: Client, bob: Client, gus: Client
) -> None:
    for who, chat, other in ((owner, "danger", bob), (bob, "danger", gus)):
        said = who.say(chat, "danger: touch approved")
        turn = owner.open_turn(said, "waiting")
        name = owner.call_of(turn)
        refused = other.ask(f"POST /api/approvals/{name}", {"approve": True})
        assert refused.status_code == (404 if other is bob else 403)
        assert who.ask(f"POST /api/approvals/{name}", {"approve": True}).json()["verdict"] == "approved"
        who.hear(chat, 3)


def test_b105_guest_answers_no_question_of_a_turn_that_an_owner_began(owner: Client, gus: Client) -> None:
    """The owner writes into the guest's own chat: the guest sees the question, and it is not the guest's."""
    said = owner.say("~gus%2Fhelp", "ask: Which? | red | blue")
    name = owner.call_of(owner.open_turn(said, "waiting"))
    assert any("Which?" in text for text in gus.hear("help"))
    assert gus.ask(f"POST /api/questions/{name}/answer", {"answer": "red"}).status_code == 404
    assert owner.ask(f"POST /api/questions/{name}/answer", {"answer": "blue"}).is_success
    assert any("blue" in text for text in owner.hear("~gus%2Fhelp", 3))


def test_b106_command_of_a_member_reaches_no_session_of_others(owner: Client, bob: Client) -> None:
    said = owner.say("secret", "say: the owner's secret")
    owner.hear("secret")
    bob.say("try", f"/resume {said['session']}")
    bob.hear("try")
    bob.say("try", "/sessions", "2")
    shown = " ".join(bob.hear("try", 4)) + bob.ask("GET /api/chats").text
    assert "secret" not in shown
    assert owner.get(f"/api/sessions/{said['session']}")["key"] == said["key"]


def test_b105_login_follows_the_role_of_its_person_at_once(process: GatewayProcess, owner: Client) -> None:
    def becomes(role: str) -> None:
        assert owner.ask("POST /api/people/add", {"who": "web:dan", "role": role}).is_success

    becomes("owner")
    dan = Client(process, add_login(process, "dan", "read,chat,operate,approve", "--person", "dan"))
    owner.say("watched", "say: first")
    headers = {"Authorization": f"Bearer {dan.token}"}
    with httpx.stream("GET", f"{process.url}/api/chats/watched/events", headers=headers, timeout=60) as stream:
        lines = stream.iter_lines()
        wait_for("the stream is idle", lambda: next(lines).startswith(": "))
        becomes("guest")
        owner.say("watched", "say: a secret", "2")
        assert not [line for line in lines if "secret" in line], "it ends, and tells nothing more"
    assert dan.ask("GET /api/status").status_code == 403
    assert "lacks the scope `approve`" in dan.ask("POST /api/approvals/x", {"approve": True}).json()["error"]
    assert dan.get("/api/chats")["chats"] == []
    assert owner.ask("POST /api/people/remove", {"who": "web:dan"}).is_success
    assert dan.ask("GET /api/chats").status_code == 401


# ── pages ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_b103_pages_of_a_member_show_what_they_may_open(process: GatewayProcess, bob: Client) -> None:
    def page(path: str) -> httpx.Response:
        headers = {"Authorization": f"Bearer {bob.token}", **PAGE}
        return httpx.get(f"{process.url}{path}", headers=headers, timeout=30)

    chat = page("/")
    assert chat.status_code == 200
    assert 'href="/console/sessions"' in chat.text
    assert "Kill the gateway" not in chat.text
    console = page("/console/sessions")
    assert console.status_code == 200
    assert 'href="/console/processes"' in console.text
    assert "/console/people" not in console.text
    refused = page("/console/people")
    assert (refused.status_code, "is for owners" in refused.text) == (403, True)

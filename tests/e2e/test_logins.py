"""Logins with scopes: made by the command line, used over real HTTP, revoked, expired, and seen nowhere.

Drives `web/auth`, `store/logins`, `operations/logins` and `cli/token`.
"""

from __future__ import annotations

import hmac
import re
import subprocess
import time
from collections.abc import Iterator
from http.cookies import SimpleCookie
from pathlib import Path

import httpx
import pytest

from perdure.core.logins import Scope
from perdure.web.routes import RouteSpec
from support.gateway import COMMAND, GatewayProcess, Person, gateway
from support.logins import add_login, ask, list_logins, run_token
from support.openapi_check import all_api_calls
from support.waiting import wait_for

KILL = "/api/demo/kill"
PAGE = {"Accept": "text/html"}
CHAT = "/api/chats/home/messages"


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    with gateway(tmp_path_factory.mktemp("logins") / "home") as process:
        yield process


@pytest.fixture(scope="module")
def by_scope(process: GatewayProcess) -> dict[Scope, str]:
    """A login for each scope, with that scope alone."""
    return {scope: add_login(process, f"only-{scope}", scope) for scope in Scope}


def fresh_login(process: GatewayProcess, name: str, scopes: str = "read,chat", *more: str) -> str:
    """A login of that name, made anew."""
    run_token(process, "revoke", name)
    return add_login(process, name, scopes, *more)


# ── scopes ──────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("spec", all_api_calls(), ids=lambda spec: f"{spec.method} {spec.documented_path}")
def test_b107_call_is_refused_to_every_login_without_its_scope(
    process: GatewayProcess, by_scope: dict[Scope, str], spec: RouteSpec
) -> None:
    call = f"{spec.method} {re.sub(r'{[^}]*}', 'x', spec.path)}"
    for scope, token in by_scope.items():
        if spec.scope is None:
            assert spec.login == "no"
        elif scope is not spec.scope:
            refused = ask(process, token, call, {})
            assert refused.status_code == 403, scope
            assert f"lacks the scope `{spec.scope}`" in refused.json()["error"]
            assert "`perdure token add NAME --scopes " in refused.json()["hint"]
        elif not call.endswith(KILL):
            assert ask(process, token, call, {}).status_code not in (401, 403), scope


def test_b107_described_scope_is_the_one_that_is_needed(process: GatewayProcess) -> None:
    described = ask(process, process.token, "GET /api/openapi.json").json()["paths"]
    for spec in all_api_calls():
        security = described[spec.documented_path][spec.method.lower()]["security"]
        assert security == ([{"token": [spec.scope]}] if spec.scope else [])


@pytest.mark.parametrize(
    ("text", "scope"), [("/approve", "approve"), (" /Deny@me x", "approve"), ("/restart", "operate")]
)
def test_b107_chat_command_needs_the_scope_of_what_it_does(
    process: GatewayProcess, by_scope: dict[Scope, str], text: str, scope: str
) -> None:
    token = by_scope[Scope.CHAT]
    written = ask(process, token, f"POST {CHAT}", {"id": text, "text": text})
    assert (written.status_code, f"`{scope}`" in written.json()["error"]) == (403, True)
    assert ask(process, token, f"PUT {CHAT}/any", {"text": text}).status_code == 403
    assert Person(process).messages() == []


# ── revocation and expiry ───────────────────────────────────────────────────────────────────────────────────


def test_b107_login_ends_at_once_when_it_is_revoked_and_so_do_its_streams(process: GatewayProcess) -> None:
    token, other = fresh_login(process, "leaving"), fresh_login(process, "staying")
    headers = {"Authorization": f"Bearer {token}"}
    with httpx.stream("GET", f"{process.url}/api/chats/seen/events", headers=headers, timeout=60) as stream:
        lines = stream.iter_lines()
        wait_for("the stream is idle", lambda: next(lines).startswith(": "))
        assert run_token(process, "revoke", "leaving").returncode == 0
        assert ask(process, token, "GET /api/status").status_code == 401
        Person(process, "seen").say("say: a secret")
        assert not [line for line in lines if "secret" in line], "it ends, and tells nothing more"
    assert ask(process, other, "GET /api/status").status_code == 200
    assert "leaving" not in [each["name"] for each in list_logins(process)]
    again = run_token(process, "revoke", "leaving")
    assert (again.returncode, "no login 'leaving'" in again.stderr) == (1, True)


def test_b107_login_ends_when_its_time_is_over(process: GatewayProcess) -> None:
    token = fresh_login(process, "short", "read", "--expires", "5s")
    cookie = log_in(process, token)
    wait_for("it is over", lambda: ask(process, token, "GET /api/status").status_code == 401)
    assert fetch(process, cookie, "/api/status").status_code == 401
    [listed] = [each for each in list_logins(process) if each["name"] == "short"]
    assert listed["expired"]
    assert add_login(process, "short", "read"), "the name is free again"


def test_right_token_of_a_login_is_accepted_however_many_wrong_ones_came(tmp_path: Path) -> None:
    with gateway(tmp_path / "home") as process:
        token = add_login(process, "phone", "read")
        wrong = [ask(process, f"{token[:-2]}{number}-", "GET /api/status") for number in range(9)]
        assert wrong[-1].status_code == 429
        assert ask(process, token, "GET /api/status").status_code == 200
        assert log_in(process, token)


# ── people ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_b107_message_is_written_by_the_person_of_the_login(tmp_path: Path) -> None:
    with gateway(tmp_path / "home", PLATFORMS__WEB__ALLOW="ann") as process:
        token = add_login(process, "ann-phone", "read,chat", "--person", "ann")
        assert ask(process, token, f"POST {CHAT}", {"id": "1", "text": "say: hello"}).status_code == 202
        Person(process).wait_for_replies(1)
        session = ask(process, token, "GET /api/sessions/agent:main:web:dm:home").json()
        turn = ask(process, token, f"GET /api/turns/{session['turns'][0]['id']}").json()
        assert [message["by"] for message in turn["messages"]] == ["ann"]
        edit = ask(process, process.token, f"PUT {CHAT}/1", {"text": "say: mine"})
        assert edit.status_code == 404, "nobody changes what another person wrote"


def test_b107_login_is_for_people_with_a_role_and_ends_with_it(process: GatewayProcess) -> None:
    refused = run_token(process, "add", "bob", "--person", "bob")
    assert (refused.returncode, "`perdure people add web:bob --role member`" in refused.stderr) == (2, True)
    assert ask(process, process.token, "POST /api/people/add", {"who": "web:bob", "role": "owner"}).is_success
    token = add_login(process, "bob", "read", "--person", "bob")
    assert ask(process, token, "GET /api/status").status_code == 200
    assert ask(process, process.token, "POST /api/people/remove", {"who": "web:bob"}).is_success
    assert ask(process, token, "GET /api/status").status_code == 401


# ── cookies ─────────────────────────────────────────────────────────────────────────────────────────────────


def log_in(process: GatewayProcess, token: str) -> str:
    """The cookie of a browser that logs in with a token, as it sends it back."""
    response = httpx.post(f"{process.url}/login", data={"token": token}, headers=PAGE)
    assert response.status_code == 303, response.text
    [morsel] = SimpleCookie(response.headers["set-cookie"]).values()
    return f"{morsel.key}={morsel.value}"


def fetch(process: GatewayProcess, cookie: str, path: str, method: str = "GET") -> httpx.Response:
    headers = {"Cookie": cookie, "Sec-Fetch-Site": "same-origin"}
    return httpx.request(method, f"{process.url}{path}", headers=headers, timeout=30)


def test_b103_cookie_is_random_and_worthless_after_the_logout(process: GatewayProcess) -> None:
    one, other = log_in(process, process.token), log_in(process, process.token)
    assert one != other
    assert fetch(process, one, "/logout", "POST").status_code == 303
    assert fetch(process, one, "/api/status").status_code == 401, "also from whoever has copied it"
    assert fetch(process, other, "/api/status").status_code == 200


def test_b103_cookie_has_the_scopes_of_its_token_and_ends_with_it(process: GatewayProcess) -> None:
    cookie = log_in(process, fresh_login(process, "browser", "read"))
    assert fetch(process, cookie, "/api/status").status_code == 200
    assert fetch(process, cookie, "/").status_code == 200
    refused = fetch(process, cookie, "/api/resume", "POST")
    assert refused.status_code == 403
    assert "the login 'browser'" in refused.json()["error"]
    run_token(process, "revoke", "browser")
    assert fetch(process, cookie, "/api/status").status_code == 401
    assert fetch(process, cookie, "/").headers["location"] == "/login"


def test_b103_cookie_of_0_2_0_asks_for_one_more_login(process: GatewayProcess) -> None:
    def sign(text: str) -> str:
        return hmac.digest(process.token.encode(), f"perdure {text}".encode(), "sha256").hex()

    now = int(time.time())
    signed = f"perdure_{sign('name')[:8]}={now}.{sign(f'login {now}')}"
    assert fetch(process, signed, "/api/status").status_code == 401
    assert fetch(process, signed, "/").headers["location"] == "/login"


def test_b103_secrets_of_logins_are_in_no_file_log_export_or_list(tmp_path: Path) -> None:
    with gateway(tmp_path / "home") as process:
        token = add_login(process, "phone", "read,chat")
        cookie = log_in(process, token).partition("=")[2]
        ask(process, token, f"POST {CHAT}", {"id": "1", "text": "say: hello"})
        ask(process, f"{token}x", "GET /api/status")
        Person(process).wait_for_replies(1)
        shown = process.log() + run_token(process, "list").stdout + run_token(process, "list", "--json").stdout
        shown += ask(process, token, "GET /api/config").text + ask(process, token, "GET /metrics").text
        command = [*COMMAND, "export"]
        shown += subprocess.run(
            command, env=process.environment(), capture_output=True, text=True, check=True
        ).stdout
        assert process.stop() == 0
        stored = b"".join(path.read_bytes() for path in process.home.rglob("*") if path.is_file())
    for secret in (token, token.removeprefix("perdure_"), cookie):
        assert secret not in shown
        assert secret.encode() not in stored


def test_use_of_a_login_is_on_record_but_not_written_at_every_request(process: GatewayProcess) -> None:
    token = fresh_login(process, "used", "read")
    assert used(process) is None
    ask(process, token, "GET /api/status")
    first = used(process)
    assert first is not None
    ask(process, token, "GET /api/status")
    assert used(process) == first


def used(process: GatewayProcess) -> int | None:
    [login] = [each for each in list_logins(process) if each["name"] == "used"]
    at: int | None = login["last_used_at"]
    return at


# ── the command ─────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["add", "a b"], "a login cannot be named 'a b'"),
        (["add", "home"], "a login cannot be named 'home'"),
        (["add", "x", "--scopes", "read,fly"], "'fly' is no scope"),
        (["add", "x", "--scopes", ","], "',' is no scope"),
        (["add", "x", "--expires", "soon"], "'soon' is no time"),
        (["revoke", "home"], "the home's own token cannot be revoked"),
    ],
)
def test_bad_login_is_refused_with_what_to_do(process: GatewayProcess, arguments: list[str], problem: str) -> None:
    refused = run_token(process, *arguments)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert problem in refused.stderr
    assert "hint: " in refused.stderr


def test_logins_are_made_and_ended_without_a_gateway_too(tmp_path: Path) -> None:
    idle = GatewayProcess(tmp_path / "home")
    assert re.fullmatch(r"[\w-]{43}\n", run_token(idle).stdout), "the home's own token, as ever"
    kept, ended = add_login(idle, "kept", "read"), add_login(idle, "ended", "read")
    assert [each["name"] for each in list_logins(idle)] == ["ended", "kept"]
    taken = run_token(idle, "add", "kept")
    assert (taken.returncode, "`perdure token revoke kept`" in taken.stderr) == (2, True)
    assert run_token(idle, "revoke", "ended").stdout.startswith("The login 'ended' has ended")
    with gateway(tmp_path / "home") as process:
        assert ask(process, kept, "GET /api/status").status_code == 200
        assert ask(process, ended, "GET /api/status").status_code == 401

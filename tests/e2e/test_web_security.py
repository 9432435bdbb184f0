"""What other sites, other names and other machines may not do with a gateway (B103).

Drives `web/auth/origin` and `web/responses`.
"""

from __future__ import annotations

import os
import re
import socket
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest

from support.gateway import COMMAND, GatewayProcess, gateway

NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # and no reading of certificates for each request
CHAT = "/api/chats/home/messages"
UNSAFE = {
    f"POST {CHAT}": {"id": "1", "text": "say: from afar"},
    f"PUT {CHAT}/1": {"text": "say: from afar"},
    f"DELETE {CHAT}/1": None,
    "POST /api/people/add": {"who": "web:eve"},
    "POST /api/resume": None,
}
SAFE = ["GET /api/status", f"GET {CHAT}", "GET /api/chats/home/events", "GET /"]


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    settings = {"WEB__NAMES": "perdure.example.org"}
    with gateway(tmp_path_factory.mktemp("security") / "home", **settings) as process:
        yield process


@pytest.fixture(scope="module")
def cookie(process: GatewayProcess) -> str:
    return logged_in(process)


def logged_in(process: GatewayProcess) -> str:
    response = fetch(process, "POST", "/login", data={"token": process.token})
    return str(response.headers["set-cookie"].partition(";")[0])


def ask(process: GatewayProcess, call: str, body: object = None, **headers: str) -> httpx.Response:
    """The head of an answer: a stream of events would not end by itself."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    method, path = call.split()
    with httpx.stream(method, process.url + path, headers=named, json=body, timeout=30, verify=NO_TLS) as response:
        return response


def fetch(process: GatewayProcess, method: str, path: str, **options: Any) -> httpx.Response:
    return httpx.request(method, process.url + path, timeout=30, verify=NO_TLS, **options)


# ── other sites ─────────────────────────────────────────────────────────────────────────────────────────────

FOREIGN = {
    "of another site": {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "cors"},
    "of a neighbour": {"Sec_Fetch_Site": "same-site", "Sec_Fetch_Mode": "no-cors"},
    "in a frame": {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "navigate", "Sec_Fetch_Dest": "iframe"},
    "of another origin": {"Origin": "https://evil.example"},
    "of another port": {"Origin": "http://127.0.0.1:1"},
    "of nobody": {"Origin": "null"},
    "that lies about one of two": {"Sec_Fetch_Site": "cross-site", "Origin": "http://{host}"},
}


@pytest.mark.parametrize("headers", FOREIGN.values(), ids=FOREIGN)
def test_b103_request_is_refused_when_another_site_makes_it(
    process: GatewayProcess, cookie: str, headers: dict[str, str]
) -> None:
    host = f"127.0.0.1:{process.port}"
    said = {name: value.format(host=host) for name, value in headers.items()}
    for call, body in {**UNSAFE, **dict.fromkeys(SAFE)}.items():
        response = ask(process, call, body, Cookie=cookie, **said)
        assert response.status_code == 403, call
    assert messages(process) == []


def messages(process: GatewayProcess) -> list[Any]:
    bearer = {"Authorization": f"Bearer {process.token}"}
    found: list[Any] = fetch(process, "GET", CHAT, headers=bearer).json()["messages"]
    return found


def test_b103_change_is_refused_when_nothing_says_who_makes_it(process: GatewayProcess, cookie: str) -> None:
    for call, body in UNSAFE.items():
        assert ask(process, call, body, Cookie=cookie).status_code == 403, call
    refused = fetch(process, "POST", "/api/resume", headers={"Cookie": cookie}).json()
    assert "another site" in refused["error"]
    assert "Bearer" in refused["hint"]
    assert messages(process) == []


OWN = {
    "as every browser says it": {"Sec_Fetch_Site": "same-origin", "Origin": "http://{host}"},
    "as an older browser says it": {"Origin": "http://{host}"},
    "behind a proxy with TLS": {"Origin": "https://{host}"},
    "by the address bar": {"Sec_Fetch_Site": "none"},
}


@pytest.mark.parametrize("headers", OWN.values(), ids=OWN)
def test_request_is_taken_when_our_page_makes_it(
    process: GatewayProcess, cookie: str, headers: dict[str, str]
) -> None:
    host = f"127.0.0.1:{process.port}"
    said = {name: value.format(host=host) for name, value in headers.items()}
    for call in ["POST /api/resume", *SAFE]:
        assert ask(process, call, Cookie=cookie, **said).status_code == 200, call


def test_page_is_shown_when_somebody_follows_a_link_to_it(process: GatewayProcess, cookie: str) -> None:
    visit = {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "navigate", "Sec_Fetch_Dest": "document"}
    assert ask(process, "GET /", Cookie=cookie, **visit).status_code == 200
    assert ask(process, "POST /api/resume", Cookie=cookie, **visit).status_code == 403


def test_header_with_the_token_is_taken_wherever_it_comes_from(process: GatewayProcess) -> None:
    """No page can make a browser send it."""
    bearer = f"Bearer {process.token}"
    elsewhere = {"Host": "elsewhere.example", "Origin": "https://evil.example", "Sec_Fetch_Site": "cross-site"}
    for call in ["POST /api/resume", *SAFE]:
        assert ask(process, call, Authorization=bearer, **elsewhere).status_code == 200, call


# ── other names ─────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:{port}", 200),
        ("localhost:{port}", 200),
        ("LOCALHOST", 200),
        ("[::1]:{port}", 200),
        ("perdure.example.org", 200),
        ("evil.example:{port}", 403),
        ("localhost.evil.example", 403),
        ("127.0.0.1.evil.example:{port}", 403),
        ("perdure.example.org.evil.example", 403),
        ("", 403),
    ],
)
def test_b103_name_is_refused_when_it_is_not_ours(
    process: GatewayProcess, cookie: str, host: str, status: int
) -> None:
    """A name of somebody else's may lead to this machine: their pages would then be of our origin."""
    given = host.format(port=process.port)
    assert ask(process, "GET /api/status", Cookie=cookie, Host=given).status_code == status
    form = fetch(process, "POST", "/login", data={"token": process.token}, headers={"Host": given})
    assert form.status_code == (303 if status == 200 else 403)
    assert ask(process, "GET /healthz", Host=given).status_code == 200


# ── what answers say to browsers ────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "path", ["/", "/login", "/healthz", "/api/status", "/api/chats/x/events", "/nothing", "/static/perdure.css"]
)
def test_b103_every_answer_forbids_what_no_page_of_ours_needs(
    process: GatewayProcess, cookie: str, path: str
) -> None:
    for headers in ({}, {"Cookie": cookie}):
        said = ask(process, f"GET {path}", **headers).headers
        policy = said["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert said["x-content-type-options"] == "nosniff"
        assert said["referrer-policy"] == "same-origin"
        assert said["cache-control"] == ("no-cache" if path.startswith("/static") else "no-store")
        assert "server" not in said


def test_pages_hold_no_script_and_no_style_of_their_own(process: GatewayProcess, cookie: str) -> None:
    for path in ("/", "/login"):
        page = fetch(process, "GET", path, headers={"Cookie": cookie}).text
        assert not re.search(r"<script(?![^>]*\bsrc=)|<style|\bstyle=|\bon[a-z]+=", page)


# ── wrong tokens ────────────────────────────────────────────────────────────────────────────────────────────


def test_b103_guesser_has_to_wait_and_nobody_else_does(tmp_path: Path) -> None:
    with gateway(tmp_path / "home") as process:
        cookie = logged_in(process)
        answers = [fetch(process, "GET", f"/login?token=guess{number}") for number in range(7)]
        assert [each.status_code for each in answers] == [401] * 6 + [429]
        assert int(answers[-1].headers["retry-after"]) >= 1
        assert answers[-1].json().keys() == {"error", "hint"}
        wrong = ask(process, "GET /api/status", Authorization="Bearer another guess")
        assert wrong.status_code == 429
        right = fetch(process, "POST", "/login", data={"token": process.token})
        assert right.status_code == 303, "the right token is accepted even here"

        assert ask(process, "GET /api/status", Cookie=cookie).status_code == 200
        assert ask(process, "GET /api/status", Authorization=f"Bearer {process.token}").status_code == 200
        assert log_in_from("127.0.0.2", process) == 303
        assert "guess" not in process.log()


def log_in_from(address: str, process: GatewayProcess) -> int:
    """Log in from another address of this machine."""
    with httpx.Client(transport=httpx.HTTPTransport(local_address=address)) as http:
        return http.post(f"{process.url}/login", data={"token": process.token}).status_code


def test_other_site_cannot_use_up_the_tries_of_its_visitor(process: GatewayProcess) -> None:
    for number in range(20):
        response = ask(process, f"GET /login?token=guess{number}", Sec_Fetch_Site="cross-site")
        assert response.status_code == 403
    assert fetch(process, "POST", "/login", data={"token": process.token}).status_code == 303


# ── other machines ──────────────────────────────────────────────────────────────────────────────────────────


def test_b103_only_loopback_is_listened_on_unless_told_otherwise(process: GatewayProcess) -> None:
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.2", process.port))  # free, so nobody listens on every address


def test_b103_gateway_refuses_to_listen_elsewhere_without_a_token(tmp_path: Path) -> None:
    home = tmp_path / "home"
    everywhere = {"PERDURE_WEB__HOST": "0.0.0.0", "PERDURE_WEB__PORT": "0"}  # noqa: S104 reason: it is refused
    environment = os.environ | {"PERDURE_HOME": str(home)} | everywhere
    ran = subprocess.run([*COMMAND, "run"], env=environment, capture_output=True, text=True, timeout=60)
    assert ran.returncode == 78
    assert "no login token yet" in ran.stderr
    assert "`perdure token`" in ran.stderr
    assert not home.exists()

    token = subprocess.run([*COMMAND, "token"], env=environment, capture_output=True, text=True, check=True)
    with gateway(home, WEB__HOST="0.0.0.0") as process:  # noqa: S104 reason: that is what is tested
        assert process.token == token.stdout.strip()
        cookie = logged_in(process)
        anywhere = ask(process, "GET /api/status", Cookie=cookie, Host="gateway.lan:8420")
        assert anywhere.status_code == 200, "on other machines it has names that we do not know"


def test_token_that_others_may_read_is_warned_of(tmp_path: Path) -> None:
    with gateway(tmp_path / "home") as process:
        assert "token_is_shared" not in process.log()
        process.kill()
        (process.home / "token").chmod(0o640)
        process.start()
        assert "token_is_shared" in process.log()
        assert "chmod 600" in process.log()


def test_token_that_is_easy_to_guess_is_refused(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "token").write_text("swordfish\n")
    ran = subprocess.run(
        [*COMMAND, "run"], env=os.environ | {"PERDURE_HOME": str(home)}, capture_output=True, text=True, timeout=60
    )
    assert ran.returncode == 78
    assert "too easy to guess" in ran.stderr
    assert "swordfish" not in ran.stderr

"""Logins through any of several gateways on one PostgreSQL: tokens of homes, cookies, and their end.

Drives `web/auth`, `store/logins` and `web/server`.
"""

from __future__ import annotations

from collections.abc import Iterator
from http.cookies import SimpleCookie
from pathlib import Path

import httpx
import pytest

from support.gateway import GatewayProcess
from support.gateway_pair import GatewayPair
from support.logins import add_login, ask, list_logins, run_token

STATUS = "GET /api/status"


@pytest.fixture
def pair(tmp_path: Path, postgres_url: str) -> Iterator[GatewayPair]:
    pair = GatewayPair(tmp_path, postgres_url)
    yield pair
    pair.close()


def log_in(process: GatewayProcess, token: str) -> str:
    """The cookie of a browser that logs in with a token."""
    response = httpx.post(f"{process.url}/login", data={"token": token}, headers={"Accept": "text/html"})
    assert response.status_code == 303, response.text
    [morsel] = SimpleCookie(response.headers["set-cookie"]).values()
    return f"{morsel.key}={morsel.value}"


def fetch(process: GatewayProcess, cookie: str, path: str = "/api/status", method: str = "GET") -> httpx.Response:
    headers = {"Cookie": cookie, "Sec-Fetch-Site": "same-origin"}
    return httpx.request(method, f"{process.url}{path}", headers=headers, timeout=30)


def test_b165_login_through_one_gateway_counts_in_the_other_until_a_logout_through_either(
    pair: GatewayPair,
) -> None:
    pair.start()
    first, second = pair.first, pair.second
    assert first.token != second.token
    for token in (first.token, second.token, add_login(first, "phone", "read")):
        assert ask(first, token, STATUS).status_code == 200
        assert ask(second, token, STATUS).status_code == 200
        cookie = log_in(first, token)
        assert (fetch(first, cookie).status_code, fetch(second, cookie).status_code) == (200, 200)
        left = fetch(second, cookie, "/logout", "POST")
        assert (left.status_code, cookie.partition("=")[0] in left.headers["set-cookie"]) == (303, True)
        assert (fetch(first, cookie).status_code, fetch(second, cookie).status_code) == (401, 401)
    assert ask(second, f"{first.token[:-1]}x", STATUS).status_code == 401


def test_b165_token_of_a_home_counts_everywhere_until_it_is_replaced_or_revoked(pair: GatewayPair) -> None:
    pair.start()
    first, second = pair.first, pair.second
    old, cookie = first.token, log_in(second, first.token)
    assert fetch(first, cookie).status_code == 200
    assert first.stop() == 0
    (first.home / "token").unlink()
    first.start()
    assert [ask(each, old, STATUS).status_code for each in (first, second)] == [401, 401]
    assert fetch(second, cookie).status_code == 401
    assert ask(second, first.token, STATUS).status_code == 200
    names = [each["name"] for each in list_logins(first)]
    assert len(names) == 2 and all(name.startswith("home:") for name in names)
    for name in names:
        assert run_token(first, "revoke", name).returncode == 0
    assert ask(second, first.token, STATUS).status_code == 401
    assert ask(first, first.token, STATUS).status_code == 200, "its own home goes by the file"


def test_b165_token_that_an_operator_chose_counts_in_the_homes_that_have_it(pair: GatewayPair) -> None:
    """Nobody who reads the database can look for it there."""
    for process in (pair.first, pair.second):
        process.home.mkdir(parents=True)
        (process.home / "token").write_text("correct horse battery\n")
        (process.home / "token").chmod(0o600)
    pair.start()
    cookie = log_in(pair.first, "correct horse battery")
    assert [fetch(each, cookie).status_code for each in (pair.first, pair.second)] == [200, 200]
    digests = pair.query("SELECT digest FROM logins WHERE kind = 'token'")
    assert len(digests) == 2 and all(digest.startswith("chosen:") for (digest,) in digests)

"""Logging in with a browser: the printed link, the form, and the cookie that remembers.

Drives `web/auth`.
"""

from __future__ import annotations

from collections.abc import Iterator
from http.cookies import Morsel, SimpleCookie
from pathlib import Path

import httpx
import pytest

from perdure.core import texts
from support.gateway import GatewayProcess, gateway

HTML = {"Accept": "text/html,*/*;q=0.8"}


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    with gateway(tmp_path_factory.mktemp("login") / "home") as process:
        yield process


@pytest.fixture
def browser(process: GatewayProcess) -> Iterator[httpx.Client]:
    """A client with cookies, which does not follow redirects by itself."""
    with httpx.Client(base_url=process.url, headers=HTML, timeout=30) as http:
        yield http


def cookie_of(response: httpx.Response) -> Morsel[str]:
    [morsel] = SimpleCookie(response.headers["set-cookie"]).values()
    return morsel


def is_in(browser: httpx.Client) -> bool:
    return (browser.get("/").status_code, browser.get("/api/status").status_code) == (200, 200)


def test_b103_printed_link_logs_in_and_leaves_no_token_behind(
    process: GatewayProcess, browser: httpx.Client
) -> None:
    response = browser.get(process.lines[0].split(": ")[1].strip())
    assert (response.status_code, response.headers["location"]) == (303, "/")
    cookie = cookie_of(response)
    assert (cookie["httponly"], cookie["samesite"], cookie["path"]) == (True, "lax", "/")
    assert int(cookie["max-age"]) == 30 * 24 * 60 * 60
    assert not cookie["secure"], "it would never come back over http"
    assert process.token not in response.headers["set-cookie"] + response.text
    assert is_in(browser)


def test_whatever_goes_wrong_is_a_page_in_a_browser_and_json_for_programs(tmp_path: Path) -> None:
    with gateway(tmp_path / "home") as process:
        headers = HTML | {"Sec-Fetch-Site": "same-origin"}
        for path in ("/nowhere", "/static/nothing.js"):
            lost = httpx.get(
                f"{process.url}{path}", headers=headers | {"Authorization": f"Bearer {process.token}"}
            )
            assert (lost.status_code, lost.headers["content-type"]) == (404, "text/html; charset=utf-8"), path
            assert lost.text.count("<h1>") == 1
            assert httpx.get(f"{process.url}{path}").json()["hint"], path
        tokens = [{"token": str(number)} for number in range(7)]
        late = [httpx.post(f"{process.url}/login", data=token, headers=headers) for token in tokens][-1]
        assert late.status_code == 429 and "Retry-After" in late.headers
        assert texts.http.TOO_MANY_WRONG_TOKENS in late.text and "<h1>" in late.text


def test_form_logs_in_when_the_token_is_typed(process: GatewayProcess, browser: httpx.Client) -> None:
    form = browser.get("/login")
    assert (form.status_code, form.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert 'name="token"' in form.text
    wrong = browser.post("/login", data={"token": "wrong"})
    assert wrong.status_code == 401
    assert "This token is not valid." in wrong.text
    assert not is_in(browser)
    right = browser.post("/login", data={"token": f" {process.token}\n"})
    assert (right.status_code, right.headers["location"]) == (303, "/")
    assert is_in(browser)


def test_page_leads_to_the_form_when_nobody_is_logged_in(browser: httpx.Client) -> None:
    response = browser.get("/")
    assert (response.status_code, response.headers["location"]) == (303, "/login")
    assert browser.get("/api/status").json().keys() == {"error", "hint"}


def test_browser_is_out_when_it_has_logged_out(process: GatewayProcess, browser: httpx.Client) -> None:
    browser.post("/login", data={"token": process.token})
    assert is_in(browser)
    response = browser.post("/logout")
    assert (response.status_code, response.headers["location"]) == (303, "/login")
    assert not browser.cookies
    assert not is_in(browser)


BEHIND_A_PROXY = {"X-Forwarded-Proto": "https", "X-Forwarded-For": "192.0.2.1"}


def test_b108_forwarded_headers_are_not_believed_when_no_proxy_is_configured(
    process: GatewayProcess, browser: httpx.Client
) -> None:
    response = browser.post("/login", data={"token": process.token}, headers=BEHIND_A_PROXY)
    assert not cookie_of(response)["secure"]


def test_b108_forwarded_headers_are_believed_from_the_configured_proxy_alone(tmp_path: Path) -> None:
    """The cookie is for HTTPS if the browser came that way, and wrong tokens count for the browser's address."""
    with gateway(tmp_path / "home", WEB__PROXIES="10.0.0.0/8,127.0.0.1") as process:
        login = f"{process.url}/login"
        right = httpx.post(login, data={"token": process.token}, headers=HTML | BEHIND_A_PROXY)
        assert cookie_of(right)["secure"]
        wrong = [
            httpx.post(login, data={"token": str(number)}, headers=HTML | BEHIND_A_PROXY).status_code
            for number in range(7)
        ]
        assert wrong[-1] == 429
        elsewhere = BEHIND_A_PROXY | {"X-Forwarded-For": "192.0.2.7"}
        assert httpx.post(login, data={"token": "8"}, headers=HTML | elsewhere).status_code == 401
    with gateway(tmp_path / "other", WEB__PROXIES="10.0.0.0/8") as process:
        login = f"{process.url}/login"
        right = httpx.post(login, data={"token": process.token}, headers=HTML | BEHIND_A_PROXY)
        assert not cookie_of(right)["secure"], "the proxy is another machine"


def test_b108_right_token_is_accepted_however_many_wrong_ones_came(process: GatewayProcess) -> None:
    wrong = [httpx.post(f"{process.url}/login", data={"token": str(each)}, headers=HTML) for each in range(40)]
    assert wrong[-1].status_code == 429
    bearer = {"Authorization": f"Bearer {process.token}"}
    assert httpx.get(f"{process.url}/api/status", headers=bearer).status_code == 200
    link = httpx.get(f"{process.url}/login", params={"token": process.token}, headers=HTML)
    assert link.status_code == 303 and link.headers["location"] == "/"
    form = httpx.post(f"{process.url}/login", data={"token": process.token}, headers=HTML)
    assert form.status_code == 303 and form.headers["location"] == "/"


def forged(cookie: str) -> dict[str, str]:
    """Cookies that nobody gave out, by what is wrong with them."""
    return {
        "nothing": "",
        "a part of it": cookie[:-1],
        "with another letter": f"{cookie[:-1]}{'A' if cookie[-1] != 'A' else 'B'}",
        "longer": f"{cookie}A",
        "without end": cookie * 100,
        "no text": "é\x80",
    }


def test_cookie_is_refused_when_nobody_gave_it_out(process: GatewayProcess, browser: httpx.Client) -> None:
    given = cookie_of(browser.post("/login", data={"token": process.token}))
    browser.cookies.clear()
    for wrong, value in {**forged(given.value), "the token itself": process.token}.items():
        response = browser.get("/api/status", headers={b"Cookie": f"{given.key}={value}".encode("latin-1")})
        assert response.status_code == 401, wrong
    assert browser.get("/api/status", headers={"Cookie": f"{given.key}={given.value}"}).status_code == 200


def test_login_outlives_the_process_but_not_the_token(tmp_path: Path) -> None:
    with gateway(tmp_path / "home") as process, httpx.Client(headers=HTML, timeout=30) as http:
        http.base_url = httpx.URL(process.url)
        http.post("/login", data={"token": process.token})
        process.kill()
        process.start()
        assert is_in(http)
        process.kill()
        (process.home / "token").unlink()
        process.start()
        assert not is_in(http)


def test_file_of_the_pages_is_sent_again_only_when_it_has_changed(browser: httpx.Client) -> None:
    first = browser.get("/static/perdure.css")
    assert (first.status_code, first.headers["content-type"]) == (200, "text/css; charset=utf-8")
    again = browser.get("/static/perdure.css", headers={"If-None-Match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


@pytest.mark.parametrize(
    "name", ["nothing.css", "..%2Fgate.py", "%2e%2e%2fapp.py", "gate.py", "perdure.css%00", "."]
)
def test_no_other_file_is_given_out(browser: httpx.Client, name: str) -> None:
    assert browser.get(f"/static/{name}").status_code == 404

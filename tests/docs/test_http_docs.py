"""The page on the HTTP API: its calls give what it shows, and it leaves none out.

Drives `web/api`.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import httpx
import pytest

from perdure.core.journal import ToolOutcome, TurnUndone
from perdure.core.states import TurnMove
from perdure.web.api import events
from support.gateway import GatewayProcess, Person, gateway
from support.markdown import page

HTTP = page("docs/http.md")
EXAMPLE = re.compile(r"^```sh\n(curl.*?)^```\n\n```(json|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
OF_GATEWAY = re.compile(r'("id":|"home":|"version":|"text":) "(?:[0-9a-f]{32}|[^"]*:/[^"]*|0\.3[^"]*)"')
OUR_ID = re.compile(r"\b([a-z]+)_[0-9a-z]{22}\b")
PLACE = re.compile(r"^id: (.+)$", re.MULTILINE)
TIME = re.compile(r'at":\s*\d{13}')


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    with gateway(tmp_path_factory.mktemp("docs") / "home") as process:
        yield process


def table(heading: str) -> list[list[str]]:
    """The rows of the table whose first column has this heading."""
    found = re.search(rf"^\| {heading} \|.*\n\|[-|]+\|\n((?:\|.*\n)+)", HTTP.text, re.MULTILINE)
    assert found is not None, f"there is no table of each {heading}"
    return [[cell.strip().strip("`") for cell in row.split("|")[1:-1]] for row in found[1].splitlines()]


# ── examples ────────────────────────────────────────────────────────────────────────────────────────────────


def test_calls_give_what_is_shown_when_made_in_order(process: GatewayProcess) -> None:
    places: dict[str, str] = {}  # the ids of events on the page, and what they are here
    examples = EXAMPLE.findall(HTTP.text)
    assert len(examples) == HTTP.text.count("curl ")
    with httpx.Client(timeout=30) as http:
        for command, kind, shown in examples:
            request = as_request(command, process, places)
            got = read(http.send(request, stream=True), kind)
            assert in_general(got) == in_general(json.loads(shown) if kind == "json" else shown), command
            if kind == "text":
                places |= zip(PLACE.findall(shown), PLACE.findall(got), strict=True)
            if request.method == "POST" and "message" in got:
                Person(process).wait_for_replies(1)


def as_request(command: str, process: GatewayProcess, places: dict[str, str]) -> httpx.Request:
    """What curl would send."""
    line = command.replace("\\\n", " ").replace("$TOKEN", process.token).replace(":8420", f":{process.port}")
    words = iter(shlex.split(line)[1:])
    url, headers, body = "", {}, None
    for word in words:
        if word == "-H":
            name, _, value = next(words).partition(": ")
            headers[name] = places[value] if name == "Last-Event-ID" else value
        elif word == "-d":
            body = next(words)
        elif word != "-N":
            url = word
    return httpx.Request("GET" if body is None else "POST", url, headers=headers, content=body)


def read(response: httpx.Response, kind: str) -> Any:
    if kind == "json":
        return json.loads(response.read())
    lines = []
    for line in response.iter_lines():
        lines.append(f"{line}\n")
        if line.startswith(":"):
            break
    response.close()
    return "".join(lines)


def in_general(shown: Any) -> Any:
    """Without what is different each time."""
    text = shown if isinstance(shown, str) else json.dumps(shown)
    return TIME.sub('at":0', OUR_ID.sub(r"\1_", PLACE.sub("id: …", OF_GATEWAY.sub(r"\1 …", text))))


REFUSED = {
    "400": ("POST", "/api/chats/x/messages", b"{}"),
    "401": ("GET", "/login?token=wrong", b""),
    "404": ("GET", "/api/nothing", b""),
    "405": ("DELETE", "/api/chats/x/messages", b""),
    "413": ("POST", "/api/chats/x/messages", b" " * ((1 << 20) + 1)),
}


def test_errors_are_given_as_described(process: GatewayProcess) -> None:
    # No call causes the others: they tell of the configuration, or of failures on our side.
    assert [row[0] for row in table("status")] == sorted(
        [*REFUSED, "403", "409", "410", "408", "429", "500", "503", "507"]
    )
    for status, (method, path, body) in REFUSED.items():
        headers = {"Authorization": f"Bearer {process.token}"}
        response = httpx.request(method, f"{process.url}{path}", headers=headers, content=body)
        assert response.status_code == int(status)
        assert response.json().keys() == {"error", "hint"}


# ── completeness ────────────────────────────────────────────────────────────────────────────────────────────


def test_login_is_needed_where_the_page_says_so(process: GatewayProcess) -> None:
    refused = {"yes": 401, "page": 303}
    for call, login, *_ in table("call"):
        method, path = call.split()
        response = httpx.request(method, process.url + re.sub(r"{\w+}", "x", path))
        assert login == "no" or response.status_code == refused[login], call


def test_every_verb_is_described(process: GatewayProcess) -> None:
    headers = {"Authorization": f"Bearer {process.token}"}
    hint: str = httpx.post(f"{process.url}/api/sessions/x/fly", headers=headers).json()["hint"]
    assert hint == f"The verbs are: {', '.join(row[0] for row in table('verb'))}."


def test_every_move_and_event_and_outcome_is_described() -> None:
    assert {row[0] for row in table("move")} == {*TurnMove, TurnUndone.kind}
    told = re.findall(r'"(\w+)", \{', Path(events.__file__).read_text())
    assert {row[0] for row in table("event")} == {*told} | {"message"}
    assert all(f"`{outcome}`" in HTTP.text for outcome in get_args(ToolOutcome))

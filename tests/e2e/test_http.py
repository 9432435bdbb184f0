"""The HTTP API of a real gateway, as a stranger's program meets it.

Drives `web/api/chats` and `web/api/events`.
"""

from __future__ import annotations

import asyncio
import json
import re
import secrets
import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from perdure.web.server import listen
from support.gateway import GatewayProcess, gateway
from support.openapi_check import check_response
from support.waiting import eventually, wait_for

Event = tuple[str, str, dict[str, Any]]


class Chat:
    """One chat, over a connection that stays open."""

    def __init__(self, http: httpx.Client, name: str = "") -> None:
        self.http = http
        self.path = f"/api/chats/{quote(name or secrets.token_hex(8), safe='').replace('.', '%2E')}"

    def post(self, body: bytes) -> httpx.Response:
        return self.http.post(f"{self.path}/messages", content=body)

    def say(self, text: str, name: str = "") -> httpx.Response:
        return self.http.post(f"{self.path}/messages", json={"id": name or secrets.token_hex(8), "text": text})

    def get(self, after: str | int | None = None) -> httpx.Response:
        return self.http.get(f"{self.path}/messages", params={} if after is None else {"after": after})

    def sees(self, after: str | int | None = None) -> list[dict[str, Any]]:
        messages: list[dict[str, Any]] = self.get(after).json()["messages"]
        return messages

    def waits_for(self, count: int) -> list[dict[str, Any]]:
        return wait_for(f"{count} messages", lambda: seen if len(seen := self.sees()) >= count else None)

    def events(self, last: str = "") -> list[Event]:
        """Everything behind that event which has happened so far."""
        headers = {"Last-Event-ID": last} if last else {}
        with self.http.stream("GET", f"{self.path}/events", headers=headers) as response:
            assert response.status_code == 200
            return read_until_idle(response.iter_lines())


def read_until_idle(lines: Iterator[str]) -> list[Event]:
    found: list[Event] = []
    fields: dict[str, str] = {}
    for line in lines:
        if line.startswith(":"):
            return found
        if line:
            name, _, value = line.partition(": ")
            fields[name] = value
        elif fields:
            found.append((fields.get("id", ""), fields["event"], json.loads(fields["data"])))
            fields = {}
    raise AssertionError(f"the stream ended after {found}")


def is_refused(response: httpx.Response, status: int) -> None:
    """Every refusal is JSON that says what is wrong and what to do."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/json"
    body = response.json()
    assert body.keys() == {"error", "hint"}
    assert body["error"]
    assert body["hint"]


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    with gateway(tmp_path_factory.mktemp("http") / "home", QUEUE__CAP="1000") as process:
        yield process


@pytest.fixture(scope="module")
def http(process: GatewayProcess) -> Iterator[httpx.Client]:
    with client(process) as http:
        yield http


@pytest.fixture
def chat(http: httpx.Client) -> Chat:
    return Chat(http)


def client(process: GatewayProcess) -> httpx.Client:
    """Every answer is held against the description of the API."""
    headers = {"Authorization": f"Bearer {process.token}"}
    return httpx.Client(
        base_url=process.url, headers=headers, timeout=30, event_hooks={"response": [check_response]}
    )


# ── messages ────────────────────────────────────────────────────────────────────────────────────────────────


def test_b71_message_is_taken_once_when_it_is_sent_again(chat: Chat) -> None:
    first = chat.say("say: one", "mine")
    again = chat.say("say: another text under the same id", "mine")
    assert (first.status_code, again.status_code) == (202, 200)
    assert first.json() == again.json()
    assert first.json().keys() == {"message", "session", "key"}
    seen = chat.waits_for(2)
    assert [(message["author"], message["text"]) for message in seen] == [("user", "say: one"), ("agent", "one")]
    assert seen[0]["id"] == first.json()["message"]
    assert seen[0]["turn"] == seen[1]["turn"]


def test_chats_are_conversations_of_their_own(http: httpx.Client) -> None:
    here, there = Chat(http), Chat(http)
    first, second = here.say("say: here", "1"), there.say("say: there", "1")
    assert (first.status_code, second.status_code) == (202, 202)
    assert {*first.json().values()}.isdisjoint(second.json().values())
    assert [message["text"] for message in here.waits_for(2)] == ["say: here", "here"]
    assert [message["text"] for message in there.waits_for(2)] == ["say: there", "there"]


def test_messages_behind_a_place_are_given_when_it_is_named_by_id_or_position(chat: Chat) -> None:
    chat.say("say: one")
    chat.waits_for(2)
    chat.say("say: two")
    seen = chat.waits_for(4)
    assert [message["position"] for message in seen] == [1, 2, 3, 4]
    for index, message in enumerate(seen):
        assert chat.sees(message["id"]) == seen[index + 1 :]
        assert chat.sees(message["position"]) == seen[index + 1 :]
    assert chat.sees("") == chat.sees(0) == seen
    assert chat.sees(999_999_999_999_999_999) == []


@pytest.mark.parametrize(
    "after",
    ["x", "-1", "1.5", " ", "٣", "1 OR 1", "9" * 19, "9" * 5000, "\0", "in_\0", "in_0000000000000000000000"],
)
def test_place_is_refused_when_it_names_no_message(chat: Chat, after: str) -> None:
    is_refused(chat.get(after), 400)


def test_place_is_refused_when_its_message_is_in_another_chat(http: httpx.Client, chat: Chat) -> None:
    elsewhere = Chat(http).say("say: elsewhere").json()["message"]
    is_refused(chat.get(elsewhere), 400)


def test_messages_come_in_pages_when_there_are_many(chat: Chat) -> None:
    chat.say("step slow 60s", "0")  # the others wait behind it, so nothing more comes while we read
    for number in range(1, 503):
        assert chat.say("say: later", str(number)).status_code == 202
    first = chat.get().json()
    assert (len(first["messages"]), first["more"]) == (500, True)
    second = chat.get(first["messages"][-1]["id"]).json()
    assert second["more"] is False
    assert [message["position"] for message in first["messages"] + second["messages"]] == list(range(1, 504))
    assert chat.get(3).json()["more"] is False, "a page that is just full has nothing behind it"
    told = [data["position"] for _, name, data in chat.events() if name == "message"]
    assert told == list(range(1, 504))


def test_b50_every_message_is_answered_once_and_in_order_when_many_come_at_once(process: GatewayProcess) -> None:
    chats = [f"busy-{number}" for number in range(50)]

    async def crowd() -> dict[str, list[dict[str, Any]]]:
        limits = httpx.Limits(max_connections=200)
        headers = {"Authorization": f"Bearer {process.token}"}
        async with httpx.AsyncClient(base_url=process.url, headers=headers, limits=limits, timeout=60) as http:

            async def say(chat: str, number: int) -> int:
                body = {"id": str(number), "text": f"say: {chat}/{number}"}
                return (await http.post(f"/api/chats/{chat}/messages", json=body)).status_code

            async def sees(chat: str) -> list[dict[str, Any]]:
                async def probe() -> list[dict[str, Any]] | None:
                    seen: list[dict[str, Any]] = (await http.get(f"/api/chats/{chat}/messages")).json()["messages"]
                    return seen if len(seen) >= 8 else None

                return await eventually(f"{chat} is answered", probe)

            statuses = await asyncio.gather(*(say(chat, number) for number in range(4) for chat in chats))
            assert statuses == [202] * 200
            return {chat: await sees(chat) for chat in chats}

    for chat, seen in asyncio.run(crowd()).items():
        asked = [message["text"].removeprefix("say: ") for message in seen if message["author"] == "user"]
        assert sorted(asked) == [f"{chat}/{number}" for number in range(4)]
        assert [message["text"] for message in seen if message["author"] == "agent"] == asked


# ── what may be said, and where ─────────────────────────────────────────────────────────────────────────────

ODD_TEXTS = {
    "emoji": "👩‍👩‍👧‍👦🏳️‍🌈👍🏽",
    "right to left": "שלום \u202eمرحبا\u202c עולם",
    "combining": "Z̷̢͎a̵l̶g̴o e\u0301 vs é, ﬁ, K",
    "blanks around": "  \t say: x \n\n ",
    "line ends": "a\r\nb\rc\u2028d\u2029e\x85f\x0bg\x0ch",
    "control characters": "".join(map(chr, [*range(1, 32), *range(127, 160)])),
    "not characters": "\ufffe\uffff\U0001fffe\U0010ffff\ufeff\ufffd",
    "quotes and escapes": r""" "'`\ \n \u0000 %s %(x)s :name ?1 {} $1 <b>&amp;</b> --; DROP TABLE inbox """,
    "long": "ä" * 500_000,
}


@pytest.mark.parametrize("text", ODD_TEXTS.values(), ids=ODD_TEXTS)
def test_text_arrives_unchanged_when_it_is_odd(chat: Chat, text: str) -> None:
    assert chat.say(text).status_code == 202
    assert chat.sees()[0]["text"] == text
    chat.waits_for(2)
    assert next(data["text"] for _, name, data in chat.events() if name == "message") == text


def test_reply_arrives_unchanged_when_it_is_odd(chat: Chat) -> None:
    odd = f"{ODD_TEXTS['emoji']} {ODD_TEXTS['right to left']} {ODD_TEXTS['not characters']} \x01\x7f\x9b"
    chat.say(f"say: {odd}")
    assert chat.waits_for(2)[1]["text"] == odd


BAD_BODIES = {
    "nothing": b"",
    "not JSON": b"hello",
    "a form": b"id=1&text=hello",
    "cut off": b'{"id": "1", "text": "hel',
    "more behind it": b'{"id": "1", "text": "hello"} {}',
    "a byte order mark": b'\xef\xbb\xbf{"id": "1", "text": "hello"}',
    "an array": b'[{"id": "1", "text": "hello"}]',
    "a string": b'"hello"',
    "null": b"null",
    "deep brackets": b"[" * 100_000,
    "deep brackets inside": b'{"id": "1", "text": "x", "more": ' + b"[" * 100_000,
    "a number as id": b'{"id": 1, "text": "hello"}',
    "null as text": b'{"id": "1", "text": null}',
    "a list as text": b'{"id": "1", "text": ["hello"]}',
    "no id": b'{"text": "hello"}',
    "no text": b'{"id": "1"}',
    "an empty id": b'{"id": "", "text": "hello"}',
    "an id of 201 characters": json.dumps({"id": "i" * 201, "text": "hello"}).encode(),
    "an empty text": b'{"id": "1", "text": ""}',
    "a blank text": '{"id": "1", "text": " \\n\\t\u3000"}'.encode(),
    "an unknown field": b'{"id": "1", "text": "hello", "txet": "hello"}',
    "invalid UTF-8": b'{"id": "1", "text": "\xff\xfe"}',
    "a bare NUL": b'{"id": "1", "text": "a\x00b"}',
    "a NUL in the text": b'{"id": "1", "text": "a\\u0000b"}',
    "a NUL in the id": b'{"id": "a\\u0000b", "text": "hello"}',
    "half a surrogate pair": b'{"id": "1", "text": "\\ud800"}',
    "UTF-16": '{"id": "1", "text": "hello"}'.encode("utf-16"),
}


@pytest.mark.parametrize("body", BAD_BODIES.values(), ids=BAD_BODIES)
def test_message_is_refused_and_nothing_stored_when_the_body_is_bad(chat: Chat, body: bytes) -> None:
    is_refused(chat.post(body), 400)
    assert chat.sees() == []


def test_size_is_the_limit_when_a_body_is_large(chat: Chat) -> None:
    frame = len(json.dumps({"id": "1", "text": ""}))
    largest = json.dumps({"id": "1", "text": "x" * ((1 << 20) - frame)}).encode()
    is_refused(chat.post(largest + b" "), 413)
    assert chat.sees() == []
    assert chat.post(largest).status_code == 202


def test_last_value_counts_when_a_field_comes_twice(chat: Chat) -> None:
    assert chat.post(b'{"id": "1", "text": "say: first", "text": "say: last"}').status_code == 202
    assert chat.sees()[0]["text"] == "say: last"


@pytest.mark.parametrize("length", [1, 200])
def test_id_may_be_anything_up_to_its_length(chat: Chat, length: int) -> None:
    name = ("🙈: %\n\x7f\"'" * 40)[:length]
    assert [chat.say("say: x", name).status_code for _ in range(2)] == [202, 200]


ODD_CHATS = [
    "ünï-cødé 🙈",
    "two words",
    "a:b",
    "100%",
    "%2F",
    "a/b",
    "/",
    "..",
    " ",
    "a?b#c&d=e",
    "c" * 200,
    "שלום",
]


def test_chats_stay_apart_when_their_names_are_odd(http: httpx.Client) -> None:
    chats = [Chat(http, name) for name in ODD_CHATS]
    stored = [chat.say(f"say: {number}", "1") for number, chat in enumerate(chats)]
    assert [response.status_code for response in stored] == [202] * len(chats)
    assert len({response.json()["key"] for response in stored}) == len(chats)
    for number, chat in enumerate(chats):
        assert [message["text"] for message in chat.waits_for(2)] == [f"say: {number}", str(number)]
        assert chat.events()[-1][2]["text"] == str(number)


@pytest.mark.parametrize("name", ["c" * 201, "a\0b", "a\x1bb", "a\x7fb", "a\x9bb"], ids=ascii)
def test_chat_is_refused_when_its_name_cannot_be_used(http: httpx.Client, name: str) -> None:
    chat = Chat(http, name)
    for response in (chat.say("hello"), chat.get(), http.get(f"{chat.path}/events")):
        is_refused(response, 400)


@pytest.mark.parametrize(("path", "status"), [("%FF", 400), ("", 400), ("a%0Ab", 404)])
def test_chat_is_refused_when_its_name_is_no_line_of_text(http: httpx.Client, path: str, status: int) -> None:
    is_refused(http.get(f"/api/chats/{path}/messages"), status)


# ── events ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_events_tell_a_turn_in_order(chat: Chat) -> None:
    chat.say("step one 0s\nsay: done")
    seen = chat.waits_for(2)
    turn = seen[1]["turn"]
    (place, name, data), *events = chat.events()
    assert (place, name, data) == ("", "gateway", {"phase": "ready", "resume_paused": False})
    step = {"turn": turn, "call": "c1.1"}
    moments = [data["at"] if name == "message" else data.pop("at") for _, name, data in events]
    assert moments == sorted(moments)
    assert [(name, data) for _, name, data in events if data.get("author") != "user"] == [
        ("turn", {"turn": turn, "move": "claimed"}),
        ("plan", {"turn": turn, "text": "", "calls": [{"call": "c1.1", "tool": "step", "about": "one"}]}),
        ("step", step | {"tool": "step", "state": "started", "effect": "pure"}),
        ("step", step | {"state": "ended", "outcome": "ok", "text": "one: done"}),
        ("turn", {"turn": turn, "move": "finished", "reply": True}),
        ("message", seen[1]),
    ]
    assert events[0][1:] == ("message", seen[0])


def test_b76_answer_is_previewed_to_whoever_follows_the_chat(chat: Chat) -> None:
    """What was shown is nowhere kept, and the answer comes whole."""
    with chat.http.stream("GET", f"{chat.path}/events") as response:
        lines = response.iter_lines()
        read_until_idle(lines)
        chat.say("stream: one two three four")
        events: list[Event] = []
        while not any(name == "message" and data["author"] == "agent" for _, name, data in events):
            events += read_until_idle(lines)
    shown = [data["text"] for place, name, data in events if name == "preview" and place == ""]
    assert shown
    assert all("one two three four".startswith(text) for text in shown)
    assert shown == sorted(shown, key=len)
    assert [data["text"] for _, name, data in events if name == "message"][1:] == ["one two three four"]
    assert "preview" not in {name for _, name, _ in chat.events()}


def test_events_go_on_behind_any_of_them_when_its_id_is_given(chat: Chat) -> None:
    for text in ("step one 0s\nsay: done", "fail: no", "parallel: a, b"):
        chat.say(text)
    chat.waits_for(6)
    first, *events = chat.events()
    places = [place for place, _, _ in events]
    assert all(places)
    assert len({*places}) == len(places)
    for number, place in enumerate(places, 1):
        assert chat.events(place) == [first, *events[number:]]
    with chat.http.stream("GET", f"{chat.path}/events", params={"after": places[3]}) as response:
        assert read_until_idle(response.iter_lines()) == [first, *events[4:]]


@pytest.mark.parametrize(
    "last",
    ["x", "1", "1.2", "1..2.3", "-1..0", "1.s_\"'.0", "1.in_0.0", "9" * 30 + "..0", "0.s_unknown.0", "0..x"],
)
def test_events_are_refused_when_the_last_id_is_none_of_ours(chat: Chat, last: str) -> None:
    is_refused(chat.http.get(f"{chat.path}/events", params={"after": last}), 400)
    is_refused(chat.http.get(f"{chat.path}/events", headers={"Last-Event-ID": last}), 400)


def test_events_are_refused_when_the_last_id_is_of_another_chat(http: httpx.Client, chat: Chat) -> None:
    other = Chat(http)
    other.say("say: secret")
    other.waits_for(2)
    last = other.events()[-1][0]
    is_refused(chat.http.get(f"{chat.path}/events", headers={"Last-Event-ID": last}), 400)


def test_every_reader_sees_the_same_when_there_are_several(process: GatewayProcess, http: httpx.Client) -> None:
    async def read(chat: str, readers: int) -> list[list[str]]:
        headers = {"Authorization": f"Bearer {process.token}"}
        async with httpx.AsyncClient(base_url=process.url, headers=headers, timeout=30) as client:
            ready = [asyncio.Event() for _ in range(readers)]

            async def follow(number: int) -> list[str]:
                lines = []
                async with client.stream("GET", f"/api/chats/{chat}/events") as response:
                    async for line in response.aiter_lines():
                        if line.startswith(":"):
                            ready[number].set()
                        elif line:
                            lines.append(line)
                        if '"agent"' in line:
                            return lines
                raise AssertionError("the stream ended before the reply")

            following = [asyncio.create_task(follow(number)) for number in range(readers)]
            await asyncio.gather(*(event.wait() for event in ready))
            await client.post(f"/api/chats/{chat}/messages", json={"id": "1", "text": "step one 0s\nsay: done"})
            return await asyncio.gather(*following)

    first, *others = asyncio.run(read(secrets.token_hex(8), 5))
    assert len(first) == 2 + 3 * 7
    assert all(lines == first for lines in others)


# ── who may ─────────────────────────────────────────────────────────────────────────────────────────────────

OPERATORS = [
    "GET /api/status",
    "GET /api/sessions",
    "GET /api/sessions/x",
    "POST /api/sessions/x/stop",
    "POST /api/resume",
]
LOGINS = {
    "none": None,
    "empty": "",
    "wrong": "Bearer wrong",
    "without a scheme": "{token}",
    "of another scheme": "Basic {token}",
    "with more behind it": "Bearer {token}x",
    "cut short": "Bearer {token:.10}",
}


@pytest.mark.parametrize("login", LOGINS.values(), ids=LOGINS)
def test_b103_nothing_is_served_when_the_login_is_missing_or_wrong(
    process: GatewayProcess, http: httpx.Client, chat: Chat, login: str | None
) -> None:
    for call in (f"POST {chat.path}/messages", f"GET {chat.path}/messages", f"GET {chat.path}/events", *OPERATORS):
        request = http.build_request(*call.split(), json={"id": "1", "text": "hello"})
        del request.headers["authorization"]
        if login is not None:
            request.headers["authorization"] = login.format(token=process.token)
        response = http.send(request)
        is_refused(response, 401)
        assert response.headers["www-authenticate"] == "Bearer"
    assert chat.sees() == []


@pytest.mark.parametrize("path", ["/login?token=", "/login?token=wrong", "/login?token=%00%FF"])
def test_b103_login_link_is_refused_when_its_token_is_wrong(process: GatewayProcess, path: str) -> None:
    is_refused(httpx.get(f"{process.url}{path}"), 401)


def test_health_is_told_to_everybody(process: GatewayProcess) -> None:
    health, ready = (httpx.get(f"{process.url}/{name}") for name in ("healthz", "readyz"))
    assert (health.status_code, health.json()) == (200, {"healthy": True, "reasons": []})
    assert (ready.status_code, ready.json()) == (200, {"ready": True, "reasons": []})


# ── sessions ────────────────────────────────────────────────────────────────────────────────────────────────

FIELDS = {"key", "id", "state", "address", "created_at", "updated_at", "resume_pending", "resume_reason"}
FIELDS |= {"last_resume_marked_at", "was_auto_reset", "auto_reset_reason", "interruptions", "run_generation"}


def test_session_is_found_when_named_by_its_id_or_key(http: httpx.Client) -> None:
    chat = Chat(http, "a/b: 100%")
    stored = chat.say("say: one").json()
    chat.waits_for(2)
    by_id, by_key = (http.get(f"/api/sessions/{quote(stored[name], safe='')}") for name in ("session", "key"))
    assert (by_id.status_code, by_id.json()) == (200, by_key.json())
    assert by_id.json().keys() >= FIELDS | {"why"}
    assert by_id.json()["address"]["chat"] == "a/b: 100%"
    assert http.post(f"/api/sessions/{quote(stored['key'], safe='')}/drop").json()["done"] is False


def test_every_session_is_listed_once_when_they_come_in_pages(http: httpx.Client) -> None:
    for number in range(101):
        Chat(http, f"one of many {number}").say("say: one")
    found: list[dict[str, Any]] = []
    more = True
    while more:
        page = http.get("/api/sessions", params={"after": found[-1]["id"] if found else ""}).json()
        more = page["more"]
        assert len(page["sessions"]) == 100 or not more
        found += page["sessions"]
    ids = [session["id"] for session in found]
    assert ids == sorted({*ids})
    assert {f"one of many {number}" for number in range(101)} <= {each["address"]["chat"] for each in found}
    assert all(session.keys() >= FIELDS for session in found)


@pytest.mark.parametrize(
    "name", ["x", "s_0", "\0", "agent:main:web:dm:nobody", "a/b", "..", "%", "x" * 5000], ids=ascii
)
def test_session_is_not_found_when_there_is_none_of_that_name(http: httpx.Client, name: str) -> None:
    path = quote(name, safe="").replace(".", "%2E")
    is_refused(http.get(f"/api/sessions/{path}"), 404)
    is_refused(http.post(f"/api/sessions/{path}/stop"), 404)


def test_sessions_are_refused_when_the_place_or_verb_makes_no_sense(http: httpx.Client, chat: Chat) -> None:
    session = chat.say("say: one").json()["session"]
    is_refused(http.post(f"/api/sessions/{session}/fly"), 404)
    is_refused(http.get("/api/sessions", params={"after": "\0"}), 400)


def test_b54_turn_ends_for_good_when_an_operator_stops_it(http: httpx.Client, chat: Chat) -> None:
    session = chat.say("step long 3000s\nsay: never").json()["session"]
    wait_for("the step runs", lambda: _is_started(chat, "c1.1"))
    assert http.get("/api/status").json()["running"] >= 1
    assert http.post(f"/api/sessions/{session}/stop").json() == {"session": session, "verb": "stop", "done": True}
    chat.say("say: next")
    wait_for("the next message is answered", lambda: chat.sees()[-1]["text"] == "next")
    moves = [data["move"] for _, name, data in chat.events() if name == "turn"]
    assert moves == ["claimed", "cancelled", "claimed", "finished"]


# ── everything else ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("path", ["/nothing", "/api", "/api/chats/x", "/api/chats/x/nothing", "/healthz/x"])
def test_path_is_refused_when_there_is_nothing(http: httpx.Client, path: str) -> None:
    is_refused(http.get(path), 404)


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("DELETE", "/api/chats/x/messages", {"GET", "HEAD", "POST"}),
        ("POST", "/api/chats/x/events", {"GET", "HEAD"}),
        ("PUT", "/healthz", {"GET", "HEAD"}),
        ("OPTIONS", "/login", {"GET", "HEAD", "POST"}),
    ],
)
def test_method_is_refused_when_it_is_not_possible(
    http: httpx.Client, method: str, path: str, allowed: set[str]
) -> None:
    response = http.request(method, path)
    is_refused(response, 405)
    assert {*response.headers["allow"].split(", ")} == allowed
    assert all(each in response.json()["hint"] for each in allowed)


@pytest.mark.parametrize("path", ["/healthz", "/api/chats/x/messages", "/api/chats/x/events"])
def test_head_of_an_answer_comes_alone_when_it_is_asked_for(http: httpx.Client, path: str) -> None:
    response = http.head(path)
    assert (response.status_code, response.content) == (200, b"")


def converse(process: GatewayProcess, *pieces: bytes) -> bytes:
    """What the gateway answers to these bytes, sent piece by piece, until it closes the connection."""
    with closing(socket.create_connection(("127.0.0.1", process.port), timeout=30)) as connection:
        for piece in pieces:
            connection.sendall(piece)
        return b"".join(iter(lambda: connection.recv(1 << 16), b""))


def hang_up(process: GatewayProcess, *pieces: bytes) -> None:
    """Send these bytes, and go away."""
    with closing(socket.create_connection(("127.0.0.1", process.port), timeout=30)) as connection:
        connection.sendall(b"".join(pieces))


def request_line(process: GatewayProcess, chat: Chat, *headers: str) -> bytes:
    lines = [f"POST {chat.path}/messages HTTP/1.1", "Host: perdure", f"Authorization: Bearer {process.token}"]
    return "\r\n".join([*lines, *headers, "", ""]).encode()


MESSAGE = b'{"id": "1", "text": "say: one"}'


def test_nothing_is_stored_when_the_connection_breaks_in_the_message(process: GatewayProcess, chat: Chat) -> None:
    hang_up(process, request_line(process, chat, "Content-Length: 100"), MESSAGE)
    hang_up(process, request_line(process, chat, "Transfer-Encoding: chunked"), b"5\r\n{'id'\r\n")
    assert chat.say("say: two", "1").status_code == 202
    assert [message["text"] for message in chat.waits_for(2)] == ["say: two", "two"]
    assert "Traceback" not in process.log(), "somebody who goes away is no accident"


def test_readers_are_let_go_when_they_go_away(process: GatewayProcess, chat: Chat) -> None:
    head = request_line(process, chat).replace(b"POST", b"GET").replace(b"/messages", b"/events")
    for _ in range(20):
        hang_up(process, head)
    chat.say("say: one")
    chat.waits_for(2)
    assert "Traceback" not in process.log()


def test_message_is_taken_when_it_comes_in_pieces(process: GatewayProcess, chat: Chat) -> None:
    pieces = [f"1\r\n{chr(byte)}\r\n".encode() for byte in MESSAGE]
    head = request_line(process, chat, "Transfer-Encoding: chunked", "Connection: close")
    assert b" 202 " in converse(process, head, *pieces, b"0\r\n\r\n")
    assert chat.sees()[0]["text"] == "say: one"


def test_requests_are_answered_in_order_when_they_come_together(process: GatewayProcess, chat: Chat) -> None:
    one = request_line(process, chat, f"Content-Length: {len(MESSAGE)}") + MESSAGE
    last = request_line(process, chat, "Content-Length: 2", "Connection: close") + b"[]"
    answer = converse(process, one + one + last)
    assert re.findall(rb"HTTP/1.1 (\d+)", answer) == [b"202", b"200", b"400"]


def test_answers_are_sent_at_once_when_they_are_small() -> None:
    with closing(listen("127.0.0.1", 0)) as listening:
        assert listening.proto == socket.IPPROTO_TCP, "asyncio switches off Nagle's algorithm for no other socket"


def test_gateway_lives_on_when_it_is_sent_no_http(process: GatewayProcess, http: httpx.Client) -> None:
    assert b" 400 " in converse(process, b"\x16\x03\x01 hello\r\n\r\n")
    hang_up(process, b"GET /healthz HTTP/1.1\r\nHost: a\r\nX: " + b"x" * (1 << 17))
    assert http.get("/readyz").status_code == 200


# ── the other database ──────────────────────────────────────────────────────────────────────────────────────


def test_b40_turn_goes_on_and_is_answered_once_when_killed_on_postgresql(
    tmp_path: Path, postgres_url: str
) -> None:
    with gateway(tmp_path / "home", STORE__URL=postgres_url) as process:
        with client(process) as http:
            chat = Chat(http, "a/b: 100% 🙈")
            odd = f"say: {ODD_TEXTS['emoji']} {ODD_TEXTS['not characters']} \x01%s"
            assert [chat.say(odd, "1").status_code for _ in range(2)] == [202, 200]
            assert chat.waits_for(2)[1]["text"] == odd.removeprefix("say: ")
            for body in ("a NUL in the text", "a NUL in the id", "half a surrogate pair"):
                is_refused(chat.post(BAD_BODIES[body]), 400)
            for after in ("\0", "in_\0", "9" * 19):
                is_refused(chat.get(after), 400)
            chat.say("step first 0s\nonce second 60s\nsay: done", "2")
            wait_for("the second step runs", lambda: _is_started(chat, "c2.1"))
            last = chat.events()[-1][0]
            process.kill()
        process.start()
        with client(process) as http:
            chat = Chat(http, "a/b: 100% 🙈")
            assert chat.say("step first 0s\nonce second 60s\nsay: done", "2").status_code == 200
            assert [message["text"] for message in chat.waits_for(4)][2:] == [
                "step first 0s\nonce second 60s\nsay: done",
                "done",
            ]
            moves = [data["move"] for _, name, data in chat.events(last) if name == "turn"]
            assert moves == ["interrupted", "requeued", "claimed", "finished"]
        assert process.stop() == 0


def _is_started(chat: Chat, call: str) -> bool:
    return any(data.get("call") == call for _, _, data in chat.events())

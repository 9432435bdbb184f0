"""Approvals and answers over HTTP, in real gateways that are killed while somebody thinks about them.

Drives `web/api/sessions` and `store/answers`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from perdure.core.address import Address, session_key
from perdure.core.journal import TurnView
from support.approvals import DONE, GUARDED, QUESTION
from support.gateway import GatewayProcess, Person
from support.recovery import last_turn
from support.shell_commands import (
    HELD_COMMAND,
    HELD_RESULT,
    ShellCommands,
    gateway_process_group,
    home_without_commands,
)
from support.shutdown import read_only_store

ASK = "ask: Which way? | Left | Right\nstep go 0s"


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    yield from home_without_commands(tmp_path)


def post(process: GatewayProcess, path: str, body: Any, token: str | None = None) -> httpx.Response:
    headers = {"Authorization": f"Bearer {process.token if token is None else token}"}
    content = body if isinstance(body, bytes) else None
    json = None if isinstance(body, bytes) else body
    return httpx.post(f"{process.url}/api/{path}", headers=headers, content=content, json=json, timeout=30)


def told(person: Person, name: str) -> dict[str, Any]:
    """The first event of that name."""
    return next(data for _, found, data in person.events() if found == name)


async def journalled(home: Path) -> TurnView:
    async with read_only_store(home) as store:
        return await last_turn(store, session_key("main", Address("web", "dm", "home")))


@pytest.mark.anyio
async def test_b66_call_is_approved_over_http_once(home: Path) -> None:
    with gateway_process_group(home) as process:
        person = Person(process)
        person.say(GUARDED)
        event = told(person, "approval")
        assert event["id"] == f"{event['turn']}.c1.1"
        assert (event["call"], event["text"]) == ("c1.1", QUESTION)
        assert event["until"] > person.messages()[0]["at"]
        path = f"approvals/{event['id']}"
        approved = post(process, path, {"approve": True})
        assert (approved.status_code, approved.json()) == (200, {"approval": event["id"], "verdict": "approved"})
        assert post(process, path, {"approve": True}).status_code == 404
        assert person.wait_for_replies(2) == [QUESTION, DONE]
        moves = [data["move"] for data in turn_events(person)]
        assert moves == ["claimed", "asked", "answered", "claimed", "finished"]
    started = (await journalled(home)).calls["c1.1"].started
    assert started is not None
    assert started.approved_by == "owner"
    assert ShellCommands(home).runs() == 1


def turn_events(person: Person) -> list[dict[str, Any]]:
    """What became of the chat's turn, to its end."""
    events = []
    for _, name, data in person.events():
        events += [data] if name == "turn" else []
        if data.get("move") == "finished":
            break
    return events


def test_b66_call_is_denied_over_http(home: Path) -> None:
    with gateway_process_group(home) as process:
        person = Person(process)
        person.say(GUARDED)
        name = told(person, "approval")["id"]
        denied = post(process, f"approvals/{name}", {"approve": False})
        assert (denied.status_code, denied.json()["verdict"]) == (200, "denied")
        assert "the user denied it" in person.wait_for_replies(2)[1]
    assert ShellCommands(home).runs() == 0


def test_b66_approval_survives_a_kill_before_the_word_and_one_during_the_command(home: Path) -> None:
    with gateway_process_group(home) as process:
        person, commands = Person(process), ShellCommands(home)
        person.say(f"danger: {HELD_COMMAND}")
        name = told(person, "approval")["id"]
        process.kill()
        process.start()
        assert told(person, "approval")["id"] == name
        assert post(process, f"approvals/{name}", {"approve": True}).status_code == 200
        commands.wait_for_output()
        process.kill()
        process.start()
        assert post(process, f"approvals/{name}", {"approve": True}).status_code == 404
        commands.release()
        assert person.wait_for_replies(2)[1:] == [HELD_RESULT]
        assert commands.runs() == 1


@pytest.mark.parametrize(
    ("script", "kind", "path", "right"),
    [
        pytest.param(GUARDED, "approval", "approvals/{}", {"approve": False}, id="approval"),
        pytest.param(ASK, "question", "questions/{}/answer", {"answer": "Left"}, id="question"),
    ],
)
def test_what_does_not_fit_is_refused_and_the_question_stays(
    home: Path, script: str, kind: str, path: str, right: dict[str, Any]
) -> None:
    with gateway_process_group(home) as process:
        person = Person(process)
        person.say(script)
        name = told(person, kind)["id"]
        for body in (b"", b"{}", b"[]", b"\xff", {"approve": "yes"}, {"answer": " "}, right | {"x": 1}):
            refused = post(process, path.format(name), body)
            assert refused.status_code == 400, body
            assert refused.json()["error"]
        for wrong in ("x", name.split(".")[0], f"{name}x", "t_unknown.c1.1", "%00"):
            assert post(process, path.format(wrong), right).status_code == 404, wrong
        assert post(process, path.format(name), right, "wrong").status_code == 401
        other = "questions/{}/answer" if kind == "approval" else "approvals/{}"
        crossed = {"answer": "/approve"} if kind == "approval" else {"approve": True}
        assert post(process, other.format(name), crossed).status_code == 404
        assert post(process, path.format(name), right).status_code == 200
        person.wait_for_replies(2)
        assert post(process, path.format(name), right).status_code == 404


@pytest.mark.parametrize(("answer", "reply"), [("left", "Left\ngo: done"), (" RIGHT ", "Right\ngo: done")])
def test_b67_question_is_answered_over_http_also_after_a_kill(home: Path, answer: str, reply: str) -> None:
    with gateway_process_group(home) as process:
        person = Person(process)
        person.say(ASK)
        event = told(person, "question")
        assert (event["text"], event["options"]) == ("Which way?", ["Left", "Right"])
        process.kill()
        process.start()
        answered = post(process, f"questions/{event['id']}/answer", {"answer": answer})
        assert (answered.status_code, answered.json()) == (200, {"question": event["id"], "answered": True})
        assert person.wait_for_replies(2)[1] == reply

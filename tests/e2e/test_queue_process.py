"""The queue of a real gateway over HTTP: killed while messages wait in every mode, full, edited, deleted.

Drives `store/queue` and `runtime/commands/queue`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from perdure.core import texts
from perdure.core.queue import QUEUE_MODE_NAMES, QueueMode
from support.gateway import GatewayProcess, Person, gateway
from support.waiting import wait_for

SEEN = {
    "queue": ["one", "two", "three"],
    "steer": ["one\ntwo\nthree"],
    "interrupt": ["three"],
    "collect": ["one", "two\nthree"],
}


@pytest.mark.parametrize("mode", QUEUE_MODE_NAMES)
def test_b80_waiting_messages_survive_a_kill(mode: QueueMode, tmp_path: Path) -> None:
    with gateway(tmp_path / "home", QUEUE__MODE=mode, QUEUE__QUIET="100ms") as process:
        person = Person(process)
        person.say("once a 0s\nstep b 3s\nsay: one")
        person.wait_for_event("the step has begun", tool="step", state="started")
        for text in ["three"] if mode == "interrupt" else ["two", "three"]:
            assert person.say(f"say: {text}").status_code == 202
        process.kill()
        process.start()
        assert person.wait_for_replies(len(SEEN[mode])) == SEEN[mode]
        assert process.stop() == 0
        process.start()
        assert person.say("say: last").status_code == 202
        assert person.wait_for_replies(len(SEEN[mode]) + 1) == [*SEEN[mode], "last"]
    trace = (tmp_path / "home" / "rehearsal.log").read_text().splitlines()
    assert sum(line.startswith("a ") for line in trace) == 1, "a finished step is not run again"


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    with gateway(tmp_path_factory.mktemp("queue") / "home", QUEUE__CAP="3") as process:
        yield process


def busy(process: GatewayProcess, chat: str) -> Person:
    """Somebody in whose chat a turn runs for long."""
    person = Person(process, chat)
    person.say("step slow 60s")
    person.wait_for_event("the step has begun", tool="step", state="started")
    return person


def is_refused(response: httpx.Response, status: int) -> str:
    assert response.status_code == status, response.text
    told = response.json()
    assert told["error"]
    assert told["hint"]
    error: str = told["error"]
    return error


def change(person: Person, name: str, text: str) -> httpx.Response:
    return person.request("PUT", f"/messages/{name}", json={"text": text})


def test_b80_message_beyond_the_cap_is_refused_the_same_way_each_time(process: GatewayProcess) -> None:
    person = busy(process, "full")
    assert [person.say("say: hello").status_code for _ in range(3)] == [202] * 3
    for _ in range(2):
        assert is_refused(person.say("say: too much", "beyond"), 429) == texts.turns.refused_as_queue_full(3)
    is_refused(person.say("say: too much", "another"), 429)
    wait_for("the chat is told once", lambda: person.replies() == [texts.turns.queue_full(3)])
    assert "say: too much" not in [message["text"] for message in person.messages()]
    assert person.say("/stop all").status_code == 202, "commands are taken at any time"
    assert person.wait_for_replies(2)[1].startswith("Stopped.")
    assert person.say("say: again").status_code == 202
    assert person.wait_for_replies(3)[2] == "again"
    is_refused(person.say("say: too much", "beyond"), 429)


def test_b85_message_that_waits_is_changed_and_taken_back(process: GatewayProcess) -> None:
    person = busy(process, "editing")
    stored = [person.say(f"say: {text}", text).json() for text in ("two", "three")]
    changed = change(person, "two", "say: TWO")
    assert changed.status_code == 200
    assert changed.json() == {**stored[0], "fate": "changed"}
    gone = person.request("DELETE", "/messages/three")
    assert (gone.status_code, gone.json()) == (200, {**stored[1], "fate": "deleted"})
    assert person.request("DELETE", "/messages/three").status_code == 200, "taken back twice is taken back"
    assert [message["text"] for message in person.messages()] == ["step slow 60s", "say: TWO"]
    assert is_refused(change(person, "n1", "say: never"), 409) == texts.turns.message_not_waiting(known=True)
    assert is_refused(change(person, "three", "say: never"), 409) == texts.turns.message_not_waiting(known=True)
    assert is_refused(change(person, "nobody", "say: never"), 404) == texts.turns.message_not_waiting(known=False)
    person.say("/stop")
    assert person.wait_for_replies(2)[1] == "TWO"
    is_refused(person.request("DELETE", "/messages/two"), 409)


def test_b85_change_that_makes_no_sense_is_refused(process: GatewayProcess) -> None:
    person = Person(process, "nonsense")
    for body in (b"", b"{}", b'{"text": " "}', b'{"text": "\\u0000"}', b'{"text": "x", "id": "1"}', b"\xff"):
        is_refused(person.request("PUT", "/messages/1", content=body), 400)
    assert person.request("PATCH", "/messages/1").status_code == 405


def test_b85_message_becomes_a_command_when_it_is_changed_into_one(process: GatewayProcess) -> None:
    person = busy(process, "ordering")
    person.say("stop", "word")
    assert change(person, "word", "/stop").status_code == 200
    assert person.wait_for_replies(1)[0].startswith("Stopped.")

"""Real kills of a real process, proved by its journal.

Drives `runtime/recovery` and `supervisor`.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections import Counter
from pathlib import Path

import httpx
import pytest

from support.gateway import COMMAND, GatewayProcess, Person, gateway
from support.waiting import wait_for


def runs_of(process: GatewayProcess) -> Counter[str]:
    """How often each step really ran."""
    return Counter(line.split()[0] for line in (process.home / "rehearsal.log").read_text().splitlines())


def test_b40_b41_b46_turn_goes_on_by_itself_when_killed_in_a_pure_step(tmp_path: Path) -> None:
    with gateway(tmp_path / "home") as process:
        person = Person(process)
        person.say("step first 0s\nstep second 3s\nsay: all done")
        person.wait_for_event("the second step runs", call="c2.1", state="started")
        wait_for("the second step left its trace", lambda: runs_of(process)["second"])
        process.kill()
        process.start()
        assert person.wait_for_replies(1) == ["all done"]
        assert runs_of(process) == {"first": 1, "second": 2}
        moves = [data["move"] for _, name, data in _events_until_finished(person) if name == "turn"]
        assert moves == ["claimed", "interrupted", "requeued", "claimed", "finished"]


def test_b62_once_step_is_not_run_again_when_killed_inside(tmp_path: Path) -> None:
    with gateway(tmp_path / "home") as process:
        person = Person(process)
        person.say("once invoice 30s\nstep after 0s")
        person.wait_for_event("the invoice is being sent", call="c1.1", state="started")
        wait_for("the invoice left its trace", lambda: (process.home / "rehearsal.log").exists())
        process.kill()
        process.start()
        [reply] = person.wait_for_replies(1)
        assert "outcome unknown" in reply
        assert "after: done" in reply
        assert runs_of(process) == {"invoice": 1, "after": 1}


def test_b50_queued_message_keeps_its_turn_when_killed(tmp_path: Path) -> None:
    with gateway(tmp_path / "home") as process:
        person = Person(process)
        person.say("step slow 3s\nsay: one")
        person.say("say: two")
        person.wait_for_event("the step runs", call="c1.1", state="started")
        process.kill()
        process.start()
        assert person.wait_for_replies(2) == ["one", "two"]


def test_b40_finished_chat_is_not_woken_when_killed_afterwards(tmp_path: Path) -> None:
    with gateway(tmp_path / "home") as process:
        person = Person(process)
        person.say("say: one")
        before = person.wait_for_replies(1) and person.messages()
        process.kill()
        process.start()
        other = Person(process, "other")
        other.say("say: hello")
        other.wait_for_replies(1)
        assert person.messages() == before


def test_b71_same_message_again_is_the_same_message_when_killed_in_between(tmp_path: Path) -> None:
    with gateway(tmp_path / "home") as process:
        person = Person(process)
        first = person.say("say: one", "mine")
        assert first.status_code == 202
        process.kill()
        process.start()
        again = person.say("say: one", "mine")
        assert (again.status_code, again.json()) == (200, first.json())
        assert person.wait_for_replies(1) == ["one"]
        assert [message["author"] for message in person.messages()] == ["user", "agent"]


def test_events_are_taken_up_where_they_stopped_when_killed(tmp_path: Path) -> None:
    with gateway(tmp_path / "home") as process:
        person = Person(process)
        person.say("step slow 3s\nsay: one")
        seen = []
        for event in person.events():
            seen.append(event)
            if event[1] == "step":
                break
        process.kill()
        process.start()
        person.wait_for_replies(1)
        last = next(place for place, _, _ in reversed(seen) if place)
        for event in person.events(last):
            seen.append(event)
            if event[1] == "message" and event[2]["author"] == "agent":
                break
        whole = [event for event in _events_until_finished(person) if event[0]]
        assert [event for event in seen if event[0]] == whole


@pytest.mark.parametrize("kills", [1, 2])
def test_chat_in_the_terminal_survives_kills_under_the_supervisor(tmp_path: Path, kills: int) -> None:
    with gateway(tmp_path / "home", command="up") as process:
        person = Person(process, "terminal")
        chat = subprocess.Popen(
            [*COMMAND, "chat"],
            env=process.environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            assert chat.stdin is not None
            chat.stdin.write("".join(f"step s{n} 0.5s\\\n" for n in range(kills)) + "say: survived\n")
            chat.stdin.close()
            chat.stdin = None
            for n in range(kills):
                person.wait_for_event(f"step {n} runs", call=f"c{n + 1}.1", state="started")
                _kill_child_of(process)
                wait_for("the gateway is back", lambda: _answers(person))
            output, _ = chat.communicate(timeout=60)
        finally:
            chat.kill()
        assert output == "survived\n"
        assert chat.returncode == 0
        assert len(process.lines) == 1, "the ready line is printed once"
        assert process.stop() == 0


def _kill_child_of(process: GatewayProcess) -> None:
    assert process.process is not None
    children = Path(f"/proc/{process.process.pid}/task/{process.process.pid}/children").read_text().split()
    for child in children:
        os.kill(int(child), signal.SIGKILL)


def _answers(person: Person) -> bool:
    try:
        return person.request("GET", "/messages").status_code == 200
    except httpx.TransportError:
        return False


def _events_until_finished(person: Person) -> list[tuple[str, str, dict[str, object]]]:
    seen = []
    for event in person.events():
        seen.append(event)
        if event[1] == "message" and event[2]["author"] == "agent":
            return seen
    raise AssertionError("the stream ended before the reply")

"""The README, followed word for word: its commands, run in a real shell, give what it shows.

Drives `cli` and `supervisor`.
"""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import httpx
import pytest

from support.gateway import GatewayProcess, Person, gateway
from support.markdown import page
from support.waiting import wait_for

README = page("README.md")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A directory with a `.venv` in it, where a stranger has just set Perdure up; their home is there too."""
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    command = tmp_path / ".venv" / "bin" / "perdure"
    command.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m perdure "$@"\n')
    command.chmod(0o755)
    return tmp_path


@pytest.fixture
def process(place: Path) -> Iterator[GatewayProcess]:
    """What `make run` starts."""
    with gateway(place / ".perdure", command="up") as process:
        yield process


def block(words: str) -> str:
    """The one block of shell that has these words in it."""
    [found] = [block for block in README.blocks("sh") if words in block]
    return found


def shown(words: str) -> str:
    """The one block of output that has these words in it."""
    [found] = [block for block in README.blocks("text") if words in block]
    return found


def shell(process: GatewayProcess, place: Path, script: str) -> subprocess.Popen[str]:
    """A shell of the stranger's that runs a script."""
    environment = process.environment() | {"HOME": str(place)}
    del environment["PERDURE_HOME"]  # `~/.perdure`, as the README has it
    return subprocess.Popen(
        ["/bin/sh", "-c", script],
        cwd=place,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def output(ran: subprocess.Popen[str]) -> str:
    told, _ = ran.communicate(timeout=60)
    assert ran.returncode == 0, told
    return told


def test_commands_come_early() -> None:
    assert "make run" in "\n".join(README.text.splitlines()[:30])


def test_ready_line_is_the_one_that_is_shown(process: GatewayProcess) -> None:
    expected = shown("Perdure is ready").replace("8420", str(process.port)).replace("…", process.token)
    assert process.lines == [expected]


def test_conversation_goes_on_as_shown_when_killed_as_told(process: GatewayProcess, place: Path) -> None:
    script = block("SCRIPT")
    assert script.count("10s") == 2
    person = Person(process, "terminal")
    chat = shell(process, place, script.replace("10s", "2s"))  # a test need not change terminals
    try:
        for call in ("c1.1", "c2.1"):
            wait_for("the gateway answers", lambda: _answers(process))
            person.wait_for_event(f"the call {call} runs", call=call, state="started")
            wait_for("it left its trace", partial(_has_trace, place, call))
            output(shell(process, place, block("kill -9")))
        assert output(chat) == shown("outcome unknown")
    finally:
        chat.kill()
    runs = Counter(line.split()[0] for line in _trace(place).splitlines())
    assert runs == {"research": 2, "send-invoice": 1, "book-flight": 1}


def _answers(process: GatewayProcess) -> bool:
    try:
        return httpx.get(f"{process.url}/readyz").status_code == 200
    except httpx.TransportError:
        return False


def _has_trace(place: Path, call: str) -> bool:
    return call in _trace(place)


def _trace(place: Path) -> str:
    path = place / ".perdure" / "rehearsal.log"
    return path.read_text() if path.exists() else ""


def test_http_calls_work_as_shown(process: GatewayProcess, place: Path) -> None:
    calls = block("curl")
    token = output(shell(process, place, f"{calls.splitlines()[0]}; echo $TOKEN")).strip()
    assert token == process.token
    post, get = [_request(line, token, process.port) for line in calls.splitlines()[1:]]
    with httpx.Client(timeout=30) as client:
        assert [client.send(post).status_code for _ in range(2)] == [202, 200], "the same id is the same message"
        messages = wait_for(
            "the chat has an answer",
            lambda: found if len(found := client.send(get).json()["messages"]) == 2 else None,
        )
    assert [message["author"] for message in messages] == ["user", "agent"]


def _request(line: str, token: str, port: int) -> httpx.Request:
    """What curl would send."""
    words = shlex.split(line.replace("$TOKEN", token).replace("8420", str(port)))
    name, _, value = words[words.index("-H") + 1].partition(": ")
    [url] = [word for word in words if word.startswith("http://")]
    body = words[words.index("-d") + 1] if "-d" in words else None
    return httpx.Request("GET" if body is None else "POST", url, headers={name: value}, content=body)

"""Names, titles and texts that strangers chose show as text: on a terminal, on the console, in notices (B109).

Drives `cli/output`, `cli/chat`, `core/printable_text`, `runtime/intake` and `web/pages/rendering`.
"""

from __future__ import annotations

import os
import pty
import re
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import httpx
import pytest

from perdure.testing.telegram import LocalTelegram
from support.gateway import COMMAND, GatewayProcess, Person
from support.telegram import telegram_gateway
from support.waiting import DEADLINE_FACTOR, wait_for

HARMFUL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
HOSTILE = "eve\x1b[2J\x1b]0;owned\x07\u202e\u2066\nowner   telegram:666  Mallory\r\u2028\x9b31m\u200f"
COMMANDS = [
    ["people"],
    ["sessions"],
    ["status"],
    *([each, "--json"] for each in ("people", "sessions", "status")),
]


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    """A gateway to which somebody with a hostile name has written, and a person hostile words."""
    with (
        LocalTelegram() as telegram,
        telegram_gateway(tmp_path_factory.mktemp("hostile") / "home", telegram) as process,
    ):
        telegram.write(f"say: {HOSTILE}")
        wait_for("Ann is answered", telegram.texts)
        telegram.write("let me in", sender=HOSTILE)
        wait_for("they are told a code", lambda: telegram.texts(telegram.person(HOSTILE)))
        person = Person(process)
        person.say(f"say: {HOSTILE}", name=HOSTILE)
        person.say("fail: \x1b[2J\u202eboom")
        person.wait_for_replies(2)
        yield process


def on_a_terminal(process: GatewayProcess, *arguments: str, typed: bytes = b"") -> str:
    """What a command prints on a terminal, until it ends."""
    outside, inside = pty.openpty()
    ran = subprocess.Popen(
        [*COMMAND, *arguments], env=process.environment(), stdin=subprocess.PIPE, stdout=inside, stderr=inside
    )
    os.close(inside)
    assert ran.stdin is not None
    ran.stdin.write(typed)
    ran.stdin.close()
    printed = b""
    with suppress(OSError):  # the other side has closed
        while piece := os.read(outside, 1 << 16):
            printed += piece
    os.close(outside)
    ran.wait(60 * DEADLINE_FACTOR)
    return printed.decode().replace("\r\n", "\n")  # the terminal itself has said `\r`


def session_of(process: GatewayProcess, chat: str) -> str:
    headers = {"Authorization": f"Bearer {process.token}"}
    found = httpx.get(f"{process.url}/api/sessions", headers=headers).json()["sessions"]
    return next(str(each["id"]) for each in found if each["address"]["chat"] == chat)


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_b109_command_prints_no_effect_of_others(process: GatewayProcess, command: list[str]) -> None:
    printed = on_a_terminal(process, *command)
    assert printed
    assert not HARMFUL.search(printed), printed
    assert not re.search(r"^owner +telegram:666", printed, re.MULTILINE | re.IGNORECASE), (
        "no line is of their choosing"
    )


def test_b109_people_are_one_line_each(process: GatewayProcess) -> None:
    lines = [line for line in on_a_terminal(process, "people").splitlines() if "telegram:666" in line.lower()]
    assert len(lines) == 1
    assert lines[0].startswith("asks ")


def test_b109_why_and_trace_print_no_effect_of_others(process: GatewayProcess) -> None:
    session = session_of(process, "home")
    messages = [each["id"] for each in Person(process).messages() if each["author"] != "agent"]
    for command in (["why", session], ["why", session, "--json"], *(["trace", each] for each in messages)):
        printed = on_a_terminal(process, *command)
        assert printed and not HARMFUL.search(printed), (command, printed)
    for line in on_a_terminal(process, "trace", messages[0]).splitlines():
        assert re.match(r"\d{4}-\d\d-\d\d \d\d:", line), "every line is a fact of ours"


def test_b109_error_about_a_hostile_name_has_no_effect(process: GatewayProcess) -> None:
    printed = on_a_terminal(process, "trace", "nothing\x1b[2J\u202e")
    assert "no message is named" in printed
    assert not HARMFUL.search(printed)


def test_b109_export_on_a_terminal_has_no_effect(process: GatewayProcess) -> None:
    printed = on_a_terminal(process, "export")
    assert "owned" in printed
    assert not HARMFUL.search(printed)


def test_b109_answer_in_the_terminal_chat_has_no_effect(process: GatewayProcess) -> None:
    """Standard input is a pipe here, and the terminal must be safe all the same."""
    printed = on_a_terminal(process, "chat", "--name", "other", typed=b"say: \x1b[2J\xe2\x80\xaeone\n")
    assert "one" in printed
    assert not HARMFUL.search(printed)


def test_b109_pages_of_the_console_have_no_effect(process: GatewayProcess) -> None:
    headers = {"Authorization": f"Bearer {process.token}", "Accept": "text/html"}
    session = session_of(process, "home")
    turn = httpx.get(f"{process.url}/api/sessions/{session}", headers=headers).json()["turns"][0]["id"]
    for path in ("", "/people", "/sessions", f"/sessions/{session}", f"/turns/{turn}", "/outbox"):
        page = httpx.get(f"{process.url}/console{path}", headers=headers)
        assert page.status_code == 200, path
        assert not HARMFUL.search(page.text), path


def test_b109_log_has_no_effect(process: GatewayProcess) -> None:
    assert not HARMFUL.search(process.log())


def test_b109_name_stands_in_a_notice_without_its_effect(tmp_path: Path) -> None:
    with LocalTelegram() as telegram, telegram_gateway(tmp_path / "home", telegram) as process:
        stranger = telegram.person(HOSTILE)
        telegram.write("let me in", sender=HOSTILE)
        wait_for("they are told a code", lambda: telegram.texts(stranger))
        code = re.findall(r"\w{4}-\w{4}", telegram.texts(stranger)[0])[0]
        on_a_terminal(process, "pair", code)
        wait_for("they are told that they are in", lambda: len(telegram.texts(stranger)) > 1)
        telegram.write("/whoami", sender=HOSTILE)
        said = wait_for("they are told who they are", lambda: telegram.texts(stranger)[2:])[0]
        assert "Eve" in said
        assert not HARMFUL.search(said.replace("\n", ""))

"""`perdure export` for one person or one session, beside a gateway that runs.

Drives `operations/personal_data`.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from support.chat_folders import chat_workspace
from support.gateway import COMMAND, GatewayProcess, Person, gateway

KEY = "agent:main:web:dm:home"


def send(process: GatewayProcess, chat: str) -> None:
    """Somebody sends a file, and gets one."""
    person, headers = Person(process, chat), {"Authorization": f"Bearer {process.token}"}
    (chat_workspace(process.home, f"agent:main:web:dm:{chat}") / "plan.txt").write_text("a plan")
    sent = httpx.post(
        f"{process.url}/api/attachments?name=a.txt", content=chat, headers=headers, timeout=30
    ).json()
    body = {"id": "file", "text": "send: plan.txt\nsay: done", "attachments": [sent["id"]]}
    person.request("POST", "/messages", json=body)
    person.wait_for_replies(3)


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    with gateway(tmp_path_factory.mktemp("export") / "home") as process:
        for chat in ("home", "garden"):
            person = Person(process, chat)
            person.say(f"say: hello {chat}")
            person.wait_for_replies(1)
            send(process, chat)
        yield process


def export(process: GatewayProcess, *words: str) -> subprocess.CompletedProcess[str]:
    command = [*COMMAND, "export", *words]
    return subprocess.run(command, env=process.environment(), capture_output=True, text=True, check=False)


def test_one_session_is_exported_when_it_is_named(process: GatewayProcess) -> None:
    done = export(process, "--session", KEY)
    assert (done.returncode, done.stderr) == (0, "1 session exported.\n")
    [session] = json.loads(done.stdout)["sessions"]
    assert session["key"] == KEY
    assert "garden" not in done.stdout


def test_all_of_a_person_is_exported_into_a_file_for_its_owner_alone(
    process: GatewayProcess, tmp_path: Path
) -> None:
    done = export(process, "--person", "web:owner", "-o", str(tmp_path / "owner.json"))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "2 sessions exported.\n")
    document = json.loads((tmp_path / "owner.json").read_text())
    assert (document["person"], document["messages"], len(document["sessions"])) == ("web:owner", [], 2)
    assert (tmp_path / "owner.json").stat().st_mode & 0o077 == 0
    files = sorted((tmp_path / "owner-files").glob("*/*"))
    assert sorted(file.read_text() for file in files) == ["a plan", "a plan", "garden", "home"]
    assert all(file.stat().st_mode & 0o077 == 0 for file in files)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        pytest.param(["--person", "web:eve"], 1, "nothing of web:eve is here", id="nobody"),
        pytest.param(["--person", "eve"], 1, "'eve' names nobody", id="no name"),
        pytest.param(["--session", "s_none"], 1, "no session is named 's_none'", id="no session"),
        pytest.param(["--session", KEY, "--person", "web:owner"], 2, "say --person or --session", id="both"),
    ],
)
def test_export_is_refused_in_words(process: GatewayProcess, words: list[str], code: int, said: str) -> None:
    done = export(process, *words)
    assert (done.returncode, done.stdout) == (code, "")
    assert said in done.stderr

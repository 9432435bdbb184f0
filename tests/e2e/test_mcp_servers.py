"""Tools of MCP servers, through the whole gateway: real servers, real kills.

Drives `tools/mcp`.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from perdure.testing.providers import LocalProvider, Says, Wish
from support.gateway import COMMAND, GatewayProcess, Person, gateway
from support.mcp_process import PRYING_COMMAND, SHOWN_IN_SANDBOX, HttpServer, stdio_command
from support.waiting import wait_for


@pytest.fixture
def provider() -> Iterator[LocalProvider]:
    with LocalProvider() as provider:
        yield provider
        assert provider.refusals == [], "B64: every request was as its provider wants it"


@contextmanager
def served(tmp_path: Path, provider: LocalProvider, **servers: object) -> Iterator[GatewayProcess]:
    settings = {
        "MODEL__NAME": "openai:local",
        "MODEL__BASE_URL": provider.openai_url,
        "MODEL__API_KEY": provider.key,
        "TOOLS__MCP": json.dumps(servers),
        "TOOLS__SANDBOX_READ": SHOWN_IN_SANDBOX,
    }
    with gateway(tmp_path / "home", **settings) as process:
        yield process


def server_at(url: str, **more: object) -> dict[str, object]:
    """A server that the gateway waits for as long as a busy machine takes to connect it."""
    return {"url": url, "startup_timeout": 60, **more}


def begun(file: Path) -> int:
    return file.read_text().count("began") if file.exists() else 0


def test_tools_of_a_server_are_used_by_the_model(tmp_path: Path, provider: LocalProvider) -> None:
    provider.script = [Says(calls=[Wish("calc_add", {"a": 2, "b": 3})]), Says("It is five.")]
    local = {"command": stdio_command(), "startup_timeout": 60}
    with (
        HttpServer() as server,
        served(tmp_path, provider, calc=server_at(server.url), local=local) as process,
    ):
        person = Person(process)
        person.say("how much is it?")
        assert person.wait_for_replies(1) == ["It is five."]
    assert {"calc_add", "local_add", "read_file"} <= {*provider.requests[0].tools}
    assert "5" in provider.requests[1].text


@pytest.mark.parametrize(
    ("effects", "runs", "told"),
    [
        pytest.param({}, 1, "outcome unknown", id="undeclared, so never repeated"),
        pytest.param({"slow": "pure"}, 2, "at last", id="declared pure, so repeated"),
    ],
)
def test_b61_b62_call_of_a_server_that_was_cut_off_by_a_kill(
    tmp_path: Path, provider: LocalProvider, effects: dict[str, str], runs: int, told: str
) -> None:
    """The server over HTTP outlives the gateway; its own file says how often it ran."""
    file = tmp_path / "runs"
    provider.script = [Says(calls=[Wish("away_slow", {"seconds": 3, "file": str(file)})]), Says("So be it.")]
    with (
        HttpServer() as server,
        served(tmp_path, provider, away=server_at(server.url, effects=effects)) as process,
    ):
        person = Person(process)
        person.say("go")
        wait_for("the server runs it", lambda: begun(file) == 1)
        process.kill()
        process.start()
        assert person.wait_for_replies(1) == ["So be it."]
        assert begun(file) == runs
    assert told in json.dumps(provider.requests[-1].messages)


def test_server_that_cannot_be_started_is_told_and_delays_nobody_for_ever(
    tmp_path: Path, provider: LocalProvider
) -> None:
    provider.script = [Says("hello")]
    with served(tmp_path, provider, broken={"command": ["/nonexistent/server"]}) as process:
        person = Person(process)
        person.say("hi")
        assert person.wait_for_replies(1) == ["hello"]
        told = "tools.mcp.broken.sandbox = false lets it out"
        wait_for("the status names it, and what to do", lambda: told in perdure(process, "status"))
        assert httpx.get(f"{process.url}/readyz").status_code == 200


def test_b185_server_sees_nothing_of_the_gateway_unless_it_is_let_out(
    tmp_path: Path, provider: LocalProvider
) -> None:
    token = str(tmp_path / "home" / "token")
    calls = [("held_look", token), ("held_leave", "note"), ("held_leave", token), ("free_look", token)]
    wishes = [Wish(tool, {"path": path}) for tool, path in calls]
    provider.script = [*(Says(calls=[wish]) for wish in wishes), Says("That is all.")]
    held = {"command": PRYING_COMMAND, "startup_timeout": 60}
    with served(tmp_path, provider, held=held, free={**held, "sandbox": False}) as process:
        before = process.token
        person = Person(process)
        person.say("look around")
        assert person.wait_for_replies(1) == ["That is all."]
        folder = process.home / "mcp" / "held"
        looked, left, changed, let_out = (
            next(message["content"] for message in reversed(asked.messages) if message["role"] == "tool")
            for asked in provider.requests[1:]
        )
        assert looked == "refused: No such file or directory"
        assert f"left in {folder}" in left and (folder / "note").read_text() == "I was here"
        assert process.token == before, f"whatever it wrote, it was not the token: {changed}"
        assert let_out.strip() == f"read: {process.token}"
        assert not (process.home / "mcp" / "free").exists()


def perdure(process: GatewayProcess, *arguments: str) -> str:
    command = [*COMMAND, *arguments]
    child = subprocess.run(command, env=process.environment(), capture_output=True, text=True, check=False)
    return child.stdout

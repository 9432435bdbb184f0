"""A real llama.cpp server with a small model and a window of 1,024 tokens, behind a real gateway.

Drives `agents/providers/models` and `agents/compaction`.

The server and the weights are packages in an environment of their own, which `make soak` sets up.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from perdure.core import texts
from support.gateway import COMMAND, GatewayProcess, Person, gateway
from support.ports import free_port
from support.waiting import wait_for

pytestmark = pytest.mark.timeout(7200)

HERE = Path(__file__).parent
PYTHON = HERE / ".llama" / "bin" / "python"
WINDOW = 1024
SLOW = 900.0  # seconds that one answer may take on a busy machine
THINGS = ("bread", "rain", "the moon", "a bicycle", "tea", "snow", "an owl", "iron", "a river", "salt")


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the server."""
    if not PYTHON.exists():
        pytest.fail("llama.cpp is not installed beside the tests: run `make soak`, which does that")
    log = tmp_path_factory.mktemp("llama") / "log"
    port = free_port()
    with log.open("w") as out:
        command = [str(PYTHON), str(HERE / "llama_serves.py"), str(WINDOW), str(port)]
        server = subprocess.Popen(command, stdout=out, stderr=out)
    try:
        url = f"http://127.0.0.1:{port}"
        wait_for("the server is ready", lambda: server.poll() is not None or is_healthy(url), timeout=120)
        assert server.poll() is None, log.read_text()[-2000:]
        yield f"{url}/v1"
    finally:
        server.kill()
        server.wait()


def is_healthy(url: str) -> bool:
    try:
        return httpx.get(f"{url}/health", timeout=5).status_code == 200
    except httpx.HTTPError:
        return False


@pytest.fixture
def process(llama: str, tmp_path: Path) -> Iterator[GatewayProcess]:
    settings = {
        "MODEL__NAME": "openai:smollm2",
        "MODEL__BASE_URL": llama,
        "MODEL__SILENCE": "10m",
        "MODEL__TIMEOUT": "20m",
        "AGENT__TOOLS": "clarify",
        "AGENT__SYSTEM_PROMPT": "You are friendly. Answer in one short sentence.",
    }
    with gateway(tmp_path / "home", **settings) as process:
        yield process


def replies(person: Person, count: int) -> list[str]:
    found = wait_for(f"{count} replies", lambda: len(person.replies()) >= count and person.replies(), timeout=SLOW)
    assert isinstance(found, list)
    return found


def summaries(process: GatewayProcess, last: str) -> int:
    """How often the conversation was summed up in the turn of a message."""
    command = [*COMMAND, "trace", last]
    done = subprocess.run(command, env=process.environment(), capture_output=True, text=True, check=True)
    return done.stdout.count("compacted")


def test_b87_each_of_thirty_messages_is_answered_by_a_real_small_model(process: GatewayProcess) -> None:
    person = Person(process)
    for number in range(1, 31):
        person.say(f"Message {number}: tell me one thing about {THINGS[number % len(THINGS)]}, please.")
        reply = replies(person, number)[number - 1]
        assert not reply.startswith(texts.turns.failed("")), f"message {number}: {reply}"
    assert len(person.replies()) == 30
    assert sum(summaries(process, f"n{number}") for number in range(1, 31)) >= 1


def test_b76_answer_comes_once_when_the_gateway_is_killed_in_the_middle_of_its_stream(
    process: GatewayProcess,
) -> None:
    person = Person(process)
    person.say("Tell me a story about an owl, in four sentences.")
    assert any(name == "preview" and data["text"].strip() for _, name, data in person.events())
    process.kill()
    process.start()
    [reply] = replies(person, 1)
    assert not reply.startswith(texts.turns.failed(""))
    person.say("Thank you. Say goodbye, please.")
    assert replies(person, 2)[0] == reply
    assert len(person.replies()) == 2


def test_b87_request_with_tools_is_answered_as_far_as_the_server_goes(process: GatewayProcess) -> None:
    """This server reads the tools and calls none of them: a model of this size never asks for one."""
    person = Person(process)
    person.say("Ask me which colour I like.")
    [reply] = replies(person, 1)
    assert not reply.startswith(texts.turns.failed(""))

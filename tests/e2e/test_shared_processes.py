"""Background processes through any of several gateways on one PostgreSQL: they stay where they run.

Drives `store/process_relay`, `runtime/process_relay`, `runtime/process_records` and `tools/process_tool`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from perdure.testing.providers import Asked, LocalProvider, Says, Wish
from support.gateway import GatewayProcess, Person
from support.gateway_pair import GatewayPair, call
from support.keepers import end_all_commands
from support.waiting import wait_for

COMMAND = "echo begun; sleep 600"


def answers(asked: Asked) -> Says:
    """A model that starts a process in the background, and uses the tool `process` by the word it is told."""
    if asked.messages[-1]["role"] == "tool":
        return Says(f"The tool says: {asked.text}")
    if asked.text.startswith("start"):
        return Says(calls=[Wish("shell", {"command": COMMAND, "background": True})])
    if (word := re.match(r"(poll|kill|write)$", asked.text)) is not None:
        process = re.findall(r"p_\w+", json.dumps(asked.messages))[0]
        return Says(calls=[Wish("process", {"action": word[1], "id": process})])
    return Says(f"I hear: {asked.text}")


@pytest.fixture
def provider() -> Iterator[LocalProvider]:
    with LocalProvider(answers) as running:
        yield running


@pytest.fixture
def pair(tmp_path: Path, postgres_url: str, provider: LocalProvider) -> Iterator[GatewayPair]:
    model = {"MODEL__NAME": "openai:local", "MODEL__BASE_URL": provider.openai_url, "MODEL__API_KEY": provider.key}
    pair = GatewayPair(tmp_path, postgres_url, TOOLS__APPROVALS="off", HANDOVER__WAIT="0s", **model)
    for _ in end_all_commands(tmp_path / "one" / "keepers"):
        yield pair
        pair.close()


def start_process(process: GatewayProcess) -> str:
    person = Person(process)
    person.say("start", "start")
    [reply] = person.wait_for_replies(1)
    return str(re.findall(r"p_\w+", reply)[0])


def seen_through(process: GatewayProcess, name: str) -> dict[str, Any]:
    found: dict[str, Any] = call(process, "GET", f"/api/processes/{name}").json()
    return found


def test_b165_output_of_a_process_is_seen_through_every_gateway_and_says_where_it_runs(pair: GatewayPair) -> None:
    pair.start()
    name = start_process(pair.first)
    wait_for("it has said something", lambda: seen_through(pair.first, name)["output"])
    here = seen_through(pair.first, name)
    assert (here["here"], here["gateway"], here["output"]) == (True, "", "begun\n")
    there = seen_through(pair.second, name)
    assert (there["here"], there["output"], there["size"], there["state"]) == (False, "begun", 6, "live")
    assert there["gateway"].endswith(str(pair.first.home))
    assert [each["id"] for each in call(pair.second, "GET", "/api/processes").json()["processes"]] == [name]


def test_b63_b165_process_of_a_gateway_that_stopped_is_told_as_it_is_and_stopped_when_that_one_is_back(
    pair: GatewayPair,
) -> None:
    pair.start()
    name = start_process(pair.first)
    assert pair.first.stop() == 0
    person = Person(pair.second)
    person.say("poll", "poll")
    told = person.wait_for_replies(2)[-1]
    assert f"{name}: running on the gateway " in told
    assert str(pair.first.home) in told
    assert "which does not run now: what became of it is unknown until then" in told
    person.say("write", "write")
    assert "only there can it be given input" in person.wait_for_replies(3)[-1]
    person.say("kill", "kill")
    assert "was asked to stop it, and has not said yet that it has ended" in person.wait_for_replies(4)[-1]
    pair.first.start()
    heard = person.wait_for_replies(5)[-1]
    assert f"background process {name}" in heard
    assert "ended by signal" in heard and "begun" in heard
    ended = seen_through(pair.second, name)
    assert (ended["state"], ended["output"], ended["here"]) == ("ended", "begun", False)
    person.say("poll", "again")
    assert f"{name}: ended by signal" in person.wait_for_replies(6)[-1]
    assert len(person.replies()) == 6, "its end was told once"

"""Trouble with a model's provider in a real gateway process: seen while it lasts, and never half an answer.

Drives `agents/providers/retries` and `runtime/attempt`.

Drives agents/tries, agents/endings, runtime/attempt, console/events and operations/look.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from perdure.core import texts
from perdure.testing.providers import Fails, LocalProvider, Says, Wish
from support.gateway import COMMAND, GatewayProcess, Person, gateway
from support.wire_provider import Plays, WireProvider

TOOL = """
import os, pathlib
import perdure

@perdure.tool
def pay(name: str) -> str:
    "Pays."
    (pathlib.Path(os.environ["PERDURE_HOME"]) / "paid").write_text(name)
    return "paid"
"""
KEY = "a-secret-key-of-the-account"


@pytest.fixture(params=["openai", "anthropic"])
def api(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@contextmanager
def served(
    tmp_path: Path, provider: LocalProvider | WireProvider, api: str = "openai", **more: str
) -> Iterator[GatewayProcess]:
    home = tmp_path / "home"
    home.mkdir()
    (home / "home_tools.py").write_text(TOOL)
    url = provider.openai_url if api == "openai" else provider.anthropic_url
    settings = {"MODEL__NAME": f"{api}:local", "MODEL__BASE_URL": url, "MODEL__API_KEY": KEY}
    with gateway(home, TOOLS__LOAD="home_tools:pay", **settings | more) as process:
        yield process


def trace(process: GatewayProcess, message: str) -> list[dict[str, Any]]:
    done = subprocess.run(
        [*COMMAND, "trace", message, "--json"], env=process.environment(), capture_output=True, check=True
    )
    facts: list[dict[str, Any]] = json.loads(done.stdout)
    return facts


def test_b69_half_an_answer_is_neither_said_nor_run(tmp_path: Path, api: str) -> None:
    half, call = Says("Transfer 100 euros to Ann but do NOT"), Says(calls=[Wish("pay", {"name": "Ann"})])
    script = [Plays(call, "before the finish", "closed"), Plays(half, "before the finish"), Plays(Says("No."))]
    with WireProvider(script) as provider, served(tmp_path, provider, api) as process:
        person = Person(process)
        person.say("Pay?", "mine")
        assert person.wait_for_replies(1) == ["No."]
        assert not (process.home / "paid").exists()
        tries = [fact["detail"] for fact in trace(process, "mine") if fact["what"] == "model_failed"]
    assert [detail.partition(" failed: ")[2] for detail in tries] == [
        f"{texts.agents.NO_FINISH_REASON}. Next try in 1 s.",
        f"{texts.agents.NO_FINISH_REASON}. Next try in 2 s.",
    ]


def test_b69_empty_answer_is_told_and_the_session_stays_usable(tmp_path: Path, api: str) -> None:
    with (
        LocalProvider([Says(), Says("better now")], key=KEY) as provider,
        served(tmp_path, provider, api) as process,
    ):
        person = Person(process)
        person.say("go")
        assert person.wait_for_replies(1) == [texts.turns.EMPTY_ANSWER]
        person.say("again")
        assert person.wait_for_replies(2)[1] == "better now"
        assert provider.refusals == []


def test_b88_trouble_is_seen_while_it_lasts_and_after_a_kill(tmp_path: Path, api: str) -> None:
    """By events, trace and the log: which try it is, what the provider said, and when the next one comes."""
    slow = Fails(429, retry_after=50, message=f"The key {KEY} is too fast.")
    with LocalProvider([slow], key=KEY) as provider, served(tmp_path, provider, api) as process:
        person = Person(process)
        person.say("go", "mine")
        seen = person.wait_for_event("the first try failed", number=1)
        said = "The key *** is too fast."
        assert (seen["status"], seen["said"], seen["next_at"] - seen["at"]) == (429, said, 50_000)
        assert seen["text"] == "Try 1 failed: HTTP 429: The key *** is too fast. Next try in 50 s."
        [detail] = [fact["detail"] for fact in trace(process, "mine") if fact["what"] == "model_failed"]
        assert detail == f"step 1, model {api}:local: {seen['text']}"
        [line] = [line for line in process.log().splitlines() if " model_failed " in line]
        assert f"number=1 said={said!r} status=429 wait=50000" in line
        process.kill()
        process.start()
        assert person.wait_for_replies(1) == ["ok"]
        assert KEY not in process.log()
    assert len(provider.requests) == 2


@pytest.mark.parametrize(
    ("status", "why"),
    [(401, texts.agents.PROVIDER_KEY_REFUSED), (400, texts.agents.provider_refused("This is why."))],
)
def test_b88_failure_is_told_with_status_and_words(tmp_path: Path, api: str, status: int, why: str) -> None:
    with (
        LocalProvider([Fails(status, message="This is why.")], key=KEY) as provider,
        served(tmp_path, provider, api) as process,
    ):
        person = Person(process)
        person.say("go")
        [reply] = person.wait_for_replies(1)
        assert reply == texts.turns.failed(texts.agents.provider_failed(why, status, "This is why.", 1))
        assert f"HTTP {status}" in reply
        assert "This is why." in reply

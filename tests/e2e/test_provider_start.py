"""A gateway with a real model starts, and answers, without the libraries of providers.

Drives `agents/providers/models` and `runtime/agent_factory`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from perdure.testing.providers import LocalProvider, Says
from support.gateway import Person, gateway

IMPORTED = re.compile(r"^import time:\s+\d+ \|\s+\d+ \|\s+(\w+)", re.MULTILINE)
HEAVY = {"pydantic_ai", "pydantic", "openai", "anthropic", "httpx", "httpx2"}


@pytest.fixture
def provider() -> Iterator[LocalProvider]:
    with LocalProvider() as provider:
        yield provider


@pytest.mark.parametrize("api", ["openai", "anthropic"])
def test_gateway_answers_without_the_libraries_of_providers(
    tmp_path: Path, provider: LocalProvider, api: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They would take seconds and some 70 MB of every start."""
    monkeypatch.setenv("PYTHONPROFILEIMPORTTIME", "1")  # Python then tells of every import
    provider.script = [Says("good day")]
    url = provider.openai_url if api == "openai" else provider.anthropic_url
    settings = {"MODEL__NAME": f"{api}:local", "MODEL__BASE_URL": url, "MODEL__API_KEY": provider.key}
    with gateway(tmp_path / "home", **settings) as process:
        person = Person(process)
        person.say("hello")
        assert person.wait_for_replies(1) == ["good day"]
        imported = set(IMPORTED.findall(process.log()))
    assert {"perdure", "h11"} <= imported
    assert imported & HEAVY == set()

"""What a model gets of files: a line with a path that its tools can read, and pictures to see.

Drives `agents/providers/message_codec` and `core/conversation`.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from perdure.core import texts
from perdure.testing.providers import Asked, Fails, LocalProvider, Says, Wish
from support.gateway import GatewayProcess, Person, gateway

PNG = b"\x89PNG\r\n\x1a\n" + b"a picture" * 100
SHOWN = base64.b64encode(PNG).decode()


def answers(asked: Asked) -> Says | Fails:
    """A model that reads the file it is told of, and cannot stand pictures if it is named so."""
    whole = json.dumps(asked.body)
    if asked.body["model"] == "blind" and SHOWN in whole:
        return Fails(400, message="this model takes no pictures")
    if asked.messages[-1]["role"] == "tool" or "tool_result" in json.dumps(asked.messages[-1]):
        return Says(f"It says: {json.dumps(asked.messages[-1])}")
    path = re.search(r"at (/[^\]]*/notes\.txt)\]", whole)
    if path and "read it" in json.dumps(asked.messages[-1]):
        return Says(calls=[Wish("read_file", {"path": path[1]})])
    return Says("I see it." if SHOWN in whole else "I see nothing.")


@pytest.fixture
def provider() -> Iterator[LocalProvider]:
    with LocalProvider(answers) as running:
        yield running
        assert running.refusals == [], "every request was as its provider wants it"


def settings(provider: LocalProvider, api: str, model: str = "local") -> dict[str, str]:
    url = provider.openai_url if api == "openai" else provider.anthropic_url
    return {"MODEL__NAME": f"{api}:{model}", "MODEL__BASE_URL": url, "MODEL__API_KEY": provider.key}


def send(process: GatewayProcess, name: str, content: bytes, kind: str) -> str:
    url, headers = f"{process.url}/api/attachments?name={name}", {"Authorization": f"Bearer {process.token}"}
    answered: dict[str, Any] = httpx.post(
        url, content=content, headers=headers | {"Content-Type": kind}, timeout=30
    ).json()
    return str(answered["id"])


def say(process: GatewayProcess, number: int, text: str, *files: str) -> str:
    ann = Person(process)
    ann.request("POST", "/messages", json={"id": str(number), "text": text, "attachments": list(files)})
    return ann.wait_for_replies(number)[-1]


@pytest.mark.parametrize("api", ["openai", "anthropic"])
def test_model_sees_pictures_and_reads_files_until_they_are_gone(
    tmp_path: Path, provider: LocalProvider, api: str
) -> None:
    with gateway(tmp_path / "home", **settings(provider, api)) as process:
        picture = send(process, "cat.png", PNG, "image/png")
        text = send(process, "notes.txt", b"Buy tea.", "text/plain")
        assert say(process, 1, "What is this?", picture) == "I see it."
        assert "Buy tea." in say(process, 2, "please read it", text)
        kept = process.home / "attachments"
        journal = (process.home / "perdure.db").read_bytes() + (process.home / "perdure.db-wal").read_bytes()
        assert PNG not in journal and SHOWN.encode() not in journal, "the journal has the reference, not the bytes"
        for file in kept.glob("*/*"):
            file.unlink()
        assert say(process, 3, "And now?") == "I see nothing."
        assert texts.files.deleted_attachment_line("cat.png", "image/png", len(PNG)) in json.dumps(
            provider.requests[-1].body
        )


def test_model_that_refuses_pictures_is_asked_in_words_alone(tmp_path: Path, provider: LocalProvider) -> None:
    with gateway(tmp_path / "home", **settings(provider, "openai", "blind")) as process:
        picture = send(process, "cat.png", PNG, "image/png")
        assert say(process, 1, "What is this?", picture) == "I see nothing."
        assert say(process, 2, "Look again") == "I see nothing."
        assert sum(SHOWN in json.dumps(asked.body) for asked in provider.requests) == 1, "it is not shown again"

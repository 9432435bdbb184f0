"""What servers say that are only like OpenAI's: read where it can be, and otherwise told in a sentence.

Drives `agents/providers/openai_requests`.
"""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import pytest

from perdure.agents.api import ModelRequest
from perdure.agents.providers.models import open_model
from perdure.agents.providers.retries import MAX_INCOMPLETE_RETRIES, MAX_REQUESTS, ask_with_retries
from perdure.core import texts
from perdure.core.conversation import UserMessage
from perdure.errors import ModelError
from perdure.testing import RecordingTurn
from support.scripted_server import OK, ScriptedServer, run_server

pytestmark = pytest.mark.anyio

WHOLE = {
    "id": "1",
    "object": "chat.completion",
    "created": 1,
    "model": "like",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "ok"}, "finish_reason": "stop"}],
}
LOOSE = WHOLE | {"created": None, "service_tier": "on_demand", "usage": None}
BARE_PIECES = (
    b'data: {"choices": [{"delta": {"content": "o"}}]}\n\n'
    b'data: {"choices": [{"delta": {"content": "k"}, "finish_reason": "stop"}]}\n\ndata: [DONE]\n\n'
)


def saying(body: bytes, kind: str = "application/json", status: str = "200 OK") -> bytes:
    return f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


def streaming(body: bytes) -> bytes:
    return saying(body, "text/event-stream")


async def answer_of(said: bytes, *, streamed: bool = False, server: ScriptedServer | None = None) -> str:
    async with run_server(server or ScriptedServer(*[said] * MAX_REQUESTS)) as port:
        model = open_model("openai:like", base_url=f"http://127.0.0.1:{port}/v1", api_key="none")
        try:
            hear = (lambda text: None) if streamed else None
            once = partial(model.respond, ModelRequest([UserMessage("hello")], 1), hear)
            return (await ask_with_retries(RecordingTurn(), 1, model.name, once, 0.001)).text
        finally:
            await model.close()


@pytest.mark.parametrize("body", [WHOLE, LOOSE], ids=["whole", "loose"])
async def test_answer_is_read_if_its_words_are_there(body: dict[str, Any]) -> None:
    assert await answer_of(saying(json.dumps(body).encode())) == "ok"


async def test_stream_is_read_if_its_words_are_there() -> None:
    assert await answer_of(streaming(BARE_PIECES), streamed=True) == "ok"


async def test_words_that_came_at_once_are_heard_at_once() -> None:
    heard: list[str] = []
    words = b'data: {"choices": [{"delta": {"content": "word "}}]}\n\n' * 100
    async with run_server(ScriptedServer(streaming(words + b"data: [DONE]\n\n"))) as port:
        model = open_model("openai:like", base_url=f"http://127.0.0.1:{port}/v1", api_key="none")
        answer = await model.respond(ModelRequest([UserMessage("hello")], 1), heard.append)
        await model.close()
    assert heard[-1] == answer.text == "word " * 100
    assert len(heard) < 10


@pytest.mark.parametrize("closed", [False, True], ids=["open", "closed"])
@pytest.mark.parametrize("after", [b"", b"data: whatever\n\n"], ids=["nothing", "something"])
async def test_answer_is_whole_at_its_end_whatever_comes_of_the_stream(after: bytes, closed: bool) -> None:
    body = BARE_PIECES + after
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    endless = head + f"{len(body):x}\r\n".encode() + body + b"\r\n"
    server = ScriptedServer(endless, *([] if closed else [OK]))  # it closes the connection after its last answer
    assert await answer_of(b"", streamed=True, server=server) == "ok"
    assert len(server.request_heads) == 1


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (saying(b"<html>Welcome</html>", "text/html"), texts.agents.PROVIDER_GARBLED),
        (saying(b"[]"), texts.agents.PROVIDER_GARBLED),
        (saying(b'{"choices": []}'), texts.agents.PROVIDER_GARBLED),
        (saying(b"<html>Bad Gateway</html>", "text/html", "502 Bad Gateway"), texts.agents.PROVIDER_SERVER_ERROR),
        (saying(b'{"error": "what?"}', status="400 Bad Request"), texts.agents.provider_refused("what?")),
        (
            saying(b'{"detail": "what?"}', status="422 Unprocessable Entity"),
            texts.agents.provider_refused("what?"),
        ),
        (
            saying(b"over there", "text/plain", "307 Temporary Redirect"),
            texts.agents.provider_refused("307: over there"),
        ),
    ],
    ids=["page", "list", "nothing", "page of an error", "error without a form", "detail", "redirect"],
)
async def test_what_is_no_answer_is_told(said: bytes, told: str) -> None:
    with pytest.raises(ModelError) as caught:
        await answer_of(said)
    assert caught.value.message.startswith(told)


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (b"data: []\n\n", texts.agents.PROVIDER_GARBLED),
        (b"data: nonsense\n\n", texts.agents.PROVIDER_GARBLED),
        (b'data: {"error": {"message": "what?"}}\n\n', texts.agents.provider_refused("what?")),
        (b'data: {"error": "what?"}\n\n', texts.agents.provider_refused("what?")),
    ],
    ids=["list", "nonsense", "error", "error without a form"],
)
async def test_stream_that_is_no_answer_is_told(said: bytes, told: str) -> None:
    server = ScriptedServer(*[streaming(said)] * MAX_REQUESTS)
    with pytest.raises(ModelError) as caught:
        await answer_of(b"", streamed=True, server=server)
    assert caught.value.message.startswith(told)
    assert len(server.request_heads) == 1 + MAX_INCOMPLETE_RETRIES

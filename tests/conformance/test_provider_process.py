"""The provider of the benchmarks: a process that says the same to everybody, or plays a script from a file.

Drives `testing/providers/__main__` and `testing/providers/playback`.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from pydantic_ai.messages import ModelRequest, ToolReturnPart
from pydantic_ai.models import Model

from perdure.testing import Constant, LocalProvider, Wish
from support.models import ask, calls, connect, event_text, offer_tools, prompt, streaming, text
from support.waiting import eventually

pytestmark = pytest.mark.anyio

READ = offer_tools("read_file")


@pytest.fixture(params=["openai", "anthropic"])
def api(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=[False, True], ids=["whole", "streamed"])
def streamed(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture
def provider() -> Iterator[LocalProvider]:
    with LocalProvider() as listening:
        yield listening


@pytest.fixture
async def model(provider: LocalProvider, api: str) -> AsyncIterator[Model[object]]:
    async with connect(provider, api) as connected:
        yield connected


@contextmanager
def process(*options: str) -> Iterator[str]:
    """The address of a provider in a process of its own, which ends in order."""
    command = [sys.executable, "-m", "perdure.testing.providers", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        try:
            yield running.stdout.readline().removeprefix("listening on ").strip()
        finally:
            running.send_signal(signal.SIGTERM)
            code = running.wait()
    assert code == 0


async def test_constant_calls_first_and_then_answers(
    provider: LocalProvider, model: Model[object], streamed: bool
) -> None:
    provider.script = constant = Constant("All done.", Wish("read_file", {"path": "x"}))
    conversation: list[Any] = [prompt()]
    identities: set[str] = set()
    for _ in range(2):
        answer = await ask(model, conversation, READ, streamed=streamed)
        [call] = calls(answer)
        assert (call.tool_name, call.args_as_dict()) == ("read_file", {"path": "x"})
        identities.add(call.tool_call_id)
        returned = ToolReturnPart("read_file", "found", tool_call_id=call.tool_call_id)
        conversation += [answer, ModelRequest(parts=[returned])]
        ending = await ask(model, conversation, READ, streamed=streamed)
        assert (text(ending), ending.finish_reason) == ("All done.", "stop")
        conversation += [ending, prompt("again")]
    await eventually("all are counted", lambda: constant.served == 4)
    assert (len(identities), provider.requests) == (2, [])
    # What was made of constant answers is well-formed for a provider that checks.
    provider.script = []
    assert text(await ask(model, conversation, READ, streamed=streamed)) == "ok"


async def test_constant_answers_in_pieces(provider: LocalProvider, model: Model[object]) -> None:
    provider.script = Constant("abcdefgh", pieces=4, pause=0.001, think=0.001)
    async with streaming(model) as stream:
        heard = [event_text(event) async for event in stream]
        assert stream.get().usage.output_tokens == 4
    assert [piece for piece in heard if piece] == ["ab", "cd", "ef", "gh"]


def test_process_answers_as_told() -> None:
    question = {"model": "local", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 5}
    with process("--text", "hello", "--tool", "look", "--arguments", '{"at": 1}', "--pieces", "2") as url:
        called = httpx.post(f"{url}/v1/chat/completions", json=question).json()
        result = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "x"}]}
        answered = httpx.post(f"{url}/v1/messages", json=question | {"messages": [result]}).json()
    assert called["choices"][0]["message"]["tool_calls"][0]["function"] == {
        "name": "look",
        "arguments": '{"at": 1}',
    }
    assert answered["content"] == [{"type": "text", "text": "hello"}]


def test_process_plays_a_script_from_a_file(tmp_path: Path) -> None:
    script = tmp_path / "script.json"
    script.write_text(
        '[{"kind": "says", "calls": [{"tool": "look", "arguments": {}}]},'
        ' {"kind": "fails", "status": 529, "retry_after": 2}, {"kind": "hangs", "after": 0}]'
    )
    question = {"model": "local", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 5}
    headers = {"x-api-key": "secret", "anthropic-version": "2023-06-01"}
    with process("--script", str(script), "--key", "secret") as url:
        answers = [httpx.post(f"{url}/v1/messages", json=question, headers=headers) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [200, 529]
    assert answers[0].json()["content"][0]["name"] == "look"
    assert answers[1].headers["retry-after"] == "2"


def test_stream_of_anthropic_has_every_kind_of_event(provider: LocalProvider) -> None:
    provider.script = Constant("ab", pieces=2)
    question = {"messages": [{"role": "user", "content": "hi"}], "stream": True}
    lines = httpx.post(f"{provider.url}/v1/messages", json=question).text.splitlines()
    assert [line.removeprefix("event: ") for line in lines if line.startswith("event: ")] == [
        "message_start",
        "ping",
        "content_block_start",
        "content_block_delta",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ]


def test_stream_of_openai_has_usage_only_if_wanted(provider: LocalProvider) -> None:
    provider.script = Constant()
    question = {"messages": [{"role": "user", "content": "hi"}], "stream": True}
    plain = httpx.post(f"{provider.openai_url}/chat/completions", json=question).text
    question["stream_options"] = {"include_usage": True}
    counted = httpx.post(f"{provider.openai_url}/chat/completions", json=question).text
    assert ('"usage"' in plain, '"total_tokens"' in counted) == (False, True)
    assert plain.endswith("data: [DONE]\n\n")


def test_testing_loads_no_server_until_it_is_used() -> None:
    probe = "import sys, perdure.testing; assert not {'starlette', 'uvicorn', 'pydantic_ai'} & {*sys.modules}"
    subprocess.run([sys.executable, "-c", probe], check=True)


def test_name_that_testing_does_not_have_is_an_attribute_error() -> None:
    import perdure.testing

    with pytest.raises(AttributeError, match="no attribute 'Missing'"):
        _ = perdure.testing.Missing

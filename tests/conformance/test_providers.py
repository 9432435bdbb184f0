"""The local providers, heard through the real clients: all that a script can say arrives as it was meant.

Drives `testing/providers/server` and `testing/providers/playback`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack

import pytest
from pydantic_ai.exceptions import (
    ModelAPIError,
    ModelConnectionError,
    ModelHTTPError,
    ModelOverloadedError,
    ModelRateLimitError,
    ModelServerError,
)
from pydantic_ai.messages import ModelMessage, ModelRequest, SystemPromptPart, ToolReturnPart, UserPromptPart
from pydantic_ai.models import Model

from perdure.testing import (
    Asked,
    CutsOff,
    Fails,
    Floods,
    Hangs,
    LocalProvider,
    NeverEnds,
    Says,
    Usage,
    Wish,
)
from support.models import ask, calls, collect_text, connect, event_text, offer_tools, prompt, streaming, text
from support.waiting import eventually

pytestmark = pytest.mark.anyio

READ = offer_tools("read_file")


@pytest.fixture(scope="module")
def listening() -> Iterator[LocalProvider]:
    with LocalProvider() as provider:
        yield provider


@pytest.fixture
def provider(listening: LocalProvider) -> Iterator[LocalProvider]:
    """A provider without a script, that remembers nothing, and refused nothing in the end."""
    listening.script = []
    listening.requests.clear()
    listening.known_tools.clear()
    yield listening
    assert listening.refusals == []


@pytest.fixture(params=["openai", "anthropic"])
async def model(provider: LocalProvider, request: pytest.FixtureRequest) -> AsyncIterator[Model[object]]:
    async with connect(provider, request.param) as connected:
        yield connected


@pytest.fixture(params=[False, True], ids=["whole", "streamed"])
def streamed(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


async def test_words_arrive(provider: LocalProvider, model: Model[object], streamed: bool) -> None:
    provider.script = [Says("Good morning, 世界!\nAll is well.")]
    answer = await ask(model, streamed=streamed)
    assert text(answer) == "Good morning, 世界!\nAll is well."
    assert (answer.finish_reason, answer.model_name) == ("stop", "local")


async def test_words_arrive_in_the_pieces_of_the_script(provider: LocalProvider, model: Model[object]) -> None:
    provider.script = [Says(pieces=["a", "b ", " c"], pause=0.001, think=0.001)]
    async with streaming(model) as stream:
        heard = [event_text(event) async for event in stream]
    assert [piece for piece in heard if piece] == ["a", "b ", " c"]


async def test_calls_arrive_beside_words(provider: LocalProvider, model: Model[object], streamed: bool) -> None:
    wishes = [Wish("read_file", {"path": "/a/long/way/down.txt"}), Wish("read_file", id="mine"), Wish("nowhere")]
    provider.script = [Says("Let me see.", calls=wishes)]
    answer = await ask(model, tools=READ, streamed=streamed)
    made = calls(answer)
    assert (text(answer), answer.finish_reason) == ("Let me see.", "tool_call")
    assert [call.tool_name for call in made] == ["read_file", "read_file", "nowhere"]
    assert [call.args_as_dict() for call in made] == [{"path": "/a/long/way/down.txt"}, {}, {}]
    assert made[1].tool_call_id == "mine"
    assert len({call.tool_call_id for call in made}) == 3


async def test_conversation_with_calls_is_taken(
    provider: LocalProvider, model: Model[object], streamed: bool
) -> None:
    """Also when the model has called a tool that nobody offers: it must be told so, and go on."""
    provider.script = [
        Says("Two things.", calls=[Wish("read_file", {"path": "x"}), Wish("nowhere")]),
        Says("Thanks."),
    ]
    asked = ModelRequest(parts=[SystemPromptPart("Be brief."), UserPromptPart("Go.")])
    answer = await ask(model, [asked], READ, streamed=streamed)
    results = [
        ToolReturnPart(call.tool_name, "Nothing.", tool_call_id=call.tool_call_id) for call in calls(answer)
    ]
    ending = await ask(model, [asked, answer, ModelRequest(parts=results)], READ, streamed=streamed)
    assert text(ending) == "Thanks."
    # The next message follows upon an answer, and the tools are gone meanwhile.
    history: list[ModelMessage] = [asked, answer, ModelRequest(parts=results), ending, prompt("And now?")]
    assert text(await ask(model, history, streamed=streamed)) == "ok"


async def test_usage_is_what_the_script_says(
    provider: LocalProvider, model: Model[object], streamed: bool
) -> None:
    provider.script = [Says("hello", usage=Usage(1200, 34, cached=1000))]
    usage = (await ask(model, streamed=streamed)).usage
    assert (usage.input_tokens, usage.output_tokens, usage.cache_read_tokens) == (1200, 34, 1000)


@pytest.mark.parametrize(
    ("spelled", "meant"),
    [
        ("length", "length"),
        ("max_tokens", "length"),
        ("content_filter", "content_filter"),
        ("refusal", "content_filter"),
        ("stop", "stop"),
        ("end_turn", "stop"),
    ],
)
async def test_finish_is_understood_in_either_spelling(
    provider: LocalProvider, model: Model[object], streamed: bool, spelled: str, meant: str
) -> None:
    provider.script = [Says("I must stop", finish=spelled)]
    assert (await ask(model, streamed=streamed)).finish_reason == meant


async def test_nothing_at_all_arrives_as_nothing(
    provider: LocalProvider, model: Model[object], streamed: bool
) -> None:
    provider.script = [Says()]
    assert text(await ask(model, streamed=streamed)) == ""


async def test_arguments_that_are_no_json_arrive_as_they_are(
    provider: LocalProvider, model: Model[object]
) -> None:
    provider.script = [Says(calls=[Wish("read_file", '{"path": "half')])]
    answer = await ask(model, tools=READ, streamed=True)
    [call] = calls(answer)
    assert call.args == '{"path": "half'
    told = ToolReturnPart("read_file", "This is no JSON.", tool_call_id=call.tool_call_id)
    assert text(await ask(model, [prompt(), answer, ModelRequest(parts=[told])], READ)) == "ok"


async def test_arguments_that_are_no_json_arrive_in_a_whole_answer(
    provider: LocalProvider, model: Model[object]
) -> None:
    """Anthropic's whole answers hold objects only, so there they come wrapped in one."""
    provider.script = [Says(calls=[Wish("read_file", "half")])]
    [call] = calls(await ask(model, tools=READ))
    assert call.args in ("half", {"INVALID_JSON": "half"})


@pytest.mark.parametrize(
    ("status", "error"), [(429, ModelRateLimitError), (500, ModelServerError), (529, ModelOverloadedError)]
)
async def test_failure_is_told_in_the_format_of_the_service(
    provider: LocalProvider, model: Model[object], streamed: bool, status: int, error: type[ModelAPIError]
) -> None:
    provider.script = [Fails(status, retry_after=1.5, message="Not now.")]
    with pytest.raises(error, match=r"Not now\.") as caught:
        await ask(model, streamed=streamed)
    assert isinstance(caught.value, ModelHTTPError)
    assert (caught.value.status_code, (caught.value.headers or {})["retry-after"]) == (status, "1.5")
    assert provider.requests[-1].outcome == "failed"


async def test_failure_inside_a_stream_comes_after_the_pieces_before_it(
    provider: LocalProvider, model: Model[object]
) -> None:
    provider.script = [Fails(529, after=2, message="Too much to do.", of=Says("one two three"))]
    heard: list[str] = []
    with pytest.raises(ModelAPIError, match="Too much to do"):
        async with streaming(model) as stream:
            await collect_text(stream, heard)
    assert heard == ["one ", "two "]


@pytest.mark.parametrize("after", [0, 2, 3])
async def test_cut_connection_is_noticed_after_the_pieces_before_it(
    provider: LocalProvider, model: Model[object], after: int
) -> None:
    """Even if only the end of the answer is missing."""
    provider.script = [CutsOff(after, of=Says("one two three"))]
    heard: list[str] = []
    with pytest.raises(ModelConnectionError):
        async with streaming(model) as stream:
            await collect_text(stream, heard)
    assert heard == ["one ", "two ", "three"][:after]
    assert provider.requests[-1].outcome == "cut off"


async def test_cut_connection_is_noticed_inside_a_call(provider: LocalProvider, model: Model[object]) -> None:
    provider.script = [CutsOff(1, of=Says(calls=[Wish("read_file", {"path": "somewhere"})]))]
    with pytest.raises(ModelConnectionError):
        await ask(model, tools=READ, streamed=True)


async def test_cut_connection_is_noticed_instead_of_a_whole_answer(
    provider: LocalProvider, model: Model[object], caplog: pytest.LogCaptureFixture
) -> None:
    provider.script = [CutsOff()]
    with caplog.at_level(logging.WARNING), pytest.raises(ModelConnectionError):
        await ask(model)
    assert caplog.records == []


async def test_hanging_stream_goes_on_when_released(provider: LocalProvider, model: Model[object]) -> None:
    hangs = Hangs(2, of=Says("one two three"))
    provider.script = [hangs]
    heard: list[str] = []
    async with streaming(model) as stream:
        listening = asyncio.create_task(collect_text(stream, heard))
        await eventually("the first pieces were heard", lambda: heard == ["one ", "two "])
        await eventually("the provider hangs", hangs.reached.is_set)
        hangs.release()
        await listening
    assert heard == ["one ", "two ", "three"]


async def test_hanging_answer_comes_when_released(provider: LocalProvider, model: Model[object]) -> None:
    hangs = Hangs(of=Says("at last"))
    provider.script = [hangs]
    asking = asyncio.create_task(ask(model))
    await eventually("the provider hangs", hangs.reached.is_set)
    assert not asking.done()
    hangs.release()
    assert text(await asking) == "at last"


async def test_client_that_leaves_is_noticed(
    provider: LocalProvider, model: Model[object], streamed: bool
) -> None:
    hangs = Hangs()
    provider.script = [hangs]
    asking = asyncio.create_task(ask(model, streamed=streamed))
    await eventually("the provider hangs", hangs.reached.is_set)
    asking.cancel()
    await eventually("the client was missed", lambda: provider.requests[-1].outcome == "left")


async def test_flood_arrives_whole(provider: LocalProvider, model: Model[object], streamed: bool) -> None:
    provider.script = [Floods(2000, piece="drop ")]
    assert text(await ask(model, streamed=streamed)) == "drop " * 2000


async def test_endless_answer_ends_when_the_client_leaves(provider: LocalProvider, model: Model[object]) -> None:
    provider.script = [NeverEnds()]
    heard: list[str] = []
    async with streaming(model) as stream:
        async for event in stream:
            heard.append(event_text(event))
            if len(heard) == 100:
                break
        await stream.close_stream()
    await eventually("the client was missed", lambda: provider.requests[-1].outcome == "left")


async def test_endless_answer_never_comes_whole(provider: LocalProvider, model: Model[object]) -> None:
    provider.script = [NeverEnds()]
    asking = asyncio.create_task(ask(model))
    await eventually("the request came", lambda: provider.requests)
    asking.cancel()
    await eventually("the client was missed", lambda: provider.requests[-1].outcome == "left")


async def test_script_may_be_a_function_of_the_request(provider: LocalProvider, model: Model[object]) -> None:
    provider.script = lambda asked: Says(f"{asked.text}, {asked.api}, {asked.tools}, {asked.streamed}")
    api = model.system
    assert text(await ask(model, [prompt("Hello")], READ)) == f"Hello, {api}, ['read_file'], False"
    assert text(await ask(model, [prompt("Hello")], streamed=True)) == f"Hello, {api}, [], True"


async def test_requests_are_remembered_in_order(provider: LocalProvider, model: Model[object]) -> None:
    provider.script = [Says("first")]
    assert [text(await ask(model, [prompt(said)])) for said in ("one", "two")] == ["first", "ok"]
    assert [asked.text for asked in provider.requests] == ["one", "two"]
    asked: Asked = provider.requests[0]
    assert (asked.outcome, asked.streamed, asked.body["model"]) == ("answered", False, "local")
    assert [message["role"] for message in asked.messages] == ["user"]


@pytest.mark.parametrize("api", ["openai", "anthropic"])
async def test_provider_that_ends_cuts_everybody_off(api: str) -> None:
    hangs = Hangs()
    async with AsyncExitStack() as connections:
        with LocalProvider([hangs]) as ending:
            model = await connections.enter_async_context(connect(ending, api))
            asking = asyncio.create_task(ask(model, streamed=True))
            await eventually("the provider hangs", hangs.reached.is_set)
        with pytest.raises(ModelConnectionError):
            await asking
    hangs.release()


def test_port_that_is_taken_is_an_error(listening: LocalProvider) -> None:
    with pytest.raises(OSError, match="in use"), LocalProvider(port=int(listening.url.rpartition(":")[2])):
        raise AssertionError("two providers listen on one port")

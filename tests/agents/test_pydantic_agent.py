"""Agents of pydantic-ai: what their model reads, what is kept of them, and what a turn does that was cut off.

Drives `agents/custom/pydantic_agent` and `agents/custom/pydantic_journal`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import msgspec
import pydantic
import pydantic_ai
import pytest
from pydantic_ai import BinaryContent, ModelRetry, ToolReturn
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.exceptions import (
    ModelContextWindowExceededError,
    ModelHTTPError,
    ModelQuotaExceededError,
    UnexpectedModelBehavior,
)
from pydantic_ai.messages import (
    ModelMessage,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import Model
from pydantic_ai.models.fallback import FallbackModel
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.usage import RequestUsage

from perdure.agents import PydanticAgent, Reply
from perdure.agents.builtin_agent import Bounds
from perdure.core import texts
from perdure.core.conversation import build_conversation
from perdure.core.journal import Entry, ModelAnswered, ModelAsked, TokenUsage, ToolCall, ToolEnded, TurnView
from perdure.core.recovery.decision import Tail, tail_of
from perdure.core.roles import ToolRights
from perdure.errors import ConfigurationError, ModelError, StoreBroken, TurnWaits
from perdure.testing import Crash, LocalProvider, RecordingTurn
from perdure.testing.providers import Says, Wish
from support.models import connect

pytestmark = pytest.mark.anyio


class Script:
    """A model that gives these responses, one per request, and remembers what it read."""

    def __init__(self, *responses: ModelResponse | Exception) -> None:
        self._responses = list(responses)
        self.read: list[list[ModelMessage]] = []
        self.infos: list[AgentInfo] = []

    async def __call__(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        self.read.append(list(messages))
        self.infos.append(info)
        response = self._responses.pop(0)
        if isinstance(response, Exception):
            raise response
        return response

    @property
    def model(self) -> FunctionModel:
        return FunctionModel(self)


def wish(*calls: str | ToolCallPart, text: str = "") -> ModelResponse:
    parts = [call if isinstance(call, ToolCallPart) else ToolCallPart(call, {}) for call in calls]
    return ModelResponse([*([TextPart(text)] if text else []), *parts], usage=RequestUsage(input_tokens=7))


def say(text: str = "Bye.") -> ModelResponse:
    return ModelResponse([TextPart(text)], usage=RequestUsage(input_tokens=5, output_tokens=2))


async def die(agent: PydanticAgent, turn: RecordingTurn) -> None:
    with pytest.raises(Crash):
        await agent.run(turn)


async def finish(agent: PydanticAgent, turn: RecordingTurn) -> Reply:
    """Run it to its end; every call of the whole turn has exactly one result."""
    reply = await agent.run(turn)
    turn.finish(reply)
    ends = [entry.call for entry in turn.entries if isinstance(entry, ToolEnded)]
    assert sorted(ends) == sorted(turn.view.calls), "B64: every call has exactly one result"
    return reply


def message_texts(messages: list[ModelMessage]) -> list[str]:
    """What a model read, one line each."""
    return [line for message in messages for part in message.parts for line in line_of(part)]


def line_of(part: Any) -> list[str]:
    match part:
        case SystemPromptPart(content=str(text)):
            return [f"system: {text}"]
        case UserPromptPart(content=str(text)):
            return [f"user: {text}"]
        case TextPart(content=text):
            return [f"said: {text}"]
        case ToolCallPart(tool_name=name):
            return [f"wished: {name}"]
        case ToolReturnPart(tool_name=name, content=content, outcome=outcome):
            return [f"{name}: {outcome}: {content}"]
        case _:
            return [type(part).__name__]


def results(turn: RecordingTurn) -> list[tuple[str, str, str]]:
    ended = [entry for entry in turn.entries if isinstance(entry, ToolEnded)]
    return [(turn.view.calls[entry.call].request.tool, entry.outcome, entry.text) for entry in ended]


def ends(entry: Entry) -> bool:
    return isinstance(entry, ToolEnded)


# ── what the model reads ────────────────────────────────────────────────────────────────────────────────────


async def test_model_reads_its_prompts_and_the_earlier_turns_in_every_turn() -> None:
    script = Script(wish("look", text="Let me see."), say("It is red."), say("You are welcome."))
    agent = pydantic_ai.Agent(script.model, system_prompt="Be kind.", instructions="Be brief.", tools=[look])
    first = RecordingTurn("Which colour?")
    await finish(PydanticAgent(agent), first)
    await finish(PydanticAgent(agent), first.followed_by("Thank you."))
    assert message_texts(script.read[0]) == ["system: Be kind.", "user: Which colour?"]
    assert message_texts(script.read[2]) == [
        "system: Be kind.",
        "user: Which colour?",
        "said: Let me see.",
        "wished: look",
        "look: success: seen",
        "said: It is red.",
        "user: Thank you.",
    ]
    assert [info.instructions for info in script.infos] == ["Be brief."] * 3


async def look() -> str:
    return "seen"


async def test_b47_note_and_b49_what_joined_are_read_once_behind_what_was_done() -> None:
    script = Script(wish("look"), wish("look"), say("Both done."))
    agent = PydanticAgent(pydantic_ai.Agent(script.model, tools=[look]), effects={"look": "pure"})
    turn = RecordingTurn("one").crash(when=ends)
    await die(agent, turn)
    turn = turn.resumed("two").crash(when=ends)
    await die(agent, turn)  # once more: of two notes the model reads the newest
    turn = turn.resumed()
    await finish(agent, turn)
    told = [line for line in message_texts(script.read[-1]) if not line.startswith("user: [Gateway note")]
    assert told == [
        "user: one",
        "wished: look",
        "look: success: seen",
        "user: two",
        "wished: look",
        "look: success: seen",
    ]
    noted = [sum(line.startswith("user: [Gateway note") for line in message_texts(read)) for read in script.read]
    assert noted == [0, 1, 1]


async def test_note_before_the_first_response_is_read_with_the_message() -> None:
    script = Script(say("Never kept."), say("Hello."))
    agent = PydanticAgent(pydantic_ai.Agent(script.model))
    turn = RecordingTurn("one").crash(1, after=True)
    await die(agent, turn)
    await finish(agent, turn.resumed("two"))
    assert [line[:20] for line in message_texts(script.read[-1])] == [
        "user: one",
        "user: two",
        "user: [Gateway note:",
    ]


async def test_deps_reach_the_tools() -> None:
    agent = pydantic_ai.Agent(Script(wish("who"), say()).model, deps_type=str)

    @agent.tool
    async def who(ctx: pydantic_ai.RunContext[str]) -> str:
        return ctx.deps

    turn = RecordingTurn()
    await finish(PydanticAgent(agent, deps="ann"), turn)
    assert results(turn) == [("who", "ok", "ann")]


# ── what is kept ────────────────────────────────────────────────────────────────────────────────────────────


async def test_responses_are_kept_with_their_cost_and_the_last_one_with_the_end_of_the_turn() -> None:
    """B73."""
    turn = RecordingTurn()
    reply = await PydanticAgent(pydantic_ai.Agent(Script(wish("look"), say()).model, tools=[look])).run(turn)
    assert [entry.kind for entry in turn.entries[2:]] == [
        ModelAsked.kind,
        ModelAnswered.kind,
        "tool_started",
        "tool_ended",
        ModelAsked.kind,
    ]
    (last,) = reply.closing
    assert isinstance(last, ModelAnswered)
    assert (last.step, last.text, last.finish, last.usage) == (2, "Bye.", "stop", TokenUsage(5, 2))
    turn.finish(reply)
    assert turn.view.tokens == 14
    assert tail_of(turn.view) is Tail.FINAL


async def test_thoughts_and_signatures_come_back_as_they_were() -> None:
    thought = ThinkingPart("Hm.", signature="sig", provider_name="function")
    call = ToolCallPart("look", "{ }", "odd id", provider_details={"k": 1}, provider_name="function")
    script = Script(ModelResponse([thought, call], provider_details={"d": 2}), say())
    agent = PydanticAgent(pydantic_ai.Agent(script.model, tools=[look]), effects={"look": "pure"})
    turn = RecordingTurn().crash(when=ends)
    await die(agent, turn)
    await finish(agent, turn.resumed())
    response = next(message for message in script.read[-1] if isinstance(message, ModelResponse))
    assert list(response.parts) == [thought, call]
    assert response.provider_details == {"d": 2}


class Found(pydantic.BaseModel):
    place: str


@pytest.mark.parametrize(
    ("value", "text"),
    [
        pytest.param("words", "words", id="words"),
        pytest.param({"a": [1]}, '{"a":[1]}', id="a dict"),
        pytest.param(Found(place="here"), '{"place":"here"}', id="a model"),
        pytest.param(None, "", id="nothing"),
        pytest.param(
            ToolReturn("found", content=["It is here:", "there"]), "found\nIt is here:\nthere", id="more"
        ),
        pytest.param(
            [1, BinaryContent(b"123", media_type="image/png")],
            "1\n[a file that cannot be shown here: image/png, 3 bytes]",
            id="a picture",
        ),
        pytest.param("half a letter \ud800", "half a letter ?", id="half a letter"),
    ],
)
async def test_model_reads_the_same_of_a_result_the_first_time_and_from_the_record(value: Any, text: str) -> None:
    """B46."""
    runs: list[int] = []

    async def find() -> Any:
        runs.append(1)
        return value

    for dies in (False, True):
        script = Script(wish("find"), say())
        agent = PydanticAgent(pydantic_ai.Agent(script.model, tools=[find]))
        turn = RecordingTurn()
        if dies:
            await die(agent, turn.crash(when=ends, after=True))
            turn = turn.resumed()
        await finish(agent, turn)
        assert f"find: success: {text}" in message_texts(script.read[-1])
    assert runs == [1, 1]


async def test_long_result_is_clipped() -> None:
    async def shout() -> str:
        return "x" * 1000

    turn = RecordingTurn()
    agent = pydantic_ai.Agent(Script(wish("shout"), say()).model, tools=[shout])
    await finish(PydanticAgent(agent, bounds=Bounds(max_result_chars=100)), turn)
    assert "900 characters left out" in results(turn)[0][2]


async def test_calls_with_the_same_id_have_results_of_their_own() -> None:
    """B64: some providers give every call the same id, or none."""

    async def echo(word: str) -> str:
        return word

    calls = [ToolCallPart("echo", {"word": word}, "same") for word in ("a", "b")]
    script = Script(wish(*calls), say())
    turn = RecordingTurn()
    await finish(PydanticAgent(pydantic_ai.Agent(script.model, tools=[echo])), turn)
    assert message_texts(script.read[-1])[-2:] == ["echo: success: a", "echo: success: b"]
    assert sorted(results(turn)) == [("echo", "ok", "a"), ("echo", "ok", "b")]


# ── refused calls, retries and outputs ──────────────────────────────────────────────────────────────────────


async def test_b64_calls_that_the_library_refuses_have_their_results_on_record() -> None:
    async def add(a: int) -> str:
        return str(a)

    bad = [ToolCallPart("add", "{not json"), ToolCallPart("add", {"a": "x"}), ToolCallPart("nothing", {})]
    script = Script(wish(*bad), wish(ToolCallPart("add", {"a": 1})), say())
    agent = PydanticAgent(pydantic_ai.Agent(script.model, tools=[add], retries=3))
    turn = RecordingTurn()
    await finish(agent, turn)
    assert [(tool, outcome) for tool, outcome, _ in results(turn)] == [
        ("add", "error"),
        ("add", "error"),
        ("nothing", "error"),
        ("add", "ok"),
    ]
    assert "Unknown tool name: 'nothing'" in results(turn)[2][2]


async def test_b105_tool_that_is_not_for_this_turn_is_refused_by_its_name() -> None:
    ran: list[str] = []

    async def look() -> str:
        ran.append("look")
        return "seen"

    async def touch() -> str:
        ran.append("touch")
        return "touched"

    script = Script(wish("look", "touch"), say())
    turn = RecordingTurn()
    turn.rights = ToolRights("guest", ("look",), "ann")
    await finish(PydanticAgent(pydantic_ai.Agent(script.model, tools=[look, touch])), turn)
    refused = texts.tool_calls.not_permitted("touch", "guest")
    assert (ran, sorted(results(turn))) == (["look"], [("look", "ok", "seen"), ("touch", "error", refused)])


async def test_tool_that_asks_for_another_try_counts_its_tries_also_after_a_crash() -> None:
    """And the turn fails with a sentence when there were too many."""

    async def guess() -> str:
        raise ModelRetry("Colder.")

    def agent() -> PydanticAgent:
        return PydanticAgent(pydantic_ai.Agent(script.model, tools=[guess], retries=1))

    script = Script(wish("guess"), wish("guess"), say())
    turn = RecordingTurn().crash(when=ends, after=True)
    await die(agent(), turn)
    assert results(turn) == [("guess", "error", texts.agents.call_again("Colder."))]
    with pytest.raises(ModelError) as caught:
        await agent().run(turn.resumed())
    assert caught.value.message.startswith(texts.agents.PROVIDER_GARBLED)
    assert "guess: retried: Colder." in message_texts(script.read[1])[2]


async def test_b64_structured_output_is_json_and_leaves_a_whole_transcript() -> None:
    bad, good = (ToolCallPart("final_result", args) for args in ({"plaice": 1}, {"place": "here"}))
    script = Script(wish(bad), wish(good), say("And now?"))
    agent = pydantic_ai.Agent(script.model, output_type=Found)
    turn = RecordingTurn()
    reply = await finish(PydanticAgent(agent), turn)
    assert reply.text == '{"place":"here"}'
    assert [(tool, outcome) for tool, outcome, _ in results(turn)] == [
        ("final_result", "error"),
        ("final_result", "ok"),
    ]
    assert tail_of(turn.view) is Tail.FINAL
    told = build_conversation([turn.view], TurnView()).previous_messages
    assert getattr(told[-1], "text", "") == '{"place":"here"}'


async def test_output_beside_other_calls_leaves_a_whole_transcript() -> None:
    both = wish("look", ToolCallPart("final_result", {"place": "here"}))
    turn = RecordingTurn().crash(when=ends, after=True)
    agent = PydanticAgent(pydantic_ai.Agent(Script(both).model, output_type=Found, tools=[look]))
    await die(agent, turn)
    turn = turn.resumed()
    assert (await finish(agent, turn)).text == '{"place":"here"}'


async def test_rejected_answer_is_never_taken_for_the_final_one() -> None:
    """B44: dies when the model has been asked for a better one."""
    script = Script(say("Maybe."), say("Yes."))

    def agent() -> PydanticAgent:
        made = pydantic_ai.Agent(script.model)

        @made.output_validator
        def decide(output: str) -> str:
            if output == "Maybe.":
                raise ModelRetry("Decide.")
            return output

        return PydanticAgent(made)

    turn = RecordingTurn().crash(2, after=True)
    await die(agent(), turn)
    assert tail_of(turn.view) is Tail.TRUNCATED
    turn = turn.resumed()
    assert (await finish(agent(), turn)).text == "Yes."
    assert [response.text for response in turn.view.responses] == ["Maybe.", "Yes."]


async def test_final_answer_on_record_is_given_again_and_nothing_is_asked() -> None:
    """B44."""
    turn = RecordingTurn()
    turn.write(ModelAnswered(1, "Bye.", (), "stop"))
    script = Script()
    assert await PydanticAgent(pydantic_ai.Agent(script.model)).run(turn) == Reply("Bye.")


# ── effects ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("metadata", "effects", "runs"),
    [
        pytest.param(None, {}, 1, id="undeclared"),
        pytest.param({"perdure_effect": "pure"}, {}, 2, id="by metadata"),
        pytest.param(None, {"count": "pure"}, 2, id="by name"),
        pytest.param({"perdure_effect": "pure"}, {"count": "once"}, 1, id="by name against metadata"),
    ],
)
async def test_b61_effect_of_a_tool(metadata: dict[str, Any] | None, effects: dict[str, str], runs: int) -> None:
    ran: list[int] = []

    async def count() -> str:
        ran.append(1)
        return "counted"

    tool = pydantic_ai.Tool(count, takes_ctx=False, metadata=metadata)
    script = Script(wish("count"), say())
    agent = PydanticAgent(pydantic_ai.Agent(script.model, tools=[tool]), effects=effects)
    turn = RecordingTurn().crash(when=ends)
    await die(agent, turn)
    turn = turn.resumed()
    await finish(agent, turn)
    assert len(ran) == runs
    assert (texts.tool_calls.OUTCOME_UNKNOWN in results(turn)[0][2]) == (runs == 1)
    assert (f"count: failed: {texts.tool_calls.OUTCOME_UNKNOWN}" in message_texts(script.read[-1])) == (runs == 1)


def test_effect_that_is_none_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="the tool 'look' has the effect 'twice'; expected one of pure"):
        PydanticAgent(pydantic_ai.Agent(), effects={"look": "twice"})


async def test_error_of_a_tool_is_told_to_the_model() -> None:
    async def fall() -> str:
        raise KeyError("ladder")

    turn = RecordingTurn()
    await finish(PydanticAgent(pydantic_ai.Agent(Script(wish("fall"), say()).model, tools=[fall])), turn)
    assert results(turn) == [("fall", "error", "the tool failed: KeyError: 'ladder'")]


async def test_tool_that_wants_to_wait_for_somebody_is_told_that_it_cannot() -> None:
    async def defer() -> str:
        raise pydantic_ai.CallDeferred

    turn = RecordingTurn()
    await finish(PydanticAgent(pydantic_ai.Agent(Script(wish("defer"), say()).model, tools=[defer])), turn)
    assert results(turn) == [("defer", "error", texts.agents.DEFERRED_TOOL_NOT_RUN)]


async def test_turn_fails_with_a_sentence_when_the_agent_puts_off_calls() -> None:
    tool = pydantic_ai.Tool(look, takes_ctx=False, requires_approval=True)
    agent = pydantic_ai.Agent(
        Script(wish("look")).model, tools=[tool], output_type=[str, pydantic_ai.DeferredToolRequests]
    )
    with pytest.raises(ModelError, match=r"wants to wait for results from elsewhere \(look\)"):
        await PydanticAgent(agent).run(RecordingTurn())


async def test_b65_turn_goes_on_when_a_tool_is_gone_and_the_library_is_another() -> None:
    script = Script(wish("look", "send"), say())

    async def send() -> str:
        await asyncio.Event().wait()
        return "never"

    old = PydanticAgent(pydantic_ai.Agent(script.model, tools=[look, send]))
    turn = RecordingTurn().crash(when=ends, after=True)
    await die(old, turn)
    turn = turn.resumed()
    answer = turn.view.responses[0]
    turn.view.responses[0] = msgspec.structs.replace(answer, native={"kind": "response", "parts": "other"})
    new = PydanticAgent(pydantic_ai.Agent(script.model, tools=[look]))
    assert (await finish(new, turn)).text == "Bye."
    assert results(turn) == [("look", "ok", "seen"), ("send", "unknown", texts.tool_calls.OUTCOME_UNKNOWN)]


async def test_b65_turn_of_the_built_in_agent_goes_on() -> None:
    turn = RecordingTurn()
    turn.write(ModelAsked(1, "m"), ModelAnswered(1, "", (ToolCall("c1.1", "look", {}),), "tool_calls"))
    script = Script(say())
    await finish(PydanticAgent(pydantic_ai.Agent(script.model, tools=[look])), turn.resumed())
    assert "look: success: seen" in message_texts(script.read[0])


# ── questions ───────────────────────────────────────────────────────────────────────────────────────────────


async def test_b67_questions_come_one_by_one_when_the_other_calls_are_done() -> None:
    def question(text: str) -> ToolCallPart:
        return ToolCallPart("clarify", {"question": text, "options": []})

    script = Script(wish(question("Which?"), "look", question("When?"), ToolCallPart("clarify", {})), say())
    agent = PydanticAgent(pydantic_ai.Agent(script.model, tools=[look]), clarify=True)
    turn = RecordingTurn()
    with pytest.raises(TurnWaits):
        await agent.run(turn)
    assert results(turn) == [("look", "ok", "seen")]
    turn = turn.answered("This.")
    with pytest.raises(TurnWaits):
        await agent.run(turn)
    turn = turn.answered("Now.")
    await finish(agent, turn)
    assert message_texts(script.read[-1])[-4:] == [
        "clarify: success: This.",
        "look: success: seen",
        "clarify: success: Now.",
        f"clarify: failed: {texts.questions.QUESTION_MISSING}",
    ]


async def test_model_is_not_offered_to_ask_unless_that_is_wanted() -> None:
    script = Script(say())
    await finish(PydanticAgent(pydantic_ai.Agent(script.model)), RecordingTurn())
    assert script.infos[0].function_tools == []


# ── how runs end ────────────────────────────────────────────────────────────────────────────────────────────


class Forgiving(AbstractCapability[Any]):
    """Takes every error of a tool for a result, and every error of a model for an answer."""

    async def on_tool_execute_error(self, ctx: Any, **_: Any) -> str:
        return "never mind"

    async def on_model_request_error(self, ctx: Any, **_: Any) -> ModelResponse:
        return say("never mind")


@pytest.mark.parametrize("at", range(1, 6))
async def test_b60_agent_that_forgives_everything_does_nothing_more_when_saving_fails(at: int) -> None:
    ran: list[int] = []

    async def count() -> str:
        ran.append(1)
        return "counted"

    agent = pydantic_ai.Agent(Script(wish("count"), say()).model, tools=[count], capabilities=[Forgiving()])
    with pytest.raises(StoreBroken):
        await PydanticAgent(agent).run(RecordingTurn().break_store(at))
    assert len(ran) == (at > 3)


@pytest.mark.parametrize(
    ("bounds", "sentence"),
    [
        pytest.param(Bounds(max_steps=2), texts.turns.too_many_steps(2), id="steps"),
        pytest.param(Bounds(max_tokens=10), texts.turns.too_many_tokens(14, 10), id="tokens"),
    ],
)
async def test_turn_fails_with_a_sentence_at_its_bounds(bounds: Bounds, sentence: str) -> None:
    agent = pydantic_ai.Agent(Script(wish("look"), wish("look"), wish("look")).model, tools=[look])
    with pytest.raises(ModelError) as caught:
        await PydanticAgent(agent, bounds=bounds).run(RecordingTurn())
    assert caught.value.message == sentence


def refusing(*errors: Exception) -> Model:
    models = [Script(*[error] * 9).model for error in errors]
    return FallbackModel(models[0], *models[1:]) if len(models) > 1 else models[0]


@pytest.mark.parametrize(
    ("errors", "sentence"),
    [
        pytest.param(
            [ModelHTTPError(400, "m", {"message": "no"})], texts.agents.provider_refused("no"), id="refuses"
        ),
        pytest.param(
            [ModelContextWindowExceededError("m", "long")],
            texts.agents.CONVERSATION_TOO_LONG,
            id="is asked too much",
        ),
        pytest.param([UnexpectedModelBehavior("what?")], texts.agents.PROVIDER_GARBLED, id="makes no sense"),
        pytest.param(
            [ModelQuotaExceededError("m", "no")] * 2,
            texts.agents.PROVIDER_QUOTA_EXHAUSTED,
            id="and the next one fail",
        ),
    ],
)
async def test_turn_fails_with_a_sentence_when_the_provider(errors: list[Exception], sentence: str) -> None:
    with pytest.raises(ModelError) as caught:
        await PydanticAgent(pydantic_ai.Agent(refusing(*errors)), bounds=Bounds(retry_backoff_seconds=0.001)).run(
            RecordingTurn()
        )
    assert caught.value.message.startswith(sentence)


# ── previews and events ─────────────────────────────────────────────────────────────────────────────────────


async def test_people_see_the_answer_grow() -> None:
    """B76."""

    async def stream(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str]:
        yield "Hel"
        yield "lo."

    turn = RecordingTurn(shows=True)
    agent = pydantic_ai.Agent(FunctionModel(stream_function=stream))
    assert (await finish(PydanticAgent(agent), turn)).text == "Hello."
    assert turn.shown == ["Hel", "Hello."]


async def test_model_that_cannot_stream_answers_whole_when_people_could_see_it_grow() -> None:
    turn = RecordingTurn(shows=True)
    assert (await finish(PydanticAgent(pydantic_ai.Agent(Script(say()).model)), turn)).text == "Bye."


class Listening(AbstractCapability[Any]):
    """Listens to a run, for which the library streams."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    async def wrap_run_event_stream(self, ctx: Any, *, stream: Any) -> AsyncIterator[Any]:
        async for event in stream:
            self.heard.append(type(event).__name__)
            yield event


async def test_agent_that_listens_to_its_events_hears_them_also_after_a_crash() -> None:
    listening = Listening()
    script = Script(wish("look"), say())
    agent = PydanticAgent(pydantic_ai.Agent(script.model, tools=[look], capabilities=[listening]))
    turn = RecordingTurn().crash(when=ends, after=True)
    await die(agent, turn)
    listening.heard.clear()
    await finish(agent, turn.resumed())
    assert {"PartStartEvent", "FunctionToolCallEvent", "FunctionToolResultEvent"} <= {*listening.heard}
    assert len(script.read) == 2


# ── strict providers ────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def provider() -> Iterator[LocalProvider]:
    with LocalProvider() as provider:
        yield provider


@pytest.mark.parametrize("api", ["openai", "anthropic"])
@pytest.mark.parametrize("shows", [False, True], ids=["whole", "streamed"])
async def test_b64_strict_provider_accepts_every_transcript_wherever_it_crashes(
    provider: LocalProvider, api: str, shows: bool
) -> None:
    """B60: of a partly finished set only the missing ones run."""
    ran: list[str] = []

    def tool(name: str) -> Callable[[], Awaitable[str]]:
        async def run() -> str:
            ran.append(name)
            return f"{name} done"

        return run

    async with connect(provider, api) as model:
        tools = [pydantic_ai.Tool(tool(name), takes_ctx=False, name=name) for name in ("a", "b")]
        agent = PydanticAgent(pydantic_ai.Agent(model, tools=tools))
        for at in range(1, 9):
            ran.clear()
            provider.script = [Says("On it.", calls=(Wish("a"), Wish("b"))), Says("Done."), Says("Fine.")]
            turn = RecordingTurn("go", shows=shows).crash(at, after=True)
            try:
                reply = await finish(agent, turn)
            except Crash:
                provider.script = (
                    provider.script
                    if turn.view.responses
                    else [Says("On it.", calls=(Wish("a"), Wish("b"))), Says("Done."), Says("Fine.")]
                )
                turn = turn.resumed()
                reply = await finish(agent, turn)
            assert reply.text == "Done."
            assert sorted(ran) == sorted({*ran}), "a tool that may run once ran twice"
            assert (await finish(agent, turn.followed_by("thanks"))).text == "Fine."
            assert provider.refusals == []

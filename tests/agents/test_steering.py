"""What people write while a turn runs and want heard: agents with a model hear it before its next call.

Drives `agents/builtin_agent` and `agents/custom`.
"""

from __future__ import annotations

import asyncio

import pydantic_ai
import pytest
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, TextPart, ToolCallPart, UserPromptPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from perdure.agents import Agent, FunctionAgent, PydanticAgent, StepContext, api
from perdure.agents.builtin_agent import BuiltinAgent
from perdure.core.conversation import UserMessage
from perdure.core.effects import Effect
from perdure.core.journal import MessagesJoined, ModelAnswered, ToolCall
from perdure.core.tools import Tool, Use
from perdure.errors import TurnMoved
from perdure.testing import Crash, RecordingTurn


class Desk:
    """An agent with one tool, during whose run somebody writes; what the model was told each time is kept."""

    def __init__(self, turn: RecordingTurn) -> None:
        self.turn = turn
        self.told: list[list[str]] = []
        self.name, self.window = "desk", 1_000_000

    def look(self) -> str:
        self.turn.waiting.append("And the plants.")
        return "seen"

    def loop(self) -> Agent:
        async def run(_: Use) -> str:
            return self.look()

        return BuiltinAgent(self, [Tool("look", "Looks.", run, Effect.PURE)])

    async def close(self) -> None: ...

    async def respond(
        self, request: api.ModelRequest, show_preview: api.PreviewCallback | None = None
    ) -> ModelAnswered:
        self.told.append([message.text for message in request.messages if isinstance(message, UserMessage)])
        if request.step == 1:
            return ModelAnswered(1, "", (ToolCall("c1.1", "look", {}),), "tool_calls")
        return ModelAnswered(request.step, "done", (), "stop")

    def pydantic(self) -> Agent:
        def respond(messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
            parts = [part for message in messages if isinstance(message, ModelRequest) for part in message.parts]
            self.told.append([str(part.content) for part in parts if isinstance(part, UserPromptPart)])
            first = not any(isinstance(message, ModelResponse) for message in messages)
            return ModelResponse([ToolCallPart("look", {}) if first else TextPart("done")])

        agent = pydantic_ai.Agent(FunctionModel(respond))
        agent.tool_plain(self.look)
        return PydanticAgent(agent, effects={"look": "pure"})


@pytest.mark.parametrize("kind", ["loop", "pydantic"])
def test_b80_message_is_heard_before_the_next_call_of_the_model(kind: str) -> None:
    turn = RecordingTurn("Look.")
    desk = Desk(turn)
    turn.finish(asyncio.run((desk.loop() if kind == "loop" else desk.pydantic()).run(turn)))
    assert desk.told == [["Look."], ["Look.", "And the plants."]]
    assert [cause.text for cause in turn.view.causes] == ["Look.", "And the plants."]
    assert turn.waiting == []


@pytest.mark.parametrize("kind", ["loop", "pydantic"])
def test_b80_message_that_was_heard_is_read_once_when_the_turn_goes_on_after_a_crash(kind: str) -> None:
    turn = RecordingTurn("Look.").crash(when=lambda entry: isinstance(entry, MessagesJoined), after=True)
    with pytest.raises(BaseException) as died:
        desk = Desk(turn)
        asyncio.run((desk.loop() if kind == "loop" else desk.pydantic()).run(turn))
    assert died.group_contains(Crash) if isinstance(died.value, BaseExceptionGroup) else died.type is Crash
    again = turn.resumed()
    desk = Desk(again)
    asyncio.run((desk.loop() if kind == "loop" else desk.pydantic()).run(again))
    heard = [text for text in desk.told[-1] if text in ("Look.", "And the plants.")]
    assert heard == ["Look.", "And the plants."]


@pytest.mark.parametrize("kind", ["loop", "pydantic"])
def test_turn_that_has_ended_is_noticed_when_listening(kind: str) -> None:
    turn = RecordingTurn("Look.")
    turn.over = TurnMoved("it is no longer ours")
    desk = Desk(turn)
    with pytest.raises(TurnMoved):
        asyncio.run((desk.loop() if kind == "loop" else desk.pydantic()).run(turn))
    assert desk.told == []


def test_function_leaves_what_people_write_to_the_next_turn() -> None:
    turn = RecordingTurn("Look.")
    turn.waiting.append("And the plants.")

    async def answer(context: StepContext) -> str:
        return await context.step("look", lambda: "seen", effect="pure")  # type: ignore[no-any-return]

    assert asyncio.run(FunctionAgent(answer).run(turn)).text == "seen"
    assert turn.waiting == ["And the plants."]

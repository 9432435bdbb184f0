"""Every agent that comes with Perdure, put to the public suite: B46, B60, B61, B62, B64 and B67 hold for each.

Drives `agents/builtin_agent` and `agents/custom`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence

import pydantic_ai
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from perdure.agents import Agent, FunctionAgent, PydanticAgent, StepContext, api, idempotency_key
from perdure.agents.builtin_agent import BuiltinAgent
from perdure.core.conversation import AssistantMessage, ToolMessage
from perdure.core.effects import Effect
from perdure.core.journal import ModelAnswered, TokenUsage, ToolCall
from perdure.core.tools import FixedTools, Tool, Use
from perdure.errors import OutcomeUnknown, StepFailed
from perdure.testing import AgentConformance, Plan, Question, Step

CAME = {"ok": "done", "error": "failed", "unknown": "unknown"}


# ── the built-in agent ──────────────────────────────────────────────────────────────────────────────────────


class PlanModel:
    """A model that wishes what a plan says, stage by stage, and tells of it in the end."""

    name = "plan"
    window = 1_000_000

    def __init__(self, plan: Plan) -> None:
        self._plan = plan

    async def respond(
        self, request: api.ModelRequest, show_preview: api.PreviewCallback | None = None
    ) -> ModelAnswered:
        stage = sum(isinstance(message, AssistantMessage) for message in request.messages)
        if stage < len(self._plan.stages):
            return ModelAnswered(request.step, "", wishes(self._plan, stage), "tool_calls", TokenUsage(1, 1))
        results = [message for message in request.messages if isinstance(message, ToolMessage)]
        came = {of.tool: CAME[of.outcome] for of in results if of.tool != "clarify"}
        came |= {name: of.text for of in results if of.tool == "clarify" for name in questions(self._plan)}
        return ModelAnswered(request.step, self._plan.answer(came), (), "stop", TokenUsage(1, 1))

    async def close(self) -> None:
        """There is nothing to let go of."""


def wishes(plan: Plan, number: int) -> tuple[ToolCall, ...]:
    stage = plan.stages[number]
    if isinstance(stage, Question):
        return (ToolCall(f"c{number}.1", "clarify", {"question": stage.text, "options": list(stage.options)}),)
    return tuple(ToolCall(f"c{number}.{place}", step.name, {}) for place, step in enumerate(stage, 1))


def questions(plan: Plan) -> list[str]:
    return [stage.name for stage in plan.stages if isinstance(stage, Question)]


def as_tool(step: Step) -> Tool:
    async def run(use: Use) -> str:
        return await step.run(use.key)

    return Tool(step.name, "Does it.", run, step.effect)


class TestLoopAgent(AgentConformance):
    def agent(self, plan: Plan) -> Agent:
        return BuiltinAgent(PlanModel(plan), FixedTools([as_tool(step) for step in plan.steps]))


# ── a function ──────────────────────────────────────────────────────────────────────────────────────────────


class TestFunctionAgent(AgentConformance):
    def agent(self, plan: Plan) -> Agent:
        async def carry_out(context: StepContext) -> str:
            came: dict[str, str] = {}
            for stage in plan.stages:
                if isinstance(stage, Question):
                    came[stage.name] = await context.ask(stage.text, stage.options)
                else:
                    came |= await side_by_side(context, stage)
            return plan.answer(came)

        return FunctionAgent(carry_out)


async def side_by_side(context: StepContext, steps: Sequence[Step]) -> Mapping[str, str]:
    async with asyncio.TaskGroup() as group:
        tasks = {step.name: group.create_task(outcome(context, step)) for step in steps}
    return {name: task.result() for name, task in tasks.items()}


async def outcome(context: StepContext, step: Step) -> str:
    key = "key" if step.effect is Effect.KEYED else None
    try:
        return str(await context.step(step.name, step.run, effect=step.effect, key_argument=key))
    except OutcomeUnknown:
        return "unknown"
    except StepFailed:
        return "failed"


# ── an agent of pydantic-ai ─────────────────────────────────────────────────────────────────────────────────


class TestPydanticAgent(AgentConformance):
    def agent(self, plan: Plan) -> Agent:
        async def respond(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
            stage = sum(isinstance(message, ModelResponse) for message in messages)
            if stage < len(plan.stages):
                return ModelResponse([ToolCallPart(wish.tool, wish.arguments) for wish in wishes(plan, stage)])
            return ModelResponse([TextPart(plan.answer(dict(told(plan, messages))))])

        tools = [pydantic_ai.Tool(as_function(step), takes_ctx=False, name=step.name) for step in plan.steps]
        agent = pydantic_ai.Agent(FunctionModel(respond), tools=tools)
        return PydanticAgent(agent, effects={step.name: step.effect for step in plan.steps}, clarify=True)


def as_function(step: Step) -> Callable[[], Awaitable[str]]:
    async def run() -> str:
        return await step.run(idempotency_key())

    return run


def told(plan: Plan, messages: Sequence[ModelMessage]) -> Iterator[tuple[str, str]]:
    """What came of each, as the model reads it."""
    for message in messages:
        for part in message.parts if isinstance(message, ModelRequest) else ():
            if not isinstance(part, ToolReturnPart):
                continue
            if part.tool_name == "clarify":
                yield from ((name, str(part.content)) for name in questions(plan))
            elif part.outcome == "success":
                yield part.tool_name, "done"
            else:
                unknown = str(part.content).startswith("outcome unknown")
                yield part.tool_name, "unknown" if unknown else "failed"

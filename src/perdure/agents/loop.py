"""The built-in agent: look at the journal, take the next action, append what came of it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence

from msgspec import Struct

from perdure.agents.api import Model, ModelRequest, Reply, TurnContext
from perdure.core import notes
from perdure.core.conversation import current_messages, earlier_messages
from perdure.core.effects import REMEDIES, Effect, Remedy
from perdure.core.journal import Call, ModelAsked, Outcome, ToolEnded, ToolStarted, TurnView
from perdure.core.tail import is_final
from perdure.core.tools import Tool, Use
from perdure.errors import ModelError, PerdureError

CLARIFY = "clarify"  # the tool that asks a person


class AskModel(Struct, frozen=True):
    step: int


class RunCalls(Struct, frozen=True):
    calls: tuple[Call, ...]


class Finish(Struct, frozen=True):
    text: str


Action = AskModel | RunCalls | Finish


def next_action(view: TurnView) -> Action:
    """What the journal calls for next. Of a partly finished set of calls, only the missing ones."""
    if view.open_calls:
        return RunCalls(tuple(view.open_calls))
    if view.responses and is_final(view.responses[-1]) and view.content[-1].entry is view.responses[-1]:
        return Finish(view.responses[-1].text)
    return AskModel(len(view.responses) + 1)


class LoopAgent:
    """A model with tools."""

    def __init__(
        self, model: Model, tools: Iterable[Tool] = (), *, system_prompt: str = "", max_steps: int = 90
    ) -> None:
        self._model = model
        self._tools = {tool.name: tool for tool in tools}
        self._system_prompt = system_prompt
        self._max_steps = max_steps

    async def run(self, context: TurnContext) -> Reply:
        while True:
            match next_action(context.view):
                case Finish(text):
                    return Reply(text)
                case RunCalls(calls):
                    await self._perform_all(context, calls)
                case AskModel(step):
                    reply = await self._ask(context, step)
                    if reply is not None:
                        return reply

    async def _ask(self, context: TurnContext, step: int) -> Reply | None:
        """Ask the model. A final answer is not appended here: it is committed with the end of the turn."""
        if step > self._max_steps:
            raise ModelError(notes.too_many_steps(self._max_steps))
        await context.append(ModelAsked(step, self._model.name))
        earlier, now = earlier_messages(context.history), current_messages(context.view)
        answered = await self._model.respond(
            ModelRequest([*earlier, *now], step, len(earlier), self._system_prompt, tuple(self._tools))
        )
        if is_final(answered):
            return Reply(answered.text, (answered,))
        await context.append(answered)
        return None

    async def _perform_all(self, context: TurnContext, calls: Sequence[Call]) -> None:
        """Run the calls side by side; a question to a person comes when everything else is done."""
        questions = [call for call in calls if call.request.tool == CLARIFY]
        if len(questions) == len(calls):
            await self._clarify(context, questions[0])
            return
        try:
            async with asyncio.TaskGroup() as group:
                for call in calls:
                    if call not in questions:
                        group.create_task(self._perform(context, call))
        except BaseExceptionGroup as failures:
            raise failures.exceptions[0] from None  # the first that cannot be journalled ends them all

    async def _clarify(self, context: TurnContext, call: Call) -> None:
        """Ask, or take the answer that came."""
        request, answer = call.request, context.view.answer
        if answer is not None and answer.question == request.id:
            text = answer.text if answer.chosen else notes.NOT_ANSWERED
            await context.append(ToolEnded(request.id, "ok", text))
            return
        options = [str(option) for option in request.arguments.get("options", ())]
        began = ToolStarted(request.id, CLARIFY, Effect.PURE, f"{context.turn}:{request.id}")
        also = () if call.started else (began,)
        await context.ask(request.id, str(request.arguments.get("question", "")), options, *also)

    async def _perform(self, context: TurnContext, call: Call) -> None:
        """Bring one call to its result: intent on disk, then the tool, then the result on disk."""
        tool, request = self._tools.get(call.request.tool), call.request
        if call.started is not None and (tool is None or REMEDIES[call.started.effect] is not Remedy.REPEAT):
            await context.append(ToolEnded(request.id, "unknown", notes.OUTCOME_UNKNOWN))
            return
        if tool is None:
            unknown = notes.unknown_tool(request.tool, sorted(self._tools))
            await context.append(
                ToolStarted(request.id, request.tool, Effect.PURE, ""), ToolEnded(request.id, "error", unknown)
            )
            return
        key = call.started.key if call.started else f"{context.turn}:{request.id}"
        if call.started is None:
            await context.append(ToolStarted(request.id, tool.name, tool.effect, key))
        outcome, text = await _use(tool, Use(request.arguments, key))
        await context.append(ToolEnded(request.id, outcome, text))


async def _use(tool: Tool, use: Use) -> tuple[Outcome, str]:
    try:
        return "ok", await tool.run(use)
    except PerdureError:
        raise
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        return "error", notes.tool_failed(error)  # nobody cancelled us: the tool gave up by itself
    except Exception as error:  # noqa: BLE001 reason: a tool may fail in any way; the model is told, and may correct it
        return "error", notes.tool_failed(error)

"""The built-in agent: look at the journal, take the next action, append what came of it."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping, Sequence

from msgspec import Struct

from perdure.agents.api import Model, ModelRequest, Reply, TurnContext
from perdure.agents.calls import Calls
from perdure.boundary import raise_uncontained
from perdure.core import notes
from perdure.core.compaction import cut, is_full
from perdure.core.conversation import Conversation, UserMessage, conversation
from perdure.core.journal import Call, Compacted, ModelAnswered, ModelAsked, TurnView
from perdure.core.tail import is_final
from perdure.core.tools import FixedTools, Tool, Toolbox
from perdure.errors import ContextTooLong, ModelError

CUT_OFFS = 3  # responses in a row that end without an end; then the turn fails
WITHHELD = frozenset(("content_filter", "refusal", "safety"))  # asking again would not help
PATIENCE = 10  # times that a model may wish for the very same; half of them are granted


class Bounds(Struct, frozen=True):
    """How far one turn may go."""

    steps: int = 90  # model calls
    tokens: int | None = None
    result: int = 30_000  # characters of one result that the model reads
    call: float = 600.0  # seconds that one call may take


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


def repeats(responses: Sequence[ModelAnswered]) -> int:
    """How many responses in a row, up to the newest, wish for the very same."""
    wishes = [[(call.tool, call.arguments) for call in response.calls] for response in responses]
    count = 0
    while count < len(wishes) and wishes[-1] and wishes[-1 - count] == wishes[-1]:
        count += 1
    return count


class LoopAgent:
    """A model with tools."""

    def __init__(
        self,
        model: Model,
        tools: Toolbox | Sequence[Tool] = (),
        *,
        system_prompt: str = "",
        bounds: Bounds | None = None,
    ) -> None:
        self._model = model
        self._toolbox = FixedTools(tools) if isinstance(tools, Sequence) else tools
        self._system_prompt = system_prompt
        self._bounds = bounds or Bounds()

    async def run(self, context: TurnContext) -> Reply:
        tools = {tool.name: tool for tool in await self._toolbox.tools()}
        while True:
            match next_action(context.view):
                case Finish(text):
                    return Reply(text)
                case RunCalls(calls):
                    await self._perform_all(context, calls, tools)
                case AskModel(step):
                    reply = await self._ask(context, step, tools)
                    if reply is not None:
                        return reply

    # ── the model ───────────────────────────────────────────────────────────────────────────────────────────

    async def _ask(self, context: TurnContext, step: int, tools: Mapping[str, Tool]) -> Reply | None:
        """Ask the model. A final answer is not appended here: it is committed with the end of the turn."""
        await context.listen()
        self._check_bounds(context.view, step)
        talk = conversation(context.history, context.view, context.find)
        if is_full(talk, self._model.window) and await self._compact(context, step, talk, self._model.window):
            return None
        await context.append(ModelAsked(step, self._model.name))
        try:
            answered = await self._respond(context, step, talk, tools)
        except ContextTooLong:
            if not await self._compact(context, step, talk, self._model.window // 2):
                raise
            return None
        if is_final(answered):
            return Reply(answered.text, (answered,))
        await context.append(answered)
        return None

    async def _respond(
        self, context: TurnContext, step: int, talk: Conversation, tools: Mapping[str, Tool]
    ) -> ModelAnswered:
        request = ModelRequest(talk.messages, step, len(talk.before), self._system_prompt, tuple(tools.values()))
        return await self._model.respond(request, context.show if context.shows else None)

    def _check_bounds(self, view: TurnView, step: int) -> None:
        if step > self._bounds.steps:
            raise ModelError(notes.too_many_steps(self._bounds.steps))
        if self._bounds.tokens is not None and view.tokens >= self._bounds.tokens:
            raise ModelError(notes.too_many_tokens(view.tokens, self._bounds.tokens))
        cut_off = [one for one in view.responses[-CUT_OFFS:] if not one.calls and not is_final(one)]
        if len(cut_off) == CUT_OFFS or any(one.finish in WITHHELD for one in cut_off):
            raise ModelError(notes.no_whole_answer(cut_off[-1].finish, cut_off[-1].text))
        if repeats(view.responses) >= PATIENCE:
            raise ModelError(notes.going_in_circles(PATIENCE))

    async def _compact(self, context: TurnContext, step: int, talk: Conversation, window: int) -> bool:
        """Let the model sum up the older part of the conversation. False: there is nothing to leave out."""
        where = cut(talk, window)
        if where is None:
            return False
        await context.append(ModelAsked(step, self._model.name))
        request = ModelRequest(
            [UserMessage(notes.sum_up(where.transcript))], step, system_prompt=notes.SUMMARISER, purpose="summary"
        )
        summed = await self._model.respond(request)
        if not summed.text.strip():
            raise ModelError(notes.NO_SUMMARY)
        await context.append(Compacted(where.through, summed.text, summed.usage))
        return True

    # ── the calls ───────────────────────────────────────────────────────────────────────────────────────────

    async def _perform_all(self, context: TurnContext, calls: Sequence[Call], tools: Mapping[str, Tool]) -> None:
        """Run the calls side by side; a question to a person comes when everything else is done."""
        hands = Calls(context, tools, result=self._bounds.result, timeout=self._bounds.call)
        questions = [call for call in calls if hands.asks(call)]
        if len(questions) == len(calls):
            await hands.ask(questions[0])
            return
        tired = repeats(context.view.responses) > PATIENCE // 2
        try:
            async with asyncio.TaskGroup() as group:
                for call in calls:
                    if call not in questions:
                        work = hands.refuse(call, notes.SAME_AGAIN) if tired else hands.perform(call)
                        group.create_task(_told_if_cancelled(work))
        except BaseExceptionGroup as failures:
            first = failures.exceptions[0]  # the first that cannot be journalled ends them all
            raise first from first.__cause__


async def _told_if_cancelled(work: Coroutine[None, None, None]) -> None:
    """Do the work. A task group would overlook that it was cancelled by nobody but itself."""
    try:
        await work
    except asyncio.CancelledError as error:
        raise_uncontained(error)
        raise RuntimeError("a call was cancelled, and nobody had asked for that") from error
    finally:
        work.close()

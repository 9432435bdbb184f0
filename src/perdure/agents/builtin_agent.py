"""The built-in agent: reads the next action from the journal, carries it out, and appends its result."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial

from msgspec import Struct

from perdure.agents.api import Model, ModelRequest, PreviewCallback, Reply, TurnContext
from perdure.agents.compaction import Compactor, fills_window
from perdure.agents.providers.retries import ask_with_retries
from perdure.agents.tool_calls import ToolCallRunner, offered_tools
from perdure.containment import raise_uncontained
from perdure.core import texts
from perdure.core.compaction import measure_instructions
from perdure.core.conversation import Conversation, build_conversation
from perdure.core.journal import CallProgress, ModelAnswered, ModelAsked, TurnView
from perdure.core.recovery.decision import is_final_response, is_length_limited
from perdure.core.tools import FixedTools, Tool, Toolbox
from perdure.errors import ContextTooLong, ModelError

MAX_INCOMPLETE_RESPONSES = 3  # in a row; then the turn fails
WITHHELD_FINISH_REASONS = frozenset(("content_filter", "refusal", "safety"))  # a retry would not help
MAX_IDENTICAL_RESPONSES = 10  # in a row that request the same calls; half of them run


class Bounds(Struct, frozen=True):
    """How far one turn may go."""

    max_steps: int = 90  # model calls
    max_tokens: int | None = None
    max_result_chars: int = 30_000  # of one tool result that the model reads
    call_timeout_seconds: float = 600.0  # for one tool call
    retry_backoff_seconds: float = 1.0  # before the first retry of a model call; doubles


class AskModel(Struct, frozen=True):
    step: int


class RunCalls(Struct, frozen=True):
    calls: tuple[CallProgress, ...]


class Finish(Struct, frozen=True):
    text: str


AgentAction = AskModel | RunCalls | Finish


def next_action(view: TurnView) -> AgentAction:
    """The next action by the journal. Of a partly finished set of calls it runs only the missing ones."""
    if view.open_calls:
        return RunCalls(tuple(view.open_calls))
    if view.responses and is_final_response(view.responses[-1]) and view.content[-1].entry is view.responses[-1]:
        return Finish(view.responses[-1].text)
    return AskModel(len(view.responses) + 1)


def count_identical_responses(responses: Sequence[ModelAnswered]) -> int:
    """How many responses in a row, up to the newest, request the same calls."""
    requested = [[(call.tool, call.arguments) for call in response.calls] for response in responses]
    count = 0
    while count < len(requested) and requested[-1] and requested[-1 - count] == requested[-1]:
        count += 1
    return count


class BuiltinAgent:
    """A model with tools."""

    def __init__(
        self,
        model: Model,
        tools: Toolbox | Sequence[Tool] = (),
        *,
        system_prompt: str = "",
        surroundings: Callable[[], str] = lambda: "",
        bounds: Bounds | None = None,
    ) -> None:
        """`surroundings` follows the system prompt: what is known only when the gateway has started."""
        self._model = model
        self._toolbox = FixedTools(tools) if isinstance(tools, Sequence) else tools
        self._prompt, self._surroundings = system_prompt, surroundings
        self._bounds = bounds or Bounds()

    @property
    def _system_prompt(self) -> str:
        return "\n\n".join(part for part in (self._prompt, self._surroundings()) if part)

    async def run(self, context: TurnContext) -> Reply:
        tools = {tool.name: tool for tool in await self._toolbox.tools()}
        while True:
            match next_action(context.view):
                case Finish(text):
                    return Reply(texts.turns.model_reply(text))
                case RunCalls(calls):
                    await self._run_calls(context, calls, tools)
                case AskModel(step):
                    offered = offered_tools(context, await context.tool_rights(), tools)
                    reply = await self._ask_model(context, step, offered)
                    if reply is not None:
                        return reply

    # ── the model ───────────────────────────────────────────────────────────────────────────────────────────

    async def _ask_model(self, context: TurnContext, step: int, tools: Mapping[str, Tool]) -> Reply | None:
        """Ask the model. A final answer is not appended here: it is committed with the end of the turn."""
        await context.listen()
        self._check_bounds(context.view, step)
        conversation = build_conversation(context.history, context.view, context.find)
        preamble = measure_instructions(self._system_prompt, list(tools.values()))
        compactor = Compactor(
            self._model, context, step, conversation, preamble, partial(self._respond_with_retries, context)
        )
        if await compactor.compact_if_full():
            return None
        if (unfinished := compactor.truncated_answer) is not None:  # compacting more would not make room for it
            return Reply(texts.turns.model_reply(unfinished.text, cut=True))
        await context.append(ModelAsked(step, self._model.name))
        try:
            answered = await self._respond(context, step, conversation, tools)
        except ContextTooLong as refused:
            await compactor.compact_to_fit(refused)
            return None
        truncated = is_length_limited(answered)
        if is_final_response(answered) or (truncated and not fills_window(answered, self._model.window)):
            return Reply(texts.turns.model_reply(answered.text, cut=truncated), (answered,))
        await context.append(answered)
        return None

    async def _respond(
        self, context: TurnContext, step: int, conversation: Conversation, tools: Mapping[str, Tool]
    ) -> ModelAnswered:
        request = ModelRequest(
            conversation.messages,
            step,
            len(conversation.previous_messages),
            self._system_prompt,
            tuple(tools.values()),
        )
        return await self._respond_with_retries(context, request, context.show if context.shows else None)

    async def _respond_with_retries(
        self, context: TurnContext, request: ModelRequest, show_preview: PreviewCallback | None = None
    ) -> ModelAnswered:
        """A complete answer of the model, after as many retries as are allowed."""
        return await ask_with_retries(
            context,
            request.step,
            self._model.name,
            lambda: self._model.respond(request, show_preview),
            self._bounds.retry_backoff_seconds,
        )

    def _check_bounds(self, view: TurnView, step: int) -> None:
        if step > self._bounds.max_steps:
            raise ModelError(texts.turns.too_many_steps(self._bounds.max_steps))
        if self._bounds.max_tokens is not None and view.tokens >= self._bounds.max_tokens:
            raise ModelError(texts.turns.too_many_tokens(view.tokens, self._bounds.max_tokens))
        incomplete = [
            one
            for one in view.responses[-MAX_INCOMPLETE_RESPONSES:]
            if not (one.calls or is_final_response(one) or is_length_limited(one))
        ]
        if len(incomplete) == MAX_INCOMPLETE_RESPONSES or any(
            one.finish in WITHHELD_FINISH_REASONS for one in incomplete
        ):
            raise ModelError(texts.turns.incomplete_answer(incomplete[-1].finish, incomplete[-1].text))
        if count_identical_responses(view.responses) >= MAX_IDENTICAL_RESPONSES:
            raise ModelError(texts.turns.repeated_calls(MAX_IDENTICAL_RESPONSES))

    # ── the calls ───────────────────────────────────────────────────────────────────────────────────────────

    async def _run_calls(
        self, context: TurnContext, calls: Sequence[CallProgress], tools: Mapping[str, Tool]
    ) -> None:
        """Run the calls side by side; a question to a person waits until the others have their results."""
        runner = ToolCallRunner(
            context,
            tools,
            await context.tool_rights(),
            max_result_chars=self._bounds.max_result_chars,
            timeout=self._bounds.call_timeout_seconds,
        )
        questions = [call for call in calls if runner.needs_person(call)]
        if len(questions) == len(calls):
            await runner.ask_person(questions[0])
            return
        repeated = count_identical_responses(context.view.responses) > MAX_IDENTICAL_RESPONSES // 2
        try:
            async with asyncio.TaskGroup() as group:
                for call in calls:
                    if call not in questions:
                        run = runner.refuse(call, texts.tool_calls.REPEATED) if repeated else runner.perform(call)
                        group.create_task(_fail_if_cancelled(run))
        except BaseExceptionGroup as failures:
            first = failures.exceptions[0]  # the first failure that cannot be journalled ends all calls
            raise first from first.__cause__


async def _fail_if_cancelled(call_run: Coroutine[None, None, None]) -> None:
    """Run one call. A task group would ignore a call that cancels itself; here that is an error."""
    try:
        await call_run
    except asyncio.CancelledError as error:
        raise_uncontained(error)
        raise RuntimeError("a call was cancelled, and nobody had asked for that") from error
    finally:
        call_run.close()

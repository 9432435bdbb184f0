"""Runs an agent of pydantic-ai as an agent of Perdure.

    agent = PydanticAgent(Agent("openai:gpt-5", tools=[look_up, send_mail]), effects={"look_up": "pure"})

A tool without a declared effect is never repeated. Its effect is declared here, or in the tool's metadata:
`metadata={"perdure_effect": "pure"}`. A `keyed` tool gets its key from `perdure.agents.idempotency_key()`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pydantic_ai
from pydantic_ai import exceptions
from pydantic_ai.agent import AbstractAgent
from pydantic_ai.capabilities import AbstractCapability, CapabilityOrdering, ReinjectSystemPrompt
from pydantic_ai.messages import ModelMessage, ModelResponse, UserPromptPart
from pydantic_ai.messages import ModelRequest as Request
from pydantic_ai.models import (
    CompletedStreamedResponse,
    Model,
    ModelRequestContext,
    ModelRequestParameters,
    StreamedResponse,
)
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import DeferredToolRequests, DeferredToolResults, RunContext, ToolDefinition
from pydantic_ai.toolsets import AbstractToolset, ExternalToolset, ToolsetTool, WrapperToolset
from pydantic_ai.usage import UsageLimits

from perdure.agents.api import ModelRequest, Reply, TurnContext
from perdure.agents.builtin_agent import Bounds, Finish, next_action
from perdure.agents.custom.guard import GuardedTurn
from perdure.agents.custom.pydantic_journal import PydanticJournal, reply_text
from perdure.agents.custom.steps import DECLARABLE_EFFECTS
from perdure.agents.providers.completeness import watch_streams
from perdure.agents.providers.message_codec import to_provider_messages
from perdure.agents.providers.models import call_failure, environment_secrets, read_stream
from perdure.agents.tool_calls import CLARIFY, CLARIFY_TOOL
from perdure.core import texts
from perdure.core.conversation import build_conversation
from perdure.core.effects import Effect
from perdure.errors import ConfigurationError, ModelError

EFFECT_METADATA_KEY = "perdure_effect"  # in the metadata of a tool
LIBRARY_TOOL_KINDS = frozenset(("tool-search", "capability-load"))  # tools of the library, which only read

pydantic_ai.BANNER_ENABLED = False  # a gateway's terminal is its log


class PydanticAgent:
    """A pydantic-ai `Agent` whose responses and results are journalled, so that a turn continues where it ended.

    `effects` declares the effect of each tool, by name. With `clarify` the model can ask the person it talks with.
    `deps` is given to every run. `bounds` limits the steps, tokens and times of a turn.
    """

    def __init__(
        self,
        agent: AbstractAgent[Any, Any],
        *,
        effects: Mapping[str, Effect | str] | None = None,
        clarify: bool = False,
        deps: Any = None,
        bounds: Bounds | None = None,
    ) -> None:
        self._agent = agent
        self._effects = {name: _effect(name, effect) for name, effect in (effects or {}).items()}
        self._clarify = clarify
        self._deps = deps
        self._bounds = bounds or Bounds()

    async def run(self, context: TurnContext) -> Reply:
        action = next_action(context.view)
        if isinstance(action, Finish):
            return Reply(action.text)
        guarded = GuardedTurn(context)
        journal = PydanticJournal(guarded, self._bounds)
        opening = _opening_messages(context, journal)
        try:
            result = await self._agent.run(
                message_history=opening,
                deps=self._deps,
                usage_limits=UsageLimits(
                    request_limit=self._bounds.max_steps, total_tokens_limit=self._bounds.max_tokens
                ),
                capabilities=[
                    ReinjectSystemPrompt(),
                    _JournalCapability(journal, self._effects, clarify=self._clarify),
                ],
            )
        except Exception as error:  # reason: an agent of somebody else may fail in any way
            guarded.raise_if_ended()  # the end of the turn matters more than what the library made of it
            raise self._explained_error(error, context) from error
        guarded.raise_if_ended()
        if isinstance(result.output, DeferredToolRequests):
            tools = [call.tool_name for call in [*result.output.calls, *result.output.approvals]]
            raise ModelError(texts.agents.deferred_results(tools))
        text = reply_text(result.output)
        closing = journal.closing_entries(result.all_messages(), text)
        is_text = isinstance(result.output, str)
        return Reply(texts.turns.model_reply(text, cut=journal.is_truncated) if is_text else text, closing)

    def _explained_error(self, error: Exception, context: TurnContext) -> Exception:
        """The error with a sentence for people, if it is not a mistake in the agent's code."""
        match error:
            case exceptions.UsageLimitExceeded():
                used, most = context.view.tokens, self._bounds.max_tokens
                spent = most is not None and used >= most
                return ModelError(
                    texts.turns.too_many_tokens(used, most or 0)
                    if spent
                    else texts.turns.too_many_steps(self._bounds.max_steps)
                )
            case exceptions.FallbackExceptionGroup():  # every model has failed: the last error explains enough
                return self._explained_error(error.exceptions[-1], context)
            case exceptions.ModelContextWindowExceededError():
                return ModelError(texts.agents.CONVERSATION_TOO_LONG)
            case exceptions.ModelAPIError() | exceptions.UnexpectedModelBehavior():
                failed = call_failure(error, environment_secrets())
                return ModelError(texts.agents.provider_failed(failed.message, failed.status, failed.said, 1))
            case _:
                return error


def _effect(name: str, effect: Effect | str | None) -> Effect:
    if effect not in DECLARABLE_EFFECTS:
        raise ConfigurationError(
            f"the tool {name!r} has the effect {effect!r}; expected one of {', '.join(DECLARABLE_EFFECTS)}.",
            hint="Say it in effects= or in the tool's metadata; a tool that does not say is never repeated.",
        )
    return Effect(effect)


def _opening_messages(context: TurnContext, journal: PydanticJournal) -> list[ModelMessage]:
    """The conversation up to the first response of this turn."""
    before = build_conversation(context.history, context.view, context.find).previous_messages
    # No response in it is in its native form, so that the provider does not matter.
    opening = to_provider_messages(ModelRequest([*before, *journal.unseen_messages()], 1))
    if not opening[-1].parts:
        opening[-1] = Request([UserPromptPart(texts.files.message_without_text())])
    return opening


# ── the journal as a part of the library ────────────────────────────────────────────────────────────────────


class _JournalCapability(AbstractCapability[Any]):
    """Wraps the agent's models and tools outside of every other wrapper, so that a step contains them all."""

    def __init__(self, journal: PydanticJournal, effects: Mapping[str, Effect], *, clarify: bool) -> None:
        self._journal = journal
        self._effects = effects
        self._clarify = clarify

    def get_ordering(self) -> CapabilityOrdering:
        return CapabilityOrdering(position="outermost")

    def get_wrapper_model(self, model: Model) -> Model:
        return _JournalledModel(model, self._journal)

    def get_wrapper_toolset(self, toolset: AbstractToolset[Any]) -> AbstractToolset[Any]:
        return _JournalledToolset(toolset, self._journal, self._effects)

    def get_toolset(self) -> AbstractToolset[Any] | None:
        return ExternalToolset([_definition()]) if self._clarify else None

    async def before_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        await self._journal.record_library_results(ctx.messages)
        await self._journal.listen()
        for message in self._journal.unseen_messages():
            ctx.enqueue(UserPromptPart(message.text))
        return request_context

    async def handle_deferred_tool_calls(
        self, ctx: RunContext[Any], *, requests: DeferredToolRequests
    ) -> DeferredToolResults | None:
        """Ask the person last, when the other calls of the response have their results."""
        questions = [call for call in requests.calls if call.tool_name == CLARIFY] if self._clarify else []
        answers: dict[str, Any] = {}
        for call in questions:
            try:
                answers[call.tool_call_id] = await self._journal.clarify(call.tool_call_id)
            except exceptions.ToolFailed as error:
                answers[call.tool_call_id] = error
        return DeferredToolResults(calls=answers) if questions else None


def _definition() -> ToolDefinition:
    return ToolDefinition(
        name=CLARIFY, description=CLARIFY_TOOL.description, parameters_json_schema=dict(CLARIFY_TOOL.schema)
    )


class _JournalledModel(WrapperModel):
    """A model whose responses are journalled."""

    def __init__(self, wrapped: Model, journal: PydanticJournal) -> None:
        super().__init__(wrapped)
        watch_streams(wrapped)
        self._journal = journal

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        async def ask() -> ModelResponse:
            context = self._journal.context
            if not (context.shows and _streams(self.wrapped)):
                return await self.wrapped.request(messages, model_settings, model_request_parameters)
            async with self.wrapped.request_stream(messages, model_settings, model_request_parameters) as stream:
                return await read_stream(stream, context.show)

        finals = {tool.name for tool in model_request_parameters.output_tools}
        return await self._journal.next_response(self.wrapped.model_name, finals, ask)

    @asynccontextmanager
    async def request_stream(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
        run_context: RunContext[Any] | None = None,
    ) -> AsyncGenerator[StreamedResponse]:
        """Give the events of a response to an agent that listens to them, once the response is journalled."""
        response = await self.request(messages, model_settings, model_request_parameters)
        yield CompletedStreamedResponse(
            response, model_request_parameters=model_request_parameters, replay_events=True
        )


def _streams(model: Model) -> bool:
    """Whether a model can stream its response; a `FunctionModel` may have no function for that."""
    can = type(model).request_stream is not Model.request_stream
    return can and getattr(model, "stream_function", model) is not None


@dataclass
class _JournalledToolset(WrapperToolset[Any]):
    """The tools of the agent, whose calls are journalled."""

    journal: PydanticJournal
    effects: Mapping[str, Effect]

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[Any], tool: ToolsetTool[Any]
    ) -> Any:
        async def run() -> Any:
            return await self.wrapped.call_tool(name, tool_args, ctx, tool)

        if tool.tool_def.tool_kind in LIBRARY_TOOL_KINDS:
            return await run()
        return await self.journal.run_tool(ctx.tool_call_id, self._effect_of(tool.tool_def), run)

    def _effect_of(self, tool: ToolDefinition) -> Effect:
        declared = (tool.metadata or {}).get(EFFECT_METADATA_KEY, Effect.ONCE)
        return self.effects.get(tool.name) or _effect(tool.name, declared)

"""The journal beneath a run of pydantic-ai: every response and every result is kept, and given again on replay.

A turn that was cut off is gone through from its beginning. The library runs all calls of a response or none, so
it cannot be handed a set of which some have their results; but when it asks for a response or a result that is on
record it gets that, and so only what is missing is asked for and run.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextvars import ContextVar
from typing import Any

import msgspec
from pydantic_ai import exceptions
from pydantic_ai.messages import ModelMessage, ModelResponse, ToolCallPart

from perdure.agents.builtin_agent import Bounds
from perdure.agents.custom.guard import GuardedTurn
from perdure.agents.custom.pydantic_codec import (
    decode_response,
    encode_response,
    newest_results,
    result_entries,
    tool_result_text,
)
from perdure.agents.providers.models import call_failure, environment_secrets
from perdure.agents.providers.retries import ask_with_retries
from perdure.agents.tool_calls import ToolCallRunner
from perdure.core import texts
from perdure.core.conversation import AssistantMessage, FindFile, Message, build_conversation
from perdure.core.effects import Effect
from perdure.core.journal import CallProgress, Entry, ModelAnswered, ModelAsked, ToolEnded, TurnView
from perdure.core.recovery.tail import is_final_response, is_length_limited
from perdure.core.tools import Tool, Use
from perdure.errors import ToolFailed

REJECTED_FINISH = "rejected"  # the finish of an answer that the agent did not take for one
_key: ContextVar[str] = ContextVar("idempotency_key", default="")


def idempotency_key() -> str:
    """The key of the call whose tool runs now: the same for every try. For tools with the effect `keyed`."""
    return _key.get()


class PydanticJournal:
    """What one attempt knows and keeps of its turn."""

    def __init__(self, context: GuardedTurn, bounds: Bounds) -> None:
        self.context = context
        self._bounds = bounds
        self._recorded = list(context.view.responses)
        self._messages_by_position = _messages_by_position(context.view, context.find)
        self._responses_given = 0  # responses that this attempt has had, from the record or from the model
        self._held_response: ModelAnswered | None = (
            None  # it may be the last: then it is kept with the end of the turn
        )
        self._call_ids: dict[str, str] = {}  # of calls, by their id on the wire

    # ── responses ───────────────────────────────────────────────────────────────────────────────────────────

    def unseen_messages(self) -> list[Message]:
        """What people and the gateway said up to here, and nobody has told the model yet."""
        due = [place for place in self._messages_by_position if place <= self._responses_given]
        return [message for place in due for message in self._messages_by_position.pop(place)]

    async def listen(self) -> None:
        """Take in what people want heard, unless the run is still on its way through what is on record.

        While a response is held back nobody listens: what joins then would stand before it.
        """
        if self._responses_given < len(self._recorded) or self._held_response is not None:
            return
        view = self.context.view
        last = view.records[-1].seq
        await self.context.listen()
        if view.records[-1].seq > last:
            heard = [
                told.messages
                for told in build_conversation((), view, self.context.find).current
                if told.seq > last
            ]
            self._messages_by_position.setdefault(self._responses_given, []).extend(
                message for each in heard for message in each
            )

    async def next_response(
        self, model: str, final_tools: set[str], ask: Callable[[], Awaitable[ModelResponse]]
    ) -> ModelResponse:
        """The next response: the one on record, or else the model's, which is kept before anybody has it.

        One that may be the end of the turn, because it uses no tools but those of `finals`, is held back.
        """
        step = self._responses_given + 1
        if self._responses_given < len(self._recorded):
            entry = self._recorded[self._responses_given]
        else:
            await self.context.append(*self._release_held_response(), ModelAsked(step, model))
            entry = await ask_with_retries(
                self.context, step, model, lambda: _request_complete(step, ask), self._bounds.retry_backoff_seconds
            )
            if all(call.tool in final_tools for call in entry.calls):
                self._held_response = entry
            else:
                await self.context.append(entry)
        self._responses_given = step
        return self._restore_response(entry)

    async def record_library_results(self, messages: Sequence[ModelMessage]) -> None:
        """Keep what the library itself gave as results: of calls that it refused, or that make up an output."""
        results = self._library_results(messages)
        if results:
            await self.context.append(*self._release_held_response(), *results)

    @property
    def is_truncated(self) -> bool:
        """Whether the last response is a text that ends at the model's length limit."""
        return self._held_response is not None and is_length_limited(self._held_response)

    def closing_entries(self, messages: Sequence[ModelMessage], text: str) -> tuple[Entry, ...]:
        """The last facts of a turn that ends with this text."""
        held = self._held_response
        if held is not None and not held.calls:
            return (msgspec.structs.replace(held, text=text, finish="stop"),)
        last = [ModelAnswered(self._responses_given + 1, text, (), "stop")] if text.strip() else []
        return (*([held] if held else []), *self._library_results(messages), *last)

    def _release_held_response(self) -> list[ModelAnswered]:
        """The response that was held back, now that it is clear that it was not the last."""
        held, self._held_response = self._held_response, None
        if held is None:
            return []
        return [msgspec.structs.replace(held, finish=REJECTED_FINISH) if is_final_response(held) else held]

    def _restore_response(self, entry: ModelAnswered) -> ModelResponse:
        response = decode_response(entry)
        wishes = [part for part in response.parts if isinstance(part, ToolCallPart)]
        self._call_ids |= {wish.tool_call_id: call.id for wish, call in zip(wishes, entry.calls, strict=True)}
        return response

    def _library_results(self, messages: Sequence[ModelMessage]) -> list[Entry]:
        """The newest results in the history that the journal does not have."""
        given = {self._call_ids.get(part.tool_call_id): part for part in newest_results(messages)}
        wished = [
            *self.context.view.open_calls,
            *[CallProgress(wish) for wish in (self._held_response.calls if self._held_response else ())],
        ]
        entries: list[Entry] = []
        for call in wished:
            if (part := given.get(call.request.id)) is not None:
                entries += result_entries(call, part, self._bounds.max_result_chars)
        return entries

    # ── tools ───────────────────────────────────────────────────────────────────────────────────────────────

    async def run_tool(self, wire_id: str | None, effect: Effect, run: Callable[[], Awaitable[Any]]) -> str:
        """The result of a call: the one on record, or else what the tool gives, which is kept before that."""
        call = self.context.view.calls.get(self._call_ids.get(wire_id or "", ""))
        if call is None:
            raise exceptions.ToolFailed(texts.custom_agents.NESTED_CALL_NOT_RUN)
        if call.ended is None:
            tool = Tool(call.request.tool, "", lambda use: _run_with_key(run, use), effect)
            await self._call_runner(tool).perform(call)
        return self._recorded_result(call)

    async def clarify(self, wire_id: str) -> str:
        """The answer of a person to the question of a call; while there is none, the attempt ends here."""
        call = self.context.view.calls[self._call_ids[wire_id]]
        if call.ended is None:
            await self._call_runner().ask_person(call)
        return self._recorded_result(call)

    def _call_runner(self, *tools: Tool) -> ToolCallRunner:
        known = {tool.name: tool for tool in tools}
        return ToolCallRunner(
            self.context,
            known,
            max_result_chars=self._bounds.max_result_chars,
            timeout=self._bounds.call_timeout_seconds,
        )

    def _recorded_result(self, call: CallProgress) -> str:
        """What the library gets for a call: the same the first time and from the record."""
        match self.context.view.calls[call.request.id].ended:
            case ToolEnded(outcome="ok", text=text):
                return text
            case ToolEnded(outcome="error", text=text) if text.endswith(texts.custom_agents.CALL_AGAIN_HINT):
                raise exceptions.ModelRetry(text.removesuffix(texts.custom_agents.CALL_AGAIN_HINT).rstrip())
            case ToolEnded(text=text):
                raise exceptions.ToolFailed(text)
            case None:
                raise AssertionError("whoever performs a call ends it, or raises")


async def _request_complete(step: int, ask: Callable[[], Awaitable[ModelResponse]]) -> ModelAnswered:
    """One try at a response. Half an answer is asked for again; of refusals, the agent's own client decides."""
    try:
        return encode_response(step, await ask())
    except (exceptions.ModelAPIError, exceptions.UnexpectedModelBehavior) as error:
        failed = call_failure(error, environment_secrets())
        if not failed.broke_off:
            raise
        raise failed from error


async def _run_with_key(run: Callable[[], Awaitable[Any]], use: Use) -> str:
    token = _key.set(use.key)
    try:
        return tool_result_text(await run())
    except exceptions.ModelRetry as error:
        raise ToolFailed(texts.custom_agents.call_again(error.message)) from error
    except exceptions.ToolFailed as error:
        raise ToolFailed(error.message) from error
    except (exceptions.CallDeferred, exceptions.ApprovalRequired) as error:
        raise ToolFailed(texts.custom_agents.DEFERRED_TOOL_NOT_RUN) from error
    finally:
        _key.reset(token)


def _messages_by_position(view: TurnView, find: FindFile) -> dict[int, list[Message]]:
    """What people and the gateway said in this turn, by how many responses came before it."""
    responses = [record.seq for record in view.records if isinstance(record.entry, ModelAnswered)]
    said: dict[int, list[Message]] = {}
    for told in build_conversation((), view, find).current:
        if not isinstance(told.messages[0], AssistantMessage):
            place = sum(seq < told.seq for seq in responses)
            said.setdefault(place, []).extend(told.messages)
    return said

"""Journals every response and result of a run of pydantic-ai, and returns them from the journal on replay.

After an interruption the run starts from the beginning of the turn. The library runs all calls of a response or
none, so it cannot be handed a set of calls of which some have their results. But when it asks for a response or a
result that is journalled it gets that, and so only the missing ones are requested and run.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import replace
from itertools import count
from typing import Any

import msgspec
import pydantic_core
from pydantic_ai import exceptions
from pydantic_ai.messages import (
    BinaryContent,
    FileUrl,
    ModelMessage,
    ModelResponse,
    ModelResponsePart,
    TextContent,
    TextPart,
    ToolCallPart,
    ToolReturn,
    ToolReturnPart,
    UploadedFile,
    is_multi_modal_content,
)
from pydantic_ai.usage import RequestUsage

from perdure.agents.builtin_agent import Bounds
from perdure.agents.custom.guard import GuardedTurn
from perdure.agents.providers.message_codec import (
    dump_native,
    load_native,
    to_model_answered,
    tool_call_parts,
    with_call_ids,
)
from perdure.agents.providers.models import call_failure, environment_secrets
from perdure.agents.providers.retries import ask_with_retries
from perdure.agents.tool_calls import ToolCallRunner
from perdure.core import texts
from perdure.core.conversation import AssistantMessage, FindFile, Message, build_conversation
from perdure.core.effects import Effect
from perdure.core.journal import (
    CallProgress,
    Entry,
    ModelAnswered,
    ModelAsked,
    ToolEnded,
    ToolOutcome,
    ToolStarted,
    TurnView,
)
from perdure.core.recovery.decision import is_final_response, is_length_limited
from perdure.core.roles import ToolRights
from perdure.core.tools import Tool, Use
from perdure.errors import ToolFailed

# ── responses ───────────────────────────────────────────────────────────────────────────────────────────────


def encode_response(step: int, response: ModelResponse) -> ModelAnswered:
    """A response as an entry, with everything that the library knows of it, so that a replay returns the same."""
    entry = to_model_answered(step, response)
    if len(entry.calls) != len(
        tool_call_parts(response)
    ):  # too many calls: the rest is left out, here and on replay
        return entry
    return msgspec.structs.replace(entry, native=dump_native(response))


def decode_response(entry: ModelAnswered) -> ModelResponse:
    """The response as it was, or at least its text and calls; every call has a unique id."""
    native = None if entry.native is None else load_native(entry.native, len(entry.calls))
    response = native or ModelResponse(_plain(entry), usage=_usage(entry), finish_reason=None)
    ids = [part.tool_call_id for part in tool_call_parts(response)]
    if "" in ids or len({*ids}) < len(ids):
        return replace(response, parts=list(with_call_ids(response.parts, _replay_ids(entry.step))))
    return response


def _plain(entry: ModelAnswered) -> list[ModelResponsePart]:
    text = [TextPart(entry.text)] if entry.text.strip() else []
    calls = [ToolCallPart(call.tool, call.arguments) for call in entry.calls]
    return [*text, *with_call_ids(calls, _replay_ids(entry.step))]


def _usage(entry: ModelAnswered) -> RequestUsage:
    return RequestUsage(input_tokens=entry.usage.input, output_tokens=entry.usage.output)


def _replay_ids(step: int) -> Iterator[str]:
    """Ids of calls that are the same on every replay, and short enough for every provider."""
    return (f"c{step:04}x{number:03}" for number in count(1))


# ── results ─────────────────────────────────────────────────────────────────────────────────────────────────


def newest_results(messages: Sequence[ModelMessage]) -> Iterator[ToolReturnPart]:
    """The tool results behind the last response."""
    for message in reversed(messages):
        if isinstance(message, ModelResponse):
            return
        yield from (part for part in message.parts if isinstance(part, ToolReturnPart))


def result_entries(call: CallProgress, part: ToolReturnPart, limit: int) -> list[Entry]:
    """The entries for a call whose result came from the library, and not from a tool of the agent."""
    request = call.request
    if call.started is not None:  # by earlier code, which had a tool for it
        return [ToolEnded(request.id, "unknown", texts.tool_calls.OUTCOME_UNKNOWN)]
    outcome: ToolOutcome = "ok" if part.outcome == "success" else "error"
    text = texts.phrases.clip(part.model_response_str(wrap_if_error=False), limit)
    return [ToolStarted(request.id, request.tool, Effect.PURE, ""), ToolEnded(request.id, outcome, text)]


def tool_result_text(result: Any) -> str:
    """The result of a tool as text: pictures and other files are only mentioned."""
    value, content = (result.return_value, result.content) if isinstance(result, ToolReturn) else (result, None)
    part = ToolReturnPart("", value)
    also = [content] if isinstance(content, str) else content or []
    lines = [part.model_response_str(), *map(_content_text, [*part.files, *also])]
    return "\n".join(filter(None, lines)).encode(errors="replace").decode()


def _content_text(item: Any) -> str:
    match item:
        case str():
            return item
        case TextContent():
            return item.content
        case BinaryContent():
            return texts.tool_calls.binary_content(item.media_type, len(item.data))
        case FileUrl():
            return texts.tool_calls.resource_link("a file", item.url)
        case UploadedFile():
            return texts.tool_calls.resource_link("a file", item.file_id)
        case _:
            return ""


def reply_text(output: Any) -> str:
    """An output as the text that people read: a text as it is, everything else as JSON."""
    if output is None or isinstance(output, str):
        return output or ""
    if is_multi_modal_content(output):
        return _content_text(output)
    return pydantic_core.to_json(output, fallback=str).decode()


REJECTED_FINISH = "rejected"  # of a final answer that the agent did not accept
_key: ContextVar[str] = ContextVar("idempotency_key", default="")


def idempotency_key() -> str:
    """The idempotency key of the tool call that runs now, for `keyed` tools: the same in every attempt."""
    return _key.get()


class PydanticJournal:
    """The journal of one turn, as one attempt of an agent of pydantic-ai reads and writes it."""

    def __init__(self, context: GuardedTurn, bounds: Bounds) -> None:
        self.context = context
        self._bounds = bounds
        self._recorded = list(context.view.responses)
        self._messages_by_position = _messages_by_position(context.view, context.find)
        self._responses_given = 0  # to this attempt, from the journal or the model
        # A response that may be the last one, which is journalled together with the end of the turn.
        self._held_response: ModelAnswered | None = None
        self._rights = ToolRights(None)  # of the turn, when the calls of the newest response are about to run
        self._call_ids: dict[str, str] = {}  # ids of calls in the journal, by their ids in the library

    # ── responses ───────────────────────────────────────────────────────────────────────────────────────────

    def unseen_messages(self) -> list[Message]:
        """The messages of people and the gateway up to here that the model has not seen yet."""
        due = [position for position in self._messages_by_position if position <= self._responses_given]
        return [message for position in due for message in self._messages_by_position.pop(position)]

    async def listen(self) -> None:
        """Let new messages of people join the turn, unless the run still replays the journal.

        While a response is held back no message joins: it would stand before that response.
        """
        if self._responses_given < len(self._recorded) or self._held_response is not None:
            return
        view = self.context.view
        last = view.records[-1].seq
        await self.context.listen()
        if view.records[-1].seq > last:
            joined = [
                group.messages
                for group in build_conversation((), view, self.context.find).current
                if group.seq > last
            ]
            self._messages_by_position.setdefault(self._responses_given, []).extend(
                message for messages in joined for message in messages
            )

    async def next_response(
        self, model: str, final_tools: set[str], ask: Callable[[], Awaitable[ModelResponse]]
    ) -> ModelResponse:
        """The next response: the journalled one, or else the model's, which is journalled first.

        A response that may end the turn, because it calls no tools but those in `final_tools`, is held back.
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
        self._rights = await self.context.tool_rights()
        return self._restore_response(entry)

    async def record_library_results(self, messages: Sequence[ModelMessage]) -> None:
        """Journal the results that the library made: of calls that it refused, or that make up an output."""
        results = self._library_results(messages)
        if results:
            await self.context.append(*self._release_held_response(), *results)

    @property
    def is_truncated(self) -> bool:
        """Whether the last response is a text that ends at the model's length limit."""
        return self._held_response is not None and is_length_limited(self._held_response)

    def closing_entries(self, messages: Sequence[ModelMessage], text: str) -> tuple[Entry, ...]:
        """The last entries of a turn that ends with this text."""
        held = self._held_response
        if held is not None and not held.calls:
            return (msgspec.structs.replace(held, text=text, finish="stop"),)
        last = [ModelAnswered(self._responses_given + 1, text, (), "stop")] if text.strip() else []
        return (*([held] if held else []), *self._library_results(messages), *last)

    def _release_held_response(self) -> list[ModelAnswered]:
        """The response that was held back, once it is clear that it was not the last."""
        held, self._held_response = self._held_response, None
        if held is None:
            return []
        return [msgspec.structs.replace(held, finish=REJECTED_FINISH) if is_final_response(held) else held]

    def _restore_response(self, entry: ModelAnswered) -> ModelResponse:
        response = decode_response(entry)
        parts = [part for part in response.parts if isinstance(part, ToolCallPart)]
        self._call_ids |= {part.tool_call_id: call.id for part, call in zip(parts, entry.calls, strict=True)}
        return response

    def _library_results(self, messages: Sequence[ModelMessage]) -> list[Entry]:
        """The newest results in the history that are not in the journal."""
        given = {self._call_ids.get(part.tool_call_id): part for part in newest_results(messages)}
        open_calls = [
            *self.context.view.open_calls,
            *[CallProgress(request) for request in (self._held_response.calls if self._held_response else ())],
        ]
        entries: list[Entry] = []
        for call in open_calls:
            if (part := given.get(call.request.id)) is not None:
                entries += result_entries(call, part, self._bounds.max_result_chars)
        return entries

    # ── tools ───────────────────────────────────────────────────────────────────────────────────────────────

    async def run_tool(self, wire_id: str | None, effect: Effect, run: Callable[[], Awaitable[Any]]) -> str:
        """The result of a call: the journalled one, or else the tool's, which is journalled first."""
        call = self.context.view.calls.get(self._call_ids.get(wire_id or "", ""))
        if call is None:
            raise exceptions.ToolFailed(texts.agents.NESTED_CALL_NOT_RUN)
        if call.ended is None:
            tool = Tool(call.request.tool, "", lambda use: _run_with_key(run, use), effect)
            await self._call_runner(tool).perform(call)
        return self._recorded_result(call)

    async def clarify(self, wire_id: str) -> str:
        """The answer of a person to the question of a call; without an answer, the attempt ends here."""
        call = self.context.view.calls[self._call_ids[wire_id]]
        if call.ended is None:
            await self._call_runner().ask_person(call)
        return self._recorded_result(call)

    def _call_runner(self, *tools: Tool) -> ToolCallRunner:
        known = {tool.name: tool for tool in tools}
        return ToolCallRunner(
            self.context,
            known,
            self._rights,
            max_result_chars=self._bounds.max_result_chars,
            timeout=self._bounds.call_timeout_seconds,
        )

    def _recorded_result(self, call: CallProgress) -> str:
        """The journalled result of a call, as the library gets it: the same the first time and on replay."""
        match self.context.view.calls[call.request.id].ended:
            case ToolEnded(outcome="ok", text=text):
                return text
            case ToolEnded(outcome="error", text=text) if text.endswith(texts.agents.CALL_AGAIN_HINT):
                raise exceptions.ModelRetry(text.removesuffix(texts.agents.CALL_AGAIN_HINT).rstrip())
            case ToolEnded(text=text):
                raise exceptions.ToolFailed(text)
            case None:
                raise AssertionError("whoever performs a call ends it, or raises")


async def _request_complete(step: int, ask: Callable[[], Awaitable[ModelResponse]]) -> ModelAnswered:
    """One request for a response. An incomplete answer is retried; after refusals the agent's client decides."""
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
        raise ToolFailed(texts.agents.call_again(error.message)) from error
    except exceptions.ToolFailed as error:
        raise ToolFailed(error.message) from error
    except (exceptions.CallDeferred, exceptions.ApprovalRequired) as error:
        raise ToolFailed(texts.agents.DEFERRED_TOOL_NOT_RUN) from error
    finally:
        _key.reset(token)


def _messages_by_position(view: TurnView, find: FindFile) -> dict[int, list[Message]]:
    """The messages of people and the gateway in this turn, by the number of responses before them."""
    responses = [record.seq for record in view.records if isinstance(record.entry, ModelAnswered)]
    messages: dict[int, list[Message]] = {}
    for group in build_conversation((), view, find).current:
        if not isinstance(group.messages[0], AssistantMessage):
            position = sum(seq < group.seq for seq in responses)
            messages.setdefault(position, []).extend(group.messages)
    return messages

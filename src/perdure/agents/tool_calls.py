"""Brings tool calls to their results: journals the intent, runs the tool, journals the result."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from typing import Any

from perdure.agents.api import TurnContext
from perdure.containment import raise_uncontained
from perdure.core import texts
from perdure.core.effects import REMEDIES, Effect, Remedy
from perdure.core.journal import (
    CallProgress,
    ObservedExit,
    QuestionAnswered,
    ToolEnded,
    ToolOutcome,
    ToolStarted,
    TurnView,
    is_approval,
)
from perdure.core.messages import Attachment, SentFile
from perdure.core.roles import ToolRights
from perdure.core.tools import Tool, Use
from perdure.errors import OutcomeUnknown, PerdureError, ToolFailed

READ_FILE = "read_file"


def offered_tools(context: TurnContext, rights: ToolRights, tools: Mapping[str, Tool]) -> dict[str, Tool]:
    """The tools that the model is told of: those of the role, and `read_file` if the person has sent a file."""
    allowed = {name: tool for name, tool in tools.items() if rights.allows(name)}
    if READ_FILE in tools and READ_FILE not in allowed and _sent_paths(context, rights.person):
        allowed[READ_FILE] = tools[READ_FILE]
    return allowed


def refusal(context: TurnContext, rights: ToolRights, tool: str, arguments: Mapping[str, Any]) -> str:
    """Why a call must not run, for the model; empty if it may.

    Everybody may read a file that they have sent themselves in this conversation, by the path that the model was
    told: it is a part of what they said.
    """
    if rights.allows(tool):
        return ""
    if tool == READ_FILE and arguments.get("path") in _sent_paths(context, rights.person):
        return ""
    return texts.tool_calls.not_permitted(tool, rights.role)


def _sent_paths(context: TurnContext, person: str) -> set[str]:
    """The paths of the files that a person has sent in this conversation."""
    files = (file for view in (*context.history, context.view) for file in _files_of(view, person))
    return {path for file in files if (path := context.find(file)) is not None}


def _files_of(view: TurnView, person: str) -> Iterator[Attachment]:
    for cause in view.causes:
        yield from cause.attachments if cause.sender.id == person else ()
    for record in view.records:
        if isinstance(record.entry, QuestionAnswered) and record.entry.by.id == person:
            yield from record.entry.attachments


CLARIFY = "clarify"  # the tool that asks a person


async def _refuse_direct_run(use: Use) -> str:
    """Refuse to run `clarify` as a tool: `ToolCallRunner.ask_person` asks the question, which ends the attempt."""
    raise ToolFailed(texts.questions.QUESTION_MISSING)


CLARIFY_TOOL = Tool(
    CLARIFY,
    texts.agents.CLARIFY,
    _refuse_direct_run,
    Effect.PURE,
    {
        "type": "object",
        "properties": {
            "question": {"type": "string", "description": "What you want to know."},
            "options": {"type": "array", "items": {"type": "string"}, "description": "Choices to offer, if any."},
        },
        "required": ["question"],
        "additionalProperties": False,
    },
)


class ToolCallRunner:
    """Runs the tool calls of one turn, and asks the person where a call needs one."""

    def __init__(
        self,
        context: TurnContext,
        tools: Mapping[str, Tool],
        rights: ToolRights,
        *,
        max_result_chars: int,
        timeout: float,
    ) -> None:
        self._context = context
        self._tools = tools
        self._rights = rights  # as they are when the calls are about to run
        self._max_result_chars = max_result_chars  # of one result that the model reads
        self._timeout = timeout

    def needs_person(self, call: CallProgress) -> bool:
        """Whether the call needs an answer or an approval of a person first."""
        if self._refusal(call):
            return False
        if call.request.problem or call.request.tool == CLARIFY:
            return not call.request.problem
        return call.request.id not in self._context.view.verdicts and bool(self._approval_reason(call))

    async def ask_person(self, call: CallProgress) -> None:
        """Ask the person, or append the answer that came as the result of the call."""
        if await self._refuse_unless_permitted(call):
            return
        if call.request.tool == CLARIFY:
            await self._clarify(call)
            return
        text = texts.questions.request(call.request.tool, call.request.arguments, self._approval_reason(call))
        await self._context.ask(call.request.id, text, texts.questions.OPTIONS, approves=call.request.id)

    def _approval_reason(self, call: CallProgress) -> str:
        """Why a person must approve the call; empty if nobody must, or if the call has started already."""
        tool = self._tools.get(call.request.tool)
        if tool is None or tool.guard is None or call.started is not None:
            return ""
        return tool.guard(call.request.arguments, self._context.key)

    async def perform(self, call: CallProgress) -> None:
        """Bring one call to its result, from wherever its journal ends."""
        if await self._refuse_unless_permitted(call):
            return
        request, tool = call.request, self._tools.get(call.request.tool)
        verdict = self._context.view.verdicts.get(request.id)
        if call.started is not None and (tool is None or REMEDIES[call.started.effect] is Remedy.SAY_UNKNOWN):
            await self._context.append(ToolEnded(request.id, "unknown", texts.tool_calls.OUTCOME_UNKNOWN))
        elif call.started is not None and tool is not None and call.started.where != tool.where:
            await self._context.append(ToolEnded(request.id, "unknown", texts.tool_calls.STARTED_ELSEWHERE))
        elif request.problem:
            await self.refuse(call, request.problem)
        elif tool is None:
            await self.refuse(call, texts.tool_calls.unknown_tool(request.tool, sorted(self._tools)))
        elif call.started is None and verdict is not None and not is_approval(verdict):
            await self.refuse(call, texts.questions.not_run(verdict.text if verdict.chosen else ""))
        else:
            await self._run_tool(call, tool, verdict.by.id if verdict is not None else "")

    def _refusal(self, call: CallProgress) -> str:
        """Why the turn may not make this call now; empty if it may, or if it is a question that was asked."""
        asked = call.request.tool == CLARIFY and call.started is not None
        return "" if asked else refusal(self._context, self._rights, call.request.tool, call.request.arguments)

    async def _refuse_unless_permitted(self, call: CallProgress) -> bool:
        """Refuse a call that the turn has no right to; the outcome of one that was begun is unknown."""
        why = self._refusal(call)
        if why and call.started is not None:
            await self._context.append(
                ToolEnded(call.request.id, "unknown", texts.tool_calls.outcome_unknown(why))
            )
        elif why:
            await self.refuse(call, why)
        return bool(why)

    async def refuse(self, call: CallProgress, why: str) -> None:
        """Append an error as the result of a call that is not run, so that the model can do something else."""
        request = call.request
        started = () if call.started else (ToolStarted(request.id, request.tool, Effect.PURE, ""),)
        await self._context.append(*started, ToolEnded(request.id, "error", why))

    async def _clarify(self, call: CallProgress) -> None:
        request, answer = call.request, self._context.view.answer
        if answer is not None and answer.question == request.id:
            text = answer.text if answer.chosen else texts.questions.NOT_ANSWERED
            await self._context.append(ToolEnded(request.id, "ok", text))
            return
        wanted = request.arguments.get("options")
        options = [str(option) for option in wanted] if isinstance(wanted, list | tuple) else []
        question = str(request.arguments.get("question") or "").strip()
        if not question:
            await self.refuse(call, texts.questions.QUESTION_MISSING)
            return
        started = ToolStarted(request.id, CLARIFY, Effect.PURE, self._idempotency_key(call))
        await self._context.ask(request.id, question, options, *(() if call.started else (started,)))

    async def _run_tool(self, call: CallProgress, tool: Tool, approved_by: str) -> None:
        key = call.started.key if call.started else self._idempotency_key(call)
        if call.started is None:
            if problem := await _preparation_problem(tool, key):
                await self.refuse(call, problem)
                return
            await self._context.append(
                ToolStarted(
                    call.request.id, tool.name, tool.effect, key, where=tool.where, approved_by=approved_by
                )
            )
        saw: list[ObservedExit] = []
        files: list[SentFile] = []
        use = Use(call.request.arguments, key, self._context.alive, saw.append, files.append, self._context.key)
        outcome, text = await _run_with_timeout(tool, use, tool.timeout or self._timeout)
        came = (tuple(saw), tuple(files)) if outcome == "ok" else ()
        await self._context.append(
            ToolEnded(call.request.id, outcome, texts.phrases.clip(text, self._max_result_chars), *came)
        )

    def _idempotency_key(self, call: CallProgress) -> str:
        return f"{self._context.turn}:{call.request.id}"


async def _preparation_problem(tool: Tool, key: str) -> str:
    """Let a tool prepare the storage of its evidence; return why that failed, or an empty text."""
    try:
        if tool.prepare is not None:
            await tool.prepare(key)
    except ToolFailed as error:
        return error.message
    return ""


async def _run_with_timeout(tool: Tool, use: Use, timeout: float) -> tuple[ToolOutcome, str]:
    limit = asyncio.timeout(timeout)
    try:
        async with limit:
            return "ok", await tool.run(use)
    except ToolFailed as error:
        return "error", error.message
    except OutcomeUnknown as error:
        return "unknown", texts.tool_calls.outcome_unknown(error.message)
    except PerdureError:
        raise
    except TimeoutError as error:
        if not limit.expired():
            return "error", texts.tool_calls.failed(error)
        late = texts.tool_calls.timed_out(timeout)
        repeatable = REMEDIES[tool.effect] is Remedy.REPEAT
        return ("error", late) if repeatable else ("unknown", texts.tool_calls.outcome_unknown(late))
    except BaseException as error:  # noqa: BLE001 reason: a tool may fail in any way; the model gets the error
        raise_uncontained(error)
        return "error", texts.tool_calls.failed(error)

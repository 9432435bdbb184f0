"""The offline model: runs a message whose lines are actions as a script, one action in each model step.

It needs no key and no network. It reads its next action from the conversation, so that a script continues after a
crash exactly where its journal ends.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from perdure.agents.api import ModelRequest, PreviewCallback
from perdure.agents.tool_calls import CLARIFY
from perdure.core import texts
from perdure.core.conversation import AssistantMessage, Message, NoteMessage, ToolMessage, UserMessage
from perdure.core.journal import ModelAnswered, TokenUsage, ToolCall
from perdure.errors import ModelError

_TIMED = re.compile(r"(step|once)\s+(\S+)(?:\s+(\d+(?:\.\d+)?)s)?")
_VERBAL = re.compile(r"(say|stream|fail|flood|parallel|run|background|watch|process|ask|danger|send):\s*(.*)")
_PROCESS = re.compile(r"\bp_[0-9a-z]{22}\b")
STEP_VERBS = frozenset(
    ("step", "once", "parallel", "ask", "run", "danger", "background", "watch", "process", "send")
)
TOOL_BY_VERB = {"run": ("shell", "command"), "danger": ("danger", "command"), "send": ("send_file", "path")}
MAX_FLOOD_CHARS = 1_000_000
WINDOW_TOKENS = 1_000_000_000  # everything fits, unless a smaller window is configured
WORD_SECONDS = 0.2  # for each streamed word


class ScriptAction(Struct, frozen=True):
    verb: str
    argument: str
    seconds: float = 0.0


def parse_script(text: str) -> list[ScriptAction] | None:
    """The actions of a message; None if some line is no action: then it is an ordinary message."""
    actions = [_parse_line(line.strip()) for line in text.splitlines() if line.strip()]
    script = [action for action in actions if action is not None]
    return script if script and len(script) == len(actions) else None


def _parse_line(line: str) -> ScriptAction | None:
    if found := _TIMED.fullmatch(line):
        return ScriptAction(found[1], found[2], float(found[3] or 0))
    if found := _VERBAL.fullmatch(line):
        return ScriptAction(found[1], found[2].strip())
    return None


class ScriptPlan(Struct, frozen=True):
    """What the unanswered messages ask for: steps first, then the texts of the answer."""

    steps: list[ScriptAction]
    final_actions: list[ScriptAction]


def plan_for(messages: Sequence[UserMessage]) -> ScriptPlan:
    steps: list[ScriptAction] = []
    ends: list[ScriptAction] = []
    for message in messages:
        for action in parse_script(message.text) or [
            ScriptAction(
                "greet", texts.agents.offline_attachments_received([file.description for file in message.files])
            )
        ]:
            if action.verb not in STEP_VERBS:
                ends.append(action)
                break
            steps.append(action)
    return ScriptPlan(steps, ends)


class OfflineModel:
    name = "offline"

    def __init__(self, window: int | None = None) -> None:
        self.window = window or WINDOW_TOKENS

    async def close(self) -> None:
        """Do nothing: this model holds no connection."""

    async def respond(self, request: ModelRequest, show_preview: PreviewCallback | None = None) -> ModelAnswered:
        if request.purpose == "summary":
            return _final(request.step, texts.agents.OFFLINE_SUMMARY)
        since = _unanswered_messages(request)
        plan = plan_for([message for message in since if isinstance(message, UserMessage)])
        if not plan.steps + plan.final_actions:
            return _final(request.step, "\n".join(_process_reports(since)))
        steps_taken = _count_taken_steps(since, request)
        if steps_taken < len(plan.steps):
            return _action_response(request, plan.steps[steps_taken])
        answers = [_final_text(action) for action in plan.final_actions]
        text = "\n".join(answers) if answers else _joined_results(since)
        if any(action.verb == "stream" for action in plan.final_actions):
            await _stream_words(text, show_preview)
        return _final(request.step, text)


async def _stream_words(text: str, show_preview: PreviewCallback | None) -> None:
    """Show a text word by word, with a pause after each."""
    for end in [found.end() for found in re.finditer(r"\S+", text)]:
        if show_preview is not None:
            show_preview(text[:end])
        await asyncio.sleep(WORD_SECONDS)


def _unanswered_messages(request: ModelRequest) -> Sequence[Message]:
    """The messages of this turn; if nobody wrote in it, the messages from the last user message on."""
    now = request.messages[request.history_count :]
    if any(isinstance(message, UserMessage) for message in now) or _process_reports(now):
        return now
    spoken = [n for n, message in enumerate(request.messages) if isinstance(message, UserMessage)]
    return request.messages[spoken[-1] :]


def _count_taken_steps(since: Sequence[Message], request: ModelRequest) -> int:
    """How many steps are done. A repeatable step that was cancelled with its turn is done again."""
    now = request.messages[request.history_count :]
    shown = sum(isinstance(message, AssistantMessage) for message in now)
    taken = [True] * (request.step - 1 - shown)  # steps of this turn that were compacted
    for message in since:
        match message:
            case AssistantMessage():
                taken.append(True)
            case ToolMessage(tool="step", outcome="cancelled"):
                taken[-1] = False
    return sum(taken)


def _process_reports(messages: Sequence[Message]) -> list[str]:
    """The gateway's reports about processes, which the offline model passes on."""
    notices = [message for message in messages if isinstance(message, NoteMessage) and message.is_report]
    return [texts.phrases.report_text(message.text) for message in notices]


def _action_response(request: ModelRequest, action: ScriptAction) -> ModelAnswered:
    step = request.step
    if action.verb in ("background", "watch", "process"):
        tool = "process" if action.verb == "process" else "shell"
        call = ToolCall(f"c{step}.1", tool, _process_arguments(request, action))
        return ModelAnswered(step, "", (call,), "tool_calls", TokenUsage(1, 1))
    if action.verb == "parallel":
        return _calls(step, "step", [name.strip() for name in action.argument.split(",") if name.strip()], 0.0)
    if action.verb == "ask":
        question, *options = [part.strip() for part in action.argument.split("|")]
        call = ToolCall(f"c{step}.1", CLARIFY, {"question": question, "options": options})
        return ModelAnswered(step, "", (call,), "tool_calls", TokenUsage(1, 1))
    if action.verb in TOOL_BY_VERB:
        tool, argument = TOOL_BY_VERB[action.verb]
        command = ToolCall(f"c{step}.1", tool, {argument: action.argument})
        return ModelAnswered(step, "", (command,), "tool_calls", TokenUsage(1, 1))
    return _calls(step, action.verb, [action.argument], action.seconds)


def _process_arguments(request: ModelRequest, action: ScriptAction) -> dict[str, Any]:
    """The arguments of an action on a process; `process` means the newest one."""
    if action.verb == "background":
        return {"command": action.argument, "background": True}
    word, _, rest = action.argument.partition(" ")
    if action.verb == "watch":
        patterns = {"watch_patterns": [word], "notify_on_complete": False}
        return {"command": rest.strip(), "background": True} | patterns
    results = [message.text for message in request.messages if isinstance(message, ToolMessage)]
    known = [process for text in results for process in _PROCESS.findall(text)]
    return {"action": word, "id": known[-1] if known else "", "text": rest.strip()}


def _final_text(action: ScriptAction) -> str:
    match action.verb:
        case "greet":
            return action.argument or texts.agents.OFFLINE_GREETING
        case "say" | "stream":
            return action.argument
        case "flood":
            return "x" * _flood_size(action.argument)
        case _:
            raise ModelError(action.argument or "the offline model was told to fail")


def _calls(step: int, tool: str, names: Sequence[str], seconds: float) -> ModelAnswered:
    calls = tuple(
        ToolCall(f"c{step}.{number}", tool, {"name": name, "seconds": seconds})
        for number, name in enumerate(names, 1)
    )
    return (
        ModelAnswered(step, "", calls, "tool_calls", TokenUsage(1, 1))
        if calls
        else _final(step, texts.agents.OFFLINE_PARALLEL_USAGE)
    )


def _flood_size(text: str) -> int:
    if not text.isdecimal():
        raise ModelError(texts.agents.offline_flood_usage(text))
    return min(int(text[:20]), MAX_FLOOD_CHARS)  # Python refuses numbers of thousands of digits


def _final(step: int, text: str) -> ModelAnswered:
    return ModelAnswered(step, text, (), "stop", TokenUsage(1, len(text) // 4 + 1))


def _joined_results(since: Sequence[Message]) -> str:
    """The results of the steps, as the answer of a script without one."""
    return (
        "\n".join(message.text for message in since if isinstance(message, ToolMessage))
        or texts.agents.OFFLINE_DONE
    )

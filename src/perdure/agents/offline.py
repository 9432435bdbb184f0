"""The offline model: a message whose lines are actions is a script, run in order, one model step each.

It needs no key and no network, forgets nothing and invents nothing: what it does next is read from the
conversation, so a script goes on after a crash exactly where its journal ends.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from perdure.agents.api import Hear, ModelRequest
from perdure.core import notes
from perdure.core.conversation import AssistantMessage, Message, NoteMessage, ToolMessage, UserMessage
from perdure.core.journal import ModelAnswered, ToolCall, Usage
from perdure.errors import ModelError

_TIMED = re.compile(r"(step|once)\s+(\S+)(?:\s+(\d+(?:\.\d+)?)s)?")
_VERBAL = re.compile(r"(say|stream|fail|flood|parallel|run|background|watch|process|ask|danger|send):\s*(.*)")
_PROCESS = re.compile(r"\bp_[0-9a-z]{22}\b")
STEPS = frozenset(("step", "once", "parallel", "ask", "run", "danger", "background", "watch", "process", "send"))
COMMANDS = {"run": ("shell", "command"), "danger": ("danger", "command"), "send": ("send_file", "path")}
FLOOD_LIMIT = 1_000_000
WINDOW = 1_000_000_000  # it reads whatever there is, unless it is told to read less
WORD = 0.2  # seconds that a streamed word takes


class Action(Struct, frozen=True):
    verb: str
    rest: str
    seconds: float = 0.0


def parse_script(text: str) -> list[Action] | None:
    """The actions of a message, or None if it is no script: then it is just a message."""
    actions = [_parse_line(line.strip()) for line in text.splitlines() if line.strip()]
    script = [action for action in actions if action is not None]
    return script if script and len(script) == len(actions) else None


def _parse_line(line: str) -> Action | None:
    if found := _TIMED.fullmatch(line):
        return Action(found[1], found[2], float(found[3] or 0))
    if found := _VERBAL.fullmatch(line):
        return Action(found[1], found[2].strip())
    return None


class Plan(Struct, frozen=True):
    """What the messages that are not answered yet ask for: steps first, then what to say."""

    steps: list[Action]
    ends: list[Action]


def plan_for(messages: Sequence[UserMessage]) -> Plan:
    steps: list[Action] = []
    ends: list[Action] = []
    for message in messages:
        for action in parse_script(message.text) or [
            Action("greet", notes.offline_files([file.line for file in message.files]))
        ]:
            if action.verb not in STEPS:
                ends.append(action)
                break
            steps.append(action)
    return Plan(steps, ends)


class OfflineModel:
    name = "offline"

    def __init__(self, window: int | None = None) -> None:
        self.window = window or WINDOW

    async def close(self) -> None:
        """There is nothing to let go of."""

    async def respond(self, request: ModelRequest, hear: Hear | None = None) -> ModelAnswered:
        if request.purpose == "summary":
            return _final(request.step, notes.OFFLINE_SUMMARY)
        since = _to_answer(request)
        plan = plan_for([message for message in since if isinstance(message, UserMessage)])
        if not plan.steps + plan.ends:
            return _final(request.step, "\n".join(_news(since)))
        taken = _taken(since, request)
        if taken < len(plan.steps):
            return _act(request, plan.steps[taken])
        said = [_end(action) for action in plan.ends]
        text = "\n".join(said) if said else _summary(since)
        if any(action.verb == "stream" for action in plan.ends):
            await _speak(text, hear)
        return _final(request.step, text)


async def _speak(text: str, hear: Hear | None) -> None:
    """Take one's time over every word."""
    for place in [found.end() for found in re.finditer(r"\S+", text)]:
        if hear is not None:
            hear(text[:place])
        await asyncio.sleep(WORD)


def _to_answer(request: ModelRequest) -> Sequence[Message]:
    """The messages of this turn; of one that began without words, from the last words before it on."""
    now = request.messages[request.earlier :]
    if any(isinstance(message, UserMessage) for message in now) or _news(now):
        return now
    spoken = [n for n, message in enumerate(request.messages) if isinstance(message, UserMessage)]
    return request.messages[spoken[-1] :]


def _taken(since: Sequence[Message], request: ModelRequest) -> int:
    """How many steps were taken. One that may be repeated, and was cancelled with its turn, is taken again."""
    now = request.messages[request.earlier :]
    told = sum(isinstance(message, AssistantMessage) for message in now)
    taken = [True] * (request.step - 1 - told)  # steps of this turn that were compacted
    for message in since:
        match message:
            case AssistantMessage():
                taken.append(True)
            case ToolMessage(tool="step", outcome="cancelled"):
                taken[-1] = False
    return sum(taken)


def _news(messages: Sequence[Message]) -> list[str]:
    """What the gateway tells of processes: the offline model passes it on."""
    notices = [message for message in messages if isinstance(message, NoteMessage) and message.cause]
    return [notes.bare_news(message.text) for message in notices]


def _act(request: ModelRequest, action: Action) -> ModelAnswered:
    step = request.step
    if action.verb in ("background", "watch", "process"):
        tool = "process" if action.verb == "process" else "shell"
        wish = ToolCall(f"c{step}.1", tool, _in_background(request, action))
        return ModelAnswered(step, "", (wish,), "tool_calls", Usage(1, 1))
    if action.verb == "parallel":
        return _calls(step, "step", [name.strip() for name in action.rest.split(",") if name.strip()], 0.0)
    if action.verb == "ask":
        question, *options = [part.strip() for part in action.rest.split("|")]
        wish = ToolCall(f"c{step}.1", "clarify", {"question": question, "options": options})
        return ModelAnswered(step, "", (wish,), "tool_calls", Usage(1, 1))
    if action.verb in COMMANDS:
        tool, argument = COMMANDS[action.verb]
        command = ToolCall(f"c{step}.1", tool, {argument: action.rest})
        return ModelAnswered(step, "", (command,), "tool_calls", Usage(1, 1))
    return _calls(step, action.verb, [action.rest], action.seconds)


def _in_background(request: ModelRequest, action: Action) -> dict[str, Any]:
    """The arguments of an action with a process; one that looks after a process means the newest."""
    if action.verb == "background":
        return {"command": action.rest, "background": True}
    word, _, rest = action.rest.partition(" ")
    if action.verb == "watch":
        patterns = {"watch_patterns": [word], "notify_on_complete": False}
        return {"command": rest.strip(), "background": True} | patterns
    said = [message.text for message in request.messages if isinstance(message, ToolMessage)]
    known = [process for text in said for process in _PROCESS.findall(text)]
    return {"action": word, "id": known[-1] if known else "", "text": rest.strip()}


def _end(action: Action) -> str:
    match action.verb:
        case "greet":
            return action.rest or notes.OFFLINE_GREETING
        case "say" | "stream":
            return action.rest
        case "flood":
            return "x" * _flood_size(action.rest)
        case _:
            raise ModelError(action.rest or "the offline model was told to fail")


def _calls(step: int, tool: str, names: Sequence[str], seconds: float) -> ModelAnswered:
    calls = tuple(
        ToolCall(f"c{step}.{number}", tool, {"name": name, "seconds": seconds})
        for number, name in enumerate(names, 1)
    )
    return ModelAnswered(step, "", calls, "tool_calls", Usage(1, 1)) if calls else _final(step, notes.NO_NAMES)


def _flood_size(text: str) -> int:
    if not text.isdecimal():
        raise ModelError(notes.bad_flood(text))
    return min(int(text[:20]), FLOOD_LIMIT)  # Python reads no number of thousands of digits


def _final(step: int, text: str) -> ModelAnswered:
    return ModelAnswered(step, text, (), "stop", Usage(1, len(text) // 4 + 1))


def _summary(since: Sequence[Message]) -> str:
    """What came of the steps, for a script that says nothing itself."""
    return "\n".join(message.text for message in since if isinstance(message, ToolMessage)) or notes.NOTHING_TO_SAY

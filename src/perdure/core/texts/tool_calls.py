"""What the model is told about tool calls that did not run, failed, or have an unknown outcome."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from perdure.core.texts import phrases


def format_call(tool: str, arguments: Mapping[str, Any]) -> str:
    """A call as code, with long arguments shortened."""
    return f"{tool}({', '.join(f'{name}={phrases.clip(repr(value), 300)}' for name, value in arguments.items())})"


OUTCOME_UNKNOWN = "outcome unknown: this call was cut off; it may have run. Look before you repeat it."
STARTED_ELSEWHERE = (
    "outcome unknown: this was begun on another machine, and cannot be seen from here. Look before you repeat it."
)
CANCELLED = "cancelled: the turn ended before this call gave a result."
REPEATED = "not run: you have made this very call several times already. Do something else, or answer."


def not_permitted(tool: str, role: str | None) -> str:
    """Why a call is refused: the person whose words began the turn has no right to this tool."""
    who = f"is a {role} here" if role else "is not known here any more"
    return (
        f"`{tool}` is not for this turn: the person who began it {who}. Answer without it, or say that you cannot."
    )


def outcome_unknown(why: str) -> str:
    return f"outcome unknown: {why} It may have run. Look before you repeat it."


def no_commands_here(command: str, timeout: float | None) -> str:
    within = f" within {timeout:g} s" if timeout else ""
    shown = phrases.clip(command, 200)
    return f"The command `{shown}` cannot be run{within}: only in a gateway a tool can run commands."


def timed_out(seconds: float) -> str:
    return f"the call was given up after {seconds:g} s."


def too_many(count: int) -> str:
    return f"[{count} more calls than allowed at once were left out]"


def arguments_too_long(size: int, limit: int) -> str:
    return f"the arguments are {size} characters long; at most {limit} are taken. Do it in smaller pieces."


def arguments_not_json(problem: str, written: str) -> str:
    return f"the arguments are no JSON object ({problem}): {phrases.clip(written, 200)!r}"


def unknown_tool(tool: str, known: list[str]) -> str:
    return f"there is no tool named {tool!r}; the tools are: {', '.join(known) or 'none'}"


def failed(error: BaseException) -> str:
    return f"the tool failed: {type(error).__name__}: {error}"


DONE = "done"


def argument_missing(name: str, schema: str) -> str:
    return f"`{name}` is missing; its schema is {phrases.clip(schema, 400)}."


def argument_misfit(place: str, problem: str, came: str, schema: str) -> str:
    said = f"{problem[:1].lower()}{problem[1:]}"
    return (
        f"`{place}`: {said}; the argument came as {phrases.clip(came, 200)}, its schema is "
        f"{phrases.clip(schema, 400)}."
    )


def unknown_argument(name: str) -> str:
    return f"There is no argument `{name[:100]}`."


def arguments_misfit(tool: str, problems: Sequence[str], known: Sequence[str]) -> str:
    takes = ", ".join(f"`{name}`" for name in known) or "no arguments"
    return f"`{tool}` was not run, because its arguments do not fit. {' '.join(problems)} It takes {takes}."


def tried_to_exit(tool: str, code: object) -> str:
    return f"`{tool}` wanted to end the whole process (exit code {code!r}), which a tool cannot do."


def result_not_json(tool: str, kind: str, error: BaseException) -> str:
    return f"`{tool}` ran to its end, but its result, of the type {kind}, cannot be told as JSON: {error}"

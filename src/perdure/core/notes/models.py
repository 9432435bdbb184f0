"""What we say to a model: notes about what was cut off, and what became of its wishes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from perdure.core.notes.words import ago, cause_of, clipped, gateway_note

SYSTEM_PROMPT = (
    "You are a capable and friendly assistant in a chat. Answer briefly and plainly, in the language of the "
    "person you talk with. Use your tools when they help, and tell what you did with them. When you do not "
    "know something, or could not do it, say so."
)


FINISHED_STEPS = "Steps that have a result are finished: use their results, do not repeat them."


GOING_ON = "Carry on with the task; do not merely announce that you are back."


FIRST_LINE = "Begin your answer with one line that says what had been accomplished before the interruption."


def recovery_note(
    reason: str, known: Sequence[str] = (), *, finished: bool = False, joined: bool = False, late: str = ""
) -> str:
    """Tells of an interruption. `finished` says that a step had ended before it, `late` how old a reply is."""
    said = [f"This turn was cut off by {cause_of(reason)} and now goes on."]
    said += [FINISHED_STEPS, GOING_ON, FIRST_LINE] if finished else [GOING_ON]
    said += known
    if joined:
        said.append("The user has written again meanwhile: finish what was begun, then answer that too.")
    return gateway_note([*said, late] if late else said)


def failed_note(reason: str, known: Sequence[str] = (), *, finished: bool = False) -> str:
    left = f"The turn before this one was cut off by {cause_of(reason)}, went on, and then failed."
    use = [FINISHED_STEPS] if finished else []
    return gateway_note([left, *use, *known, "Answer the new message, and mention the rest if it matters."])


def replied_late(age: int) -> str:
    """How old the question is that a person has replied to."""
    return (
        f"The user replied {ago(age)} after the question was asked. What was true then may have changed: "
        "check it where it matters."
    )


def late_reply(age: int) -> str:
    return gateway_note([replied_late(age)])


def superseded_note(known: Sequence[str] = ()) -> str:
    left = "The work before this message was cut off and left unfinished."
    return gateway_note([left, *known, "Answer the new message, and mention the rest if it matters."])


def call(tool: str, arguments: Mapping[str, Any]) -> str:
    """A call as one would write it, with long arguments cut."""
    return f"{tool}({', '.join(f'{name}={clipped(repr(value), 300)}' for name, value in arguments.items())})"


def in_doubt(call: str) -> str:
    return f"{call} was cut off: its outcome is unknown, and it may have run; look before you repeat it."


def attached(call: str) -> str:
    return f"{call} was not cut off with it: it may have run on, and what came of it follows."


def run_again(call: str) -> str:
    return f"{call} was cut off and is run again."


def not_run_again(call: str) -> str:
    return f"{call} was cut off and has no result; it may be repeated."


UNANSWERED_RESULTS = (
    "[Gateway note: The turn before ended with tool results that nobody has answered. Take them into account.]"
)


def wordless(*files: str) -> str:
    """Stands in for a message without text."""
    return f"[a message without words, with: {', '.join(files)}]" if files else "[a message without words]"


NOT_ANSWERED = "not answered: the user wrote something else instead."


OUTCOME_UNKNOWN = "outcome unknown: this call was cut off; it may have run. Look before you repeat it."


BEGUN_ELSEWHERE = (
    "outcome unknown: this was begun on another machine, and cannot be seen from here. Look before you repeat it."
)


CANCELLED_CALL = "cancelled: the turn ended before this call gave a result."


CLARIFY = (
    "Asks the person you talk with, and waits for the answer, for days if need be. Use it when you cannot go on "
    "sensibly without knowing something that only they can tell."
)


NO_QUESTION = "the question is missing: give it as `question`, and the choices, if any, as `options`."


SAME_AGAIN = "not run: you have made this very call several times already. Do something else, or answer."


NO_SUMMARY = "the model's summary was empty, or had no end. /new begins a fresh conversation."


SUMMARY_TOO_LONG = "the model refused to read even a small part of it. /new begins a fresh conversation."


SUMMARISER = (
    "You sum up conversations between a user and an assistant that uses tools, so that the assistant can go on "
    "with the summary instead of the original."
)


def sum_up(transcript: str) -> str:
    return (
        "Sum up the conversation below. Keep what the user wants, what was decided, found and done, names, paths, "
        f"numbers and open points. Write the summary only.\n\n<conversation>\n{transcript}\n</conversation>"
    )


def summary(text: str) -> str:
    return f"[Gateway note: The conversation so far is too long to be shown. In short: {text}]"


def outcome_unknown(why: str) -> str:
    return f"outcome unknown: {why} It may have run. Look before you repeat it."


def took_too_long(seconds: float) -> str:
    return f"the call was given up after {seconds:g} s."


SHELL = (
    "Runs a shell command in the workspace and returns its output and exit code. It goes on even if the gateway "
    "is restarted. `timeout` is in seconds; a command that takes longer is ended."
)


EVERY_COMMAND = "every command here needs approval"


SCRIPTED_DANGER = "the script calls it dangerous"


NO_OUTPUT = "(no output)"


EMPTY_SAID = "(an empty answer)"


def left_out(size: int) -> str:
    return f"[… {size} bytes left out …]"


def command_ended(
    exit_code: int | None, signal: int | None, cut: int, output: str, also: str = "", *, middle: bool = False
) -> str:
    """What became of a command, for the model. `middle` says that what was cut off was not at the end."""
    how = f"ended by signal {signal}" if signal is not None else f"exit code {exit_code}"
    where = "in the middle " if middle else ""
    left_out = f"\n[… {cut} bytes {where}of its output were not kept …]" if cut else ""
    return f"{how}{f' ({also})' if also else ''}\n{output.rstrip() or NO_OUTPUT}{left_out}"


def command_lost(problem: str, output: str) -> str:
    so_far = f" Its output so far: {output.strip()}" if output.strip() else ""
    return f"{problem}{so_far}"


VERDICTS = ("Approve", "Deny")


def approval(tool: str, arguments: Mapping[str, Any], why: str) -> str:
    """Asks for a person's word. Nothing of the call is left out: nobody can approve what they do not see."""
    call = f"{tool}({', '.join(f'{name}={value!r}' for name, value in arguments.items())})"
    return f"May I do this? {call}\nI ask because {why}.\nSay /approve or /deny; nothing else counts."


def not_approved(verdict: str) -> str:
    """Why a guarded call was not run, for the model."""
    if verdict == "denied":
        return "not run: the user denied it. Do not try it again in another way; say what you would need it for."
    if verdict == "late":
        return "not run: the approval came too late, and counts no more. Ask for the call again if it is needed."
    return "not run: the user neither approved nor denied it, but wrote something else."


def dropped_calls(count: int) -> str:
    return f"[{count} more calls than allowed at once were left out]"


def large_arguments(size: int, limit: int) -> str:
    return f"the arguments are {size} characters long; at most {limit} are taken. Do it in smaller pieces."


def bad_arguments(problem: str, written: str) -> str:
    return f"the arguments are no JSON object ({problem}): {clipped(written, 200)!r}"


def unknown_tool(tool: str, known: list[str]) -> str:
    return f"there is no tool named {tool!r}; the tools are: {', '.join(known) or 'none'}"


def tool_failed(error: BaseException) -> str:
    return f"the tool failed: {type(error).__name__}: {error}"


MCP_NOT_YET = "not connected yet"


MCP_RECONNECTING = "the connection was lost; connecting again"


MCP_FORGOTTEN = "it has forgotten our session"


MCP_CLOSED = "the server closed the connection"


def mcp_unreachable(why: str) -> str:
    return f"it cannot be reached ({why})"


def mcp_broke(why: str) -> str:
    return f"the connection broke ({why})"


def mcp_status(status: int, phrase: str) -> str:
    return f"it answered HTTP {status} {phrase}".rstrip()


def mcp_slow_start(seconds: float) -> str:
    return f"the server did not list its tools within {seconds:g} s"


def mcp_ended(why: str, last_words: str) -> str:
    return f"{why}; its last words: …{last_words}" if last_words else why


def mcp_not_connected(server: str, why: str) -> str:
    return f"nothing was done: the MCP server {server!r} is not connected ({why}). Try later, or do without it."


def mcp_refused(server: str, why: str) -> str:
    return f"the MCP server {server!r} refused the call: {why}"


def mcp_cut_off(server: str, why: str) -> str:
    return f"the MCP server {server!r} gave no answer: {why}."


def mcp_may_be_repeated(said: str) -> str:
    return f"{said} The call changes nothing, and may be repeated."


def mcp_late(seconds: float) -> str:
    return f"it took longer than {seconds:g} s"


def mcp_unreadable(why: str) -> str:
    return f"what it sent cannot be read ({clipped(why, 500)})"


def mcp_file(kind: str, size: int) -> str:
    return f"[a file that cannot be shown here: {kind}, {size} bytes]"


def mcp_linked(name: str, uri: str) -> str:
    return f"[a link to {name}: {uri}]"


def mcp_enclosed(uri: str, text: str) -> str:
    return f"[enclosed: {uri}]\n{text}"

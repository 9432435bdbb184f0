"""Every sentence that people or models see from us, in one place."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from perdure.core.goals import GIVEN_UP, REACHED

CAUSES = {
    "restart_timeout": "a gateway restart",
    "shutdown_timeout": "a gateway shutdown",
}


def cause_of(reason: str) -> str:
    """The reason of an interruption in words."""
    return CAUSES.get(reason, "a gateway interruption")


def times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def ago(milliseconds: int) -> str:
    """A length of time in one unit, never in a coarser one than a person would use."""
    seconds = max(0, milliseconds) // 1000
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"


# ── to the model ────────────────────────────────────────────────────────────────────────────────────────────


SYSTEM_PROMPT = (
    "You are a capable and friendly assistant in a chat. Answer briefly and plainly, in the language of the "
    "person you talk with. Use your tools when they help, and tell what you did with them. When you do not "
    "know something, or could not do it, say so."
)


GOING_ON = (
    "Steps that have a result are finished: use their results, do not repeat them. "
    "Carry on with the task; do not merely announce that you are back."
)


def recovery_note(reason: str, known: Sequence[str] = (), *, joined: bool = False) -> str:
    said = [f"This turn was cut off by {cause_of(reason)} and now goes on.", GOING_ON, *known]
    if joined:
        said.append("The user has written again meanwhile: finish what was begun, then answer that too.")
    return _gateway_note(said)


def failed_note(reason: str, known: Sequence[str] = ()) -> str:
    left = f"The turn before this one was cut off by {cause_of(reason)}, went on, and then failed."
    use = "Steps that have a result are finished: use their results, do not repeat them."
    return _gateway_note([left, use, *known, "Answer the new message, and mention the rest if it matters."])


def superseded_note(known: Sequence[str] = ()) -> str:
    left = "The work before this message was cut off and left unfinished."
    return _gateway_note([left, *known, "Answer the new message, and mention the rest if it matters."])


def _gateway_note(said: Sequence[str]) -> str:
    return f"[Gateway note: {' '.join(said)}]"


def call(tool: str, arguments: Mapping[str, Any]) -> str:
    """A call as one would write it, with long arguments cut."""
    return f"{tool}({', '.join(f'{name}={clipped(repr(value), 300)}' for name, value in arguments.items())})"


def in_doubt(call: str) -> str:
    return f"{call} was cut off: its outcome is unknown, and it may have run; look before you repeat it."


def attached(call: str) -> str:
    return f"{call} was not cut off with it: it ran on, and its real result follows."


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
NO_SUMMARY = "the conversation has grown too long, and the model gave no summary of it. /new begins a fresh one."
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


def clipped(text: str, limit: int) -> str:
    """The text, or its beginning and its end around a mark that says how much is left out."""
    if len(text) <= limit:
        return text
    head, tail = limit * 3 // 4, limit // 4
    return f"{text[:head]}\n[… {len(text) - head - tail} characters left out …]\n{text[len(text) - tail :]}"


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


def left_out(size: int) -> str:
    return f"[… {size} bytes left out …]"


def command_ended(exit_code: int | None, signal: int | None, cut: int, output: str, also: str = "") -> str:
    """What became of a command, for the model."""
    how = f"ended by signal {signal}" if signal is not None else f"exit code {exit_code}"
    left_out = f"\n[… {cut} bytes of output were not kept …]" if cut else ""
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


# ── results of tools ────────────────────────────────────────────────────────────────────────────────────────

TOOL_DONE = "done"


def argument_missing(name: str, schema: str) -> str:
    return f"`{name}` is missing; its schema is {clipped(schema, 400)}."


def argument_misfit(place: str, problem: str, came: str, schema: str) -> str:
    said = f"{problem[:1].lower()}{problem[1:]}"
    return f"`{place}`: {said}; the argument came as {clipped(came, 200)}, its schema is {clipped(schema, 400)}."


def no_such_argument(name: str) -> str:
    return f"There is no argument `{name[:100]}`."


def arguments_misfit(tool: str, problems: Sequence[str], known: Sequence[str]) -> str:
    takes = ", ".join(f"`{name}`" for name in known) or "no arguments"
    return f"`{tool}` was not run, because its arguments do not fit. {' '.join(problems)} It takes {takes}."


def tool_exits(tool: str, code: object) -> str:
    return f"`{tool}` wanted to end the whole process (exit code {code!r}), which a tool cannot do."


def untellable_result(tool: str, kind: str, error: BaseException) -> str:
    return f"`{tool}` ran to its end, but its result, of the type {kind}, cannot be told as JSON: {error}"


def _size(count: int) -> str:
    return "1 byte" if count == 1 else f"{count} bytes"


def bad_path(path: str, error: BaseException) -> str:
    return f"`{path[:200]!r}` cannot be a path: {error}."


def outside(path: str, root: str) -> str:
    return f"`{path}` leads out of `{root}`, the root folder; only what is in it can be used. Give a path inside."


def no_such_file(name: str) -> str:
    return f"`{name}` does not exist. read_file shows the entries of a folder."


def file_trouble(name: str, why: str) -> str:
    return f"`{name}` cannot be used: {why}."


def file_for_folder(name: str) -> str:
    return f"`{name}` cannot be there: a part of its path is a file, not a folder."


def not_a_file(name: str) -> str:
    return f"`{name}` is not a file but a folder, a pipe or a device. Name a file."


def binary(name: str) -> str:
    return f"`{name}` is a binary file, so there is no text to show or edit."


def not_utf8(name: str) -> str:
    return f"`{name}` is not encoded in UTF-8, so it cannot be shown or edited as text."


def too_large(name: str, limit: int) -> str:
    return f"`{name}` is larger than {limit >> 20} MiB, too large to be edited."


def listing(name: str, entries: Sequence[str], whole: bool) -> str:
    if not entries:
        return f"The folder `{name}` is empty."
    count = (
        f"{len(entries)} of more" if not whole else "1 entry" if len(entries) == 1 else f"{len(entries)} entries"
    )
    return "\n".join([f"The folder `{name}`, {count}:", *entries])


LINE_CUT = " [… the rest of this line is left out]\n"


def excerpt(name: str, text: str, first: int, last: int, total: int, *, whole: bool) -> str:
    """Lines of a file under a line that says which they are."""
    if not total:
        return f"`{name}` is empty."
    said = [f"`{name}`, lines {first} to {last} of {total if whole else f'more than {total}'}"]
    if last < total or not whole:
        said.append(f"go on with offset={last + 1}")
    return f"{'; '.join(said)}\n{text}"


def no_such_line(name: str, offset: int, total: int, whole: bool) -> str:
    if whole:
        return f"`{name}` has no line {offset}: it has {total} lines."
    return f"`{name}` is too large: it is read up to line {total}, and line {offset} is after that."


def wrote(name: str, size: int) -> str:
    return f"Wrote {_size(size)} to `{name}`."


def not_edited(name: str, count: int, lines: Sequence[int], *, same: bool) -> str:
    if same:
        return f"`{name}` was not changed: `old` and `new` are the same."
    if not count:
        look = "It must be the exact text, with every space and line break; read_file shows it."
        return f"`{name}` was not changed: `old` does not occur in it. {look}"
    where = f"{count} times, in the lines {_some(lines, count)}"
    return f"`{name}` was not changed: `old` occurs {where}. Give more of the text around it, or all=true."


def edited(name: str, count: int, lines: Sequence[int]) -> str:
    places = f"1 place, line {lines[0]}" if count == 1 else f"{count} places, lines {_some(lines, count)}"
    return f"Changed `{name}` in {places}."


def _some(numbers: Sequence[int], count: int) -> str:
    shown = ", ".join(map(str, numbers[:10]))
    return f"{shown} and {count - 10} more" if count > 10 else shown


def bad_pattern(pattern: str, why: str) -> str:
    hint = "To search for a character such as ( [ . * + ? itself, put a backslash before it."
    return f"`{clipped(pattern, 200)}` cannot be searched for: {why}. {hint}"


def search_cut_off(pattern: str, seconds: float, error: str, found: Sequence[str]) -> str:
    why = f"failed ({error})" if error else f"was given up after {seconds:g} s"
    hint = (
        "Repetitions inside of repetitions, such as (a+)+, may take for ever. Make the pattern simpler, or narrow"
    )
    said = [f"The search for `{clipped(pattern, 200)}` {why}. {hint} `path` or `glob`."]
    return "\n".join([*said, "Found until then:", *found] if found else said)


def matches(found: Sequence[str], under: str, files: int, *, large: int, full: bool, late: bool) -> str:
    count = "1 match" if len(found) == 1 else f"{len(found)} matches" if found else "No match"
    said = [f"{count} in {'1 file' if files == 1 else f'{files} files'} under `{under}`."]
    if large:
        said.append(f"{large} {'was' if large == 1 else 'were'} too large to be searched.")
    if full:
        said.append("There are more: narrow `pattern`, `path` or `glob`.")
    if late:
        said.append("The time was up before all files were searched: narrow `path` or `glob`.")
    return "\n".join([" ".join(said), *found])


def bad_url(url: str, why: str) -> str:
    return f"`{clipped(url, 200)}` cannot be fetched: {why}. Give an address such as https://example.org/page."


def no_such_host(host: str) -> str:
    return f"There is no host `{clipped(host, 200)}`, or its name cannot be looked up just now."


def not_public(host: str, address: str) -> str:
    return f"`{clipped(host, 200)}` ({address}) is not on the public internet, so it is not fetched."


def too_many_redirects(url: str, limit: int) -> str:
    return f"`{clipped(url, 200)}` leads on and on: more than {limit} redirects were not followed."


def not_fetched(url: str, problems: Sequence[str]) -> str:
    return f"`{clipped(url, 200)}` could not be fetched: {'; '.join(dict.fromkeys(problems))}."


def fetch_too_slow(url: str, seconds: float) -> str:
    return f"`{clipped(url, 200)}` was given up: it was not read to its end within {seconds:g} s."


def fetch_refused(url: str, status: str, text: str) -> str:
    begins = f" Its answer begins:\n{clipped(text.strip(), 1000)}" if text.strip() else ""
    return f"`{clipped(url, 200)}` answered {status}.{begins}"


def fetched(url: str, kind: str, text: str, limit: int | None) -> str:
    cut = f", only the first {limit} bytes" if limit is not None else ""
    return f"`{clipped(url, 2000)}` ({kind or 'no type given'}{cut}):\n\n{text.strip() or '(nothing to read)'}"


def not_text(kind: str, size: str) -> str:
    return f"(This is not text but {kind or 'something else'}, {f'{size} bytes' if size else 'of unknown size'}.)"


def page_as_it_is(page: str) -> str:
    return f"(The page is written in a way that cannot be made readable. It begins:)\n{page[:5000]}"


def unknown_packing(encoding: str) -> str:
    return f"(The server packed its answer in a way that cannot be unpacked: {clipped(encoding, 100)}.)"


# ── commands that outlive the gateway ───────────────────────────────────────────────────────────────────────


def command_not_started(reason: str) -> str:
    return f"The command was not started: {reason.strip().rstrip('.') or 'its keeper ended at once'}."


def command_start_unknown(reason: str) -> str:
    why = reason.strip().rstrip(".")
    return f"It is not known whether the command was started: {why}. Look before you repeat it."


COMMAND_UNWRITABLE = "it, its folder or its environment holds a character that no command can have, such as NUL"
COMMAND_FORESTALLED = "it was given up before it began"

_COMMAND_PROBLEMS = {
    "directory": "The command was not started: its working directory {subject} cannot be used ({reason}).",
    "shell": "The command was not started: {subject} could not run it ({reason}).",
    "start": "The command was not started ({reason}).",
    "early": "The command was stopped before it was started.",
    "output": "Its output could not be kept whole ({reason}); what is there is how it began.",
    "survivors": "Some of its processes could not be ended: {subject}.",
}


def command_problem(kind: str, subject: str, reason: str) -> str:
    return _COMMAND_PROBLEMS.get(kind, "{subject} {reason}").format(subject=subject, reason=reason)


_COMMAND_UNKNOWN = "It may have done its work, wholly or in part: look before you repeat it."
COMMAND_LOST_AT_BOOT = (
    f"The machine was restarted, or is another one, before the command's end was recorded. {_COMMAND_UNKNOWN}"
)
COMMAND_LOST = f"What kept the command was killed before the command's end was recorded. {_COMMAND_UNKNOWN}"
COMMAND_AT_LARGE = (
    "What kept the command was killed. The command itself still runs, but how it ends will not be known, nor what "
    "it says."
)


def command_unreadable(name: str, reason: str) -> str:
    return f"The record of the command, {name}, cannot be read ({reason}). {_COMMAND_UNKNOWN}"


def command_newer(name: str) -> str:
    return f"The record of the command, {name}, was written by a newer version. {_COMMAND_UNKNOWN}"


COMMAND_NOT_RUNNING = "The command does not run, so it reads nothing."
COMMAND_TAKES_NO_INPUT = "The command was started without an input."
COMMAND_INPUT_CLOSED = "The command has closed its input, so it reads nothing more."


def command_input_full(taken: int, size: int) -> str:
    return f"The command reads nothing now: it took {taken} of {size} bytes. Send the rest later, or stop it."


# ── processes in the background ─────────────────────────────────────────────────────────────────────────────

SHELL_BACKGROUND = (
    "Return at once with the id of a process that goes on by itself, also when this turn has ended. The tool "
    "`process` looks after it. Without a timeout it is never ended."
)
SHELL_NOTIFY = "In the background: tell you when it has ended, in a turn of its own."
SHELL_WATCH = (
    "In the background: texts, or simple regular expressions, to watch its output for. You are told of lines that "
    "have one of them, at most every 15 seconds; give only what is rare."
)
WATCH_BACKGROUND = "watch_patterns needs background=true: a command that you wait for tells you all of its output."
PROCESS = (
    "Looks after processes that `shell` has begun in the background. `list` shows those of this chat; `poll` how "
    "one is doing, with the end of its output; `log` its output from an offset on; `wait` waits for its end; "
    "`write` gives it something to read; `kill` ends it. Once you have seen the end, you are not told of it again."
)
PROCESS_NOT_BEGUN = "it has not begun to run."
OUTPUT_CLEARED = "Its output was cleared away."
PROCESS_ELSEWHERE = "the process was to be started by a gateway on another machine, and its files are there."
INPUT_UNKNOWN = "the process may have been given this input already, wholly or in part."


def process_begun(process: str, *, notify: bool, patterns: Sequence[str]) -> str:
    told = " You will be told when it has ended." if notify else ""
    watched = f" Its output is watched for {', '.join(map(repr, patterns))}." if patterns else ""
    return f"The process {process} runs in the background.{told}{watched}"


def process_state(state: str, exit_code: int | None, signal: int | None) -> str:
    if state == "live":
        return "running"
    if state == "lost":
        return "outcome unknown"
    return f"ended by signal {signal}" if signal is not None else f"ended with exit code {exit_code}"


def process_line(process: str, command: str, state: str) -> str:
    return f"{process} · {state} · {_one_line(command, 200)}"


def process_list(lines: Sequence[str]) -> str:
    return "\n".join(lines) or "No process was begun in the background here."


def no_such_process(process: str, known: Sequence[str]) -> str:
    return f"There is no process {process!r} here; there are: {', '.join(known) or 'none'}."


def process_running(process: str, output: str) -> str:
    return f"{process}: running. Its output so far:\n{output or NO_OUTPUT}"


def process_log(text: str, since: int, until: int, size: int) -> str:
    more = f" Go on with offset={until}." if until < size else ""
    return f"{text.rstrip() or NO_OUTPUT}\n[bytes {since} to {until} of {size}.{more}]"


def process_written(size: int, *, end: bool) -> str:
    return f"The process was given {size} bytes to read{', and the end of its input' if end else ''}."


def too_many_patterns(count: int, most: int) -> str:
    return f"watch_patterns has {count} patterns; at most {most} are looked for."


def unwatchable(pattern: str, problem: str) -> str:
    return f"The pattern {clipped(pattern, 100)!r} cannot be watched for: {problem.rstrip('.')}."


def pattern_length(most: int) -> str:
    return f"a pattern is one line of at most {most} characters, and not empty"


PATTERN_WILD = (
    "it might take for ever on some lines; use a plain text, or an expression that repeats no group, refers to "
    "none, has no `(?`, and at most two of `*`, `+` and `{}`"
)


def _one_line(command: str, most: int) -> str:
    """A command on one line, cut where that would be long."""
    line = " ".join(command.split())
    return f"`{line if len(line) <= most else f'{line[:most]}…'}`"


def _the_process(process: str, command: str) -> str:
    return f"the background process {process} ({_one_line(command, 200)})"


def process_ended(process: str, command: str, how: str, output: str, matches: int) -> str:
    """Told to the model, or to the chat where there is no turn for it."""
    what = _the_process(process, command)
    found = f" It had {_matches(matches)} that you were not told of." if matches else ""
    said = f"Its output ends with:\n{output}" if output else "It has said nothing."
    return f"{what[0].upper()}{what[1:]} has {how}.{found} {said}"


def process_lost(process: str, command: str, problem: str, output: str) -> str:
    said = f" What is known of its output ends with:\n{output}" if output else ""
    return f"The outcome of {_the_process(process, command)} is unknown. {problem}{said}"


def process_matched(process: str, command: str, lines: Sequence[str], count: int, before: int) -> str:
    shown = "".join(f"\n> {clipped(line, 300)}" for line in lines)
    more = f" There were {_matches(before)} more since the last notice." if before else ""
    found = f" has {_matches(count)} of what is watched for:{shown}\n" if count else " was watched."
    return f"The output of {_the_process(process, command)}{found}{more}".rstrip()


def watch_ended(text: str, *, notify: bool) -> str:
    """A notice of matches, and that it is the last."""
    instead = "" if notify else ", and you will be told when it has ended instead"
    return f"{text}\nThere are too many matches, so nothing is watched for any more{instead}."


def _matches(count: int) -> str:
    return "1 line" if count == 1 else f"{count} lines"


_NEWS = "[Gateway note: ", "]"


def news(text: str) -> str:
    """Words of the gateway that a turn is about, as the model reads them."""
    return text.join(_NEWS)


def bare_news(note: str) -> str:
    return note.removeprefix(_NEWS[0]).removesuffix(_NEWS[1])


# ── dangerous commands ──────────────────────────────────────────────────────────────────────────────────────


def dangerous_part(why: str, part: str) -> str:
    shown = " ".join(part.split())
    shown = shown if len(shown) <= 200 else f"{shown[:200]}…"
    return f"{why}: `{shown}`"


def unreadable_command(why: str, what: str) -> str:
    return f"{why}: {what}"


def listed_as_dangerous(pattern: str) -> str:
    return f"the operator calls commands such as `{' '.join(pattern.split())}` dangerous"


# ── agents of one's own ─────────────────────────────────────────────────────────────────────────────────────

TRY_AGAIN = "Mend that, and make the call again."
CANNOT_BE_PUT_OFF = "not run: this tool wants to wait for an approval or a result from elsewhere, and cannot."
NOT_FOR_TOOLS = "not run: a tool can be called by the model only, not from inside of another tool."


def try_again(why: str) -> str:
    """The result of a call that a model is asked to make again."""
    return f"{why}\n\n{TRY_AGAIN}"


CUT_OFF = "it was cut off"


def step_unknown(call: str, why: str) -> str:
    doubt = f"{call}: {why.rstrip('.')}, and nobody can tell whether it took effect."
    return f"{doubt} I did not repeat it. Look whether it did, and then write again."


def step_error(error: BaseException) -> str:
    """What a step failed with, as the journal keeps it."""
    said = clipped(str(error), 2000).encode(errors="replace").decode()
    return f"{type(error).__name__}: {said}" if said else type(error).__name__


def step_failed(step: str, why: str) -> str:
    return f"the step {step!r} failed: {why}"


def large_result(size: int, limit: int) -> str:
    return f"it ran, but its result is {size} bytes long; at most {limit} are kept. Return less, such as a name."


def unkeepable_result(kind: str, error: BaseException) -> str:
    return f"it ran, but its result, of the type {kind}, cannot be kept as JSON: {error}"


def step_changed(was: str, now: str) -> str:
    return (
        f"when this began it went by {was}, and now it would go by {now}. The agent has changed meanwhile, or "
        "does not do the same when it begins anew. What was done stays done; write again to begin afresh."
    )


def asking(text: str, options: Sequence[str]) -> str:
    return f"asking {question(text, options)!r}"


def put_off(tools: Sequence[str]) -> str:
    return f"the agent wants to wait for results from elsewhere ({', '.join(tools)}), and cannot."


# ── to people ───────────────────────────────────────────────────────────────────────────────────────────────


def turn_failed(error: str) -> str:
    return f"I could not finish this: {error}"


def question(text: str, options: Sequence[str]) -> str:
    return f"{text}\n({' / '.join(options)})" if options else text


AGENT_CRASHED = "something went wrong inside the agent. The details are in the gateway's log."


def too_many_steps(limit: int) -> str:
    return f"I stopped after {limit} steps without reaching an answer. Ask again, perhaps for something smaller."


def too_many_tokens(used: int, limit: int) -> str:
    return f"I stopped after {used} tokens; {limit} are allowed for one answer. Ask again, perhaps for less."


def no_whole_answer(finish: str | None, text: str) -> str:
    """A model that never comes to an end, or whose provider withholds the end."""
    if finish in ("content_filter", "refusal", "safety"):
        return "the model's provider withheld the answer. Say it in other words, perhaps."
    begun = f" It began: {clipped(text, 1000)}" if text.strip() else ""
    return f"the model's answer was cut off several times in a row ({finish or 'no end'}).{begun}"


def going_in_circles(times: int) -> str:
    return f"I wished for the very same {times} times in a row, and gave up. Ask again, in other words perhaps."


def recovery_cost(tokens: int, limit: int) -> str:
    return (
        f"it was cut off and went on by itself, and has used {tokens} tokens, of which {limit} were allowed. "
        "Write again if it should be taken up."
    )


def maybe_duplicate(text: str) -> str:
    return f"{text}\n\n(This may be a duplicate: the first try was not confirmed.)"


def growing(text: str, limit: int | None) -> str:
    """An answer that is not finished, marked as such, and cut to what one message holds."""
    mark = " …"
    return f"{text if limit is None else text[: limit - len(mark)]}{mark}"


PREVIEW_ENDED = "(What stood here was not finished.)"

DROPPED_REPLY = (
    "An earlier reply may not have arrived: the platform did not confirm it, and it was not sent again."
)


def queue_full(cap: int) -> str:
    return f"{cap} messages are waiting here already, so this one was not taken. Send it again a little later."


def too_old(count: int) -> str:
    messages = "1 message was" if count == 1 else f"{count} messages were"
    return f"{messages} too old to answer when I came back. Send again whatever still matters."


# ── models of providers ─────────────────────────────────────────────────────────────────────────────────────

TOO_LONG = "this conversation has grown longer than the model can read. /new begins a fresh one."
MODEL_KEY_REFUSED = "the model's provider refused our key. Whoever runs this gateway has to set `model.api_key`."
MODEL_QUOTA = "the account with the model's provider is used up. Whoever runs this gateway has to look after it."
MODEL_BUSY = "the model's provider has too much to do just now. Try again in a while."
MODEL_SILENT = "the model did not answer in time. Try again in a while."
MODEL_UNREACHABLE = "the model's provider cannot be reached. Try again in a while."
MODEL_BROKEN = "the model's provider has a problem of its own. Try again in a while."
MODEL_GARBLED = "the model's provider gave an answer that makes no sense. Try again in a while."


MODEL_HINT = (
    "Write `provider:model` in model.name, and the key in model.api_key or in the provider's usual variable."
)


def no_such_model(name: str) -> str:
    return f"the provider has no model {name!r}. Whoever runs this gateway has to set `model.name`."


def model_refused(said: str) -> str:
    return f"the model's provider refused the request: {clipped(said, 300)}"


# ── the offline model ───────────────────────────────────────────────────────────────────────────────────────

OFFLINE_GREETING = (
    "Hello! I am the offline model: I run scripts, not thoughts, so that you can try Perdure without a key.\n"
    "Send me lines such as these, and kill the gateway while they run:\n"
    "    step research 2s\n"
    "    once send-invoice 2s\n"
    "    parallel: a, b, c\n"
    "    ask: Which way? | Left | Right\n"
    "    say: All done."
)


OFFLINE_SUMMARY = "The offline model keeps no summaries: it reads its script from the message itself."


NO_NAMES = "`parallel:` wants names, such as: parallel: a, b, c"
NOTHING_TO_SAY = "Done."


def bad_flood(size: str) -> str:
    return f"`flood:` wants a number of characters, such as: flood: 5000 (it got {size!r})"


# ── commands ────────────────────────────────────────────────────────────────────────────────────────────────


def _messages(count: int) -> str:
    return "1 message" if count == 1 else f"{count} messages"


def unknown_command(name: str, meant: str | None) -> str:
    guess = f" Did you mean /{meant}?" if meant else ""
    return f"There is no command /{name}.{guess} /help lists them all."


def stopped(turn: str | None, waiting: int, dropped: int, withdrawn: int) -> str:
    said = ["Stopped." if turn or withdrawn else "Nothing was running."]
    if dropped:
        said.append(f"{_messages(dropped)} that waited {'was' if dropped == 1 else 'were'} dropped.")
    if waiting:
        them, are = ("it", "is") if waiting == 1 else ("them", "are")
        said.append(f"{_messages(waiting)} {are} still waiting; /stop all drops {them} too.")
    return " ".join(said)


def renewed(turn: str | None, dropped: int) -> str:
    said = ["This is a fresh conversation."]
    if turn:
        said.append("What was running was ended.")
    if dropped:
        said.append(f"{_messages(dropped)} that waited {'was' if dropped == 1 else 'were'} dropped.")
    return " ".join(said)


def usage(form: str, got: str) -> str:
    return f"Write it as {form}; I do not understand {got!r}."


NOTHING_HERE = "Nothing has happened here yet."
OVER = "That work is over: nothing is left of it to go on with, or to give up."

RESUMED = {
    "turn": "Going on.",
    "session": "That conversation is here again, and goes on.",
    "running": "It is running already, or something else is; /status tells.",
    "nothing": "There is nothing to resume here.",
    "over": OVER,
    "unknown": "I know no conversation with that id; /sessions lists them.",
}


def dropped(gave_up: bool) -> str:
    return "Given up." if gave_up else "There is nothing interrupted here to give up."


JUDGED = {
    "approved": "Approved.",
    "denied": "Denied; it is not run.",
    "late": "That comes too late: it is not run.",
    "nothing": "Nothing waits for your approval here.",
}
NO_GATEWAY = "No gateway is running here now; what is under way is taken up at the next start."
RESUME_PAUSED = "Automatic resume is paused: the gateway keeps crashing. `perdure resume --all` lifts that."
RESTARTING = "Restarting. I will tell you here when I am back."
RESTART_UNDER_WAY = "A stop or restart is under way already."
RESTARTED_SINCE = "The gateway was restarted after you asked, so I did not do it again."
NOT_ALLOWED = "You may not do that."
BACK = "I am back."


# ── long work, goals, work in the background ────────────────────────────────────────────────────────────────


def _at(tools: Sequence[str], milliseconds: int) -> str:
    step = f"the step {', '.join(tools)}" if tools else "the model is thinking,"
    return f"{step} for {ago(milliseconds)}"


def still_working(tools: Sequence[str], milliseconds: int) -> str:
    return f"I am still working on it: {_at(tools, milliseconds)}."


def silent(milliseconds: int, limit: int) -> str:
    """A warning; `limit` is how long the silence may be before the turn is ended, or 0 if it never is."""
    said = f"Nothing has been heard of this work for {ago(milliseconds)}."
    ends = f" After {ago(limit)} without a sign of life I end it." if limit else ""
    return f"{said}{ends} /stop ends it now."


def inactive(tools: Sequence[str], milliseconds: int) -> str:
    where = f"the step {', '.join(tools)}" if tools else "the model"
    return f"nothing was heard of {where} for {ago(milliseconds)}, so I ended it. Write again if it still matters."


def goal_note(number: int, budget: int) -> str:
    """Told to the model with the goal: what it is, and how it ends."""
    said = (
        [
            "The words above are a goal that the user has set for you, not a single question.",
            f"You work towards it by yourself, in at most {budget} turns: when this one ends, the next begins.",
        ]
        if number == 1
        else [
            f"This is turn {number} of at most {budget} towards the goal above.",
            "Go on from where you are; do not repeat what is done.",
        ]
    )
    end = (
        f"When the goal is reached, end your answer with the line {REACHED}; if you can do nothing more for it, "
        f"with the line {GIVEN_UP}, and say why."
    )
    return " ".join([*said, end])


def goal_set(budget: int, *, busy: bool) -> str:
    begin = "I begin with it as soon as what is under way here has ended" if busy else "I begin with it now"
    return f"The goal is set. {begin}, and go on by myself for at most {budget} turns. /goal off ends it."


_GOAL_STATES = {
    "active": "It has had {turns} of at most {budget} turns, and goes on after every turn that completes.",
    "reached": "It was reached in turn {turns}.",
    "given_up": "It was given up in turn {turns}.",
    "spent": "It has had its {budget} turns, and does not go on.",
    "ended": "It was ended after {turns} of at most {budget} turns.",
}
NO_GOAL = "There is no goal here. /goal TEXT sets one."


def goal(text: str, state: str, turns: int, budget: int) -> str:
    return f"Goal: {clipped(text, 500)}\n{_GOAL_STATES[state].format(turns=turns, budget=budget)}"


def goal_ended(ended: bool) -> str:
    return "The goal is ended; I do not go on with it." if ended else NO_GOAL


def goal_spent(budget: int) -> str:
    turns = "1 turn" if budget == 1 else f"{budget} turns"
    return f"The goal has had its {turns} and was not reached, so I stop here. /goal TEXT sets it again."


def of_work(number: int | None, text: str) -> str:
    """An answer or a failure; that of work in the background is marked, and never empty."""
    return text if number is None else f"[background {number}] {text.strip() or NOTHING_TO_SAY}"


def about_work(number: int | None, text: str) -> str:
    """Words of ours about a turn; of one in the background, with the commands that reach it there."""
    if number is None:
        return text
    return of_work(number, _reaching(number, text))


_REACHES = re.compile(r"/(stop|resume|drop|approve|deny)\b")


def _reaching(number: int, text: str) -> str:
    return _REACHES.sub(lambda found: command(found[1], number), text)


def command(verb: str, number: int | None, *words: str) -> str:
    """A command for a turn, by the number of its work if it is one in the background."""
    return " ".join((f"/{verb}" if number is None else f"/background {verb} {number}", *words))


def ask_here(number: int | None, text: str, options: Sequence[str]) -> str:
    """A question to a person."""
    if number is None:
        return question(text, options)
    return f"{of_work(number, question(text, options))}\nSay {command('answer', number, '…')} to answer."


def ask_approval(number: int | None, text: str) -> str:
    """The request for an approval; what the model wishes for stays in it as it is."""
    if number is None:
        return text
    wish, _, how = text.rpartition("\n")
    return f"{of_work(number, wish)}\n{_reaching(number, how)}"


def set_aside(number: int | None, why: str) -> str:
    if number is None:
        return suspended(why)
    return of_work(number, f"I have set this work aside, because {why}. {command('resume', number)} goes on.")


def work_begun(number: int) -> str:
    stop = command("stop", number)
    return f"I work on it in the background, as number {number}; the answer comes here. {stop} ends it."


NO_WORK = "Nothing is going on in the background."


def no_such_work(number: int) -> str:
    return f"Nothing with the number {number} was begun in the background here."


def work_line(number: int, state: str, text: str) -> str:
    return f"Background {number} {state}: {clipped(' '.join(text.split()), 100)}"


def work_answered(passed_on: bool) -> str:
    return "Passed on." if passed_on else "It asks nothing now."


# ── stopping, starting ──────────────────────────────────────────────────────────────────────────────────────


def banner(*, restart: bool) -> str:
    doing = "restarting" if restart else "shutting down"
    return f"I am {doing}. What I am working on here may be cut off; I will try to resume it when I am back."


def kept_for_later(*, restart: bool) -> str:
    doing = "restarting" if restart else "shutting down"
    return f"I am {doing}. Your message is kept, and answered when I am back."


def ask_to_resume(reason: str) -> str:
    return f"What I was doing here was cut off by {cause_of(reason)}. Shall I go on? Say /resume or /drop."


def will_not_go_on(why: str, waiting: int = 0) -> str:
    said = f"What I was doing here was cut off, and I do not go on by myself, because {why}."
    offer = "Say /resume to go on, or /drop to give it up."
    behind = f" {_messages(waiting)} {'waits' if waiting == 1 else 'wait'} behind it." if waiting else ""
    return f"{said} {offer}{behind}"


def left_behind(why: str) -> str:
    left = f"What I was doing here was cut off and stays unfinished, because {why}."
    return f"{left} I go on with what you wrote since."


def suspended(why: str) -> str:
    return (
        f"I have set this conversation aside, because {why}. Your next message begins a fresh one; /resume brings "
        "this one back."
    )


def fresh_after_reset(reason: str, session: str) -> str:
    why = "a new day has begun" if reason == "daily" else "nothing was said here for long"
    return f"This is a fresh conversation, because {why}. /resume {session} brings the one before back."


def fresh_after_suspension(session: str) -> str:
    return f"This is a fresh conversation; the one before was set aside. /resume {session} brings it back."

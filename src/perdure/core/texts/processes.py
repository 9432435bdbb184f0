"""What people and models read about shell commands and background processes."""

from __future__ import annotations

from collections.abc import Sequence

from perdure.core.states import ProcessState
from perdure.core.texts import phrases


def command_not_started(reason: str) -> str:
    return f"The command was not started: {reason.strip().rstrip('.') or 'its keeper ended at once'}."


def command_start_unknown(reason: str) -> str:
    why = reason.strip().rstrip(".")
    return f"It is not known whether the command was started: {why}. Look before you repeat it."


FORBIDDEN_CHARACTER = "it, its folder or its environment holds a character that no command can have, such as NUL"
CANCELLED_BEFORE_START = "it was given up before it began"
_COMMAND_PROBLEMS = {
    "directory": "The command was not started: its working directory {subject} cannot be used ({reason}).",
    "shell": "The command was not started: {subject} could not run it ({reason}).",
    "start": "The command was not started ({reason}).",
    "early": "The command was stopped before it was started.",
    "output": "Its output could not be kept whole ({reason}); what it said after that is missing.",
    "sandbox": "The command was not started: its sandbox could not be made ({reason}).",
    "file_size": "a file grew to {subject} MB, which is the limit: tools.sandbox_file_size",
    "survivors": "Some of its processes could not be ended: {subject}.",
}


def command_problem(kind: str, subject: str, reason: str) -> str:
    return _COMMAND_PROBLEMS.get(kind, "{subject} {reason}").format(subject=subject, reason=reason)


_OUTCOME_UNKNOWN = "It may have done its work, wholly or in part: look before you repeat it."
LOST_AT_REBOOT = (
    f"The machine was restarted, or is another one, before the command's end was recorded. {_OUTCOME_UNKNOWN}"
)
KEEPER_KILLED = f"What kept the command was killed before the command's end was recorded. {_OUTCOME_UNKNOWN}"
RUNS_WITHOUT_KEEPER = (
    "What kept the command was killed. The command itself still runs, but how it ends will not be known, nor what "
    "it says."
)


def record_unreadable(name: str, reason: str) -> str:
    return f"The record of the command, {name}, cannot be read ({reason}). {_OUTCOME_UNKNOWN}"


def command_files_unreadable(reason: str) -> str:
    return f"The files of the command cannot be read now ({reason}), so nobody can tell how it is doing."


def output_unreadable(reason: str) -> str:
    return f"[Its output cannot be read: {reason}]"


COMMAND_FILES_GONE = f"The folder of the command is gone, and with it whatever told of it. {_OUTCOME_UNKNOWN}"


def record_newer(name: str) -> str:
    return f"The record of the command, {name}, was written by a newer version. {_OUTCOME_UNKNOWN}"


COMMAND_NOT_RUNNING = "The command does not run, so it reads nothing."
NO_INPUT = "The command was started without an input."
INPUT_CLOSED = "The command has closed its input, so it reads nothing more."


def input_full(taken: int, size: int) -> str:
    return f"The command reads nothing now: it took {taken} of {size} bytes. Send the rest later, or stop it."


def command_ended(
    exit_code: int | None, signal: int | None, cut: int, output: str, also: str = "", *, middle: bool = False
) -> str:
    """The result of a command, for the model. `middle`: the output that is left out was in the middle."""
    how = f"ended by signal {signal}" if signal is not None else f"exit code {exit_code}"
    where = "in the middle " if middle else ""
    left_out = f"\n[… {cut} bytes {where}of its output were not kept …]" if cut else ""
    return f"{how}{f' ({also})' if also else ''}\n{output.rstrip() or phrases.NO_OUTPUT}{left_out}"


def command_lost(problem: str, output: str) -> str:
    so_far = f" Its output so far: {output.strip()}" if output.strip() else ""
    return f"{problem}{so_far}"


WATCH_NEEDS_BACKGROUND = (
    "watch_patterns needs background=true: a command that you wait for tells you all of its output."
)
NOT_STARTED = "it has not begun to run."
OUTPUT_DELETED = "Its output was cleared away."
ON_OTHER_MACHINE = "the process was to be started by a gateway on another machine, and its files are there."
GATEWAY_GONE = "The gateway that began it has not been heard of for a day, and only there could it be seen."
ASK_AGAIN_LATER = "Ask again later."
FILES_GONE = "Its files are gone, and with them whatever told of it."
INPUT_OUTCOME_UNKNOWN = "the process may have been given this input already, wholly or in part."


def started(process: str, *, notify: bool, patterns: Sequence[str]) -> str:
    told = " You will be told when it has ended." if notify else ""
    watched = f" Its output is watched for {', '.join(map(repr, patterns))}." if patterns else ""
    return f"The process {process} runs in the background.{told}{watched}"


def state_words(state: ProcessState, exit_code: int | None, signal: int | None) -> str:
    if state is ProcessState.LIVE:
        return "running"
    if state is ProcessState.LOST:
        return "outcome unknown"
    return f"ended by signal {signal}" if signal is not None else f"ended with exit code {exit_code}"


def status_line(process: str, command: str, state: str) -> str:
    return f"{process} · {state} · {_quote_command(command, 200)}"


def status_list(lines: Sequence[str]) -> str:
    return "\n".join(lines) or "No process was begun in the background here."


def unknown(process: str, known: Sequence[str]) -> str:
    return f"There is no process {process!r} here; there are: {', '.join(known) or 'none'}."


def running(process: str, output: str) -> str:
    return f"{process}: running. Its output so far:\n{output or phrases.NO_OUTPUT}"


def log_excerpt(text: str, since: int, until: int, size: int, skipped: int = 0) -> str:
    more = f" Go on with offset={until}." if until < size else ""
    lost = f" The {skipped} bytes before them were not kept." if skipped else ""
    return f"{text.rstrip() or phrases.NO_OUTPUT}\n[bytes {since} to {until} of {size}.{lost}{more}]"


def input_written(size: int, *, end: bool) -> str:
    return f"The process was given {size} bytes to read{', and the end of its input' if end else ''}."


def too_many_patterns(count: int, limit: int) -> str:
    return f"watch_patterns has {count} patterns; at most {limit} are looked for."


def pattern_refused(pattern: str, problem: str) -> str:
    return f"The pattern {phrases.clip(pattern, 100)!r} cannot be watched for: {problem.rstrip('.')}."


def pattern_length(limit: int) -> str:
    return f"a pattern is one line of at most {limit} characters, and not empty"


PATTERN_TOO_COSTLY = (
    "it might take for ever on some lines; use a plain text, or an expression that repeats no group, refers to "
    "none, has no `(?`, and at most two of `*`, `+` and `{}`"
)


def _quote_command(command: str, limit: int) -> str:
    """A command on one line, shortened if it is long."""
    line = " ".join(command.split())
    return f"`{line if len(line) <= limit else f'{line[:limit]}…'}`"


def _describe(process: str, command: str) -> str:
    return f"the background process {process} ({_quote_command(command, 200)})"


def ended(process: str, command: str, how: str, output: str, matches: int) -> str:
    """To the model, or to the chat if no turn is begun for it: a process has ended."""
    what = _describe(process, command)
    found = f" It had {_line_count(matches)} that you were not told of." if matches else ""
    said = f"Its output ends with:\n{output}" if output else "It has said nothing."
    return f"{what[0].upper()}{what[1:]} has {how}.{found} {said}"


def lost(process: str, command: str, problem: str, output: str) -> str:
    said = f" What is known of its output ends with:\n{output}" if output else ""
    return f"The outcome of {_describe(process, command)} is unknown. {problem}{said}"


def matched(process: str, command: str, lines: Sequence[str], count: int, before: int) -> str:
    shown = "".join(f"\n> {phrases.clip(line, 300)}" for line in lines)
    more = f" There were {_line_count(before)} more since the last notice." if before else ""
    found = f" has {_line_count(count)} of what is watched for:{shown}\n" if count else " was watched."
    return f"The output of {_describe(process, command)}{found}{more}".rstrip()


def watch_ended(text: str, *, notify: bool) -> str:
    """The last notice about matches in a process's output."""
    instead = "" if notify else ", and you will be told when it has ended instead"
    return f"{text}\nThere are too many matches, so nothing is watched for any more{instead}."


def _line_count(count: int) -> str:
    return "1 line" if count == 1 else f"{count} lines"

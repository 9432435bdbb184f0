"""What is said of processes in the background."""

from __future__ import annotations

from collections.abc import Sequence

from perdure.core.notes.models import NO_OUTPUT
from perdure.core.notes.words import clipped

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


PROCESS_GONE = "The gateway that began it has not been heard of for a day, and only there could it be seen."
ASK_AGAIN_LATER = "Ask again later."
PROCESS_FILES_GONE = "Its files are gone, and with them whatever told of it."


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


def process_log(text: str, since: int, until: int, size: int, skipped: int = 0) -> str:
    more = f" Go on with offset={until}." if until < size else ""
    lost = f" The {skipped} bytes before them were not kept." if skipped else ""
    return f"{text.rstrip() or NO_OUTPUT}\n[bytes {since} to {until} of {size}.{lost}{more}]"


def process_written(size: int, *, end: bool) -> str:
    return f"The process was given {size} bytes to read{', and the end of its input' if end else ''}."


def too_many_patterns(count: int, limit: int) -> str:
    return f"watch_patterns has {count} patterns; at most {limit} are looked for."


def unwatchable(pattern: str, problem: str) -> str:
    return f"The pattern {clipped(pattern, 100)!r} cannot be watched for: {problem.rstrip('.')}."


def pattern_length(limit: int) -> str:
    return f"a pattern is one line of at most {limit} characters, and not empty"


PATTERN_WILD = (
    "it might take for ever on some lines; use a plain text, or an expression that repeats no group, refers to "
    "none, has no `(?`, and at most two of `*`, `+` and `{}`"
)


def _one_line(command: str, limit: int) -> str:
    """A command on one line, cut where that would be long."""
    line = " ".join(command.split())
    return f"`{line if len(line) <= limit else f'{line[:limit]}…'}`"


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

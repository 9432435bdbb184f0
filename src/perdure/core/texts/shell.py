"""What the tool `shell` answers, and why a command could not be started, read or stopped."""

from __future__ import annotations

from perdure.core.texts import phrases


def not_started(reason: str) -> str:
    return f"The command was not started: {reason.strip().rstrip('.') or 'its keeper ended at once'}."


def start_unknown(reason: str) -> str:
    why = reason.strip().rstrip(".")
    return f"It is not known whether the command was started: {why}. Look before you repeat it."


FORBIDDEN_CHARACTER = "it, its folder or its environment holds a character that no command can have, such as NUL"
CANCELLED_BEFORE_START = "it was given up before it began"
_PROBLEMS = {
    "directory": "The command was not started: its working directory {subject} cannot be used ({reason}).",
    "shell": "The command was not started: {subject} could not run it ({reason}).",
    "start": "The command was not started ({reason}).",
    "early": "The command was stopped before it was started.",
    "output": "Its output could not be kept whole ({reason}); what it said after that is missing.",
    "sandbox": "The command was not started: its sandbox could not be made ({reason}).",
    "file_size": "a file grew to {subject} MB, which is the limit: tools.sandbox_file_size",
    "memory": "its processes used {subject} MB of memory together, which is the limit: tools.sandbox_memory",
    "processes": "it had {subject} processes and threads, which is the limit: tools.sandbox_processes",
    "survivors": "Some of its processes could not be ended: {subject}.",
}


def problem(kind: str, subject: str, reason: str) -> str:
    return _PROBLEMS.get(kind, "{subject} {reason}").format(subject=subject, reason=reason)


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


def files_unreadable(reason: str) -> str:
    return f"The files of the command cannot be read now ({reason}), so nobody can tell how it is doing."


def output_unreadable(reason: str) -> str:
    return f"[Its output cannot be read: {reason}]"


FILES_GONE = f"The folder of the command is gone, and with it whatever told of it. {_OUTCOME_UNKNOWN}"


def record_newer(name: str) -> str:
    return f"The record of the command, {name}, was written by a newer version. {_OUTCOME_UNKNOWN}"


NOT_RUNNING = "The command does not run, so it reads nothing."
NO_INPUT = "The command was started without an input."
INPUT_CLOSED = "The command has closed its input, so it reads nothing more."


def input_full(taken: int, size: int) -> str:
    return f"The command reads nothing now: it took {taken} of {size} bytes. Send the rest later, or stop it."


def ended(
    exit_code: int | None, signal: int | None, cut: int, output: str, also: str = "", *, middle: bool = False
) -> str:
    """The result of a command, for the model. `middle`: the output that is left out was in the middle."""
    how = f"ended by signal {signal}" if signal is not None else f"exit code {exit_code}"
    where = "in the middle " if middle else ""
    left_out = f"\n[… {cut} bytes {where}of its output were not kept …]" if cut else ""
    return f"{how}{f' ({also})' if also else ''}\n{output.rstrip() or phrases.NO_OUTPUT}{left_out}"


def lost(problem: str, output: str) -> str:
    so_far = f" Its output so far: {output.strip()}" if output.strip() else ""
    return f"{problem}{so_far}"

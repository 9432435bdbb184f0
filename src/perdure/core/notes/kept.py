"""What is said of commands that outlive the gateway."""

from __future__ import annotations


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
    "output": "Its output could not be kept whole ({reason}); what it said after that is missing.",
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


def command_not_readable(reason: str) -> str:
    return f"The files of the command cannot be read now ({reason}), so nobody can tell how it is doing."


def output_not_readable(reason: str) -> str:
    return f"[Its output cannot be read: {reason}]"


COMMAND_FILES_GONE = f"The folder of the command is gone, and with it whatever told of it. {_COMMAND_UNKNOWN}"


def command_newer(name: str) -> str:
    return f"The record of the command, {name}, was written by a newer version. {_COMMAND_UNKNOWN}"


COMMAND_NOT_RUNNING = "The command does not run, so it reads nothing."


COMMAND_TAKES_NO_INPUT = "The command was started without an input."


COMMAND_INPUT_CLOSED = "The command has closed its input, so it reads nothing more."


def command_input_full(taken: int, size: int) -> str:
    return f"The command reads nothing now: it took {taken} of {size} bytes. Send the rest later, or stop it."

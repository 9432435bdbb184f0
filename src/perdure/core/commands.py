"""What makes a message a command, and how it is read. What commands do is in `runtime.commands.registry`."""

from __future__ import annotations

import re

from msgspec import Struct

# "/stop", "/stop all", "/stop@our_bot": a slash, a name, maybe the bot it is meant for, maybe arguments.
_COMMAND = re.compile(r"\s*/([A-Za-z][A-Za-z_]*)(?:@\S+)?(?:\s+(.*))?", re.DOTALL)

# "stop 2", "answer 2 Left": what is to be done with work in the background, and its number. A button may add the
# id of the turn that it means.
_BACKGROUND_VERBS = ("stop", "resume", "drop", "retry", "approve", "deny", "why", "answer")
_BACKGROUND_REQUEST = re.compile(
    rf"({'|'.join(_BACKGROUND_VERBS)})\s+#?([1-9][0-9]{{0,17}})(?:\s+(.*))?", re.DOTALL | re.IGNORECASE
)

# Begins the event key of a message that is asked again: nobody wrote it twice, and it stands where the command
# does that wants it.
RETRY_KEY_PREFIX = "retry:"


class ParsedCommand(Struct, frozen=True):
    """A command as it was written."""

    name: str
    arguments: str = ""


def read_command(text: str) -> ParsedCommand | None:
    """The command that a message is, or None if it is just a message."""
    found = _COMMAND.fullmatch(text)
    return ParsedCommand(found[1].lower(), (found[2] or "").strip()) if found else None


class BackgroundRequest(Struct, frozen=True):
    """A command for work in the background."""

    verb: str
    number: int
    argument: str = ""


def read_background_request(text: str) -> BackgroundRequest | None:
    """What is to be done with which work; None if the text is none of that, but work to begin."""
    found = _BACKGROUND_REQUEST.fullmatch(text.strip())
    if found is None:
        return None
    aim = BackgroundRequest(found[1].lower(), int(found[2]), (found[3] or "").strip())
    return aim if aim.verb == "answer" or not aim.argument or aim.argument.startswith("t_") else None


def is_background_verb(text: str) -> bool:
    """Whether the text only names what is to be done, and not with which work."""
    return text.strip().lower() in _BACKGROUND_VERBS

"""Parses chat commands, requests for background sessions and the line by which a model ends a goal."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal

from msgspec import Struct

from perdure.core.states import GoalState


def nearest_name(name: str, known: Iterable[str], likeness: float) -> str | None:
    """The known name nearest to this one; None if none is as like it as `likeness`, from 0 to 1 (the same)."""
    import difflib  # only a mistake needs it, and a start should not pay for that

    close = difflib.get_close_matches(name.lower(), known, n=1, cutoff=likeness)
    return close[0] if close else None


# "/stop", "/stop all", "/stop@our_bot": a slash, a name, maybe the bot it is meant for, maybe arguments.
_COMMAND = re.compile(r"\s*/([A-Za-z][A-Za-z_]*)(?:@\S+)?(?:\s+(.*))?", re.DOTALL)

# "stop 2", "answer 2 Left": a verb and the number of a background session. A button may add the id of its turn.
_BACKGROUND_VERBS = ("stop", "resume", "drop", "retry", "approve", "deny", "why", "answer")
_BACKGROUND_REQUEST = re.compile(
    rf"({'|'.join(_BACKGROUND_VERBS)})\s+#?([1-9][0-9]{{0,17}})(?:\s+(.*))?", re.DOTALL | re.IGNORECASE
)

# Prefix of the event key of a message that `/retry` asks again. It has the position of that command in the chat.
RETRY_KEY_PREFIX = "retry:"


class ParsedCommand(Struct, frozen=True):
    """A command as it was written."""

    name: str
    arguments: str = ""


def read_command(text: str) -> ParsedCommand | None:
    """Parse a message as a command; None if it is an ordinary message."""
    found = _COMMAND.fullmatch(text)
    return ParsedCommand(found[1].lower(), (found[2] or "").strip()) if found else None


class BackgroundRequest(Struct, frozen=True):
    """A verb for one background session."""

    verb: str
    number: int
    argument: str = ""


def read_background_request(text: str) -> BackgroundRequest | None:
    """Parse the verb and number of a background session; None if the text is a task for a new one."""
    found = _BACKGROUND_REQUEST.fullmatch(text.strip())
    if found is None:
        return None
    request = BackgroundRequest(found[1].lower(), int(found[2]), (found[3] or "").strip())
    complete = request.verb == "answer" or not request.argument or request.argument.startswith("t_")
    return request if complete else None


def is_background_verb(text: str) -> bool:
    """Whether the text is a verb without the number of a background session."""
    return text.strip().lower() in _BACKGROUND_VERBS


def nearest_command(name: str, known: Iterable[str]) -> str | None:
    """The command that was probably meant."""
    return nearest_name(name, known, 0.5)


GOAL_REACHED = "GOAL REACHED"
GOAL_GIVEN_UP = "GOAL GIVEN UP"

GoalOutcome = Literal[GoalState.REACHED, GoalState.GIVEN_UP]

_OUTCOME_LINES: dict[str, GoalOutcome] = {GOAL_REACHED: GoalState.REACHED, GOAL_GIVEN_UP: GoalState.GIVEN_UP}
_DECORATION = " \t*_`#>.!\"'"  # characters that models put around such a line


def goal_outcome(answer: str) -> GoalOutcome | None:
    """The outcome that the last such line of an answer reports; None if there is no such line."""
    outcomes = (_OUTCOME_LINES.get(line.strip(_DECORATION).upper()) for line in reversed(answer.splitlines()))
    return next((found for found in outcomes if found is not None), None)

"""What makes a message a command, and how it is read. What commands do is in `runtime.commands`."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

from msgspec import Struct

# "/stop", "/stop all", "/stop@our_bot": a slash, a name, maybe the bot it is meant for, maybe arguments.
_COMMAND = re.compile(r"\s*/([A-Za-z][A-Za-z_]*)(?:@\S+)?(?:\s+(.*))?", re.DOTALL)


class Words(Struct, frozen=True):
    """A command as it was written."""

    name: str
    rest: str = ""


def read_command(text: str) -> Words | None:
    """The command that a message is, or None if it is just a message."""
    found = _COMMAND.fullmatch(text)
    return Words(found[1].lower(), (found[2] or "").strip()) if found else None


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The command that was probably meant."""
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    return close[0] if close else None

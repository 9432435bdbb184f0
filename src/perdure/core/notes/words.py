"""Words that several sentences share."""

from __future__ import annotations

from collections.abc import Sequence

SESSION_NAMES = "`perdure sessions` lists ids and keys."

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


def gateway_note(said: Sequence[str]) -> str:
    return f"[Gateway note: {' '.join(said)}]"


def clipped(text: str, limit: int) -> str:
    """The text, or its beginning and its end around a mark that says how much is left out."""
    if len(text) <= limit:
        return text
    head, tail = limit * 3 // 4, limit // 4
    return f"{text[:head]}\n[… {len(text) - head - tail} characters left out …]\n{text[len(text) - tail :]}"


def beginning(text: str, limit: int = 40) -> str:
    """The first words of a text, on one line."""
    line = " ".join(text.split())
    return line if len(line) <= limit else f"{line[:limit].rstrip()}…"


def count_of_messages(count: int) -> str:
    return "1 message" if count == 1 else f"{count} messages"

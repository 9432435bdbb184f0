"""Phrases that several texts share: durations, counts, sizes, clipped quotations."""

from __future__ import annotations

from collections.abc import Sequence


def byte_size(count: int | None) -> str:
    """A number of bytes in words."""
    if count is None:
        return "of unknown size"
    for unit, size in (("MB", 1_000_000), ("kB", 1_000)):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return "1 byte" if count == 1 else f"{count} bytes"


NO_OUTPUT = "(no output)"


def bytes_left_out(size: int) -> str:
    return f"[… {size} bytes left out …]"


_GATEWAY_NOTE = "[Gateway note: ", "]"


def report_note(text: str) -> str:
    """A report of the gateway that a turn is about, as the model reads it."""
    return text.join(_GATEWAY_NOTE)


def report_text(note: str) -> str:
    return note.removeprefix(_GATEWAY_NOTE[0]).removesuffix(_GATEWAY_NOTE[1])


SESSION_NAMES_HINT = "`perdure sessions` lists ids and keys."


def session_not_found(name: str) -> str:
    return f"no session is named {name!r}"


def times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def duration(milliseconds: int) -> str:
    """A length of time in one unit, such as 90 s, 5 min or 3 h."""
    seconds = max(0, milliseconds) // 1000
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"


def gateway_note(sentences: Sequence[str]) -> str:
    return report_note(" ".join(sentences))


def clip(text: str, limit: int) -> str:
    """The text; a longer one is its beginning and its end, around a mark that says how much is left out."""
    if len(text) <= limit:
        return text
    head, tail = limit * 3 // 4, limit // 4
    return f"{text[:head]}\n[… {len(text) - head - tail} characters left out …]\n{text[len(text) - tail :]}"


def first_words(text: str, limit: int = 40) -> str:
    """The first words of a text, on one line."""
    line = " ".join(text.split())
    return line if len(line) <= limit else f"{line[:limit].rstrip()}…"


def message_count(count: int) -> str:
    return "1 message" if count == 1 else f"{count} messages"

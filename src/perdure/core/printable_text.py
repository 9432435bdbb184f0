"""Makes text harmless where it is shown or logged: no control characters of others, and no secrets."""

from __future__ import annotations

import re
from collections.abc import Iterable

REPLACEMENT = "\N{REPLACEMENT CHARACTER}"

_LINE_BREAKS = re.compile("\r\n|[\n\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")
_CONTROLS = "\x00-\x1f\x7f-\x9f\ud800-\udfff"  # with halves of characters, which cannot be printed at all
_INVISIBLE = (
    "\u00ad\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u2064\u2066-\u206f\ufeff\ufff9-\ufffb"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0001\U000e0020-\U000e007f"
)
_CONTROL = re.compile(f"[{_CONTROLS}]")
_CONTROL_IN_TEXT = re.compile(f"(?![\t\n])[{_CONTROLS}]")
_FORMAT = re.compile(f"[{_INVISIBLE}]")
_ESCAPED_IN_JSON = re.compile(f"(?!\n)[{_CONTROLS}{_INVISIBLE}\u2028\u2029]")


def printable_line(text: str) -> str:
    """The text as one line without an effect on what stands beside it; line breaks and tabs become blanks."""
    if text.isprintable():
        return text
    return _CONTROL.sub(REPLACEMENT, _FORMAT.sub("", _LINE_BREAKS.sub(" ", text).replace("\t", " ")))


def printable_text(text: str) -> str:
    """The text without effects, as `printable_line`, but with its tabs and its lines."""
    if text.isprintable():
        return text
    return _CONTROL_IN_TEXT.sub(REPLACEMENT, _FORMAT.sub("", _LINE_BREAKS.sub("\n", text)))


def escape_json(encoded: str) -> str:
    """The same JSON, with characters that could have an effect where it is shown written as escapes."""
    return _ESCAPED_IN_JSON.sub(lambda found: _json_escape(found[0]), encoded)


def _json_escape(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))


MIN_SECRET_CHARACTERS = 8  # shorter values are not removed: they may be ordinary words
REDACTED = "***"


def redact(text: str, secrets: Iterable[str]) -> str:
    """The text without these secrets and without any of their words."""
    words = {word for secret in secrets for word in secret.split() if len(word) >= MIN_SECRET_CHARACTERS}
    for word in sorted(words, key=len, reverse=True):  # one may be a part of another
        text = text.replace(word, REDACTED)
    return text

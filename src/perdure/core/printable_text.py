"""Makes text that others chose harmless where it is shown: on terminals, in log lines, in names.

A control character moves the cursor, changes colours or hides what was printed before; a direction mark lets a
name be read backwards; a line break pretends to be a line of ours. Control characters are replaced visibly.
Invisible format characters are removed, except for those that join letters and emoji; visible ones stay.
"""

from __future__ import annotations

import re
import unicodedata

REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
TAB_AND_LINE_FEED = "\t\n"
LINE_BREAK = re.compile("\r\n|[\n\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")
JOINERS = "\u200c\u200d"  # Persian and many other scripts need the first, emoji of several parts the second
# Format characters that are signs of a script and are visible: Arabic, Syriac, Kaithi, Egyptian.
VISIBLE_FORMATS = (
    (0x0600, 0x0605),
    (0x06DD, 0x06DD),
    (0x070F, 0x070F),
    (0x0890, 0x0891),
    (0x08E2, 0x08E2),
    (0x110BD, 0x110BD),
    (0x110CD, 0x110CD),
    (0x13430, 0x1343F),
)


def printable_line(text: str) -> str:
    """The text as one line without an effect on what stands beside it; line breaks and tabs become blanks."""
    if text.isprintable():
        return text
    return _replace_each(LINE_BREAK.sub(" ", text).replace("\t", " "), keep="")


def printable_text(text: str) -> str:
    """The text without effects, as `printable_line`, but with its tabs and its lines."""
    if text.isprintable():
        return text
    return _replace_each(LINE_BREAK.sub("\n", text), keep=TAB_AND_LINE_FEED)


def escape_json(encoded: str) -> str:
    """The same JSON, with characters that could have an effect where it is shown written as escapes."""
    if encoded.isprintable():
        return encoded
    return "".join(
        each if each == "\n" or shown_character(each) == each else _json_escape(each) for each in encoded
    )


def shown_character(character: str) -> str:
    """What is shown for a character: itself, nothing, a blank or the replacement character."""
    if character.isprintable():
        return character
    match unicodedata.category(character):
        case "Cc" | "Cs":
            return REPLACEMENT
        case "Zl" | "Zp":
            return " "
        case "Cf":
            return character if _stays(character) else ""
        case _:  # a blank of another width, a private or an unassigned character
            return character


def _stays(character: str) -> bool:
    point = ord(character)
    return character in JOINERS or any(first <= point <= last for first, last in VISIBLE_FORMATS)


def _replace_each(text: str, *, keep: str) -> str:
    return "".join(each if each in keep else shown_character(each) for each in text)


def _json_escape(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))

"""Renders the Markdown that models write as plain text with Telegram's entities.

It uses entities instead of Telegram's own markup languages: no text can fail to be parsed, and the text that
people see is never longer than the Markdown.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

MAX_DEPTH = 4  # of nested marks
MAX_ENTITIES = 100  # Telegram ignores the rest

# No part of a pattern may match in two ways or search far ahead: a hostile text would make that take for ever.
_FENCE = re.compile(r"^ {0,3}(`{3,}+|~{3,}+)[ \t]*+([\w+#.-]*+)[^`\n]*+$")
_HEADING = re.compile(r"^ {0,3}#{1,6}[ \t]++(.+)$")
_BULLET = re.compile(r"^([ \t]*)[-*+][ \t]+(?=\S)(.*)$")
_QUOTE = re.compile(r"^ {0,3}>[ \t]?(.*)$")
_INLINE = re.compile(
    r"(?<!`)(?P<ticks>`{1,3}+)(?!`)(?P<code>[^\n]{1,500}?)(?<!`)(?P=ticks)(?!`)"
    r"|\\(?P<escaped>[\\`*_{}\[\]()#+.!~>|-])"
    r"|\*\*(?P<bold>(?!\s)[^\n]{1,500}?(?<!\s))\*\*"
    r"|(?<!\w)__(?P<bold2>(?!\s)[^\n]{1,500}?(?<!\s))__(?!\w)"
    r"|~~(?P<strikethrough>(?!\s)[^\n]{1,500}?(?<!\s))~~"
    r"|(?<![\w*])\*(?P<italic>(?![\s*])[^*\n]{1,500}?(?<!\s))\*(?![\w*])"
    r"|(?<![\w_])_(?P<italic2>(?![\s_])[^_\n]{1,500}?(?<!\s))_(?![\w_])"
    r"|!?\[(?P<label>[^\[\]\n]{1,500})\]\((?P<url>[^\s()]+(?:\([^\s()]*\)[^\s()]*)*)\)"
)
_LINK = re.compile(r"(https?://|mailto:|tg://)\S+", re.IGNORECASE)

Entities = list[dict[str, Any]]


def utf16_units(text: str) -> int:
    """The length of a text in UTF-16 units, as Telegram counts it."""
    return len(text) + sum(char > "\uffff" for char in text)


def render(markdown: str) -> tuple[str, Entities]:
    """The text that people see, and its entities."""
    output = _RenderedText()
    lines = markdown.split("\n")
    while lines:
        _block(output, lines)
        if lines:
            output.add("\n")
    return output.text, output.entities()


class _RenderedText:
    """A text under construction, and its entities."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._length = 0
        self._entities: Entities = []

    @property
    def text(self) -> str:
        return "".join(self._pieces)

    def add(self, text: str) -> None:
        self._pieces.append(text)
        self._length += utf16_units(text)

    def add_marked(self, kind: str, put: Callable[[], None], **more: str) -> None:
        """Call `put`, and mark the text that it adds."""
        begin, index = self._length, len(self._entities)
        put()
        if self._length > begin:
            entity = {"type": kind, "offset": begin, "length": self._length - begin, **more}
            self._entities.insert(index, entity)

    def entities(self) -> Entities:
        return self._entities[:MAX_ENTITIES]


def _block(output: _RenderedText, lines: list[str]) -> None:
    """Render the first block of the lines, and remove it from them."""
    line = lines.pop(0)
    if fence := _FENCE.match(line):
        code = _take_code_block(lines, fence[1])
        output.add_marked("pre", lambda: output.add(code), **({"language": fence[2]} if fence[2] else {}))
    elif heading := _HEADING.match(line):
        output.add_marked("bold", lambda: _inline(output, heading[1].rstrip("# \t") or heading[1]))
    elif quote := _QUOTE.match(line):
        quoted = [quote[1]]
        while lines and (more := _QUOTE.match(lines[0])):
            quoted.append(more[1])
            lines.pop(0)
        output.add_marked("blockquote", lambda: _lines(output, quoted))
    elif bullet := _BULLET.match(line):
        output.add(f"{bullet[1]}• ")
        _inline(output, bullet[2])
    else:
        _inline(output, line)


def _take_code_block(lines: list[str], fence: str) -> str:
    """Remove and return the lines up to the closing fence, or all lines if there is none."""
    code: list[str] = []
    while lines:
        line = lines.pop(0)
        if line.strip().startswith(fence) and not line.strip().strip(fence[0]):
            break
        code.append(line)
    return "\n".join(code)


def _lines(output: _RenderedText, lines: list[str]) -> None:
    for number, line in enumerate(lines):
        if number:
            output.add("\n")
        _inline(output, line)


def _inline(output: _RenderedText, text: str, depth: int = 0) -> None:
    at = 0
    for found in _INLINE.finditer(text) if depth < MAX_DEPTH else ():
        output.add(text[at : found.start()])
        _mark(output, found, depth)
        at = found.end()
    output.add(text[at:])


def _mark(output: _RenderedText, found: re.Match[str], depth: int) -> None:
    if found["code"] is not None:
        code = found["code"].strip() or found["code"]
        output.add_marked("code", lambda: output.add(code))
    elif found["escaped"] is not None:
        output.add(found["escaped"])
    elif found["label"] is not None:
        _link(output, found["label"], found["url"], depth)
    else:
        kind, inner = next((name, value) for name, value in found.groupdict().items() if value is not None)
        output.add_marked(kind.rstrip("2"), lambda: _inline(output, inner, depth + 1))


def _link(output: _RenderedText, label: str, url: str, depth: int) -> None:
    if _LINK.fullmatch(url):
        output.add_marked("text_link", lambda: _inline(output, label, depth + 1), url=url)
    else:
        _inline(output, label, depth + 1)
        output.add(f" ({url})")

"""Markdown, as models write it, for Telegram: plain text with entities beside it.

Entities and not Telegram's own markup languages: there is nothing in a text that could fail to be parsed, and
what is shown is never longer than what was written.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

MAX_DEPTH = 4  # bold in italic in a link is enough
MAX_ENTITIES = 100  # Telegram ignores the others

# Nothing here may be matched in two ways, and nothing is searched for far away: a hostile text would make the
# search take for ever.
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
    """The length of a text as Telegram counts it."""
    return len(text) + sum(char > "\uffff" for char in text)


def render(markdown: str) -> tuple[str, Entities]:
    """The text that people see, and its entities."""
    page = _Page()
    lines = markdown.split("\n")
    while lines:
        _block(page, lines)
        if lines:
            page.add("\n")
    return page.text, page.entities()


class _Page:
    """A text as it grows, and what is marked in it."""

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
        """Put something, and mark it."""
        begin, place = self._length, len(self._entities)
        put()
        if self._length > begin:
            entity = {"type": kind, "offset": begin, "length": self._length - begin, **more}
            self._entities.insert(place, entity)

    def entities(self) -> Entities:
        return self._entities[:MAX_ENTITIES]


def _block(page: _Page, lines: list[str]) -> None:
    """Put the first block of the lines, and take it away from them."""
    line = lines.pop(0)
    if fence := _FENCE.match(line):
        code = _take_code_block(lines, fence[1])
        page.add_marked("pre", lambda: page.add(code), **({"language": fence[2]} if fence[2] else {}))
    elif heading := _HEADING.match(line):
        page.add_marked("bold", lambda: _inline(page, heading[1].rstrip("# \t") or heading[1]))
    elif quote := _QUOTE.match(line):
        quoted = [quote[1]]
        while lines and (more := _QUOTE.match(lines[0])):
            quoted.append(more[1])
            lines.pop(0)
        page.add_marked("blockquote", lambda: _lines(page, quoted))
    elif bullet := _BULLET.match(line):
        page.add(f"{bullet[1]}• ")
        _inline(page, bullet[2])
    else:
        _inline(page, line)


def _take_code_block(lines: list[str], fence: str) -> str:
    """Take what stands up to the closing fence, or to the end if there is none."""
    code: list[str] = []
    while lines:
        line = lines.pop(0)
        if line.strip().startswith(fence) and not line.strip().strip(fence[0]):
            break
        code.append(line)
    return "\n".join(code)


def _lines(page: _Page, lines: list[str]) -> None:
    for number, line in enumerate(lines):
        if number:
            page.add("\n")
        _inline(page, line)


def _inline(page: _Page, text: str, depth: int = 0) -> None:
    at = 0
    for found in _INLINE.finditer(text) if depth < MAX_DEPTH else ():
        page.add(text[at : found.start()])
        _mark(page, found, depth)
        at = found.end()
    page.add(text[at:])


def _mark(page: _Page, found: re.Match[str], depth: int) -> None:
    if found["code"] is not None:
        code = found["code"].strip() or found["code"]
        page.add_marked("code", lambda: page.add(code))
    elif found["escaped"] is not None:
        page.add(found["escaped"])
    elif found["label"] is not None:
        _link(page, found["label"], found["url"], depth)
    else:
        kind, inner = next((name, value) for name, value in found.groupdict().items() if value is not None)
        page.add_marked(kind.rstrip("2"), lambda: _inline(page, inner, depth + 1))


def _link(page: _Page, label: str, url: str, depth: int) -> None:
    if _LINK.fullmatch(url):
        page.add_marked("text_link", lambda: _inline(page, label, depth + 1), url=url)
    else:
        _inline(page, label, depth + 1)
        page.add(f" ({url})")

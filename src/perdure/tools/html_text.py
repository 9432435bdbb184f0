"""The program that reduces a page of HTML to readable text; `subprocess_job` runs it.

It reads the page from standard input and writes the text to standard output. Its arguments are the URL of the
page, and the seconds it may take: a hostile page can make the parser of the standard library take hours.
"""

from __future__ import annotations

import re
import resource
import signal
import sys
from html.parser import HTMLParser
from urllib.parse import urljoin

MAX_MEMORY_BYTES = 1 << 30
MAX_TEXT_CHARACTERS = 200_000  # more than any model reads
MAX_ADDRESS_CHARACTERS = 500  # a longer URL is not shown
DROPPED = frozenset(("script", "style", "template", "svg", "iframe", "object"))
PARAGRAPHS = frozenset(("article", "blockquote", "figure", "footer", "form", "header", "hr", "main", "nav", "p"))
BLOCK_TAGS = frozenset(("dl", "ol", "pre", "section", "table", "title", "ul"))
LINES = frozenset(("dd", "div", "dt", "figcaption", "option", "tr"))
HEADINGS = {f"h{level}": "#" * level for level in range(1, 7)}


class TextExtractor(HTMLParser):
    """Collects the text of a page that a person would read."""

    def __init__(self, address: str) -> None:
        super().__init__(convert_charrefs=True)
        self._address = address
        self._pieces: list[str] = []
        self._dropping: list[str] = []
        self._preformatted = 0
        self._link: tuple[str, int] | None = None  # its URL, and the index of the first piece of its text

    @property
    def text(self) -> str:
        text = re.sub(r"[ \t]+\n", "\n", "".join(self._pieces))
        return re.sub(r"\n{3,}", "\n\n", text).strip()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in DROPPED:
            self._dropping.append(tag)
        if self._dropping:
            return
        self._break(tag)
        if tag in HEADINGS:
            self._pieces.append(f"\n\n{HEADINGS[tag]} ")
        elif tag == "a":
            self._close_link()
            self._link = (dict(attrs).get("href") or "", len(self._pieces))
        elif tag == "img" and (description := dict(attrs).get("alt")):
            self._pieces.append(f"[image: {description}]")
        elif tag == "pre":
            self._preformatted += 1

    def handle_endtag(self, tag: str) -> None:
        if tag in self._dropping:
            del self._dropping[self._dropping.index(tag) :]
        if self._dropping or tag in DROPPED:
            return
        if tag == "a":
            self._close_link()
        elif tag == "pre" and self._preformatted:
            self._preformatted -= 1
        elif tag in HEADINGS:
            self._pieces.append("\n\n")
        self._break(tag if tag != "li" else "")

    def handle_data(self, data: str) -> None:
        if self._dropping:
            return
        if not self._preformatted:
            data = re.sub(r"\s+", " ", data)
            data = data.lstrip() if self._at_line_start or self._pieces[-1].endswith(" ") else data
        if data:
            self._pieces.append(data)

    @property
    def _at_line_start(self) -> bool:
        return not self._pieces or self._pieces[-1].endswith("\n")

    def _break(self, tag: str) -> None:
        if tag in PARAGRAPHS or tag in BLOCK_TAGS:
            self._pieces.append("\n\n")
        elif tag == "br" or (tag in LINES and not self._at_line_start):
            self._pieces.append("\n")
        elif tag == "li":
            self._pieces.append("\n- ")
        elif tag in ("td", "th"):
            self.handle_data(" ")  # none at the beginning of a line

    def _close_link(self) -> None:
        """Write a link as `[text](URL)`, if it has a URL."""
        if self._link is None:
            return
        (where, begin), self._link = self._link, None
        target, text = self._target(where), " ".join("".join(self._pieces[begin:]).split())
        if text and target:
            self._pieces[begin:] = [f"[{text}]({target})"]

    def _target(self, where: str) -> str:
        try:
            target = urljoin(self._address, where.strip())
        except ValueError:
            return ""  # no address at all
        shown = where and where[0] != "#" and len(target) <= MAX_ADDRESS_CHARACTERS
        return target if shown and target.startswith(("http://", "https://")) else ""


def html_to_text(page: str, address: str) -> str:
    """The text of a page, with its headings, lists and links."""
    reading = TextExtractor(address)
    reading.feed(page)
    reading.close()
    return reading.text


def main() -> None:
    address, seconds = sys.argv[1], float(sys.argv[2])
    signal.setitimer(signal.ITIMER_REAL, seconds)
    resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY_BYTES, MAX_MEMORY_BYTES))
    page = sys.stdin.buffer.read().decode(errors="replace")
    sys.stdout.buffer.write(html_to_text(page, address)[:MAX_TEXT_CHARACTERS].encode(errors="replace"))


if __name__ == "__main__":
    main()

"""Reads our Markdown pages: their code, links, headings and generated parts."""

from __future__ import annotations

import re
from pathlib import Path

from msgspec import Struct

ROOT = Path(__file__).parents[2]

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_SPAN = re.compile(r"`([^`\n]+)`")
_LINK = re.compile(r"\[[^\]\n]*\]\(([^)\s]+)\)|^\[[^\]\n]+\]: (\S+)$", re.MULTILINE)
_LABEL = re.compile(r"^\[([^\]\n]+)\]: ", re.MULTILINE)
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
_GENERATED = re.compile(r"(<!-- generated: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


class Page(Struct, frozen=True):
    """One page of the documentation."""

    path: Path

    def __str__(self) -> str:
        return str(self.path.relative_to(ROOT))

    @property
    def text(self) -> str:
        return self.path.read_text()

    def blocks(self, language: str) -> list[str]:
        """The fenced blocks of a language, without the fences."""
        return [body for found, body in _FENCE.findall(self.text) if found == language]

    def code(self) -> list[str]:
        """Return all code spans, and the lines of all code blocks."""
        lines = [line for _, body in _FENCE.findall(self.text) for line in body.splitlines()]
        return [*lines, *_SPAN.findall(self.prose)]

    @property
    def prose(self) -> str:
        """The page without its fenced blocks."""
        return _FENCE.sub("", self.text)

    def links(self) -> list[str]:
        """The targets of its links, those of labels included."""
        return [inline or labelled for inline, labelled in _LINK.findall(self.prose)]

    def labels(self) -> list[str]:
        """The labels that links on this page may use."""
        return _LABEL.findall(self.prose)

    def anchors(self) -> set[str]:
        """The names of its headings, as they stand in links."""
        kept = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in _HEADING.findall(self.prose))
        return {heading.replace(" ", "-") for heading in kept}

    def rendered(self, region: str, content: str) -> str:
        """The page with this content in its generated part of that name."""
        found = [name for _, name, _ in _GENERATED.findall(self.text)]
        assert region in found, f"{self} has no part `<!-- generated: {region} -->`"
        return _GENERATED.sub(
            lambda part: f"{part[1]}{content}\n{part[3]}" if part[2] == region else part[0], self.text
        )


def page(name: str) -> Page:
    return Page(ROOT / name)


def pages() -> list[Page]:
    """Return every page."""
    return [Page(path) for path in sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])]

"""Reads the promises of `docs/promises.md`, and the tests that name them."""

from __future__ import annotations

import re
from collections import Counter, defaultdict

from msgspec import Struct

from support.markdown import ROOT, page

TESTS = ROOT / "tests"

_ROW = re.compile(r"^\| B(\d+) \| (.+?) \| \*\*(held|partly|not yet)\*\*(.*) \|$", re.MULTILINE)
_TEST = re.compile(r"\[([a-z0-9_/]+)\]")
_IN_TEXT = re.compile(r"(?<![A-Za-z0-9_])B(\d{1,3})(?![A-Za-z0-9_])")
_IN_NAME = re.compile(r"_b(\d{1,3})(?=_|\()")


class Promise(Struct, frozen=True):
    number: int
    text: str
    state: str
    rest: str

    @property
    def tests(self) -> list[str]:
        """The test files that it names, without `tests/` and `.py`."""
        return _TEST.findall(self.rest)


def promises() -> list[Promise]:
    """Every promise, in the order of the page."""
    return [Promise(int(number), *others) for number, *others in _ROW.findall(page("docs/promises.md").text)]


def counts() -> str:
    """How many promises are in which state."""
    found = Counter(promise.state for promise in promises())
    told = ", ".join(f"{found[state]} {state}" for state in ("held", "partly", "not yet"))
    return f"Of {found.total()} promises: {told}."


def named_by_tests() -> dict[int, set[str]]:
    """Which test files name which number; the tests of the documentation prove none."""
    found: dict[int, set[str]] = defaultdict(set)
    for path in sorted(TESTS.rglob("test_*.py")):
        if path.parent.name == "docs":
            continue
        for line in path.read_text().splitlines():
            numbers = [*_IN_TEXT.findall(line), *(_IN_NAME.findall(line) if "def test_" in line else ())]
            for number in numbers:
                found[int(number)].add(str(path.relative_to(TESTS).with_suffix("")))
    return found

"""Reads and applies mutations: patches that each break one promise, and name the test that must fail.

A patch is a unified diff below a header in plain words. Its hunks are found by their lines, wherever those stand,
so that a patch outlives changes around it; a hunk that is not found exactly once does not apply.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

PATCH_FOLDER = Path(__file__).parent
ROOT = PATCH_FOLDER.parents[1]
SOURCE = ROOT / "src"

_TEST = re.compile(r"^Test: (tests/\S+\.py::.+)$", re.MULTILINE)


class PatchDoesNotApply(Exception):
    """The source has changed, and the patch must follow it."""


class Hunk(Struct, frozen=True):
    """Lines of a file, and their replacement in the mutant."""

    file: str  # below the source folder
    before: str
    after: str


class Mutation(Struct, frozen=True):
    name: str
    breaks: str  # the broken promise, in a sentence
    test: str  # the pytest id of the test that must fail
    hunks: tuple[Hunk, ...]

    def apply(self, folder: Path) -> None:
        """Apply a patch to a copy of the source; raise `PatchDoesNotApply` if its lines are not found."""
        for hunk in self.hunks:
            path = folder / hunk.file
            text = path.read_text() if path.is_file() else ""
            if (found := text.count(hunk.before)) != 1:
                raise PatchDoesNotApply(f"{self.name}: {hunk.file} has these lines {found} times:\n{hunk.before}")
            path.write_text(text.replace(hunk.before, hunk.after))


def mutations() -> list[Mutation]:
    """Return all mutations, by name."""
    return [read_patch(path) for path in sorted(PATCH_FOLDER.glob("*.patch"))]


def read_patch(path: Path) -> Mutation:
    header, found, diff = path.read_text().partition("--- a/src/")
    test = _TEST.search(header)
    if not found or test is None:
        raise ValueError(f"{path.name} needs a sentence, a line `Test: tests/…::name`, and a diff of src")
    breaks = " ".join(header[: test.start()].split())
    return Mutation(path.stem, breaks, test.group(1), tuple(_hunks(found + diff)))


def _hunks(diff: str) -> Iterator[Hunk]:
    file, before, after = "", "", ""
    for line in [*diff.splitlines(keepends=True), "@@"]:
        if line.startswith(("--- ", "@@")):
            if before:
                yield Hunk(file, before, after)
            before, after = "", ""
        elif line.startswith("+++ "):
            file = line.strip().removeprefix("+++ b/src/")
        elif line[0] in " -+":
            before += line[1:] if line[0] != "+" else ""
            after += line[1:] if line[0] != "-" else ""

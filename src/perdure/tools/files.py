"""The tools that read, write, edit and search files, and never leave their folder."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from perdure.core import notes
from perdure.core.effects import Effect
from perdure.core.tools import Tool
from perdure.errors import ToolFailed
from perdure.tools.apart import Work, run_apart
from perdure.tools.contents import list_folder, read_lines, read_whole, replace_file
from perdure.tools.folder import Folder, in_words
from perdure.tools.functions import tool
from perdure.tools.threads import in_thread

LINES = 1000  # that are shown at once, unless fewer are wished for
SEARCH_SECONDS = 15.0
TOLD = 10  # occurrences whose lines are told

FilePath = Annotated[str, "The path of the file, relative to the root folder."]
AnyPath = Annotated[str, "The path of the file or folder, relative to the root folder."]
Line = Annotated[int, Meta(ge=1, description="The number of the first line to show.")]
Count = Annotated[int, Meta(ge=1, le=LINES, description="How many lines to show at most.")]
OldText = Annotated[str, Meta(min_length=1, description="The exact text to replace, with its spaces and lines.")]


class Match(Struct, frozen=True, tag=True):
    """A line that a search found."""

    file: str
    line: int
    text: str


class Searched(Struct, frozen=True, tag=True):
    """How a search went."""

    files: int
    large: int = 0  # files that were too large to be searched
    full: bool = False  # it stopped at the largest number of matches
    late: bool = False  # it stopped because its time was up
    bad: str = ""  # what is wrong with the pattern


def file_tools(root: Path, home: Path | None = None, *, search_seconds: float = SEARCH_SECONDS) -> list[Tool]:
    """`read_file`, `write_file`, `edit_file` and `search_files`, for the files below a folder.

    With a home, what came with messages there can be read and searched too.
    """
    folder = Folder(root, home)
    return [_reading(folder), _writing(folder), _editing(folder), _searching(folder, search_seconds)]


def _reading(folder: Folder) -> Tool:
    @tool(effect=Effect.PURE)
    def read_file(path: AnyPath, offset: Line = 1, limit: Count = LINES) -> str:
        """Read lines of a text file, or list the entries of a folder.

        The first line of the answer says which lines follow, of how many.
        """
        place = folder.find(path, arrived=True)
        name = folder.name(place)
        with in_words(name):
            if place.is_dir():
                return notes.listing(name, *list_folder(place))
            seen = read_lines(place, name, offset, limit)
        if offset > max(seen.total, 1):
            raise ToolFailed(notes.no_such_line(name, offset, seen.total, seen.whole))
        return notes.excerpt(name, seen.text, seen.first, seen.last, seen.total, whole=seen.whole)

    return read_file.tool


def _writing(folder: Folder) -> Tool:
    @tool(effect=Effect.PURE)
    def write_file(path: FilePath, content: Annotated[str, "The whole content of the file."]) -> str:
        """Write a text file. It is made, with its folders, or replaced as a whole."""
        written = content.encode()
        with folder.changing(path) as place:
            name = folder.name(place)
            _refuse_other_kinds(place, name)
            replace_file(place, written)
        return notes.wrote(name, len(written))

    return write_file.tool


def _refuse_other_kinds(place: Path, name: str) -> None:
    if place.exists() and not stat.S_ISREG(place.stat().st_mode):
        raise ToolFailed(notes.not_a_file(name))


def _editing(folder: Folder) -> Tool:
    @tool(effect=Effect.ONCE)
    def edit_file(
        path: FilePath,
        old: OldText,
        new: Annotated[str, "The text to put there instead."],
        all: Annotated[bool, "Replace every occurrence; otherwise there must be exactly one."] = False,  # noqa: A002 reason: the model's word for it
    ) -> str:
        """Replace a text in a file by another one."""
        with folder.changing(path) as place:
            name = folder.name(place)
            text = read_whole(place, name)
            old, new = _with_its_line_ends(text, old, new)
            count, lines = _occurrences(text, old)
            if old == new or not count or (count > 1 and not all):
                raise ToolFailed(notes.not_edited(name, count, lines, same=old == new))
            replace_file(place, text.replace(old, new).encode())
        return notes.edited(name, count, lines)

    return edit_file.tool


def _with_its_line_ends(text: str, old: str, new: str) -> tuple[str, str]:
    """Models write `\\n`; a file from Windows has `\\r\\n`, and keeps it."""
    if old in text or "\r\n" not in text:
        return old, new
    return _for_windows(old), _for_windows(new)


def _for_windows(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\n", "\r\n")


def _occurrences(text: str, old: str) -> tuple[int, list[int]]:
    """How often the text occurs, and the lines of the first few times.

    Where occurrences overlap, none of them is *the* one, and each counts here.
    """
    at, lines = text.find(old), list[int]()
    while at >= 0 and len(lines) < TOLD:
        lines.append(text.count("\n", 0, at) + 1)
        at = text.find(old, at + 1)
    return max(text.count(old), len(lines)), lines


# ── searching ───────────────────────────────────────────────────────────────────────────────────────────────


def _searching(folder: Folder, seconds: float) -> Tool:
    @tool(effect=Effect.PURE)
    async def search_files(
        pattern: Annotated[str, "A regular expression in Python's syntax, matched line by line."],
        path: Annotated[str, "The folder or file to search, relative to the root folder."] = ".",
        glob: Annotated[str, "Which files, such as *.py or src/**/*.{js,ts}."] = "**/*",
    ) -> str:
        """Search files for a regular expression. Binary files, large files and .git are left out."""
        place, name = await in_thread(lambda: _existing(folder, path))
        asked = {"pattern": pattern, "place": str(place), "glob": glob, "seconds": seconds}
        work = await run_apart("search.py", msgspec.json.encode(asked))
        return _found(name, pattern, work, seconds)

    return search_files.tool


def _existing(folder: Folder, path: str) -> tuple[Path, str]:
    place = folder.find(path, arrived=True)
    name = folder.name(place)
    with in_words(name):
        place.stat()
    return place, name


def _found(under: str, pattern: str, work: Work, seconds: float) -> str:
    told = [msgspec.json.decode(line, type=Match | Searched) for line in work.output.split(b"\n")[:-1]]
    matches = [f"{_joined(under, each.file)}:{each.line}: {each.text}" for each in told if isinstance(each, Match)]
    ends = [each for each in told if isinstance(each, Searched)]
    if not ends:  # it was ended in the middle, and all that it wrote until then is whole
        raise ToolFailed(notes.search_cut_off(pattern, seconds, work.error, matches))
    if ends[0].bad:
        raise ToolFailed(notes.bad_pattern(pattern, ends[0].bad))
    return notes.matches(matches, under, ends[0].files, large=ends[0].large, full=ends[0].full, late=ends[0].late)


def _joined(under: str, file: str) -> str:
    return file if under == "." else f"{under.rstrip('/')}/{file}".removesuffix("/")

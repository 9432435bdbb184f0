"""The tools that read, write, edit and search files, and never leave their folder."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from perdure.core import texts
from perdure.core.effects import Effect
from perdure.core.tools import Tool
from perdure.errors import ToolFailed
from perdure.tools.file_contents import list_folder, read_lines, read_whole_file, replace_file
from perdure.tools.function_tools import tool
from perdure.tools.subprocess_job import JobResult, run_job
from perdure.tools.threads import run_in_thread
from perdure.tools.workspace import Workspace, translate_file_errors

MAX_LINES = 1000  # shown at once, unless the model asks for fewer
SEARCH_SECONDS = 15.0
MAX_SHOWN_OCCURRENCES = 10  # whose line numbers are listed

FilePath = Annotated[str, "The path of the file, relative to the root folder."]
AnyPath = Annotated[str, "The path of the file or folder, relative to the root folder."]
FirstLine = Annotated[int, Meta(ge=1, description="The number of the first line to show.")]
LineCount = Annotated[int, Meta(ge=1, le=MAX_LINES, description="How many lines to show at most.")]
OldText = Annotated[str, Meta(min_length=1, description="The exact text to replace, with its spaces and lines.")]


class SearchMatch(Struct, frozen=True, tag="Match"):
    """A line that a search found."""

    file: str
    line: int
    text: str


class SearchSummary(Struct, frozen=True, tag="Searched"):
    """The end of a search: how much was searched, and why it stopped."""

    files: int
    large: int = 0  # files that were too large to be searched
    full: bool = False  # it stopped at the largest number of matches
    late: bool = False  # it stopped because its time was up
    bad: str = ""  # what is wrong with the pattern


def file_tools(root: Path, home: Path | None = None, *, search_seconds: float = SEARCH_SECONDS) -> list[Tool]:
    """`read_file`, `write_file`, `edit_file` and `search_files`, for the files below a folder.

    With `home`, the attachments in it can be read and searched too.
    """
    workspace = Workspace(root, home)
    return [
        _read_tool(workspace),
        _write_tool(workspace),
        _edit_tool(workspace),
        _search_tool(workspace, search_seconds),
    ]


def _read_tool(workspace: Workspace) -> Tool:
    @tool(effect=Effect.PURE)
    def read_file(path: AnyPath, offset: FirstLine = 1, limit: LineCount = MAX_LINES) -> str:
        """Read lines of a text file, or list the entries of a folder.

        The first line of the answer says which lines follow, of how many.
        """
        file = workspace.resolve(path, allow_attachments=True)
        name = workspace.display_path(file)
        with translate_file_errors(name):
            if file.is_dir():
                return texts.file_tools.folder_listing(name, *list_folder(file))
            lines = read_lines(file, name, offset, limit)
        if offset > max(lines.total, 1):
            raise ToolFailed(texts.file_tools.no_such_line(name, offset, lines.total, lines.whole))
        return texts.file_tools.excerpt(name, lines.text, lines.first, lines.last, lines.total, whole=lines.whole)

    return read_file.tool


def _write_tool(workspace: Workspace) -> Tool:
    @tool(effect=Effect.PURE)
    def write_file(path: FilePath, content: Annotated[str, "The whole content of the file."]) -> str:
        """Write a text file. It is made, with its folders, or replaced as a whole."""
        written = content.encode()
        with workspace.locked(path) as file:
            name = workspace.display_path(file)
            _refuse_non_file(file, name)
            replace_file(file, written)
        return texts.file_tools.written(name, len(written))

    return write_file.tool


def _refuse_non_file(path: Path, name: str) -> None:
    if path.exists() and not stat.S_ISREG(path.stat().st_mode):
        raise ToolFailed(texts.file_tools.not_a_file(name))


def _edit_tool(workspace: Workspace) -> Tool:
    @tool(effect=Effect.ONCE)
    def edit_file(
        path: FilePath,
        old: OldText,
        new: Annotated[str, "The text to put there instead."],
        all: Annotated[bool, "Replace every occurrence; otherwise there must be exactly one."] = False,  # noqa: A002 reason: the model's word for it
    ) -> str:
        """Replace a text in a file by another one."""
        with workspace.locked(path) as file:
            name = workspace.display_path(file)
            text = read_whole_file(file, name)
            old, new = _with_line_ends_of(text, old, new)
            count, lines = _occurrences(text, old)
            if old == new or not count or (count > 1 and not all):
                raise ToolFailed(texts.file_tools.not_edited(name, count, lines, same=old == new))
            replace_file(file, text.replace(old, new).encode())
        return texts.file_tools.edited(name, count, lines)

    return edit_file.tool


def _with_line_ends_of(text: str, old: str, new: str) -> tuple[str, str]:
    """Both texts with the line ends of the file: models write `\\n`, and a file from Windows keeps `\\r\\n`."""
    if old in text or "\r\n" not in text:
        return old, new
    return _to_crlf(old), _to_crlf(new)


def _to_crlf(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\n", "\r\n")


def _occurrences(text: str, old: str) -> tuple[int, list[int]]:
    """How often the text occurs, and the line numbers of the first few occurrences.

    Overlapping occurrences count one by one, because an edit could mean any of them.
    """
    at, lines = text.find(old), list[int]()
    while at >= 0 and len(lines) < MAX_SHOWN_OCCURRENCES:
        lines.append(text.count("\n", 0, at) + 1)
        at = text.find(old, at + 1)
    return max(text.count(old), len(lines)), lines


# ── searching ───────────────────────────────────────────────────────────────────────────────────────────────


def _search_tool(workspace: Workspace, seconds: float) -> Tool:
    @tool(effect=Effect.PURE)
    async def search_files(
        pattern: Annotated[str, "A regular expression in Python's syntax, matched line by line."],
        path: Annotated[str, "The folder or file to search, relative to the root folder."] = ".",
        glob: Annotated[str, "Which files, such as *.py or src/**/*.{js,ts}."] = "**/*",
    ) -> str:
        """Search files for a regular expression. Binary files, large files and .git are left out."""
        root, name = await run_in_thread(lambda: _find_existing(workspace, path))
        request = {"pattern": pattern, "place": str(root), "glob": glob, "seconds": seconds}
        job = await run_job("file_search.py", msgspec.json.encode(request))
        return _search_result(name, pattern, job, seconds)

    return search_files.tool


def _find_existing(workspace: Workspace, path: str) -> tuple[Path, str]:
    found = workspace.resolve(path, allow_attachments=True)
    name = workspace.display_path(found)
    with translate_file_errors(name):
        found.stat()
    return found, name


def _search_result(under: str, pattern: str, job: JobResult, seconds: float) -> str:
    lines = [msgspec.json.decode(line, type=SearchMatch | SearchSummary) for line in job.output.split(b"\n")[:-1]]
    matches = [
        f"{_join_path(under, each.file)}:{each.line}: {each.text}"
        for each in lines
        if isinstance(each, SearchMatch)
    ]
    ends = [each for each in lines if isinstance(each, SearchSummary)]
    if not ends:  # the search was ended; the matches that it wrote until then are complete
        raise ToolFailed(texts.file_tools.search_aborted(pattern, seconds, job.error, matches))
    if ends[0].bad:
        raise ToolFailed(texts.file_tools.bad_pattern(pattern, ends[0].bad))
    return texts.file_tools.search_results(
        matches, under, ends[0].files, large=ends[0].large, full=ends[0].full, late=ends[0].late
    )


def _join_path(under: str, file: str) -> str:
    return file if under == "." else f"{under.rstrip('/')}/{file}".removesuffix("/")

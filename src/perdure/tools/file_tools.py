"""The tools that read, write, edit, search and send files, and never leave their folder."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Awaitable, Callable
from mimetypes import guess_type
from pathlib import Path
from typing import Annotated, BinaryIO

import msgspec
from msgspec import Meta, Struct

from perdure.core import texts
from perdure.core.effects import Effect
from perdure.core.file_names import UNKNOWN_MEDIA_TYPE, display_file_name
from perdure.core.messages import SentFile
from perdure.core.tools import Tool, Use
from perdure.errors import AttachmentQuotaReached, FileTooLarge, ToolFailed
from perdure.tools.attachments import AttachmentFiles
from perdure.tools.blocking_jobs import JobResult, run_in_thread, run_job
from perdure.tools.file_contents import list_folder, open_file, read_lines, read_whole_file, replace_file
from perdure.tools.function_tools import as_tool, tool
from perdure.tools.workspace import (
    FileId,
    FileLocation,
    FindFolders,
    OpenBeneath,
    Workspace,
    open_beneath,
    translate_file_errors,
)

MAX_LINES = 1000  # shown at once, unless the model asks for fewer
SEARCH_SECONDS = 15.0
MAX_SHOWN_OCCURRENCES = 10  # whose line numbers are listed

FilePath = Annotated[str, "The path of the file, relative to the root folder."]
AnyPath = Annotated[str, "The path of the file or folder, relative to the root folder."]
FirstLine = Annotated[int, Meta(ge=1, description="The number of the first line to show.")]
LineCount = Annotated[int, Meta(ge=1, le=MAX_LINES, description="How many lines to show at most.")]
OldText = Annotated[str, Meta(min_length=1, description="The exact text to replace, with its spaces and lines.")]


class SearchRequest(Struct, frozen=True):
    """What the program that searches files is told."""

    pattern: str
    descriptor: int  # of the folder or file to search
    glob: str
    seconds: float
    forbidden: list[FileId]  # files and folders to leave out


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


OpenWorkspace = Callable[[Use], Awaitable[Workspace]]


def file_tools(
    find_folders: FindFolders,
    home: Path | None = None,
    *,
    search_seconds: float = SEARCH_SECONDS,
    opener: OpenBeneath = open_beneath,
) -> list[Tool]:
    """`read_file`, `write_file`, `edit_file` and `search_files`, for the files of the call's conversation.

    Its attachments can be read and searched too. `home` is that of the gateway, whose own files are refused.
    """

    async def open_workspace(use: Use) -> Workspace:
        return Workspace(await find_folders(use.session_key), home, opener)

    return [
        _read_tool(open_workspace),
        _write_tool(open_workspace),
        _edit_tool(open_workspace),
        _search_tool(open_workspace, search_seconds),
    ]


def _read_tool(open_workspace: OpenWorkspace) -> Tool:
    @tool(effect=Effect.PURE)
    async def read_file(path: AnyPath, use: Use, offset: FirstLine = 1, limit: LineCount = MAX_LINES) -> str:
        """Read lines of a text file, or list the entries of a folder.

        The first line of the answer says which lines follow, of how many.
        """
        workspace = await open_workspace(use)
        return await run_in_thread(lambda: _read(workspace, path, offset, limit))

    return read_file.tool


def _read(workspace: Workspace, path: str, offset: int, limit: int) -> str:
    location = workspace.find(path, allow_attachments=True)
    name = location.name
    with translate_file_errors(name):
        if stat.S_ISDIR(location.stat().st_mode):
            return texts.files.folder_listing(name, *list_folder(location))
        lines = read_lines(location, offset, limit)
    if offset > max(lines.total, 1):
        raise ToolFailed(texts.files.no_such_line(name, offset, lines.total, lines.whole))
    return texts.files.excerpt(name, lines.text, lines.first, lines.last, lines.total, whole=lines.whole)


def _write_tool(open_workspace: OpenWorkspace) -> Tool:
    @tool(effect=Effect.PURE)
    async def write_file(
        path: FilePath, content: Annotated[str, "The whole content of the file."], use: Use
    ) -> str:
        """Write a text file. It is made, with its folders, or replaced as a whole."""
        workspace = await open_workspace(use)
        return await run_in_thread(lambda: _write(workspace, path, content.encode()))

    return write_file.tool


def _write(workspace: Workspace, path: str, content: bytes) -> str:
    with workspace.locked(path) as location:
        replace_file(location, content)
    return texts.files.written(location.name, len(content))


def _edit_tool(open_workspace: OpenWorkspace) -> Tool:
    @tool(effect=Effect.ONCE)
    async def edit_file(
        path: FilePath,
        old: OldText,
        new: Annotated[str, "The text to put there instead."],
        use: Use,
        all: Annotated[bool, "Replace every occurrence; otherwise there must be exactly one."] = False,  # noqa: A002 reason: the model's word for it
    ) -> str:
        """Replace a text in a file by another one."""
        workspace = await open_workspace(use)
        return await run_in_thread(lambda: _edit(workspace, path, old, new, every=all))

    return edit_file.tool


def _edit(workspace: Workspace, path: str, old: str, new: str, *, every: bool) -> str:
    with workspace.locked(path) as location:
        text = read_whole_file(location)
        old, new = _with_line_ends_of(text, old, new)
        count, lines = _occurrences(text, old)
        if old == new or not count or (count > 1 and not every):
            raise ToolFailed(texts.files.not_edited(location.name, count, lines, same=old == new))
        replace_file(location, text.replace(old, new).encode())
    return texts.files.edited(location.name, count, lines)


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


def _search_tool(open_workspace: OpenWorkspace, seconds: float) -> Tool:
    @tool(effect=Effect.PURE)
    async def search_files(
        pattern: Annotated[str, "A regular expression in Python's syntax, matched line by line."],
        use: Use,
        path: Annotated[str, "The folder or file to search, relative to the root folder."] = ".",
        glob: Annotated[str, "Which files, such as *.py or src/**/*.{js,ts}."] = "**/*",
    ) -> str:
        """Search files for a regular expression. Binary files, large files and .git are left out."""
        workspace = await open_workspace(use)
        location, descriptor = await run_in_thread(lambda: _open_searched(workspace, path))
        request = SearchRequest(pattern, descriptor, glob, seconds, list(location.forbidden))
        try:
            job = await run_job("file_search.py", msgspec.json.encode(request), pass_fds=[descriptor])
        finally:
            os.close(descriptor)
        return _search_result(location.name, pattern, job, seconds)

    return search_files.tool


def _open_searched(workspace: Workspace, path: str) -> tuple[FileLocation, int]:
    """Open what is to be searched: the program that searches it gets the descriptor, and no path."""
    location = workspace.find(path, allow_attachments=True)
    with translate_file_errors(location.name):
        if stat.S_ISDIR(location.stat().st_mode):
            return location, location.open(os.O_RDONLY | os.O_DIRECTORY)
        with open_file(location) as file:
            return location, os.dup(file.fileno())


def _search_result(under: str, pattern: str, job: JobResult, seconds: float) -> str:
    lines = [msgspec.json.decode(line, type=SearchMatch | SearchSummary) for line in job.output.split(b"\n")[:-1]]
    matches = [
        f"{_join_path(under, each.file)}:{each.line}: {each.text}"
        for each in lines
        if isinstance(each, SearchMatch)
    ]
    ends = [each for each in lines if isinstance(each, SearchSummary)]
    if not ends:  # the search was ended; the matches that it wrote until then are complete
        raise ToolFailed(texts.files.search_aborted(pattern, seconds, job.error, matches))
    if ends[0].bad:
        raise ToolFailed(texts.files.bad_pattern(pattern, ends[0].bad))
    return texts.files.search_results(
        matches, under, ends[0].files, large=ends[0].large, full=ends[0].full, late=ends[0].late
    )


def _join_path(under: str, file: str) -> str:
    return file if under == "." else f"{under.rstrip('/')}/{file}".removesuffix("/")


MAX_FILE_BYTES = 50_000_000  # what the platforms take
MAX_CAPTION_CHARACTERS = 900

Caption = Annotated[str, Meta(max_length=MAX_CAPTION_CHARACTERS, description="Words to show with the file.")]


def send_file_tool(
    find_folders: FindFolders, home: Path, max_total_bytes: int | None = None, opener: OpenBeneath = open_beneath
) -> Tool:
    """The tool `send_file`, for files of a conversation and its attachments, which have a limit together."""
    attachments = AttachmentFiles(home, max_total_bytes)

    @tool(effect=Effect.PURE)
    async def send_file(path: Annotated[str, "The path of the file."], use: Use, caption: Caption = "") -> str:
        """Send a file to the user, in this chat. It is sent as it is now, at most 50 MB."""
        workspace = Workspace(await find_folders(use.session_key), home, opener)

        def copy_file() -> SentFile:
            location = workspace.find(path, allow_attachments=True)
            name = display_file_name(location.path.name)
            with translate_file_errors(location.name), open_file(location) as source:
                return _copy_file(attachments, source, name, use.key, caption)

        sent = await run_in_thread(copy_file)
        use.send_file(sent)
        return texts.files.file_will_be_sent(sent.name, sent.size)

    return as_tool(send_file)


def _copy_file(attachments: AttachmentFiles, source: BinaryIO, name: str, key: str, caption: str) -> SentFile:
    """Store a copy under an id that is the same for every attempt of the same call."""
    attachment_id = f"att_{hashlib.sha256(key.encode()).hexdigest()[:26]}"
    try:
        saved = attachments.copy(attachment_id, name, source, MAX_FILE_BYTES)
    except (FileTooLarge, AttachmentQuotaReached) as error:
        raise ToolFailed(texts.files.file_not_sent(name, error.message)) from error
    media_type = guess_type(name)[0] or UNKNOWN_MEDIA_TYPE
    return SentFile(attachment_id, name, media_type, saved.size, saved.path, caption)

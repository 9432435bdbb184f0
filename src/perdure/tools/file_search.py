"""The program that searches files for a regular expression; `subprocess_job` runs it.

It reads the search from standard input as JSON, and writes a line of JSON for each match, and one at the end. What
it searches it gets as an open descriptor, and each thing below is opened by its name from the descriptor of its
folder. It follows no link, so that it never leaves its folder, whoever exchanges what meanwhile.
"""

from __future__ import annotations

import json
import os
import re
import resource
import signal
import stat
import sys
import time
from collections.abc import Iterator
from typing import Any

MAX_MATCHES = 100
MAX_FILE_BYTES = 5_000_000  # of a file that is searched
MAX_SHOWN_CHARACTERS = 200  # of a line that are shown
MAX_MEMORY_BYTES = 1 << 30
SKIPPED = {".git", ".hg", ".svn"}
MAX_DEPTH = 200  # of folders: each has an open descriptor while it is searched
_SNIFFED_BYTES = 8192  # show whether a file is text

FileId = tuple[int, int]  # device and inode


def main() -> None:
    request = json.load(sys.stdin)
    signal.setitimer(signal.ITIMER_REAL, request["seconds"])
    resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY_BYTES, MAX_MEMORY_BYTES))
    try:
        pattern = re.compile(request["pattern"])
        glob = re.compile(glob_pattern(request["glob"]), re.DOTALL)
    except (re.error, OverflowError, RecursionError) as error:
        write_line("Searched", files=0, bad=str(error) or type(error).__name__)
        return
    # The walk gets most of the time; the rest is for the last file.
    deadline = time.monotonic() + request["seconds"] * 2 / 3
    forbidden = {(device, inode) for device, inode in request["forbidden"]}
    files = walk(request["descriptor"], forbidden)
    write_line("Searched", **search(files, pattern, glob, deadline, forbidden))


def search(
    found_files: Iterator[tuple[str, int]],
    pattern: re.Pattern[str],
    glob: re.Pattern[str],
    deadline: float,
    forbidden: set[FileId],
) -> dict[str, Any]:
    """Write every match in the files, and return the summary of the search."""
    files = large = matches = 0
    for file, folder in found_files:
        if time.monotonic() > deadline:
            return {"files": files, "large": large, "late": True}
        if file and not glob.fullmatch(file):
            continue
        text = read_text(file, folder, forbidden)
        files, large = files + 1, large + (text is None)
        for number, line in enumerate((text or "").split("\n"), 1):
            found = pattern.search(line)
            if found and matches == MAX_MATCHES:
                return {"files": files, "large": large, "full": True}
            if found:
                matches += 1
                write_line("Match", file=readable(file), line=number, text=excerpt(line, found.start()))
    return {"files": files, "large": large}


def walk(descriptor: int, forbidden: set[FileId], path: str = "") -> Iterator[tuple[str, int]]:
    """The files below a folder, in order, each with the descriptor of its folder.

    If the descriptor is that of a file: the empty path, and the descriptor itself.
    """
    if not stat.S_ISDIR(os.fstat(descriptor).st_mode):
        yield "", descriptor
        return
    folders, files = list_names(descriptor, forbidden)
    for name in files:
        yield f"{path}{name}", descriptor
    for name in folders if path.count("/") < MAX_DEPTH else ():
        try:
            below = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=descriptor)
        except OSError:
            continue  # a link by now, gone, or not readable
        try:
            yield from walk(below, forbidden, f"{path}{name}/")
        finally:
            os.close(below)


def list_names(descriptor: int, forbidden: set[FileId]) -> tuple[list[str], list[str]]:
    """The names of the folders and of the regular files in a folder, in order."""
    folders, files = list[str](), list[str]()
    try:
        with os.scandir(descriptor) as entries:
            for entry in entries:
                seen = entry.stat(follow_symlinks=False)
                if (seen.st_dev, seen.st_ino) in forbidden or entry.name in SKIPPED:
                    continue
                if stat.S_ISDIR(seen.st_mode):
                    folders.append(entry.name)
                elif stat.S_ISREG(seen.st_mode):
                    files.append(entry.name)
    except OSError:
        pass  # not readable, or gone meanwhile
    return sorted(folders), sorted(files)


def read_text(path: str, folder: int, forbidden: set[FileId]) -> str | None:
    """The text of a file; empty if it is no text or cannot be read, None if it is too large.

    The folder is the descriptor of the folder that the file is in; without a path, of the file itself.
    """
    name = path.rpartition("/")[2]
    try:
        flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW
        descriptor = os.open(name, flags, dir_fd=folder) if name else os.dup(folder)
    except OSError:
        return ""  # a link, gone, or not readable
    with os.fdopen(descriptor, "rb") as file:
        seen = os.fstat(descriptor)
        if not stat.S_ISREG(seen.st_mode) or (seen.st_dev, seen.st_ino) in forbidden:
            return ""
        try:
            content = file.read(MAX_FILE_BYTES + 1)
        except OSError:
            return ""  # such as some files of the kernel
    if b"\0" in content[:_SNIFFED_BYTES]:
        return ""
    return None if len(content) > MAX_FILE_BYTES else content.decode(errors="replace").replace("\r\n", "\n")


def glob_pattern(glob: str) -> str:
    """The regular expression of a glob; a glob without a slash matches names in any folder."""
    glob = glob.removeprefix("./").lstrip("/")
    parts = re.findall(r"\*\*/|\*\*|\[!?\]?[^]]*\]|.", glob if "/" in glob else f"**/{glob}", re.DOTALL)
    depth, pattern = 0, ""
    for part in parts:
        if part in "{}," and (depth or part == "{"):
            depth += {"{": 1, "}": -1, ",": 0}[part]
            pattern += {"{": "(?:", "}": ")", ",": "|"}[part]
        else:
            pattern += _translated(part)
    return pattern + ")" * depth


def _translated(part: str) -> str:
    known = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    if part in known or len(part) == 1:
        return known.get(part) or re.escape(part)
    negated = part[1] == "!"
    members = re.sub(r"([\\\[\]^&~|])", r"\\\1", part[2 if negated else 1 : -1])
    return f"[{'^/' if negated else ''}{members}]"


def excerpt(line: str, at: int) -> str:
    """The line, or its part around the match."""
    start = 0 if at < MAX_SHOWN_CHARACTERS * 3 // 4 else at - MAX_SHOWN_CHARACTERS // 4
    return line[start : start + MAX_SHOWN_CHARACTERS].rstrip().replace("\0", "\N{REPLACEMENT CHARACTER}")


def readable(path: str) -> str:
    return path.encode(errors="replace").decode()


def write_line(kind: str, **fields: Any) -> None:
    sys.stdout.write(json.dumps({"type": kind, **fields}) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()

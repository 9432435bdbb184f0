"""The program that searches files for a regular expression; `subprocess_job` runs it.

It reads the search from standard input as JSON, and writes a line of JSON for each match, and one at the end. It
does not follow links, so that it never leaves its folder.
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
_SNIFFED_BYTES = 8192  # show whether a file is text


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
    write_line("Searched", **search(request["place"], pattern, glob, deadline))


def search(root: str, pattern: re.Pattern[str], glob: re.Pattern[str], deadline: float) -> dict[str, Any]:
    """Write every match in the files below `root`, and return the summary of the search."""
    files = large = matches = 0
    for file in walk(root):
        if time.monotonic() > deadline:
            return {"files": files, "large": large, "late": True}
        if file and not glob.fullmatch(file):
            continue
        text = read_text(f"{root}/{file}" if file else root)
        files, large = files + 1, large + (text is None)
        for number, line in enumerate((text or "").split("\n"), 1):
            found = pattern.search(line)
            if found and matches == MAX_MATCHES:
                return {"files": files, "large": large, "full": True}
            if found:
                matches += 1
                write_line("Match", file=readable(file), line=number, text=excerpt(line, found.start()))
    return {"files": files, "large": large}


def walk(root: str) -> Iterator[str]:
    """The files below `root`, in order; the empty path if `root` itself is a file."""
    if not os.path.isdir(root):  # noqa: PTH112 reason: pathlib takes longer to load than most searches take
        yield ""
        return
    for folder, folders, files in os.walk(root):
        folders[:] = sorted(set(folders) - SKIPPED)
        for name in sorted(files):
            yield f"{folder}/{name}"[len(root) :].lstrip("/")


def read_text(path: str) -> str | None:
    """The text of a file; empty if it is no text or cannot be read, None if it is too large."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
    except OSError:
        return ""  # a link, gone, or not readable
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
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

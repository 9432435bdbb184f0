"""Searches the output of a running command for patterns.

A pattern is a text, found anywhere in a line, or a simple regular expression that cannot take for ever: the
gateway itself runs it, and nothing could stop it there.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec import Struct

from perdure.core import texts
from perdure.errors import ToolFailed
from perdure.tools.keeper import next_stored_offset, read_output

MAX_PATTERNS = 8  # of one command
MAX_PATTERN_CHARACTERS = 200  # of one pattern
PIECE_BYTES = 256 * 1024  # searched at once
MAX_LINE_CHARACTERS = 400  # of a line that a regular expression is matched against
MAX_HELD_BYTES = 4096  # of an unfinished line that are searched again when it has grown
MAX_SHOWN_LINES = 3  # of the lines that matched
MAX_CPU_SECONDS = 1.0  # for one piece; then the search is given up

_SPECIAL = re.compile(r"[\\.^$*+?{}\[\]|()]")
_ESCAPED = re.compile(r"\\.", re.DOTALL)
_CLASS = re.compile(r"\[\^?\]?[^\]]*\]")

LineTest = Callable[[bytes], bool]


class PatternScan(Struct, frozen=True):
    """The matches in one piece of output."""

    count: int
    lines: tuple[str, ...]  # the last ones
    next_offset: int  # where the next scan begins
    too_slow: bool = False  # the patterns take too long


def check_patterns(patterns: Sequence[str]) -> tuple[str, ...]:
    """The patterns, if all of them can be used; `ToolFailed` says which cannot, and why."""
    if len(patterns) > MAX_PATTERNS:
        raise ToolFailed(texts.processes.too_many_patterns(len(patterns), MAX_PATTERNS))
    for pattern in patterns:
        if problem := _problem(pattern):
            raise ToolFailed(texts.processes.pattern_refused(pattern, problem))
    return tuple(patterns)


def _problem(pattern: str) -> str:
    if not pattern.strip() or "\n" in pattern or len(pattern) > MAX_PATTERN_CHARACTERS:
        return texts.processes.pattern_length(MAX_PATTERN_CHARACTERS)
    if not _SPECIAL.search(pattern):
        return ""
    try:
        re.compile(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        return str(error)
    return "" if _is_cheap(pattern) else texts.processes.PATTERN_TOO_COSTLY


def _is_cheap(pattern: str) -> bool:
    """Whether a pattern is cheap on every line: no repeated group, no back reference, few repetitions."""
    if re.search(r"\\[0-9]", pattern):
        return False
    bare = _CLASS.sub("c", _ESCAPED.sub("e", pattern))
    if "(?" in bare or re.search(r"\)[*+?{]", bare):
        return False
    return sum(map(bare.count, "*+{")) <= 2 and bare.count("?") <= 3


def compile_patterns(patterns: Sequence[str]) -> list[LineTest]:
    return [_test(pattern) for pattern in patterns]


def _test(pattern: str) -> LineTest:
    if not _SPECIAL.search(pattern):
        text = pattern.encode(errors="replace")
        return lambda line: text in line
    expression = re.compile(pattern)
    return lambda line: expression.search(line.decode(errors="replace")[:MAX_LINE_CHARACTERS]) is not None


def scan_output(tests: Sequence[LineTest], directory: Path, offset: int, *, final: bool) -> PatternScan:
    """Search the next piece of output. An unfinished line counts as soon as it matches."""
    piece, end = read_output(directory, offset, PIECE_BYTES)
    lines = piece.split(b"\n")
    rest = lines.pop()
    began, found = time.thread_time(), []
    for line in lines:
        if any(test(line) for test in tests):
            found.append(line)
        if time.thread_time() - began > MAX_CPU_SECONDS:
            return _pattern_scan(found, end, too_slow=True)
    if rest and any(test(rest) for test in tests):
        return _pattern_scan([*found, rest], end)
    if final or len(piece) == PIECE_BYTES == len(rest) or next_stored_offset(directory, end) > end:
        return _pattern_scan(found, end)
    return _pattern_scan(found, end - min(len(rest), MAX_HELD_BYTES))


def _pattern_scan(found: Sequence[bytes], next_offset: int, *, too_slow: bool = False) -> PatternScan:
    shown = tuple(
        line.decode(errors="replace").replace("\0", "\N{REPLACEMENT CHARACTER}")
        for line in found[-MAX_SHOWN_LINES:]
    )
    return PatternScan(len(found), shown, next_offset, too_slow)

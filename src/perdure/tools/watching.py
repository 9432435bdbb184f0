"""Looking for patterns in what a command says, while it says it.

A pattern is a text, found wherever it occurs in a line, or a regular expression of the kind that cannot take for
ever: the gateway itself runs it, and nothing could stop it there.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec import Struct

from perdure.core import notes
from perdure.errors import ToolFailed
from perdure.tools.remains import kept_from, read

MOST = 8  # patterns of one command
LONGEST = 200  # characters of one pattern
PIECE = 256 * 1024  # bytes that are looked at in one go
LINE = 400  # characters of a line that a regular expression is tried on
HELD = 4096  # bytes of an unfinished line that are looked at again when it has grown
SHOWN = 3  # lines of what was found
PATIENCE = 1.0  # seconds of computing for one piece; beyond that it is given up

_SPECIAL = re.compile(r"[\\.^$*+?{}\[\]|()]")
_ESCAPED = re.compile(r"\\.", re.DOTALL)
_CLASS = re.compile(r"\[\^?\]?[^\]]*\]")

Test = Callable[[bytes], bool]


class Look(Struct, frozen=True):
    """What a look at a piece of output has found."""

    count: int
    lines: tuple[str, ...]  # the last ones
    until: int  # where the next look begins
    slow: bool = False  # the patterns take too long


def check(patterns: Sequence[str]) -> tuple[str, ...]:
    """The patterns, if all of them can be looked for; `ToolFailed` says which cannot, and why."""
    if len(patterns) > MOST:
        raise ToolFailed(notes.too_many_patterns(len(patterns), MOST))
    for pattern in patterns:
        if problem := _problem(pattern):
            raise ToolFailed(notes.unwatchable(pattern, problem))
    return tuple(patterns)


def _problem(pattern: str) -> str:
    if not pattern.strip() or "\n" in pattern or len(pattern) > LONGEST:
        return notes.pattern_length(LONGEST)
    if not _SPECIAL.search(pattern):
        return ""
    try:
        re.compile(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        return str(error)
    return "" if _is_tame(pattern) else notes.PATTERN_WILD


def _is_tame(pattern: str) -> bool:
    """Whether it stays cheap on every line: no group is repeated or refers to another, and few things repeat."""
    if re.search(r"\\[0-9]", pattern):
        return False
    bare = _CLASS.sub("c", _ESCAPED.sub("e", pattern))
    if "(?" in bare or re.search(r"\)[*+?{]", bare):
        return False
    return sum(map(bare.count, "*+{")) <= 2 and bare.count("?") <= 3


def compiled(patterns: Sequence[str]) -> list[Test]:
    return [_test(pattern) for pattern in patterns]


def _test(pattern: str) -> Test:
    if not _SPECIAL.search(pattern):
        text = pattern.encode(errors="replace")
        return lambda line: text in line
    expression = re.compile(pattern)
    return lambda line: expression.search(line.decode(errors="replace")[:LINE]) is not None


def look_for(tests: Sequence[Test], place: Path, since: int, *, final: bool) -> Look:
    """Look at the next piece of output. An unfinished line counts as soon as it has what is looked for."""
    piece, end = read(place, since, PIECE)
    lines = piece.split(b"\n")
    rest = lines.pop()
    began, found = time.thread_time(), []
    for line in lines:
        if any(test(line) for test in tests):
            found.append(line)
        if time.thread_time() - began > PATIENCE:
            return _look(found, end, slow=True)
    if rest and any(test(rest) for test in tests):
        return _look([*found, rest], end)
    if final or len(piece) == PIECE == len(rest) or kept_from(place, end) > end:
        return _look(found, end)
    return _look(found, end - min(len(rest), HELD))


def _look(found: Sequence[bytes], until: int, *, slow: bool = False) -> Look:
    shown = tuple(
        line.decode(errors="replace").replace("\0", "\N{REPLACEMENT CHARACTER}") for line in found[-SHOWN:]
    )
    return Look(len(found), shown, until, slow)

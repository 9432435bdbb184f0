"""Patterns for commands, which match word by word.

In a word, `*`, `?` and `[…]` stand for letters. `**` stands for any words, and so does `*` as the last one; in
between, `*` is one word. To find a danger, `-r` also finds `-rf`, `--force` also finds `--forc` and `--force=…`,
and the program is found under any path. To allow something, a word has to be known, or written as in the pattern.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase

from msgspec import Struct

from perdure.tools.judging.words import BRACE, HOLE, Word

_HOLES = re.compile(f"[{HOLE}{BRACE}].*", re.DOTALL)
_LETTERS = re.compile(r"-[A-Za-z0-9]+")
_WILD = re.compile(r"[*?\[].*")

Fits = Callable[[str, Word], bool]


class Pattern(Struct, frozen=True):
    """Commands that are alike, and what is said about them."""

    words: tuple[str, ...]
    why: str = ""


def pattern(text: str, why: str = "") -> Pattern:
    """The pattern that an operator writes: words between blanks."""
    words = text.split()
    if words[1:] and words[-1] == "*":
        words[-1] = "**"
    return Pattern(("*", "**") if words in ([], ["*"], ["**"]) else tuple(words), why)


def finds(pattern: Pattern, words: Sequence[Word]) -> bool:
    """Whether this command is certain to be one of the pattern's."""
    return _names(pattern, words[0]) and _matches(pattern.words[1:], words[1:], _is, lambda _: False)


def may_find(pattern: Pattern, words: Sequence[Word]) -> bool:
    """The same, if what cannot be known were the worst; a pattern for any program says nothing then."""
    if pattern.words[:1] == ("*",) or not _names(pattern, words[0]):
        return False
    return _matches(pattern.words[1:], words[1:], _may_be, lambda word: word.splits)


def allows(pattern: Pattern, words: Sequence[Word]) -> bool:
    """Whether this command is one of the pattern's, and written plainly."""
    return _matches(pattern.words, words, _is_plainly, lambda _: False)


def _names(pattern: Pattern, program: Word) -> bool:
    name, short = program.text, program.text.rpartition("/")[2]
    wanted = pattern.words[0]
    if not _WILD.search(wanted):  # which is much faster, and there are many patterns
        return wanted in (name, short)
    return fnmatchcase(name, wanted) or fnmatchcase(short, wanted)


def _matches(
    pattern: Sequence[str], words: Sequence[Word], fits: Fits, is_anything: Callable[[Word], bool]
) -> bool:
    """Whether the words fit, by all ways at once: a state is how much of the pattern has been used."""
    states = _opened({0}, pattern)
    for word in words:
        if is_anything(word) and states:
            return True
        moved = {at if pattern[at] == "**" else at + 1 for at in states if _goes(pattern, at, word, fits)}
        states = _opened(moved, pattern)
    return len(pattern) in states


def _goes(pattern: Sequence[str], at: int, word: Word, fits: Fits) -> bool:
    return at < len(pattern) and (pattern[at] == "**" or fits(pattern[at], word))


def _opened(states: set[int], pattern: Sequence[str]) -> set[int]:
    """With what can be reached without a word, because `**` may be none."""
    for at in sorted(states):
        end = at
        while end < len(pattern) and pattern[end] == "**":
            end += 1
            states.add(end)
    return states


# ── one word ────────────────────────────────────────────────────────────────────────────────────────────────


def _is(pattern: str, word: Word) -> bool:
    text = word.text
    if HOLE in text or BRACE in text:
        return pattern == "*"
    if fnmatchcase(text, pattern):
        return True
    if pattern.startswith("--"):
        return len(text) > 2 and pattern.startswith(text.split("=")[0])
    joined = _LETTERS.match(text) if len(pattern) == 2 and pattern[0] == "-" else None
    return bool(joined and pattern[1] in joined[0][1:])


def _may_be(pattern: str, word: Word) -> bool:
    if word.text[:1] in {HOLE, BRACE}:  # in quotes, for else it would be anything: then we take it for no option
        return not pattern.startswith("-")
    known = _HOLES.sub("", word.text)
    if known == word.text:
        return _is(pattern, word)
    sure = _WILD.sub("", pattern)
    return sure.startswith(known) or known.startswith(sure) or (known[0] == "-" and pattern[0] == "-")


def _is_plainly(pattern: str, word: Word) -> bool:
    return word.source == pattern or (word.known and fnmatchcase(word.text, pattern))

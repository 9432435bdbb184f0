"""Matches commands against patterns, word by word.

In a word, `*`, `?` and `[…]` stand for characters. `**` stands for any number of words, and so does `*` as the
last word; elsewhere `*` is one word. A dangerous pattern is matched widely: `-r` also finds `-rf`, `--force` also
finds `--forc` and `--force=…`, and the program is found under any path. For a safe pattern each word of the
command must be known, or written as in the pattern, and `*` and `?` stand for no `:`, `/` or blank.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from functools import cache

from msgspec import Struct

from perdure.tools.shell_policy.lexer import BRACE_MARK, UNKNOWN_MARK, Word, base_name

_UNKNOWN_REST = re.compile(f"[{UNKNOWN_MARK}{BRACE_MARK}].*", re.DOTALL)
_LETTERS = re.compile(r"-[A-Za-z0-9]+")
_WILD = re.compile(r"[*?\[].*")
_WILDCARD = re.compile(r"\*|\?|\[!?\]?[^]]*\]")
_NARROW = {"*": r"[^:/\s]*", "?": r"[^:/\s]"}
_ANY_WORDS = ("**", "*…")  # any number of words; the second for those that `*` matches

WordTest = Callable[[str, Word], bool]


class CommandPattern(Struct, frozen=True):
    """A pattern of commands, and the reason that it gives."""

    words: tuple[str, ...]
    reason: str = ""


def parse_pattern(text: str, reason: str = "") -> CommandPattern:
    """Parse a pattern as an operator writes it: words separated by blanks."""
    words = text.split()
    if words[1:] and words[-1] == "*":
        words[-1] = "*…"
    return CommandPattern(("*", "**") if words in ([], ["*"], ["**"]) else tuple(words), reason)


def matches_certainly(pattern: CommandPattern, words: Sequence[Word]) -> bool:
    """Whether a command certainly matches a dangerous pattern."""
    return _names(pattern, words[0]) and _matches(pattern.words[1:], words[1:], _word_matches, lambda _: False)


def matches_possibly(pattern: CommandPattern, words: Sequence[Word]) -> bool:
    """Whether a command could match a dangerous pattern, if its unknown words were the worst.

    A pattern for any program never matches here.
    """
    if pattern.words[:1] == ("*",) or not _names(pattern, words[0]):
        return False
    return _matches(pattern.words[1:], words[1:], _word_may_match, lambda word: word.splits)


def matches_plainly(pattern: CommandPattern, words: Sequence[Word]) -> bool:
    """Whether a command matches a safe pattern, with every word known or written as in the pattern."""
    return _matches(pattern.words, words, _word_matches_plainly, lambda _: False)


def _names(pattern: CommandPattern, program: Word) -> bool:
    name, short = program.text, base_name(program.text)
    wanted = pattern.words[0]
    if not _WILD.search(wanted):  # much faster, and there are many patterns
        return wanted in (name, short)
    return fnmatchcase(name, wanted) or fnmatchcase(short, wanted)


def _matches(
    pattern: Sequence[str], words: Sequence[Word], fits: WordTest, is_anything: Callable[[Word], bool]
) -> bool:
    """Whether the words match, following all possibilities at once: a state is an index into the pattern."""
    states = _with_empty_wildcards({0}, pattern)
    for word in words:
        if is_anything(word) and states:
            return True
        moved = {
            at if pattern[at] in _ANY_WORDS else at + 1 for at in states if _can_advance(pattern, at, word, fits)
        }
        states = _with_empty_wildcards(moved, pattern)
    return len(pattern) in states


def _can_advance(pattern: Sequence[str], at: int, word: Word, fits: WordTest) -> bool:
    return at < len(pattern) and (pattern[at] == "**" or fits(pattern[at].rstrip("…"), word))


def _with_empty_wildcards(states: set[int], pattern: Sequence[str]) -> set[int]:
    """The states and those behind them that need no word, because wildcards for words may stand for none."""
    for at in sorted(states):
        end = at
        while end < len(pattern) and pattern[end] in _ANY_WORDS:
            end += 1
            states.add(end)
    return states


# ── one word ────────────────────────────────────────────────────────────────────────────────────────────────


def _word_matches(pattern: str, word: Word) -> bool:
    text = word.text
    if UNKNOWN_MARK in text or BRACE_MARK in text:
        return pattern == "*"
    if fnmatchcase(text, pattern):
        return True
    if pattern.startswith("--"):
        return len(text) > 2 and pattern.startswith(text.split("=")[0])
    joined = _LETTERS.match(text) if len(pattern) == 2 and pattern[0] == "-" else None
    return bool(joined and pattern[1] in joined[0][1:])


def _word_may_match(pattern: str, word: Word) -> bool:
    # An unknown word that does not split is quoted: it is taken for no option.
    if word.text[:1] in {UNKNOWN_MARK, BRACE_MARK}:
        return not pattern.startswith("-")
    known = _UNKNOWN_REST.sub("", word.text)
    if known == word.text:
        return _word_matches(pattern, word)
    sure = _WILD.sub("", pattern)
    return sure.startswith(known) or known.startswith(sure) or (known[0] == "-" and pattern[0] == "-")


def _word_matches_plainly(pattern: str, word: Word) -> bool:
    return word.source == pattern or (word.known and bool(_narrow_pattern(pattern).fullmatch(word.text)))


@cache
def _narrow_pattern(pattern: str) -> re.Pattern[str]:
    """A safe pattern as an expression in which wildcards stand for no `:`, `/` or blank."""
    pieces, at = list[str](), 0
    for found in _WILDCARD.finditer(pattern):
        pieces += [
            re.escape(pattern[at : found.start()]),
            _NARROW.get(found[0], r"(?![:/\s])" + _as_class(found[0])),
        ]
        at = found.end()
    return re.compile("".join(pieces) + re.escape(pattern[at:]), re.DOTALL)


def _as_class(brackets: str) -> str:
    """`[!a-z]` as an expression has it."""
    inner = re.sub(r"([\\\[])", r"\\\1", brackets[1:-1])
    return f"[^{inner[1:]}]" if inner.startswith("!") else f"[{inner}]"

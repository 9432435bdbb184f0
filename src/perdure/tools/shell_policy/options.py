"""Reads the options of a command, by a table of the options that its program has.

A table is a text of names, each followed by a mark that says what the option has: `-v` nothing, `-n:` a value,
`-i?` a value attached to it or none, `-o>` a path that the program changes, `-I<` a path that it only reads,
`--exec!` a program that it runs or code that it loads. A name without a dash, such as `+`, is the beginning of a
word. `<` alone means that the operands are only read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache

from msgspec import Struct
from msgspec.structs import replace

from perdure.tools.shell_policy.lexer import Unreadable, Word

Options = list[tuple[str, Word | None]]
_MARKS = ":?<>!"
_VALUED = frozenset(":<>")  # options whose value may be the next word


@cache
def option_kinds(table: str) -> dict[str, str]:
    """The options of a table, each with its mark, or with nothing."""
    return {
        name[:-1] if name[-1] in _MARKS else name: name[-1] if name[-1] in _MARKS else "" for name in table.split()
    }


# ── as the program reads them ───────────────────────────────────────────────────────────────────────────────


def split_options(words: Sequence[Word], table: str, *, strict: bool = True) -> tuple[Options, list[Word]]:
    """The options that begin these words, and the words from the first operand on.

    An option that is not in the table is refused or, if not `strict`, has no value.
    """
    options, rest, _ = _split(words, option_kinds(table), strict=strict)
    return options, rest


def split_permuted_options(words: Sequence[Word], table: str) -> tuple[Options, list[Word]]:
    """The options of a program that takes them between its operands, and its operands."""
    options, found, rest, ended = Options(), list[Word](), list(words), False
    while rest:
        if not ended:
            more, rest, ended = _split(rest, option_kinds(table), strict=False)
            options += more
        found += rest[:1]
        rest = rest[1:]
    return options, found


def _split(words: Sequence[Word], kinds: dict[str, str], *, strict: bool) -> tuple[Options, list[Word], bool]:
    """The options that begin these words, the rest, and whether `--` has ended all options."""
    found, rest = Options(), list(words)
    while rest and rest[0].text.startswith("-") and rest[0].text != "-":
        word = _certain(rest.pop(0))
        if word.text == "--":
            return found, rest, True
        given = [_long(word, kinds)] if word.text.startswith("--") else _short(word, kinds)
        for name, value in given:
            if strict and name not in kinds:
                raise Unreadable(f"I do not know the option `{name}`")
            wants = kinds.get(name) in _VALUED and value is None and rest
            found.append((name, rest.pop(0) if wants else value))
    return found, rest, False


def option_values(options: Options, *names: str) -> list[Word]:
    """The values of these options."""
    return [value for name, value in options if name in names and value is not None]


def option_names(options: Options) -> set[str]:
    return {name for name, _ in options}


def operands(words: Sequence[Word], count: int) -> tuple[list[Word], list[Word]]:
    """The first `count` words, each of which is certainly one word, and the rest."""
    return [_certain(word) for word in words[:count]], list(words[count:])


def _certain(word: Word) -> Word:
    if word.splits:
        raise Unreadable(f"`{word.source}` may become any words")
    return word


def _long(word: Word, kinds: dict[str, str]) -> tuple[str, Word | None]:
    """A long option under its full name, and the value behind its `=`."""
    name, sign, value = word.text.partition("=")
    full = [name] if name in kinds else [each for each in kinds if each.startswith(name)]
    return (full[0] if len(full) == 1 else name, replace(word, text=value) if sign else None)


def _short(word: Word, kinds: dict[str, str]) -> Options:
    """The options in a word such as `-xzf`; the value of the last one may follow in the same word."""
    given = Options()
    for at, letter in enumerate(word.text[1:], 2):
        value = word.text[at:]
        if kinds.get(f"-{letter}"):
            return [*given, (f"-{letter}", replace(word, text=value) if value else None)]
        given.append((f"-{letter}", None))
    return given


# ── as the program might read them ──────────────────────────────────────────────────────────────────────────


class PossibleOption(Struct, frozen=True):
    """An option that a word may be, with the mark of its table and its value."""

    mark: str
    value: Word | None
    value_position: int  # among the words


def possible_options(words: Sequence[Word], table: str) -> Iterator[PossibleOption]:
    """Every option of the table that a word may be, wherever it stands and however it is abbreviated.

    The program may take the word for a value or an operand instead: that mistake asks once too often, and the
    other one would overlook an option behind an unknown one.
    """
    kinds = option_kinds(table)
    for at, word in enumerate(words):
        for name, value in _possible(word, kinds):
            mark = kinds.get(name, "")
            if value is None and mark in _VALUED and at + 1 < len(words):
                yield PossibleOption(mark, words[at + 1], at + 1)
            else:
                yield PossibleOption(mark, value, at)


def _possible(word: Word, kinds: dict[str, str]) -> Options:
    name, sign, attached = word.text.partition("=")
    value = replace(word, text=attached) if sign else None
    if not name.startswith("-"):
        return [(each, None) for each in kinds if each and each[0] != "-" and word.text.startswith(each)]
    if name in kinds and len(name) > 2:
        return [(name, value)]
    if name.startswith("--"):
        return [(each, value) for each in kinds if len(name) > 2 and each.startswith(name)]
    glued = [each for each in kinds if len(each) > 2 and each[1] != "-" and name.startswith(f"{each}:")]
    return [(each, value) for each in glued] or _short(word, kinds)

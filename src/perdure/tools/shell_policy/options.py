"""Splits the words of a command into options and operands, by the options that its program has."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from perdure.tools.shell_policy.lexer import Unreadable, Word

Options = list[tuple[str, Word | None]]


def split_options(words: Sequence[Word], known: str, *, strict: bool = True) -> tuple[Options, list[Word]]:
    """The options that begin these words, and the words from the first operand on.

    `known` names the options: `-n:` has a value, `-i?` may have one attached to it, `-v` has none. Another option
    is refused or, if not `strict`, has no value.
    """
    kinds = {name.rstrip(":?"): name[-1] for name in known.split()}
    found, rest = Options(), list(words)
    while rest and rest[0].text.startswith("-") and rest[0].text != "-":
        word = _certain(rest.pop(0))
        if word.text == "--":
            break
        given = _long(word) if word.text.startswith("--") else _short(word, kinds)
        for name, value in given:
            if strict and name not in kinds:
                raise Unreadable(f"I do not know the option `{name}`")
            wants = kinds.get(name) == ":" and value is None and rest
            found.append((name, rest.pop(0) if wants else value))
    return found, rest


def split_permuted_options(words: Sequence[Word], known: str) -> tuple[Options, list[Word]]:
    """The options of a program that takes them between its operands, and its operands."""
    options, found, rest = Options(), list[Word](), list(words)
    while rest:
        more, rest = split_options(rest, known, strict=False)
        options += more
        found += rest[:1]
        rest = rest[1:]
    return options, found


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


def _long(word: Word) -> list[tuple[str, Word | None]]:
    name, sign, value = word.text.partition("=")
    return [(name, replace(word, text=value) if sign else None)]


def _short(word: Word, kinds: dict[str, str]) -> list[tuple[str, Word | None]]:
    """The options in a word such as `-xzf`; the value of the last one may follow in the same word."""
    given = list[tuple[str, Word | None]]()
    for at, letter in enumerate(word.text[1:], 2):
        value = word.text[at:]
        if kinds.get(f"-{letter}") in {":", "?"}:
            return [*given, (f"-{letter}", replace(word, text=value) if value else None)]
        given.append((f"-{letter}", None))
    return given

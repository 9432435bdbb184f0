"""Assesses the builtins of shells that run code, evaluate what they are given, or set variables.

What a shell evaluates later, when its text can be another one, is refused as unreadable.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NoReturn

from msgspec.structs import replace

from perdure.tools.shell_policy.facts import (
    CommandFact,
    FactFinder,
    RunsCode,
    RunsFile,
    SetsVariable,
    join_words,
)
from perdure.tools.shell_policy.lexer import UNKNOWN_MARK, Unreadable, Word, Words
from perdure.tools.shell_policy.options import option_names, split_options, split_permuted_options
from perdure.tools.shell_policy.parser import Redirects
from perdure.tools.shell_policy.rules import RiskReason

_DECLARATIONS = ("declare", "export", "local", "readonly", "typeset")
_EVALUATED_ATTRIBUTES = {"-i", "-n"}  # a number is calculated, a reference names another variable
_READ = "-a: -d: -i: -n: -N: -p: -t: -u: -e -E -r -s"
_MAPFILE = "-d: -n: -O: -s: -u: -C: -c: -t"
_SHELL_OPTIONS = "nullglob globstar dotglob failglob nocaseglob nocasematch inherit_errexit pipefail lastpipe"
_HARMLESS_SHELL_OPTIONS = frozenset(_SHELL_OPTIONS.split())
_SET = "-o: -a -b -e -f -h -k -m -n -p -t -u -v -x -B -C -E -H -P -T"
_COMPARISONS = frozenset({"-eq", "-ne", "-lt", "-le", "-gt", "-ge"})
_NUMBER = re.compile(r"[+-]?[0-9]+")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def input_facts(redirects: Redirects, *, bash: bool, local: bool = True) -> Iterator[CommandFact]:
    """What a shell runs that reads its commands from its standard input."""
    found = [each for each in redirects if each.operator[0] == "<" and each.descriptor in {"", "0"}][-1:]
    for redirect in found:
        if redirect.body is not None:
            yield RunsCode(Word(redirect.body, bare=False), bash, local)
        else:
            yield RunsFile(redirect.target) if redirect.operator == "<" else RiskReason.UNSEEN_CODE
    if not found:
        yield RiskReason.UNSEEN_CODE


def _refuse(what: str) -> NoReturn:
    raise Unreadable(f"{what} is evaluated later")


# ── code ────────────────────────────────────────────────────────────────────────────────────────────────────


def _eval(words: Words, _: Redirects) -> Iterator[CommandFact]:
    yield RunsCode(join_words([word for word in words[1:] if word.text != "--"]))


def _source(words: Words, redirects: Redirects) -> Iterator[CommandFact]:
    rest = [word for word in words[1:] if word.text != "--"]
    if rest and rest[0].text == "/dev/stdin":
        yield from input_facts(redirects, bash=True)
    elif rest:
        yield RunsFile(rest[0])


def _trap(words: Words, _: Redirects) -> Iterator[CommandFact]:
    rest = split_options(words[1:], "-l -p", strict=False)[1]
    yield from (RunsCode(word) for word in rest[:1] if len(rest) > 1)


def _alias(words: Words, _: Redirects) -> Iterator[CommandFact]:
    if any("=" in word.text or not word.known for word in words[1:]):
        _refuse("an alias")
    yield from ()


def _set(words: Words, _: Redirects) -> Iterator[CommandFact]:
    """`set -k` makes assignments of later words, and `set -a` gives every variable to programs."""
    options, rest = split_options(words[1:], _SET)
    names = option_names(options) | {value.text for _, value in options if value}
    if names & {"-k", "keyword", "-a", "allexport"} or any(not value.known for _, value in options if value):
        _refuse("what follows such a `set`")
    if rest and rest[0].splits and not any(word.text == "--" for word in words):
        _refuse("what follows such a `set`")
    yield from ()


def _shopt(words: Words, _: Redirects) -> Iterator[CommandFact]:
    options, rest = split_options(words[1:], "-s -u -p -q -o")
    if option_names(options) & {"-s", "-u"} and any(word.text not in _HARMLESS_SHELL_OPTIONS for word in rest):
        _refuse("what follows such a `shopt`")
    yield from ()


# ── variables, and indexes that are calculated ──────────────────────────────────────────────────────────────


def _refuse_indexes(words: Words) -> None:
    """Refuse `name[index]`: bash calculates the index, and runs the commands in it."""
    if any("[" in word.text for word in words[1:]):
        _refuse("an index of a variable")


def _declare(words: Words, _: Redirects) -> Iterator[CommandFact]:
    options, rest = split_permuted_options(words[1:], "")
    if option_names(options) & _EVALUATED_ATTRIBUTES and words[0].text != "export":
        _refuse("a variable with such an attribute")
    exported = words[0].text == "export" or "-x" in option_names(options)
    for word in rest:
        name, sign, _value = word.text.partition("=")
        if "[" in name:
            _refuse("an index of a variable")
        if sign or exported or word.splits:
            yield SetsVariable(word if sign else replace(word, text=f"{name}={UNKNOWN_MARK}"), exported)


def _read(words: Words, _: Redirects) -> Iterator[CommandFact]:
    table = _READ if words[0].text == "read" else _MAPFILE
    options, rest = split_options(words[1:], table, strict=False)
    names = [*rest, *(value for name, value in options if name == "-a" and value and words[0].text == "read")]
    yield from _set_names(words, names)


def _getopts(words: Words, _: Redirects) -> Iterator[CommandFact]:
    yield from _set_names(words, words[2:3])


def _set_names(words: Words, names: Words) -> Iterator[CommandFact]:
    _refuse_indexes(words)
    yield from (SetsVariable(replace(name, text=f"{name.text}={UNKNOWN_MARK}"), exported=False) for name in names)


def _printf(words: Words, _: Redirects) -> Iterator[CommandFact]:
    if words[1:] and (words[1].text.startswith("-v") or words[1].splits):
        _refuse("what `printf -v` sets")
    yield from ()


def _unset(words: Words, _: Redirects) -> Iterator[CommandFact]:
    _refuse_indexes(words)
    yield from ()


def _test(words: Words, _: Redirects) -> Iterator[CommandFact]:
    """`-v` evaluates a name's index; in `[[ … ]]`, comparisons of numbers evaluate both sides."""
    for at, word in enumerate(words):
        beside = [*words[max(at - 1, 0) : at], *words[at + 1 : at + 2]]
        if word.text in {"-v", "-R"} and not all(
            each.known and _NAME.fullmatch(each.text) for each in beside[-1:]
        ):
            _refuse("the name behind `-v`")
        compares = words[0].text == "[[" and word.text in _COMPARISONS
        if compares and not all(each.known and _NUMBER.fullmatch(each.text) for each in beside):
            _refuse("a comparison of numbers in `[[ … ]]`")
    if any(not word.known for word in words) and any("$(" in word.text or "`" in word.text for word in words):
        _refuse("a word of this test")
    yield from ()


SHELL_BUILTINS: dict[str, FactFinder] = {
    **dict.fromkeys(_DECLARATIONS, _declare),
    **dict.fromkeys((".", "source"), _source),
    **dict.fromkeys(("[", "[[", "test"), _test),
    **dict.fromkeys(("mapfile", "read", "readarray"), _read),
    **dict.fromkeys(("unset", "wait"), _unset),
    "alias": _alias,
    "eval": _eval,
    "getopts": _getopts,
    "printf": _printf,
    "set": _set,
    "shopt": _shopt,
    "trap": _trap,
}

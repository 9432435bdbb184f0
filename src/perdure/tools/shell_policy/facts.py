"""The facts about what a command does, as values; the policy decides whether they are dangerous."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct

from perdure.tools.shell_policy.lexer import Word, Words
from perdure.tools.shell_policy.parser import Redirects
from perdure.tools.shell_policy.rules import RiskReason


class RunsCommand(Struct, frozen=True):
    """The program runs a command of these words."""

    words: Sequence[Word]
    local: bool = True  # not on another machine or in a container


class RunsCode(Struct, frozen=True):
    """The program runs code of a shell."""

    code: Word
    bash: bool = True  # not the plain shell
    local: bool = True


class RunsFile(Struct, frozen=True):
    """The program runs the content of a file."""

    file: Word


class ChangesPath(Struct, frozen=True):
    """The program makes, changes or removes the file or folder at a path."""

    path: Word


class MentionsPath(Struct, frozen=True):
    """The program gets a word that may be, or contain, a path; whether it changes what is there is not known."""

    word: Word


class SetsVariable(Struct, frozen=True):
    """The program sets a variable: `NAME=value`."""

    assignment: Word
    exported: bool = True  # programs get it


CommandFact = RunsCommand | RunsCode | RunsFile | ChangesPath | MentionsPath | SetsVariable | RiskReason
FactFinder = Callable[[Words, Redirects], Iterator[CommandFact]]


def join_words(words: Sequence[Word]) -> Word:
    """The words joined with blanks, as a program like `eval` joins them."""
    return Word(" ".join(word.text for word in words), splits=not all(word.known for word in words), bare=False)

"""What a command does, as values: whether that is dangerous is decided by whoever asks."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from perdure.tools.shell_policy.lexer import Word
from perdure.tools.shell_policy.rules import RiskReason


class RunsCommand(Struct, frozen=True):
    """It runs a command of these words."""

    words: Sequence[Word]
    local: bool = True  # and not on another machine or in a container


class RunsCode(Struct, frozen=True):
    """It runs a shell's code."""

    code: Word
    bash: bool = True  # and not the plain shell
    local: bool = True


class RunsFile(Struct, frozen=True):
    """It runs what is in a file."""

    file: Word


class ChangesPath(Struct, frozen=True):
    """It makes, changes or removes what is at a place."""

    path: Word


class SetsVariable(Struct, frozen=True):
    """It gives a variable a value: `NAME=value`."""

    assignment: Word


CommandFact = RunsCommand | RunsCode | RunsFile | ChangesPath | SetsVariable | RiskReason


def join_words(words: Sequence[Word]) -> Word:
    """Words as a program joins them, to one text with blanks."""
    return Word(" ".join(word.text for word in words), splits=not all(word.known for word in words), bare=False)

"""Reads the words of a shell command: quotes, expansions, and marks for values that cannot be known.

Syntax that a shell might understand in another way is refused, never guessed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NoReturn

from msgspec import Struct

from perdure.tools.shell_policy.rules import loads_code

UNKNOWN_MARK = "\0"  # stands in a word for a value that cannot be known
BRACE_MARK = "\1"  # stands for a `{` that may begin a brace expansion
WORKING_DIRECTORY_MARK = "\2"  # stands for `$PWD` and the like
MAX_DEPTH = 30  # of nested constructs

_PLAIN = re.compile(r"[^ \t\n;&|<>()\\'\"`$*?\[{]+")  # characters without a special meaning in a word,
_DOUBLE_QUOTED = re.compile(r"[^\\$`\"]+")  # between double quotes,
_INNER = re.compile(r"[^\\$`\"'{}<>]+")  # between `${` and `}`
_SINGLE_QUOTED = re.compile(r"'([^']*)'")
_ANSI = re.compile(r"\$'((?:[^'\\]|\\.)*)'", re.DOTALL)
_ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{1,2}|[0-7]{1,3}|u[0-9a-fA-F]{1,4}|U[0-9a-fA-F]{1,8}|.)", re.DOTALL)
_ESCAPES = dict(zip("abeEfnrtv\\'\"?", "\a\b\x1b\x1b\f\n\r\t\v\\'\"?", strict=True))
_BACKQUOTED = re.compile(r"`((?:[^`\\]|\\.)*)`", re.DOTALL)
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*|[0-9@*#?$!-]")
_WORKING_DIRECTORY = re.compile(r"\$PWD(?![A-Za-z0-9_])|\$\{PWD\}|\$\(pwd\)")
_BRACED = re.compile(r"\$\{#?([A-Za-z_][A-Za-z0-9_]*|[0-9]+|[@*#?$!-])(?:\[(?:[0-9]+|[@*])\])?")
_BRACED_OPERATOR = re.compile(r"(?=\})|:?[-+?=]|##?|%%?|//?|\^\^?|,,?|:[ ]?-?[0-9]+(?::[ ]?-?[0-9]+)?(?=\})")
_COUNT = re.compile(r"\$(?:[#?$]|\{[#?$]\})")  # special parameters that are always numbers
_CALCULATION = frozenset("0123456789+-*/%<>=!&|^~?:, \t\n()")


class Unreadable(Exception):
    """A command line cannot be read for certain; the message says why."""


class Word(Struct, frozen=True):
    """A word of a command, as far as it can be known before the command runs."""

    text: str  # without its quotes
    source: str = ""  # as it is written
    bare: bool = True  # nothing in it is quoted or expanded
    splits: bool = False  # it may become any number of words, also options
    globs: bool = False  # it may become file names

    @property
    def known(self) -> bool:
        """Whether this is certainly one word with this text."""
        return not (
            self.splits
            or self.globs
            or any(mark in self.text for mark in (UNKNOWN_MARK, BRACE_MARK, WORKING_DIRECTORY_MARK))
        )


Words = Sequence[Word]


def base_name(path: str) -> str:
    """The name of a program, without the path under which it is called."""
    return path.rpartition("/")[2]


class WordLexer:
    """Reads words. A subclass reads the commands inside of substitutions."""

    def __init__(self, text: str, *, bash: bool, depth: int = 0) -> None:
        if re.search(r"[\0-\x08]", text):
            self._refuse("it has control characters in it")
        self.text, self.position, self.bash, self.depth = text, 0, bash, depth

    def _substitution(self) -> None:
        """Read the commands from here to the closing parenthesis."""
        raise NotImplementedError

    def _script(self, text: str) -> None:
        """Read the commands of another text."""
        raise NotImplementedError

    def _refuse(self, what: str) -> NoReturn:
        raise Unreadable(what)

    def _descend(self) -> None:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            self._refuse("it is nested too deeply")

    def _starts_with(self, *texts: str) -> bool:
        return self.text.startswith(texts, self.position)

    def _consume(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        """Match a pattern here, and go behind the match."""
        found = pattern.match(self.text, self.position)
        self.position = found.end() if found else self.position
        return found

    def _next_character(self) -> str:
        """The next character, which must exist because a quote or an expansion is still open."""
        if self.position >= len(self.text):
            self._refuse("something in it does not end")
        self.position += 1
        return self.text[self.position - 1]

    def _quoted(self, quotes: re.Pattern[str]) -> str:
        return found[1] if (found := self._consume(quotes)) else self._refuse("a quote in it does not end")

    # ── a word and its parts ────────────────────────────────────────────────────────────────────────────────

    def _word(self) -> Word | None:
        """The word that begins here, if one does."""
        start, pieces = self.position, list[str]()
        bare, splits, globs = True, False, False
        while self.position < len(self.text):
            char = self.text[self.position]
            if plain := self._consume(_PLAIN):
                pieces.append(plain[0])
            elif self._starts_with("\\\n"):
                self.position += 2
            elif char in "*?[{":
                self.position += 1
                pieces.append(
                    BRACE_MARK
                    if char == "{" and self.text[self.position : self.position + 1].strip("}; \t\n")
                    else char
                )
                globs = globs or char != "{"
            elif char in "\\'\"$`" or self._starts_with("<(", ">("):
                piece, anything = self._part(char)
                pieces.append(piece)
                bare, splits = False, splits or anything
            else:
                break
        text, source = "".join(pieces), self.text[start : self.position]
        globs = globs and text not in {"[", "[["}
        return Word(text, source, bare, splits or text.startswith(BRACE_MARK), globs) if pieces else None

    def _part(self, char: str) -> tuple[str, bool]:
        """A part that is quoted or expanded, and whether it may become any number of words."""
        if char == "'":
            return self._quoted(_SINGLE_QUOTED), False
        if char == "`":
            return self._backquoted(in_quotes=False)
        if char == "$":
            return self._dollar(in_quotes=False)
        self.position += 1
        if char == "\\":
            return self._next_character(), False
        if char == '"':
            return self._double_quoted('"')
        self.position += 1
        self._substitution()
        return UNKNOWN_MARK, False

    def _double_quoted(self, closing: str) -> tuple[str, bool]:
        """The text between double quotes, or, without a closing character, of a here-document."""
        pieces, splits = list[str](), False
        while closing or self.position < len(self.text):
            if plain := self._consume(_DOUBLE_QUOTED):
                pieces.append(plain[0])
            elif self._starts_with("$", "`"):
                piece, anything = (
                    self._dollar(in_quotes=True) if self._starts_with("$") else self._backquoted(in_quotes=True)
                )
                pieces.append(piece)
                splits = splits or anything
            elif (char := self._next_character()) == "\\":
                char = self._next_character()
                pieces.append(char if char in f"$`\\{closing}" else "" if char == "\n" else f"\\{char}")
            elif closing:
                break
            else:
                pieces.append(char)
        return "".join(pieces), splits

    def _backquoted(self, *, in_quotes: bool) -> tuple[str, bool]:
        inside = self._quoted(_BACKQUOTED)
        if in_quotes and '\\"' in inside:
            self._refuse("it has quotes inside of backquotes inside of quotes")
        self._script(re.sub(r"\\([$`\\])", r"\1", inside))
        return UNKNOWN_MARK, not in_quotes

    # ── after a dollar sign ─────────────────────────────────────────────────────────────────────────────────

    def _dollar(self, *, in_quotes: bool) -> tuple[str, bool]:
        self._descend()
        found = self._expansion(in_quotes=in_quotes)
        self.depth -= 1
        return found

    def _expansion(self, *, in_quotes: bool) -> tuple[str, bool]:
        if self._consume(_WORKING_DIRECTORY):
            return WORKING_DIRECTORY_MARK, False
        if self._starts_with("$((", "$("):
            calculates = self._starts_with("$((")
            self.position += 3 if calculates else 2
            self._arithmetic() if calculates else self._substitution()
            return UNKNOWN_MARK, not (in_quotes or calculates)
        if self._starts_with("${"):
            return self._braced(in_quotes=in_quotes)
        if self._starts_with("$[", "$\\\n") or (self._starts_with("$'") and not in_quotes and not self.bash):
            self._refuse("it has a `$` that shells read differently")
        if self._starts_with("$'") and not in_quotes:
            return _ESCAPE.sub(_unescape, self._quoted(_ANSI)), False
        self.position += 1
        return ("", False) if self._starts_with('"') and not in_quotes else self._variable(in_quotes=in_quotes)

    def _variable(self, *, in_quotes: bool) -> tuple[str, bool]:
        if not (found := self._consume(_VARIABLE)):
            return "$", False
        if found[0] == "!":
            return "$!", not in_quotes
        return UNKNOWN_MARK, found[0] == "@" or (found[0] not in "?$#" and not in_quotes)

    def _braced(self, *, in_quotes: bool) -> tuple[str, bool]:
        """Read `${…}`, in which quotes follow rules of their own and are refused.

        Forms that evaluate the value of a variable once more, such as `${!x}`, `${x@P}` and `${x:y}`, are refused.
        """
        start = self.position
        name, operator = self._consume(_BRACED), self._consume(_BRACED_OPERATOR)
        if not name or not operator:
            self._refuse("it has a `${…}` that I do not know, or that is evaluated once more")
        if operator[0].endswith("="):
            self._refuse_assignment(name[1])
        while not self._starts_with("}"):
            if self._starts_with("$"):
                self._dollar(in_quotes=True)
            elif not self._consume(_INNER):
                self._refuse("it has a `${…}` that I do not know")
        self.position += 1
        return UNKNOWN_MARK, not in_quotes or "@" in self.text[start : self.position]

    def _arithmetic(self) -> None:
        """Skip a calculation with numbers, up to its two closing parentheses.

        Bash evaluates the text of a variable in a calculation, and the commands in that text.
        """
        depth = 0
        while depth or not self._starts_with("))"):
            if self._starts_with("$(("):
                self._dollar(in_quotes=True)
                continue
            if self._consume(_COUNT):
                continue
            char = self._next_character()
            if char not in _CALCULATION or (char == ")" and not depth):
                self._refuse("it has a calculation with names or commands, which may be evaluated")
            depth += {"(": 1, ")": -1}.get(char, 0)
        self.position += 2

    def _refuse_assignment(self, name: str) -> None:
        """Refuse a variable that is set in passing, if other programs load code by it."""
        if loads_code(name):
            self._refuse(f"it sets `{name}` in passing")


def _unescape(found: re.Match[str]) -> str:
    """The character that an escape between `$'` and `'` stands for."""
    code = found[1]
    number = int(code, 8) & 0xFF if code[0] in "01234567" else int(code[1:] or "0", 16) if code[0] in "xuU" else -1
    if number in {0, 1, 2} or number > 0x10FFFF or code[0] == "c":
        raise Unreadable("it has a `$'…'` that I do not know")
    return chr(number) if number > 0 else _ESCAPES.get(code, f"\\{code}")

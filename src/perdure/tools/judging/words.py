"""Reads the words of a shell's language: quotes, expansions, and what cannot be known before they happen.

Whatever may mean something else to the shell than it does here is refused, never guessed.
"""

from __future__ import annotations

import re
from typing import NoReturn

from msgspec import Struct

HOLE = "\0"  # stands in a word where a value comes in that cannot be known
BRACE = "\1"  # stands for a `{` that may begin a brace expansion
HERE = "\2"  # stands for `$PWD` and the like
DEPTH = 30  # of what stands inside of each other

_PLAIN = re.compile(r"[^ \t\n;&|<>()\\'\"`$*?\[{]+")  # without a meaning of its own in a word,
_SOFT = re.compile(r"[^\\$`\"]+")  # between double quotes,
_INNER = re.compile(r"[^\\$`\"'{}<>]+")  # between `${` and `}`
_HARD = re.compile(r"'([^']*)'")
_ANSI = re.compile(r"\$'((?:[^'\\]|\\.)*)'", re.DOTALL)
_ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{1,2}|[0-7]{1,3}|u[0-9a-fA-F]{1,4}|U[0-9a-fA-F]{1,8}|.)", re.DOTALL)
_ESCAPES = dict(zip("abeEfnrtv\\'\"?", "\a\b\x1b\x1b\f\n\r\t\v\\'\"?", strict=True))
_BACKQUOTED = re.compile(r"`((?:[^`\\]|\\.)*)`", re.DOTALL)
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*|[0-9@*#?$!-]")
_HERE = re.compile(r"\$PWD(?![A-Za-z0-9_])|\$\{PWD\}|\$\(pwd\)")
_BRACED = re.compile(r"\$\{[#!]?(?:[A-Za-z_][A-Za-z0-9_]*|[0-9]+|[@*#?$!-])")


class Unreadable(Exception):
    """A command line cannot be read for certain; the message says what is in the way."""


class Word(Struct, frozen=True):
    """A word of a command, as far as it can be known before the command runs."""

    text: str  # without its quotes
    source: str = ""  # as it is written
    bare: bool = True  # nothing in it is quoted or comes from elsewhere
    splits: bool = False  # it may become any words, options among them
    globs: bool = False  # it may become the names of files

    @property
    def known(self) -> bool:
        """Whether it is certain to be one word, and which."""
        return not (self.splits or self.globs or any(mark in self.text for mark in (HOLE, BRACE, HERE)))


class Words:
    """A reader of words. How the commands of a substitution are read is left to whoever reads commands."""

    def __init__(self, text: str, *, bash: bool, depth: int = 0) -> None:
        if re.search(r"[\0-\x08]", text):
            self._refuse("it has control characters in it")
        self.text, self.at, self.bash, self.depth = text, 0, bash, depth

    def _substitution(self) -> None:
        """Reads the commands from here to the closing parenthesis."""
        raise NotImplementedError

    def _script(self, text: str) -> None:
        """Reads the commands of another text."""
        raise NotImplementedError

    def _refuse(self, what: str) -> NoReturn:
        raise Unreadable(what)

    def _descend(self) -> None:
        self.depth += 1
        if self.depth > DEPTH:
            self._refuse("it is nested too deeply")

    def _sees(self, *texts: str) -> bool:
        return self.text.startswith(texts, self.at)

    def _pass(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        """Goes behind what this pattern finds here."""
        found = pattern.match(self.text, self.at)
        self.at = found.end() if found else self.at
        return found

    def _take(self) -> str:
        """The next character, which has to be there since something is still open."""
        if self.at >= len(self.text):
            self._refuse("something in it does not end")
        self.at += 1
        return self.text[self.at - 1]

    def _within(self, quotes: re.Pattern[str]) -> str:
        return found[1] if (found := self._pass(quotes)) else self._refuse("a quote in it does not end")

    # ── a word and its parts ────────────────────────────────────────────────────────────────────────────────

    def _word(self) -> Word | None:
        """The word that begins here, if one does."""
        start, pieces = self.at, list[str]()
        bare, splits, globs = True, False, False
        while self.at < len(self.text):
            char = self.text[self.at]
            if plain := self._pass(_PLAIN):
                pieces.append(plain[0])
            elif self._sees("\\\n"):
                self.at += 2
            elif char in "*?[{":
                self.at += 1
                pieces.append(BRACE if char == "{" and self.text[self.at : self.at + 1].strip("}; \t\n") else char)
                globs = globs or char != "{"
            elif char in "\\'\"$`" or self._sees("<(", ">("):
                piece, anything = self._part(char)
                pieces.append(piece)
                bare, splits = False, splits or anything
            else:
                break
        text, source = "".join(pieces), self.text[start : self.at]
        globs = globs and text not in {"[", "[["}
        return Word(text, source, bare, splits or text.startswith(BRACE), globs) if pieces else None

    def _part(self, char: str) -> tuple[str, bool]:
        """A part that is quoted or comes from elsewhere, and whether it may become any words."""
        if char == "'":
            return self._within(_HARD), False
        if char == "`":
            return self._backquoted(soft=False)
        if char == "$":
            return self._dollar(soft=False)
        self.at += 1
        if char == "\\":
            return self._take(), False
        if char == '"':
            return self._soft('"')
        self.at += 1
        self._substitution()
        return HOLE, False

    def _soft(self, closing: str) -> tuple[str, bool]:
        """What stands between double quotes, or, with nothing to close it, in a here-document."""
        pieces, splits = list[str](), False
        while closing or self.at < len(self.text):
            if plain := self._pass(_SOFT):
                pieces.append(plain[0])
            elif self._sees("$", "`"):
                piece, anything = self._dollar(soft=True) if self._sees("$") else self._backquoted(soft=True)
                pieces.append(piece)
                splits = splits or anything
            elif (char := self._take()) == "\\":
                char = self._take()
                pieces.append(char if char in f"$`\\{closing}" else "" if char == "\n" else f"\\{char}")
            elif closing:
                break
            else:
                pieces.append(char)
        return "".join(pieces), splits

    def _backquoted(self, *, soft: bool) -> tuple[str, bool]:
        inside = self._within(_BACKQUOTED)
        if soft and '\\"' in inside:
            self._refuse("it has quotes inside of backquotes inside of quotes")
        self._script(re.sub(r"\\([$`\\])", r"\1", inside))
        return HOLE, not soft

    # ── after a dollar sign ─────────────────────────────────────────────────────────────────────────────────

    def _dollar(self, *, soft: bool) -> tuple[str, bool]:
        self._descend()
        found = self._expansion(soft=soft)
        self.depth -= 1
        return found

    def _expansion(self, *, soft: bool) -> tuple[str, bool]:
        if self._pass(_HERE):
            return HERE, False
        if self._sees("$((", "$("):
            calculates = self._sees("$((")
            self.at += 3 if calculates else 2
            self._calculation() if calculates else self._substitution()
            return HOLE, not (soft or calculates)
        if self._sees("${"):
            return self._braced(soft=soft)
        if self._sees("$[", "$\\\n") or (self._sees("$'") and not soft and not self.bash):
            self._refuse("it has a `$` that shells read differently")
        if self._sees("$'") and not soft:
            return _ESCAPE.sub(_unescaped, self._within(_ANSI)), False
        self.at += 1
        return ("", False) if self._sees('"') and not soft else self._variable(soft=soft)

    def _variable(self, *, soft: bool) -> tuple[str, bool]:
        if not (found := self._pass(_VARIABLE)):
            return "$", False
        if found[0] == "!":
            return "$!", not soft
        return HOLE, found[0] == "@" or (found[0] not in "?$#" and not soft)

    def _braced(self, *, soft: bool) -> tuple[str, bool]:
        """`${…}`, inside of which quotes follow rules of their own, so that none are read."""
        start = self.at
        if not self._pass(_BRACED):
            self._refuse("it has a `${` that I do not know")
        while not self._sees("}"):
            if self._sees("$"):
                self._dollar(soft=True)
            elif not self._pass(_INNER):
                self._refuse("it has a `${…}` that I do not know")
        self.at += 1
        return HOLE, not soft or "@" in self.text[start : self.at]

    def _calculation(self) -> None:
        """Passes a calculation, up to its two closing parentheses."""
        depth = 0
        while depth or not self._sees("))"):
            if self._sees("$"):
                self._dollar(soft=True)
                continue
            char = self._take()
            if char in "'\"\\`" or (char == ")" and not depth):
                self._refuse("it has a calculation that may be commands")
            depth += {"(": 1, ")": -1}.get(char, 0)
        self.at += 2


def _unescaped(found: re.Match[str]) -> str:
    """What `\\` and some characters mean between `$'` and `'`."""
    code = found[1]
    number = int(code, 8) & 0xFF if code[0] in "01234567" else int(code[1:] or "0", 16) if code[0] in "xuU" else -1
    if number in {0, 1, 2} or number > 0x10FFFF or code[0] == "c":
        raise Unreadable("it has a `$'…'` that I do not know")
    return chr(number) if number > 0 else _ESCAPES.get(code, f"\\{code}")

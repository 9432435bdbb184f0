"""Reads a command line of a shell, and finds every command in it, wherever it hides.

The commands come out flat, in the order in which they stand: those of pipes, lists, loops, conditions, functions,
subshells, substitutions and here-documents alike. What few people write, such as arrays, is refused.
"""

from __future__ import annotations

import re
from typing import NoReturn

from msgspec import Struct

from perdure.tools.judging.words import Unreadable, Word, Words

LENGTH, COMMANDS, WORDS = 64_000, 300, 1_000  # that are read at most; LENGTH is in characters

_THEN = r"(?=[ \t\n;&|<>()]|$)"  # a word of the language ends here
_BLANKS = re.compile(r"(?:[ \t]|\\\n)*(?:#[^\n]*)?")
_REDIRECT = re.compile(r"&>>?|[0-9]*(?:<<<|<<-?|<>|<&|>>|>\||>&|[<>](?!\())")
_SEPARATOR = re.compile(r"&&|\|\||\|&|;(?![;&])|[&|]")
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\[[^]]*\])?\+?=")
_END = re.compile(rf";;&?|;&|\)|(?:fi|done|esac|\}}){_THEN}")
_GOES_ON = re.compile(rf"\n|$|(?:then|do|else|elif){_THEN}")
_PARENTHESES = re.compile(r"[ \t]*\([ \t]*\)")
_IN, _ESAC, _PATTERN_END = re.compile(rf"in{_THEN}"), re.compile(rf"esac{_THEN}"), re.compile(r"[|)]")
_LINE = re.compile(r".*\n|.+")
_BODY = re.compile(r"\((?!\()|\{(?=[ \t\n])")
_SKIPPED = frozenset({"then", "do", "else", "elif", "!"})
_BLOCKS = {"if": "fi", "while": "done", "until": "done", "{": "}"}
_REFUSED = frozenset({"fi", "done", "esac", "}", "coproc", "function", "select"})


class Redirect(Struct):
    """Where a command reads from or writes to."""

    sign: str  # such as `>` or `<<`
    target: Word
    number: str = ""  # of what is redirected, such as the 2 of `2>`; empty is the usual one
    body: str | None = None  # of a here-document, with a HOLE where values come in


class Command(Struct, frozen=True):
    """A simple command; or, without words, where a whole group of commands reads from or writes to."""

    words: tuple[Word, ...]
    assigned: tuple[Word, ...]  # before the command, such as `A=1`
    redirects: tuple[Redirect, ...]
    source: str
    within: tuple[str, ...]  # the functions in whose bodies it stands


def read(text: str, *, bash: bool = True) -> list[Command]:
    """All commands of a command line, or `Unreadable`; without bash, those that a plain shell would find."""
    if len(text) > LENGTH:
        raise Unreadable(f"it is longer than {LENGTH} characters")
    found = list[Command]()
    Commands(text, found, bash=bash).read()
    if len(found) > COMMANDS or sum(len(command.words) for command in found) > WORDS:
        raise Unreadable(f"it has more than {COMMANDS} commands or {WORDS} words")
    return found


class Commands(Words):
    """A reader of commands, which puts what it finds into a list."""

    def __init__(self, text: str, found: list[Command], *, bash: bool, depth: int = 0) -> None:
        super().__init__(text, bash=bash, depth=depth)
        self.found, self.within = found, tuple[str, ...]()
        self.due = list[Redirect]()  # the here-documents whose text begins after this line

    def read(self) -> None:
        self._list("")
        self._no_document_is_due()

    def expanded(self) -> str:
        """The text as that of a here-document, with a HOLE where values come in."""
        return self._soft("")[0]

    def _script(self, text: str) -> None:
        inner = Commands(text, self.found, bash=self.bash, depth=self.depth)
        inner.within = self.within
        inner.read()

    def _substitution(self) -> None:
        due, self.due = self.due, []
        self._list(")")
        self._no_document_is_due()
        self.due = due

    def _no_document_is_due(self) -> None:
        if self.due:
            self._refuse("a here-document does not end")

    def _word(self) -> Word | None:
        word = super()._word()
        if word and self.due and "\n" in word.source.replace("\\\n", ""):
            self._refuse("I do not know where a here-document begins")
        return word

    def _required(self) -> Word:
        self._pass(_BLANKS)
        return self._word() or self._lost()

    def _lost(self) -> NoReturn:
        rest = self.text[self.at : self.at + 20].split("\n")[0]
        self._refuse(f"I do not know what `{rest}` means there" if rest else "something is missing")

    # ── lists ───────────────────────────────────────────────────────────────────────────────────────────────

    def _list(self, *ends: str) -> str:
        """Reads commands up to one of these ends, and tells which it was; an empty one is the end of the text."""
        self._descend()
        while True:
            self._lines()
            found = _END.match(self.text, self.at)
            if found or self.at == len(self.text):
                break
            if self._command():
                self._separator()
        end = found[0] if found else ""
        if end not in ends:
            self._refuse(f"`{end}` stands in the wrong place" if end else "something in it does not end")
        self.at, self.depth = self.at + len(end), self.depth - 1
        return end

    def _lines(self) -> None:
        """Passes the ends of lines, and reads the here-documents that follow them."""
        self._pass(_BLANKS)
        while self._sees("\n"):
            self.at += 1
            due, self.due = self.due, []
            for redirect in due:
                self._document(redirect)
            self._pass(_BLANKS)

    def _separator(self) -> None:
        self._pass(_BLANKS)
        if not self._pass(_SEPARATOR) and not any(p.match(self.text, self.at) for p in (_END, _GOES_ON)):
            self._lost()

    # ── commands ────────────────────────────────────────────────────────────────────────────────────────────

    def _command(self) -> bool:
        """Reads a command, or a word before one; tells whether a separator has to follow."""
        if self._sees("((") or (self._sees("[[") and not self.bash):
            self._refuse("it has parentheses or brackets that shells read differently")
        if self._sees("("):
            self.at += 1
            self._list(")")
            return self._redirects()
        start = self.at
        word = None if _REDIRECT.match(self.text, self.at) else self._required()
        if not (word and word.bare):
            return self._simple(start, word)
        if self._pass(_PARENTHESES):
            return self._function(word.text)
        return word.text not in _SKIPPED and self._block(start, word)

    def _block(self, start: int, word: Word) -> bool:
        if word.text in _REFUSED:
            self._refuse(f"it has `{word.text}` in a place where I cannot read it")
        if word.text in _BLOCKS:
            self._list(_BLOCKS[word.text])
        elif word.text == "for":
            self._for()
        elif word.text == "case":
            self._case()
        elif word.text == "[[":
            self._test(start)
        else:
            return self._simple(start, word)
        return self._redirects()

    def _redirects(self) -> bool:
        """Reads where a whole group of commands reads from and writes to."""
        return self._simple(self.at, None, group=True)

    def _simple(self, start: int, word: Word | None, *, group: bool = False) -> bool:
        words, assigned, redirects = list[Word](), list[Word](), list[Redirect]()
        while True:
            if word:
                assigns = not words and _ASSIGNMENT.match(word.source.replace("\\\n", ""))
                (assigned if assigns else words).append(word)
            self._pass(_BLANKS)
            word = None
            if redirect := self._redirect():
                redirects.append(redirect)
            elif group or not (word := self._word()):
                break
        if words or assigned or redirects:
            self._add(start, words, assigned, redirects)
        return True

    def _add(self, start: int, words: list[Word], assigned: list[Word], redirects: list[Redirect]) -> None:
        source = self.text[start : self.at].strip()
        self.found.append(Command(tuple(words), tuple(assigned), tuple(redirects), source, self.within))

    def _for(self) -> None:
        name = self._required()
        if not (name.bare and name.known):
            self._lost()
        self._lines()
        if self._pass(_IN):
            self._pass(_BLANKS)
            while self._word():
                self._pass(_BLANKS)
            if not self._sees(";", "\n"):
                self._lost()
        self.at += self._sees(";")
        self._list("done")

    def _case(self) -> None:
        self._required()
        self._lines()
        end = "" if self._pass(_IN) else self._lost()
        while end != "esac":
            self._lines()
            if self._pass(_ESAC):
                return
            self.at += self._sees("(")
            while end != ")":
                self._required()
                self._pass(_BLANKS)
                end = found[0] if (found := self._pass(_PATTERN_END)) else self._lost()
            end = self._list(";;", ";&", ";;&", "esac")

    def _test(self, start: int) -> None:
        """Reads `[[ … ]]`, in which operators have another meaning."""
        words = [Word("[[")]
        while words[-1].text != "]]" or not words[-1].bare:
            self._pass(_BLANKS)
            if word := self._word():
                words.append(word)
            elif self._sees("(", ")", "<", ">", "|", "&"):
                self.at += 1
            else:
                self._lost()
        self._add(start, words, [], [])

    def _function(self, name: str) -> bool:
        self._lines()
        body = self._pass(_BODY) or self._lost()
        within, self.within = self.within, (*self.within, name)
        self._list(")" if body[0] == "(" else "}")
        self.within = within
        return self._redirects()

    # ── redirections and here-documents ─────────────────────────────────────────────────────────────────────

    def _redirect(self) -> Redirect | None:
        if not (found := self._pass(_REDIRECT)):
            return None
        sign = found[0].lstrip("0123456789")
        redirect = Redirect(sign, self._required(), found[0].removesuffix(sign))
        if sign == "<<<":
            redirect.body = redirect.target.text
        elif sign in {"<<", "<<-"}:
            self.due.append(redirect)
            if not redirect.target.known:
                self._refuse("I do not know where a here-document ends")
        return redirect

    def _document(self, redirect: Redirect) -> None:
        start = begin = self.at
        literal, line = not redirect.target.bare, None
        while line != redirect.target.text:
            begin, found = self.at, self._pass(_LINE)
            line = found[0].removesuffix("\n") if found else self._refuse("a here-document does not end")
            if line.endswith("\\") and not literal:
                self._refuse("a here-document has joined lines, about which shells differ")
            line = line.lstrip("\t") if redirect.sign == "<<-" else line
        redirect.body = self.text[start:begin]
        if not literal:
            redirect.body = Commands(redirect.body, self.found, bash=self.bash, depth=self.depth).expanded()

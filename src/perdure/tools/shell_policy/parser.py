"""Parses a shell command line, and finds every simple command in it.

The commands come out flat, in the order of the text: those of pipes, lists, loops, conditions, functions,
subshells, substitutions and here-documents alike. Rare syntax, such as arrays, is refused.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NoReturn

from msgspec import Struct

from perdure.tools.shell_policy.lexer import Unreadable, Word, WordLexer

MAX_CHARACTERS, MAX_COMMANDS, MAX_WORDS = 64_000, 300, 1_000  # of one command line

_KEYWORD_END = r"(?=[ \t\n;&|<>()]|$)"  # the end of a keyword
_BLANKS = re.compile(r"(?:[ \t]|\\\n)*(?:#[^\n]*)?")
_REDIRECT = re.compile(r"&>>?|[0-9]*(?:<<<|<<-?|<>|<&|>>|>\||>&|[<>](?!\())")
_SEPARATOR = re.compile(r"&&|\|\||\|&|;(?![;&])|[&|]")
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\[[^]]*\])?\+?=")
_NUMERIC_INDEX = re.compile(r"\[[0-9]+\]")
_END = re.compile(rf";;&?|;&|\)|(?:fi|done|esac|\}}){_KEYWORD_END}")
_CONTINUATION = re.compile(rf"\n|$|(?:then|do|else|elif){_KEYWORD_END}")
_PARENTHESES = re.compile(r"[ \t]*\([ \t]*\)")
_IN, _ESAC, _PATTERN_END = (
    re.compile(rf"in{_KEYWORD_END}"),
    re.compile(rf"esac{_KEYWORD_END}"),
    re.compile(r"[|)]"),
)
_LINE = re.compile(r".*\n|.+")
_BODY = re.compile(r"\((?!\()|\{(?=[ \t\n])")
_LEADING_KEYWORDS = frozenset({"then", "do", "else", "elif", "!"})
_BLOCKS = {"if": "fi", "while": "done", "until": "done", "{": "}"}
_REFUSED = frozenset({"fi", "done", "esac", "}", "coproc", "function", "select"})


class Redirect(Struct):
    """A redirection of a command."""

    operator: str  # such as `>` or `<<`
    target: Word
    descriptor: str = ""  # such as the 2 of `2>`; empty for the default
    body: str | None = None  # of a here-document, with `UNKNOWN_MARK` for values that come in


Redirects = Sequence[Redirect]


class SimpleCommand(Struct, frozen=True):
    """A simple command; without words, the redirections of a group of commands."""

    words: tuple[Word, ...]
    assignments: tuple[Word, ...]  # before the command, such as `A=1`
    redirects: tuple[Redirect, ...]
    source: str
    enclosing_functions: tuple[str, ...]  # the functions whose bodies contain it


def parse_command_line(text: str, *, bash: bool = True) -> list[SimpleCommand]:
    """All commands of a command line, or `Unreadable`; without `bash`, as a plain shell reads it."""
    if len(text) > MAX_CHARACTERS:
        raise Unreadable(f"it is longer than {MAX_CHARACTERS} characters")
    found = list[SimpleCommand]()
    CommandParser(text, found, bash=bash).parse()
    if len(found) > MAX_COMMANDS or sum(len(command.words) for command in found) > MAX_WORDS:
        raise Unreadable(f"it has more than {MAX_COMMANDS} commands or {MAX_WORDS} words")
    return found


class SimpleCommandParser(WordLexer):
    """Reads simple commands with their assignments, redirections and here-documents into a list."""

    def __init__(self, text: str, commands: list[SimpleCommand], *, bash: bool, depth: int = 0) -> None:
        super().__init__(text, bash=bash, depth=depth)
        self.commands, self.enclosing_functions = commands, tuple[str, ...]()
        self.pending_documents = list[Redirect]()  # here-documents whose text begins after this line

    def expand_document(self) -> str:
        """The text as that of a here-document, with `UNKNOWN_MARK` for values that come in."""
        return self._double_quoted("")[0]

    def _word(self) -> Word | None:
        word = super()._word()
        if word and self.pending_documents and "\n" in word.source.replace("\\\n", ""):
            self._refuse("I do not know where a here-document begins")
        return word

    def _require_word(self) -> Word:
        self._consume(_BLANKS)
        return self._word() or self._refuse_here()

    def _refuse_here(self) -> NoReturn:
        rest = self.text[self.position : self.position + 20].split("\n")[0]
        self._refuse(f"I do not know what `{rest}` means there" if rest else "something is missing")

    def _refuse_pending_documents(self) -> None:
        if self.pending_documents:
            self._refuse("a here-document does not end")

    def _lines(self) -> None:
        """Skip line ends, and read the here-documents that follow them."""
        self._consume(_BLANKS)
        while self._starts_with("\n"):
            self.position += 1
            due, self.pending_documents = self.pending_documents, []
            for redirect in due:
                self._document(redirect)
            self._consume(_BLANKS)

    def _simple(self, start: int, word: Word | None, *, group: bool = False) -> bool:
        words, assigned, redirects = list[Word](), list[Word](), list[Redirect]()
        while True:
            if word:
                assigns = None if words else _ASSIGNMENT.match(word.source.replace("\\\n", ""))
                if assigns and assigns[1] and not _NUMERIC_INDEX.fullmatch(assigns[1]):
                    self._refuse("it has an index that may be evaluated")
                (assigned if assigns else words).append(word)
            self._consume(_BLANKS)
            word = None
            if redirect := self._redirect():
                redirects.append(redirect)
            elif group or not (word := self._word()):
                break
        if words or assigned or redirects:
            self._add(start, words, assigned, redirects)
        return True

    def _add(self, start: int, words: list[Word], assigned: list[Word], redirects: list[Redirect]) -> None:
        source = self.text[start : self.position].strip()
        self.commands.append(
            SimpleCommand(tuple(words), tuple(assigned), tuple(redirects), source, self.enclosing_functions)
        )

    # ── redirections and here-documents ──────────────────────────────────────────────────────────────────────

    def _redirect(self) -> Redirect | None:
        if not (found := self._consume(_REDIRECT)):
            return None
        sign = found[0].lstrip("0123456789")
        redirect = Redirect(sign, self._require_word(), found[0].removesuffix(sign))
        if sign == "<<<":
            redirect.body = redirect.target.text
        elif sign in {"<<", "<<-"}:
            self.pending_documents.append(redirect)
            if not redirect.target.known:
                self._refuse("I do not know where a here-document ends")
        return redirect

    def _document(self, redirect: Redirect) -> None:
        start = begin = self.position
        literal, line = not redirect.target.bare, None
        while line != redirect.target.text:
            begin, found = self.position, self._consume(_LINE)
            line = found[0].removesuffix("\n") if found else self._refuse("a here-document does not end")
            if line.endswith("\\") and not literal:
                self._refuse("a here-document has joined lines, about which shells differ")
            line = line.lstrip("\t") if redirect.operator == "<<-" else line
        redirect.body = self.text[start:begin]
        if not literal:
            inner = type(self)(redirect.body, self.commands, bash=self.bash, depth=self.depth)
            redirect.body = inner.expand_document()


class CommandParser(SimpleCommandParser):
    """Reads lists of commands, blocks, functions and substitutions, and every simple command inside of them."""

    def parse(self) -> None:
        self._list("")
        self._refuse_pending_documents()

    def _script(self, text: str) -> None:
        inner = CommandParser(text, self.commands, bash=self.bash, depth=self.depth)
        inner.enclosing_functions = self.enclosing_functions
        inner.parse()

    def _substitution(self) -> None:
        due, self.pending_documents = self.pending_documents, []
        self._list(")")
        self._refuse_pending_documents()
        self.pending_documents = due

    # ── lists ────────────────────────────────────────────────────────────────────────────────────────────────

    def _list(self, *ends: str) -> str:
        """Read commands up to one of these ends, and return which it was; empty is the end of the text."""
        self._descend()
        while True:
            self._lines()
            found = _END.match(self.text, self.position)
            if found or self.position == len(self.text):
                break
            if self._command():
                self._separator()
        end = found[0] if found else ""
        if end not in ends:
            self._refuse(f"`{end}` stands in the wrong place" if end else "something in it does not end")
        self.position, self.depth = self.position + len(end), self.depth - 1
        return end

    def _separator(self) -> None:
        self._consume(_BLANKS)
        if not self._consume(_SEPARATOR) and not any(
            p.match(self.text, self.position) for p in (_END, _CONTINUATION)
        ):
            self._refuse_here()

    # ── blocks ───────────────────────────────────────────────────────────────────────────────────────────────

    def _command(self) -> bool:
        """Read a command, or a keyword before one; return whether a separator must follow."""
        if self._starts_with("((") or (self._starts_with("[[") and not self.bash):
            self._refuse("it has parentheses or brackets that shells read differently")
        if self._starts_with("("):
            self.position += 1
            self._list(")")
            return self._group_redirects()
        start = self.position
        word = None if _REDIRECT.match(self.text, self.position) else self._require_word()
        if not (word and word.bare):
            return self._simple(start, word)
        if self._consume(_PARENTHESES):
            return self._function(word.text)
        return word.text not in _LEADING_KEYWORDS and self._block(start, word)

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
        return self._group_redirects()

    def _group_redirects(self) -> bool:
        """Read the redirections of a group of commands."""
        return self._simple(self.position, None, group=True)

    def _for(self) -> None:
        name = self._require_word()
        if not (name.bare and name.known):
            self._refuse_here()
        self._refuse_assignment(name.text)
        self._lines()
        if self._consume(_IN):
            self._consume(_BLANKS)
            while self._word():
                self._consume(_BLANKS)
            if not self._starts_with(";", "\n"):
                self._refuse_here()
        self.position += self._starts_with(";")
        self._list("done")

    def _case(self) -> None:
        self._require_word()
        self._lines()
        end = "" if self._consume(_IN) else self._refuse_here()
        while end != "esac":
            self._lines()
            if self._consume(_ESAC):
                return
            self.position += self._starts_with("(")
            while end != ")":
                self._require_word()
                self._consume(_BLANKS)
                end = found[0] if (found := self._consume(_PATTERN_END)) else self._refuse_here()
            end = self._list(";;", ";&", ";;&", "esac")

    def _test(self, start: int) -> None:
        """Read `[[ … ]]`, in which operators have another meaning."""
        words = [Word("[[")]
        while words[-1].text != "]]" or not words[-1].bare:
            self._consume(_BLANKS)
            if word := self._word():
                words.append(word)
            elif self._starts_with("(", ")", "<", ">", "|", "&"):
                self.position += 1
            else:
                self._refuse_here()
        self._add(start, words, [], [])

    def _function(self, name: str) -> bool:
        self._lines()
        body = self._consume(_BODY) or self._refuse_here()
        within, self.enclosing_functions = self.enclosing_functions, (*self.enclosing_functions, name)
        self._list(")" if body[0] == "(" else "}")
        self.enclosing_functions = within
        return self._group_redirects()

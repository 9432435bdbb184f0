"""Whether a command of a shell has to be approved before it runs, and why.

The line is read as the shell would read it, and every command in it is judged, however it is wrapped. This keeps
a model from doing harm by mistake; it is no wall against somebody who may write programs and run them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from perdure.core import notes
from perdure.tools.judging.commandline import Command, read
from perdure.tools.judging.dangers import COMMAND_VARIABLES, HARMLESS, LOADING_VARIABLES, PATTERNS, Seen
from perdure.tools.judging.deeds import Changes, Deed, Runs, RunsCode, RunsFile, Sets
from perdure.tools.judging.languages import READS, interpreted
from perdure.tools.judging.patterns import Pattern, allows, finds, may_find, pattern
from perdure.tools.judging.runners import RUNS, wrapped
from perdure.tools.judging.words import BRACE, DEPTH, HERE, HOLE, Unreadable, Word
from perdure.tools.judging.writers import changes

_DOWNLOADS = frozenset({"curl", "wget", "aria2c", "http", "https", "fetch", "scp", "rsync"})
_PASSES_ON = frozenset({"cp", "install", "ln", "mv", "tee"})
_WRITES = frozenset({">", ">>", ">|", "&>", "&>>", "<>"})
_DEVICES = re.compile(r"/dev/(?:null|stdout|stderr|stdin|tty|fd/[0-9]+)")
_UP = re.compile(rf"(?:^|[/,{BRACE}])\.\.(?:$|[/,}}])")
_AWAY = re.compile(rf"(?:^|[,{BRACE}])~|[,{BRACE}]/")
_NUMBERED = re.compile(r"[0-9]+-?|-")

_HARMLESS = tuple(pattern(text) for text in HARMLESS.split(";"))
_DANGEROUS = tuple(pattern(text, why) for why, texts in PATTERNS.items() for text in texts.split(";"))


class Rules(Struct, frozen=True):
    """What is dangerous here; without anything said, what usually is."""

    dangerous: tuple[Pattern, ...] = _DANGEROUS
    safe: tuple[Pattern, ...] = ()
    folders: tuple[str, ...] = ("/tmp",)  # noqa: S108 reason: what may be changed, besides the working directory


class Verdict(Struct, frozen=True):
    """Whether a command needs approval, and a sentence for the person who is asked."""

    dangerous: bool
    why: str = ""


class Found(Struct, frozen=True):
    """A danger, and the part of the line in which it is."""

    why: str
    part: str
    certain: bool = True


USUAL = Rules()


def rules(dangerous: Iterable[str] = (), safe: Iterable[str] = (), folders: Iterable[str] = ()) -> Rules:
    """The usual rules, with what an operator adds to them."""
    added = tuple(pattern(text, notes.listed_as_dangerous(text)) for text in dangerous if text.strip())
    allowed = tuple(pattern(text) for text in safe if text.strip())
    places = tuple(folder.rstrip("/") for folder in folders)
    return Rules((*added, *USUAL.dangerous), allowed, (*USUAL.folders, *places))


def judge(command: str, rules: Rules = USUAL, *, bash: bool = False) -> Verdict:
    """Whether this command is dangerous. What cannot be read for certain is; it never raises.

    Unless it is bash that will run it, what bash reads in its own way is not read.
    """
    try:
        found = _first(Line(rules).code(command, bash=bash))
    except Unreadable as error:
        return Verdict(True, notes.unreadable_command(Seen.UNREADABLE, str(error)))
    if not found:
        return Verdict(False)
    return Verdict(True, notes.dangerous_part(found.why, found.part))


def _first(dangers: Iterator[Found]) -> Found | None:
    """The first danger that is certain, or else the first."""
    possible = None
    for found in dangers:
        if found.certain:
            return found
        possible = possible or found
    return possible


class Line:
    """A command line that is being judged, from its first command to its last."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._inside = True  # relative paths lead into the working directory
        self._fetched = set[str]()  # the names of what was downloaded

    def code(self, text: str, *, bash: bool, depth: int = 0) -> Iterator[Found]:
        """The dangers in some code."""
        for command in read(text, bash=bash):
            for why in self._whole(command):
                yield Found(why, command.source)
            for assignment in command.assigned:
                yield from self._variable(assignment, command, depth + 1)
            if command.words:
                yield from self._program(command.words, command, depth)

    def _whole(self, command: Command) -> Iterator[str]:
        """The dangers in what is around the words of a command."""
        for redirect in command.redirects:
            joins = redirect.sign == ">&" and not _NUMBERED.fullmatch(redirect.target.text)
            if redirect.sign in _WRITES or joins:
                yield from self._place(redirect.target)
        if command.words and command.words[0].text in command.within:
            yield Seen.CALLS_ITSELF

    def _program(self, words: Sequence[Word], command: Command, depth: int) -> Iterator[Found]:
        """The dangers in a program and its words."""
        if depth > DEPTH:
            raise Unreadable("it is nested too deeply")
        if not words[0].known:
            yield Found(Seen.UNKNOWN_PROGRAM, command.source)
        elif not self._is_allowed(words):
            yield from self._listed(words, command)
            for deed in _deeds(words, command):
                yield from self._deed(deed, command, depth + 1)
            self._remember(words, command)

    def _is_allowed(self, words: Sequence[Word]) -> bool:
        safe = self._rules.safe if self._inside else ()
        return any(allows(each, words) for each in (*_HARMLESS, *safe))

    def _listed(self, words: Sequence[Word], command: Command) -> Iterator[Found]:
        certain = all(word.known for word in words)
        for each in self._rules.dangerous:
            if finds(each, words):
                yield Found(each.why, command.source)
            elif not certain and may_find(each, words):
                yield Found(Seen.UNKNOWN_WORDS, command.source, certain=False)

    def _deed(self, deed: Deed, command: Command, depth: int) -> Iterator[Found]:
        if isinstance(deed, Runs):
            yield from self._elsewhere(self._program(deed.words, command, depth), here=deed.here)
        elif isinstance(deed, RunsCode):
            yield from self._elsewhere(self._inner(deed, command, depth), here=deed.here)
        elif isinstance(deed, Sets):
            yield from self._variable(deed.assignment, command, depth)
        else:
            for why in self._plain(deed):
                yield Found(why, command.source)

    def _elsewhere(self, dangers: Iterator[Found], *, here: bool) -> Iterator[Found]:
        """On another machine, no place is known to be the working directory."""
        inside, self._inside = self._inside, self._inside and here
        yield from dangers
        self._inside = inside and (self._inside or not here)

    def _inner(self, deed: RunsCode, command: Command, depth: int) -> Iterator[Found]:
        if deed.code.known:
            yield from self.code(deed.code.text, bash=deed.bash, depth=depth)
        else:
            yield Found(Seen.UNKNOWN_CODE, command.source)

    def _variable(self, assignment: Word, command: Command, depth: int) -> Iterator[Found]:
        name, _, value = assignment.text.partition("=")
        name = re.split(r"[\[+]", name)[0]
        if HOLE in name or name in LOADING_VARIABLES:
            yield Found(Seen.LOADS, command.source)
        elif name in COMMAND_VARIABLES:
            yield from self._inner(RunsCode(Word(value, bare=False)), command, depth)

    def _plain(self, deed: Changes | RunsFile | Seen) -> Iterator[str]:
        if isinstance(deed, Changes):
            yield from self._place(deed.place)
        elif isinstance(deed, RunsFile):
            yield from self._file(deed.file)
        else:
            yield deed

    def _file(self, file: Word) -> Iterator[str]:
        if not file.known:
            yield Seen.UNKNOWN_CODE
        elif file.text == "-" or file.text.startswith(("/dev/", "/proc/")):
            yield Seen.UNSEEN_CODE
        elif "://" in file.text or _base(file.text) in self._fetched:
            yield Seen.FETCHED

    def _place(self, place: Word) -> Iterator[str]:
        text = place.text.replace(HERE, ".")
        if place.splits or HOLE in text:
            yield Seen.UNKNOWN_PLACE
        elif _DEVICES.fullmatch(text):
            return
        elif _UP.search(text) or _AWAY.search(text):
            yield Seen.OUTSIDE
        elif text.startswith("/"):
            if not any(text == folder or text.startswith(f"{folder}/") for folder in self._rules.folders):
                yield Seen.OUTSIDE
        elif not self._inside:
            yield Seen.OUTSIDE

    def _remember(self, words: Sequence[Word], command: Command) -> None:
        """What the commands after this one have to know of it."""
        name = _base(words[0].text)
        if name in _DOWNLOADS or (self._fetched and name in _PASSES_ON):
            targets = [redirect.target for redirect in command.redirects]
            self._fetched |= {_base(word.text.split("?")[0]) for word in (*words[1:], *targets)}
        if name in {"cd", "pushd"}:
            places = [word for word in words[1:] if word.text[:1] != "-"]
            self._inside = bool(places) and places[0].text != "-" and not any(self._place(places[0]))


def _base(path: str) -> str:
    return path.rpartition("/")[2]


def _deeds(words: Sequence[Word], command: Command) -> Iterator[Deed]:
    """What the program does, by all that is known of it."""
    name = _base(words[0].text)
    yield from wrapped(words)
    for known in (RUNS, READS):
        if name in known:
            yield from known[name](words, command.redirects)
    yield from interpreted(words, command.redirects)
    yield from changes(name, words)
    if "/" in words[0].text:
        yield RunsFile(words[0])

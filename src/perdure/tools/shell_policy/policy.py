"""Assesses whether a shell command needs approval before it runs, and why.

The line is parsed as the shell would parse it, and every command in it is assessed, however it is wrapped. This
keeps a model from doing harm by mistake; it does not stop somebody who may write programs and run them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from perdure.core import texts
from perdure.tools.shell_policy.facts import (
    ChangesPath,
    CommandFact,
    MentionsPath,
    RunsCode,
    RunsCommand,
    RunsFile,
    SetsVariable,
)
from perdure.tools.shell_policy.file_writers import FILE_WRITERS
from perdure.tools.shell_policy.git import git_facts
from perdure.tools.shell_policy.interpreters import INTERPRETERS, interpreter_facts, interpreter_name
from perdure.tools.shell_policy.lexer import (
    BRACE_MARK,
    MAX_DEPTH,
    UNKNOWN_MARK,
    WORKING_DIRECTORY_MARK,
    Unreadable,
    Word,
    base_name,
)
from perdure.tools.shell_policy.parser import SimpleCommand, parse_command_line
from perdure.tools.shell_policy.patterns import (
    CommandPattern,
    matches_certainly,
    matches_plainly,
    matches_possibly,
    parse_pattern,
)
from perdure.tools.shell_policy.programs import (
    PROGRAM_OPTIONS,
    READERS,
    is_installed_path,
    passed_word_facts,
    program_facts,
    program_name,
    unknown_program_facts,
)
from perdure.tools.shell_policy.rules import (
    DANGEROUS_COMMANDS,
    HARMLESS_COMMANDS,
    RiskReason,
    command_of_variable,
    loads_code,
)
from perdure.tools.shell_policy.scripts import SCRIPT_READERS
from perdure.tools.shell_policy.shell_builtins import SHELL_BUILTINS
from perdure.tools.shell_policy.wrappers import COMMAND_RUNNERS, WRAPPERS, wrapper_facts

_DOWNLOADS = frozenset({"curl", "wget", "aria2c", "http", "https", "fetch", "scp", "rsync"})
_COPIERS = frozenset({"cp", "install", "ln", "mv", "tee"})
_WRITE_OPERATORS = frozenset({">", ">>", ">|", "&>", "&>>", "<>"})
_DEVICES = re.compile(r"/dev/(?:null|stdout|stderr|stdin|tty|fd/[0-9]+)")
_PARENT_PATH = re.compile(rf"(?:^|[/,{BRACE_MARK}])\.\.(?:$|[/,}}])")
_ABSOLUTE_PATH_PART = re.compile(rf"(?:^|[,{BRACE_MARK}])~|[,{BRACE_MARK}]/")
_DESCRIPTOR_NUMBER = re.compile(r"[0-9]+-?|-")
_PATH_BEGINNING = re.compile(
    r"(?:^-[A-Za-z]|^|[=,@;\s\"'(\[{|&<>]|:(?!//)|file://)(?=[/~]|\.\.(?:/|$))([^\s,:;\"'|&<>)\]]+)"
)
_HOME_VARIABLE = re.compile(r"\$\{?(?:HOME|OLDPWD)\b")

_FACT_FINDERS = (COMMAND_RUNNERS, SHELL_BUILTINS, SCRIPT_READERS, FILE_WRITERS, {"git": git_facts})
_HARMLESS = tuple(parse_pattern(text) for text in HARMLESS_COMMANDS.split(";"))
_DANGEROUS = tuple(
    parse_pattern(text, why) for why, patterns in DANGEROUS_COMMANDS.items() for text in patterns.split(";")
)

# Programs that can do harm by themselves or run others: an unknown program that gets such a name may run it.
_LISTED = frozenset(
    {name.split()[0] for name in (*WRAPPERS, *INTERPRETERS, *(name for table in _FACT_FINDERS for name in table))}
    | {pattern.words[0] for pattern in _DANGEROUS}
    | {name for name, table in PROGRAM_OPTIONS.items() if "!" in table and name not in READERS}
)
_KNOWN = _LISTED | READERS | PROGRAM_OPTIONS.keys()


class ShellPolicy(Struct, frozen=True):
    """The patterns of dangerous and safe commands; by default the built-in ones."""

    dangerous: tuple[CommandPattern, ...] = _DANGEROUS
    listed: frozenset[str] = _LISTED  # programs that an unknown program must not be given
    safe: tuple[CommandPattern, ...] = ()
    writable_folders: tuple[str, ...] = ("/tmp",)  # noqa: S108 reason: what may be changed, besides the working directory


class Assessment(Struct, frozen=True):
    """Whether a command needs approval, and a sentence for the person who is asked."""

    dangerous: bool
    reason: str = ""


class Finding(Struct, frozen=True):
    """A danger, and the part of the line that has it."""

    reason: str
    part: str
    certain: bool = True


DEFAULT_POLICY = ShellPolicy()


def make_policy(
    dangerous: Iterable[str] = (), safe: Iterable[str] = (), writable_folders: Iterable[str] = ()
) -> ShellPolicy:
    """The built-in rules, with the patterns and folders that an operator adds."""
    added = tuple(
        parse_pattern(text, texts.questions.listed_as_dangerous(text)) for text in dangerous if text.strip()
    )
    allowed = tuple(parse_pattern(text) for text in safe if text.strip())
    folders = tuple(folder.rstrip("/") for folder in writable_folders)
    return ShellPolicy(
        dangerous=(*added, *DEFAULT_POLICY.dangerous),
        listed=DEFAULT_POLICY.listed | {pattern.words[0] for pattern in added},
        safe=allowed,
        writable_folders=(*DEFAULT_POLICY.writable_folders, *folders),
    )


def assess_command(command: str, policy: ShellPolicy = DEFAULT_POLICY, *, bash: bool = False) -> Assessment:
    """Assess a command line. A line that cannot be read for certain is dangerous; this never raises.

    Without `bash`, syntax that only bash understands counts as unreadable.
    """
    try:
        assessment = CommandLineAssessment(policy)
        found = _first_finding(assessment.code_findings(command, bash=bash))
        if not found and assessment.has_left:  # a loop, a function or a trap may come back to what stands before
            elsewhere = CommandLineAssessment(policy, in_workspace=False)
            found = _first_finding(elsewhere.code_findings(command, bash=bash))
    except Unreadable as error:
        return Assessment(True, texts.questions.unreadable_command(RiskReason.UNREADABLE, str(error)))
    if not found:
        return Assessment(False)
    return Assessment(True, texts.questions.dangerous_part(found.reason, found.part))


def _first_finding(dangers: Iterator[Finding]) -> Finding | None:
    """The first finding that is certain, or else the first of all."""
    possible = None
    for found in dangers:
        if found.certain:
            return found
        possible = possible or found
    return possible


class CommandLineAssessment:
    """The assessment of one command line, from its first command to its last."""

    def __init__(self, policy: ShellPolicy, *, in_workspace: bool = True) -> None:
        self._policy = policy
        self._in_workspace = in_workspace  # whether relative paths lead into the working directory
        self.has_left = not in_workspace  # whether a command has gone elsewhere
        self._downloaded = set[str]()  # names of downloaded files
        self._functions = set[str]()  # names of functions that the line defines

    def code_findings(self, text: str, *, bash: bool, depth: int = 0) -> Iterator[Finding]:
        """The findings in a shell's code."""
        commands = parse_command_line(text, bash=bash)
        self._functions.update(name for command in commands for name in command.enclosing_functions)
        for command in commands:
            for why in self._context_findings(command):
                yield Finding(why, command.source)
            for assignment in command.assignments:
                fact = SetsVariable(assignment, exported=bool(command.words))
                yield from self._variable_findings(fact, command, depth + 1)
            if command.words:
                yield from self._program_findings(command.words, command, depth)

    def _context_findings(self, command: SimpleCommand) -> Iterator[str]:
        """The reasons in the redirections and the enclosing functions of a command."""
        for redirect in command.redirects:
            joins = redirect.operator == ">&" and not _DESCRIPTOR_NUMBER.fullmatch(redirect.target.text)
            if redirect.operator in _WRITE_OPERATORS or joins:
                yield from self._path_findings(redirect.target)
        if command.words and command.words[0].text in command.enclosing_functions:
            yield RiskReason.CALLS_ITSELF

    def _program_findings(self, words: Sequence[Word], command: SimpleCommand, depth: int) -> Iterator[Finding]:
        """The findings in a program and its arguments."""
        if depth > MAX_DEPTH:
            raise Unreadable("it is nested too deeply")
        words = _without_gnu_prefix(words)
        if not words[0].known:
            yield Finding(RiskReason.UNKNOWN_PROGRAM, command.source)
        elif not self._is_allowed(words):
            yield from self._listed_findings(words, command)
            for fact in _command_facts(words, command, self._functions, self._policy.listed):
                yield from self._fact_findings(fact, command, depth + 1)
            self._record_effects(words, command)

    def _is_allowed(self, words: Sequence[Word]) -> bool:
        safe = self._policy.safe if self._in_workspace else ()
        return any(matches_plainly(each, words) for each in (*_HARMLESS, *safe))

    def _listed_findings(self, words: Sequence[Word], command: SimpleCommand) -> Iterator[Finding]:
        certain = all(word.known for word in words)
        for each in self._policy.dangerous:
            if matches_certainly(each, words):
                yield Finding(each.reason, command.source)
            elif not certain and matches_possibly(each, words):
                yield Finding(RiskReason.UNKNOWN_WORDS, command.source, certain=False)

    def _fact_findings(self, fact: CommandFact, command: SimpleCommand, depth: int) -> Iterator[Finding]:
        if isinstance(fact, RunsCommand):
            yield from self._located_findings(self._program_findings(fact.words, command, depth), local=fact.local)
        elif isinstance(fact, RunsCode):
            yield from self._located_findings(self._inner_code_findings(fact, command, depth), local=fact.local)
        elif isinstance(fact, SetsVariable):
            yield from self._variable_findings(fact, command, depth)
        else:
            for why in self._simple_findings(fact):
                yield Finding(why, command.source)

    def _located_findings(self, dangers: Iterator[Finding], *, local: bool) -> Iterator[Finding]:
        """The findings of an inner command; on another machine, no directory counts as the working directory."""
        inside, self._in_workspace = self._in_workspace, self._in_workspace and local
        yield from dangers
        self._in_workspace = inside and (self._in_workspace or not local)

    def _inner_code_findings(self, fact: RunsCode, command: SimpleCommand, depth: int) -> Iterator[Finding]:
        if fact.code.known:
            yield from self.code_findings(fact.code.text, bash=fact.bash, depth=depth)
        else:
            yield Finding(RiskReason.UNKNOWN_CODE, command.source)

    def _variable_findings(self, fact: SetsVariable, command: SimpleCommand, depth: int) -> Iterator[Finding]:
        name, _, value = fact.assignment.text.partition("=")
        name = re.split(r"[\[+]", name)[0]
        code = command_of_variable(name, value)
        if code is not None:
            yield from self._inner_code_findings(RunsCode(Word(code, bare=False)), command, depth)
        elif loads_code(name, exported=fact.exported):
            yield Finding(RiskReason.LOADS, command.source)
        elif fact.exported:  # nobody knows what the program does with it
            word = replace(fact.assignment, text=value)
            for each in (*passed_word_facts(word, self._policy.listed), MentionsPath(word)):
                yield from self._fact_findings(each, command, depth)

    def _simple_findings(self, fact: ChangesPath | MentionsPath | RunsFile | RiskReason) -> Iterator[str]:
        if isinstance(fact, ChangesPath):
            yield from self._path_findings(fact.path)
        elif isinstance(fact, MentionsPath):
            yield from self._mention_findings(fact.word)
        elif isinstance(fact, RunsFile):
            yield from self._file_findings(fact.file)
        else:
            yield fact

    def _file_findings(self, file: Word) -> Iterator[str]:
        if not file.known:
            yield RiskReason.UNKNOWN_CODE
        elif file.text == "-" or file.text.startswith(("/dev/", "/proc/")):
            yield RiskReason.UNSEEN_CODE
        elif "://" in file.text or base_name(file.text) in self._downloaded:
            yield RiskReason.FETCHED

    def _mention_findings(self, word: Word) -> Iterator[str]:
        """Whether a word has a path outside in it, also behind an option's name or a colon."""
        paths = [Word(path) for path in _PATH_BEGINNING.findall(word.text)]
        outside = _PARENT_PATH.search(word.text) or _HOME_VARIABLE.search(word.source)
        if outside or any(any(self._path_findings(path)) for path in paths):
            yield RiskReason.PASSED_PATH

    def _path_findings(self, path: Word) -> Iterator[str]:
        text = path.text.replace(WORKING_DIRECTORY_MARK, ".")
        if path.splits or UNKNOWN_MARK in text:
            yield RiskReason.UNKNOWN_PATH
        elif _DEVICES.fullmatch(text) or text == "-":
            return
        elif base_name(text).startswith("-"):
            yield RiskReason.OPTION_NAME
        elif _PARENT_PATH.search(text) or _ABSOLUTE_PATH_PART.search(text):
            yield RiskReason.OUTSIDE
        elif text.startswith("/"):
            if not any(
                text == folder or text.startswith(f"{folder}/") for folder in self._policy.writable_folders
            ):
                yield RiskReason.OUTSIDE
        elif not self._in_workspace:
            yield RiskReason.OUTSIDE

    def _record_effects(self, words: Sequence[Word], command: SimpleCommand) -> None:
        """Remember downloads and changes of the directory for the later commands of the line."""
        name = base_name(words[0].text)
        if name in _DOWNLOADS or (self._downloaded and name in _COPIERS):
            targets = [redirect.target for redirect in command.redirects]
            self._downloaded |= {base_name(word.text.split("?")[0]) for word in (*words[1:], *targets)}
        if name in {"cd", "pushd"}:
            paths = [word for word in words[1:] if word.text[:1] != "-"]
            self._in_workspace = bool(paths) and not any(self._path_findings(paths[0]))
            self.has_left = self.has_left or not self._in_workspace


def _without_gnu_prefix(words: Sequence[Word]) -> Sequence[Word]:
    """The words with a program such as `grm` or `gtimeout`, as macOS calls those of GNU, under its usual name."""
    name = base_name(words[0].text)
    if name in _KNOWN or not name.startswith("g") or name[1:] not in _KNOWN:
        return words
    return [replace(words[0], text=name[1:]), *words[1:]]


def _command_facts(
    words: Sequence[Word], command: SimpleCommand, functions: set[str], listed: frozenset[str]
) -> Iterator[CommandFact]:
    """What a command does, by every table that knows its program, or as a program that none of them knows."""
    name = base_name(words[0].text)
    yield from wrapper_facts(words)
    for finders in _FACT_FINDERS:
        if name in finders:
            yield from finders[name](words, command.redirects)
    yield from interpreter_facts(words, command.redirects)
    plain = program_name(words[0].text)
    if plain in PROGRAM_OPTIONS:
        yield from program_facts(plain, words)
    elif name not in functions and not _is_known(words[0].text, plain):
        yield from unknown_program_facts(words, listed)
    if "/" in words[0].text:
        yield RunsFile(words[0])


def _is_known(path: str, plain: str) -> bool:
    name = base_name(path)
    known = {name, plain, interpreter_name(path)} & _KNOWN
    return bool(known) and (is_installed_path(path) or name not in READERS)

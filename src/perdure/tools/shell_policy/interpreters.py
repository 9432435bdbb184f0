"""Assesses programs that run code of other languages than the shell's, such as Python, awk or SQL."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from perdure.tools.shell_policy.facts import CommandFact, RunsCode, RunsCommand, RunsFile, SetsVariable
from perdure.tools.shell_policy.file_writers import SED_OPTIONS
from perdure.tools.shell_policy.lexer import UNKNOWN_MARK, Words, base_name
from perdure.tools.shell_policy.options import option_names, option_values, split_options, split_permuted_options
from perdure.tools.shell_policy.parser import Redirects
from perdure.tools.shell_policy.rules import RiskReason
from perdure.tools.shell_policy.wrappers import input_facts

# Of each interpreter: its options with a value, and those whose value is code.
INTERPRETERS: dict[str, tuple[str, str]] = {
    "bun": ("-e: -p: -r: --eval: --print:", "-e -p --eval --print"),
    "csh": ("-c:", "-c"),
    "deno": ("", ""),
    "fish": ("-c: -C: --command: --init-command:", "-c -C --command --init-command"),
    "ksh": ("-c: -o:", "-c"),
    "lua": ("-e: -l:", "-e"),
    "mongo": ("--eval:", "--eval"),
    "mongosh": ("--eval: -f:", "--eval"),
    "node": ("-e: -p: -r: -C: --eval: --print: --require: --import:", "-e -p --eval --print"),
    "osascript": ("-e: -l:", "-e"),
    "perl": ("-e: -E: -I: -M: -m: -F: -i? -0? -l? -x? -C?", "-e -E"),
    "php": ("-r: -B: -R: -E: -c: -d: -f:", "-r -B -R -E"),
    "pwsh": ("-c:", "-c -C -e -E"),
    "python": ("-c: -m: -W: -X: -Q:", "-c"),
    "rscript": ("-e:", "-e"),
    "ruby": ("-e: -I: -r: -C: -E: -F: -i? -0? -x? -T?", "-e"),
    "tcsh": ("-c:", "-c"),
    "zsh": ("-c: -o:", "-c"),
}
_ALIASES = {"nodejs": "node", "pypy": "python", "Rscript": "rscript", "luajit": "lua", "powershell": "pwsh"}
_QUERY_OPTIONS = {"--version", "--help", "-V", "-h", "--test"}
_SHORT_VERSION_OPTION = {"node", "perl", "php", "ruby"}  # whose `-v` shows the version and runs nothing

_AWK = "-F: -v: -f: -i: -l: -e: -E: --field-separator: --assign: --file: --source: --exec:"
_AWK_RUNS = r"system|getline|@load"
_AWK_WRITES = r"(?<!\|)\|(?!\|)|>"  # after a `print`
_SED_RUNS = r"(?:^|[^A-Za-z\\])[gpiImM0-9]{0,8}[ewW](?:[gpiImM0-9]*+\s*+(?:$|[;}\n])|\s)"
_SQL = r"(?i)\b(?:drop|truncate|delete|alter|grant|revoke|shutdown|program|system|shell)\b|\\!"
_CLIENT = (
    "-c: -e: -f: -d: -D: -h: -H: -P: -p? -q? -u: -U: -v: --command: --execute: --query: --file: --dbname: --host: "
    "--port: --user: --username: --cmd:"
)
_STATEMENTS = ("-c", "-e", "--command", "--execute", "--query", "-q", "--cmd")
_NONINTERACTIVE_OPTIONS = {"-f", "--file", "-l", "--list", "--version", "--help", "-V"}


def interpreter_facts(words: Words, redirects: Redirects) -> Iterator[CommandFact]:
    """What an interpreter of `INTERPRETERS` runs."""
    plain = base_name(words[0].text).rstrip("0123456789.")
    plain = _ALIASES.get(plain, plain)
    if plain not in INTERPRETERS:
        return
    known, code = INTERPRETERS[plain]
    options, rest = split_options(words[1:], known, strict=False)
    if option_names(options) & set(code.split()) or (
        plain == "deno" and rest[:1] and rest[0].text in {"eval", "repl"}
    ):
        yield RiskReason.OTHER_CODE
    elif plain == "python" and option_values(options, "-m"):
        yield RunsCommand([*option_values(options, "-m")[:1], *rest])
    elif rest:
        yield from (RunsFile(word) for word in (rest[1:] if plain == "deno" else rest[:1]))
    elif not option_names(options) & (_QUERY_OPTIONS | ({"-v"} if plain in _SHORT_VERSION_OPTION else set())):
        yield from _input_code_facts(redirects)


def _input_code_facts(redirects: Redirects) -> Iterator[CommandFact]:
    """What an interpreter runs from its standard input: a file, or code that is not assessed."""
    for fact in input_facts(redirects, bash=False):
        yield RiskReason.OTHER_CODE if isinstance(fact, RunsCode) else fact


def _awk(words: Words, _: Redirects) -> Iterator[CommandFact]:
    options, rest = split_options(words[1:], _AWK, strict=False)
    programs = option_values(options, "-e", "--source")
    if not option_names(options) & {"-f", "-E", "-e", "--file", "--exec", "--source"}:
        programs = rest[:1]
    yield from _script_facts(
        programs, lambda text: re.search(_AWK_RUNS, text) or re.search(_AWK_WRITES, _from_first_print(text))
    )


def _from_first_print(text: str) -> str:
    return "".join(text.partition("print")[1:])


def _sed(words: Words, _: Redirects) -> Iterator[CommandFact]:
    options, rest = split_permuted_options(words[1:], SED_OPTIONS)
    given = option_names(options) & {"-e", "-f", "--expression", "--file"}
    yield from _script_facts(
        option_values(options, "-e", "--expression") if given else rest[:1],
        lambda text: re.search(_SED_RUNS, text),
    )


def _script_facts(programs: Words, is_dangerous: Callable[[str], object]) -> Iterator[CommandFact]:
    for program in programs:
        if UNKNOWN_MARK in program.text:
            yield RiskReason.UNKNOWN_CODE
        elif is_dangerous(program.text):
            yield RiskReason.OTHER_CODE


def _database(words: Words, redirects: Redirects) -> Iterator[CommandFact]:
    options, rest = split_permuted_options(words[1:], _CLIENT)
    bodies = [each.body for each in redirects if each.body is not None]
    given = [word.text for word in option_values(options, *_STATEMENTS)] + bodies
    written = [word.text for word in rest if re.search(r"[\s;]|^\.", word.text)]
    seen = (
        given
        or written
        or option_names(options) & _NONINTERACTIVE_OPTIONS
        or any(each.operator == "<" for each in redirects)
    )
    if (
        not seen
        or any(UNKNOWN_MARK in text for text in given)
        or any(re.search(_SQL, text) for text in given + written)
    ):
        yield RiskReason.DATABASE


def _declare(words: Words, _: Redirects) -> Iterator[CommandFact]:
    """Builtins of bash that evaluate the index in `name[index]`, and so run the commands in it."""
    for word in words[1:]:
        if "[" in word.text and ("$(" in word.text or "`" in word.text):
            yield RiskReason.UNKNOWN_CODE
        if words[0].text in _DECLARATIONS and "=" in word.text:
            yield SetsVariable(word)


_DECLARATIONS = frozenset({"declare", "export", "local", "readonly", "typeset"})
_INDEX_EVALUATORS = (
    "[",
    "[[",
    "let",
    "mapfile",
    "printf",
    "read",
    "readarray",
    "test",
    "unset",
    "wait",
    *_DECLARATIONS,
)

SCRIPT_READERS: dict[str, Callable[[Words, Redirects], Iterator[CommandFact]]] = {
    **dict.fromkeys(("awk", "gawk", "mawk", "nawk"), _awk),
    **dict.fromkeys(("psql", "mysql", "mariadb", "sqlite3", "sqlite", "duckdb", "clickhouse-client"), _database),
    **dict.fromkeys(_INDEX_EVALUATORS, _declare),
    "sed": _sed,
}

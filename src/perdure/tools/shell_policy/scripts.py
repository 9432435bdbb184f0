"""Assesses the scripts of sed, awk and database clients that stand in a command line.

Of sed and of the clients' own commands, only what is known to do no harm passes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

from perdure.tools.shell_policy.facts import CommandFact, FactFinder, RunsFile
from perdure.tools.shell_policy.file_writers import SED_OPTIONS
from perdure.tools.shell_policy.lexer import BRACE_MARK, UNKNOWN_MARK, Words
from perdure.tools.shell_policy.options import (
    option_names,
    option_values,
    possible_options,
    split_options,
    split_permuted_options,
)
from perdure.tools.shell_policy.parser import Redirects
from perdure.tools.shell_policy.rules import RiskReason

_AWK = (
    "-F: -v: -f: -i! -l! -e: -E: -W! -p> -d> -o> --field-separator: --assign: --file: --source: --exec: "
    "--include! --load! --profile> --pretty-print> --dump-variables>"
)
_AWK_RUNS = r"system|getline|@\s*[A-Za-z_]"
_AWK_WRITES = r"(?<!\|)\|(?!\|)|>"  # after a `print`

# ── sed ─────────────────────────────────────────────────────────────────────────────────────────────────────

_MAX_SED_SCRIPT = 4_000  # characters
_BRACKETS = r"\[\^?\]?(?:\[[:.=][^\]\n]*[:.=]\]|[^\]\n])*\]"  # in which a delimiter is a letter
_SED_LINE = rf"(?:[0-9]+|\$|/(?:{_BRACKETS}|[^/\\\[\n]|\\.)*/[IM]*)"
_SED_ADDRESS = re.compile(rf"[\s;]*(?:{_SED_LINE}(?:[,~]\s*[~+]?{_SED_LINE})?)?\s*!?\s*")
_SED_COMMAND = re.compile(
    r"[{}=dDgGhHnNpPxFz](?=[\s;}]|$)|[{}]"  # without an argument
    r"|[lqQL]\s*[0-9]*(?=[\s;}]|$)"
    r"|[btT:]\s*[A-Za-z0-9_]*(?=[\s;}]|$)"
    r"|[rR]\s*[^\n]+"  # reads a file
    r"|[aic](?:\\.|[^\\])*?(?=\n|$)"  # a text
    r"|#[^\n]*",
    re.DOTALL,
)
_SED_REPLACE = re.compile(
    rf"(?:s([^\\\n\w\s\[])(?:{_BRACKETS}|(?!\1)[^\\\[\n]|\\.)*\1|y([^\\\n\w\s])(?:(?!\2)[^\\\n]|\\.)*\2)"
    r"(?:(?!\1|\2)[^\\]|\\.)*(?:\1|\2)[gpiIMm0-9]*(?=[\s;}]|$)",
    re.DOTALL,
)


def is_harmless_sed(script: str) -> bool:
    """Whether a script of sed has only commands that neither run a program nor write a file."""
    at = 0
    while len(script) <= _MAX_SED_SCRIPT and script[at:].strip("; \t\n"):
        at = found.end() if (found := _SED_ADDRESS.match(script, at)) else at
        command = _SED_REPLACE.match(script, at) or _SED_COMMAND.match(script, at)
        if not command:
            return False
        at = command.end()
    return len(script) <= _MAX_SED_SCRIPT


def _sed(words: Words, _: Redirects) -> Iterator[CommandFact]:
    """A script may be given in pieces, which sed joins with line ends."""
    options, rest = split_permuted_options(words[1:], SED_OPTIONS)
    given = option_names(options) & {"-e", "-f", "--expression", "--file"}
    pieces = option_values(options, "-e", "--expression") if given else rest[:1]
    script = "\n".join(piece.text for piece in pieces).replace(BRACE_MARK, "{")
    if UNKNOWN_MARK in script or any(piece.splits for piece in pieces):
        yield RiskReason.UNKNOWN_CODE
    elif not is_harmless_sed(script):
        yield RiskReason.OTHER_CODE
    yield from (RunsFile(file) for file in option_values(options, "-f", "--file"))


# ── awk ─────────────────────────────────────────────────────────────────────────────────────────────────────


def _awk(words: Words, _: Redirects) -> Iterator[CommandFact]:
    options, rest = split_options(words[1:], _AWK, strict=False)
    programs = option_values(options, "-e", "--source")
    if not option_names(options) & {"-f", "-E", "-e", "--file", "--exec", "--source"}:
        programs = rest[:1]
    for program in programs:
        if UNKNOWN_MARK in program.text:
            yield RiskReason.UNKNOWN_CODE
        elif re.search(_AWK_RUNS, program.text) or re.search(_AWK_WRITES, _from_first_print(program.text)):
            yield RiskReason.OTHER_CODE
    yield from (RunsFile(file) for file in option_values(options, "-f", "-E", "--file", "--exec"))
    known = words[1 : len(words) - len(rest)]
    if any(option.mark in {"!", ">"} for option in possible_options(known, _AWK)):
        yield RiskReason.OPTION_PROGRAM


def _from_first_print(text: str) -> str:
    return "".join(text.partition("print")[1:])


# ── databases ───────────────────────────────────────────────────────────────────────────────────────────────

_SQL = (
    r"(?i)\b(?:drop|truncate|delete|alter|grant|revoke|shutdown|program|system|shell|attach|install|load_extension|"
    r"writefile|edit|fts3_tokenizer|outfile|dumpfile|lo_export|lo_import|xp_cmdshell|load_file|pager|tee|source)\b|"
    r"\bload\s+data\b|\bvacuum\b.*\binto\b|\bcopy\b|\bcreate\s+(?:or\s+replace\s+)?(?:extension|function|language)\b|"
    r"\bdo\s+\$|`\s*;?\s*$|\\[!TPRw]"
)
_READING_COMMANDS = """
    .bail .changes .databases .dbinfo .dump .echo .eqp .exit .explain .fullschema .header .headers .help .indexes
    .indices .limit .lint .mode .nullvalue .parameter .print .prompt .quit .schema .separator .show .stats .tables
    .timeout .timer .version .width"""
_DOT_COMMANDS = frozenset(_READING_COMMANDS.split())
_CLIENT_COMMAND = re.compile(r"(?:^\s*(?=[.\\])|\s(?=\\))(\.[A-Za-z]\S*|\\\S+)([^\n]*)", re.MULTILINE)
_BACKSLASH_COMMAND = re.compile(r"\\(?:[lzxqatcfH]|d[A-Za-z]*|timing|conninfo|echo|pset|encoding)\+?;?")
_STATEMENT_OPTION = re.compile(r"-[ceq]|--?(?:command|execute|query|cmd)(?:=.*)?", re.DOTALL)
_NONINTERACTIVE_OPTIONS = {"-f", "--file", "-l", "--list", "--version", "--help", "-V", "-version", "-help"}


def _database(words: Words, redirects: Redirects) -> Iterator[CommandFact]:
    """Every word may be a statement; without a statement or a file the client would read what cannot be seen."""
    bodies = [each.body for each in redirects if each.body is not None]
    texts = [each for word in words[1:] for each in (word.text, word.text[2:])] + bodies
    statements = [text for text in texts if re.search(r"[\s;(]|^\.[a-z]|^\\", text)]
    seen = (
        statements
        or {word.text.split("=")[0] for word in words} & _NONINTERACTIVE_OPTIONS
        or any(each.operator == "<" for each in redirects)
    )
    unknown = _has_unknown_statement(words) or any(UNKNOWN_MARK in body for body in bodies)
    if not seen or unknown or any(re.search(_SQL, text) or _has_client_command(text) for text in texts):
        yield RiskReason.DATABASE


def _has_unknown_statement(words: Words) -> bool:
    """Whether a word that cannot be known stands where a statement may stand."""
    behind = [word for before, word in pairwise(words) if _STATEMENT_OPTION.fullmatch(before.text)]
    given = [word for word in words[1:] if _STATEMENT_OPTION.match(word.text)]
    later = [word for word in words[1:] if not word.text.startswith("-")][1:]
    return any(word.splits for word in words) or any(
        UNKNOWN_MARK in word.text for word in (*behind, *given, *later)
    )


def _has_client_command(text: str) -> bool:
    """Whether a client would run a command of its own that is not known to do no harm."""
    return any(
        found[1] not in _DOT_COMMANDS
        if found[1].startswith(".")
        else not _BACKSLASH_COMMAND.fullmatch(found[1]) or "|" in found[2] or "`" in found[2]
        for found in _CLIENT_COMMAND.finditer(text)
    )


SCRIPT_READERS: dict[str, FactFinder] = {
    **dict.fromkeys(("awk", "gawk", "mawk", "nawk", "original-awk", "goawk"), _awk),
    **dict.fromkeys(("psql", "mysql", "mariadb", "sqlite3", "sqlite", "duckdb", "clickhouse-client"), _database),
    **dict.fromkeys(("sed", "gsed"), _sed),
}

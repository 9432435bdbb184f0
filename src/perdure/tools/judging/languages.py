"""Programs that run code of other languages than the shell's, and what can be said about that code."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from perdure.tools.judging.commandline import Redirect
from perdure.tools.judging.dangers import Seen
from perdure.tools.judging.deeds import Deed, Runs, RunsCode, RunsFile, Sets
from perdure.tools.judging.options import anywhere, named, split, values
from perdure.tools.judging.runners import fed
from perdure.tools.judging.words import HOLE, Word
from perdure.tools.judging.writers import SED

Words = Sequence[Word]
Redirects = Sequence[Redirect]

# Interpreters: their options with a value, and those whose value is code.
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
_SAME = {"nodejs": "node", "pypy": "python", "Rscript": "rscript", "luajit": "lua", "powershell": "pwsh"}
_ASKS = {"--version", "--help", "-V", "-h", "--test"}
_SHORT = {"node", "perl", "php", "ruby"}  # for which `-v` is all

_AWK = "-F: -v: -f: -i: -l: -e: -E: --field-separator: --assign: --file: --source: --exec:"
_AWK_RUNS = r"system|getline|@load"
_AWK_WRITES = r"(?<!\|)\|(?!\|)|>"  # behind a `print`
_SED_RUNS = r"(?:^|[^A-Za-z\\])[gpiImM0-9]{0,8}[ewW](?:[gpiImM0-9]*+\s*+(?:$|[;}\n])|\s)"
_SQL = r"(?i)\b(?:drop|truncate|delete|alter|grant|revoke|shutdown|program|system|shell)\b|\\!"
_CLIENT = (
    "-c: -e: -f: -d: -D: -h: -H: -P: -p? -q? -u: -U: -v: --command: --execute: --query: --file: --dbname: --host: "
    "--port: --user: --username: --cmd:"
)
_STATEMENTS = ("-c", "-e", "--command", "--execute", "--query", "-q", "--cmd")
_OTHER_WAYS = {"-f", "--file", "-l", "--list", "--version", "--help", "-V"}


def interpreted(words: Words, redirects: Redirects) -> Iterator[Deed]:
    """What an interpreter of the table runs."""
    plain = words[0].text.rpartition("/")[2].rstrip("0123456789.")
    plain = _SAME.get(plain, plain)
    if plain not in INTERPRETERS:
        return
    known, code = INTERPRETERS[plain]
    options, rest = split(words[1:], known, strict=False)
    if named(options) & set(code.split()) or (plain == "deno" and rest[:1] and rest[0].text in {"eval", "repl"}):
        yield Seen.OTHER_CODE
    elif plain == "python" and values(options, "-m"):
        yield Runs([*values(options, "-m")[:1], *rest])
    elif rest:
        yield from (RunsFile(word) for word in (rest[1:] if plain == "deno" else rest[:1]))
    elif not named(options) & (_ASKS | ({"-v"} if plain in _SHORT else set())):
        yield from _fed_code(redirects)


def _fed_code(redirects: Redirects) -> Iterator[Deed]:
    """The input of an interpreter: a file that it runs, or code that cannot be read."""
    for deed in fed(redirects, bash=False):
        yield Seen.OTHER_CODE if isinstance(deed, RunsCode) else deed


def _awk(words: Words, _: Redirects) -> Iterator[Deed]:
    options, rest = split(words[1:], _AWK, strict=False)
    programs = values(options, "-e", "--source")
    if not named(options) & {"-f", "-E", "-e", "--file", "--exec", "--source"}:
        programs = rest[:1]
    yield from _judged(
        programs, lambda text: re.search(_AWK_RUNS, text) or re.search(_AWK_WRITES, _printing(text))
    )


def _printing(text: str) -> str:
    return "".join(text.partition("print")[1:])


def _sed(words: Words, _: Redirects) -> Iterator[Deed]:
    options, rest = anywhere(words[1:], SED)
    given = named(options) & {"-e", "-f", "--expression", "--file"}
    yield from _judged(
        values(options, "-e", "--expression") if given else rest[:1], lambda text: re.search(_SED_RUNS, text)
    )


def _judged(programs: Words, runs: Callable[[str], object]) -> Iterator[Deed]:
    for program in programs:
        if HOLE in program.text:
            yield Seen.UNKNOWN_CODE
        elif runs(program.text):
            yield Seen.OTHER_CODE


def _database(words: Words, redirects: Redirects) -> Iterator[Deed]:
    options, rest = anywhere(words[1:], _CLIENT)
    bodies = [each.body for each in redirects if each.body is not None]
    given = [word.text for word in values(options, *_STATEMENTS)] + bodies
    written = [word.text for word in rest if re.search(r"[\s;]|^\.", word.text)]
    seen = given or written or named(options) & _OTHER_WAYS or any(each.sign == "<" for each in redirects)
    if not seen or any(HOLE in text for text in given) or any(re.search(_SQL, text) for text in given + written):
        yield Seen.DATABASE


def _declared(words: Words, _: Redirects) -> Iterator[Deed]:
    """Builtins of bash calculate the index in `name[index]`, and run the commands in it."""
    for word in words[1:]:
        if "[" in word.text and ("$(" in word.text or "`" in word.text):
            yield Seen.UNKNOWN_CODE
        if words[0].text in _DECLARES and "=" in word.text:
            yield Sets(word)


_DECLARES = frozenset({"declare", "export", "local", "readonly", "typeset"})
_CALCULATES = ("[", "[[", "let", "mapfile", "printf", "read", "readarray", "test", "unset", "wait", *_DECLARES)

READS: dict[str, Callable[[Words, Redirects], Iterator[Deed]]] = {
    **dict.fromkeys(("awk", "gawk", "mawk", "nawk"), _awk),
    **dict.fromkeys(("psql", "mysql", "mariadb", "sqlite3", "sqlite", "duckdb", "clickhouse-client"), _database),
    **dict.fromkeys(_CALCULATES, _declared),
    "sed": _sed,
}

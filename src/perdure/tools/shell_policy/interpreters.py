"""Assesses programs that run code of other languages than the shell's, such as Python or Perl."""

from __future__ import annotations

import re
from collections.abc import Iterator

from perdure.tools.shell_policy.facts import CommandFact, RunsCode, RunsCommand, RunsFile
from perdure.tools.shell_policy.lexer import Words, base_name
from perdure.tools.shell_policy.options import (
    Options,
    option_kinds,
    option_names,
    option_values,
    possible_options,
    split_options,
)
from perdure.tools.shell_policy.parser import Redirects
from perdure.tools.shell_policy.rules import RiskReason
from perdure.tools.shell_policy.shell_builtins import input_facts

# The options that each interpreter has before its script; `!` marks those whose value is code, or loads it.
INTERPRETERS: dict[str, str] = {
    "bun": "-e! -p! -r! --eval! --print! --preload!",
    "clisp": "-x! -i:",
    "crystal": "",
    "csh": "-c!",
    "deno": "",
    "elixir": "-e! -r! --eval! --rpc-eval! --erl!",
    "elvish": "-c!",
    "erl": "-eval! -run! -s!",
    "fish": "-c! -C! --command! --init-command!",
    "ghc": "-e!",
    "gnuplot": "-e!",
    "groovy": "-e!",
    "guile": "-c! -l! -e:",
    "irb": "-r!",
    "jshell": "",
    "julia": "-e! -E! -L! -J! --eval! --print! --load! --sysimage! --project?",
    "kotlin": "-e! -script!",
    "ksh": "-c! -o:",
    "lua": "-e! -l:",
    "mksh": "-c! -o:",
    "mongo": "--eval!",
    "mongosh": "--eval! -f:",
    "node": "-e! -p! -r! -C: --eval! --print! --require! --import! --loader! --experimental-loader! --conditions: "
    "--env-file: --title:",
    "nu": "-c! -e! --commands! --execute! --config! --env-config!",
    "ocaml": "-e! -I:",
    "octave": "--eval! --persist",
    "osascript": "-e! -l:",
    "perl": "-e! -E! -d! -I: -M: -m: -F: -i? -0? -l? -x? -C?",
    "php": "-r! -B! -R! -E! -F! -c! -d! -z! -a! -f: -t: -S: --run! --define! --php-ini! --zend-extension!",
    "pwsh": "-c! -C! -e! -E! -Command! -EncodedCommand! -command! -encodedcommand! -File: -f:",
    "python": "-c! -m: -W: -X: -Q: --check-hash-based-pycs:",
    "r": "-e! -f:",
    "racket": "-e! -r! -f! -l: -t:",
    "raku": "-e! -I: -M!",
    "rscript": "-e!",
    "ruby": "-e! -r! -I: -C: -E: -F: -i? -0? -x? -T?",
    "sbcl": "--eval! --load! --script:",
    "scala": "-e!",
    "swipl": "-g! -t!",
    "tclsh": "",
    "tcsh": "-c!",
    "wish": "",
    "xonsh": "-c!",
    "yash": "-c!",
    "zsh": "-c! -o:",
}
_ALIASES = {"nodejs": "node", "pypy": "python", "luajit": "lua", "powershell": "pwsh"}
_QUERY_OPTIONS = {"--version", "--help", "-V", "-h", "--test"}
_SHORT_VERSION_OPTION = {"node", "perl", "php", "ruby"}  # whose `-v` shows the version and runs nothing
_CODE_MODULES = frozenset(
    {"code", "idlelib", "pdb", "profile", "cProfile", "runpy", "timeit", "trace"}
)  # of Python
_CODE_COMMANDS = {"deno": {"eval", "repl"}, "crystal": {"eval", "i"}}
_PERL_MODULE = re.compile(r"-?[A-Za-z_][\w:]*(?:=[\w:,.]+)?")


def interpreter_name(path: str) -> str:
    """The name of an interpreter without path and version, such as `python` for `/usr/bin/python3.11`."""
    plain = base_name(path).rstrip("0123456789.-").lower()
    return _ALIASES.get(plain, plain)


def interpreter_facts(words: Words, redirects: Redirects) -> Iterator[CommandFact]:
    """What an interpreter of `INTERPRETERS` runs."""
    name = interpreter_name(words[0].text)
    if name not in INTERPRETERS:
        return
    options, rest = split_options(words[1:], INTERPRETERS[name], strict=False)
    if _runs_code(name, options, rest):
        yield RiskReason.OTHER_CODE
    elif name == "python" and (modules := option_values(options, "-m")):
        yield RunsCommand([*modules[:1], *rest]) if modules[0].text not in _CODE_MODULES else RiskReason.OTHER_CODE
    elif rest:
        yield from (RunsFile(word) for word in (rest[1:] if name == "deno" else rest[:1]))
    elif not option_names(options) & (_QUERY_OPTIONS | ({"-v"} if name in _SHORT_VERSION_OPTION else set())):
        yield from _input_code_facts(redirects)


def _runs_code(name: str, options: Options, rest: Words) -> bool:
    """Whether an option has code; behind a long option that is not known, any later word may be such an option."""
    table = INTERPRETERS[name]
    kinds = option_kinds(table)
    unsure = any(given.startswith("--") and given not in kinds and value is None for given, value in options)
    return (
        any(kinds.get(given) == "!" for given, _ in options)
        or (unsure and any(option.mark == "!" for option in possible_options(rest, table)))
        or bool(rest and rest[0].text in _CODE_COMMANDS.get(name, ()))
        or (name == "perl" and not all(map(_PERL_MODULE.fullmatch, _loaded_modules(options))))
    )


def _loaded_modules(options: Options) -> list[str]:
    return [word.text for word in option_values(options, "-M", "-m")]


def _input_code_facts(redirects: Redirects) -> Iterator[CommandFact]:
    """What an interpreter runs from its standard input: a file, or code that is not assessed."""
    for fact in input_facts(redirects, bash=False):
        yield RiskReason.OTHER_CODE if isinstance(fact, RunsCode) else fact

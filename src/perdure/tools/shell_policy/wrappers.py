"""Finds the commands, code and files that wrapper programs such as `env` or `xargs` run."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import pairwise

from msgspec.structs import replace

from perdure.tools.shell_policy.facts import (
    ChangesPath,
    CommandFact,
    RunsCode,
    RunsCommand,
    RunsFile,
    SetsVariable,
    join_words,
)
from perdure.tools.shell_policy.lexer import UNKNOWN_MARK, Unreadable, Word, Words, base_name
from perdure.tools.shell_policy.options import operands, option_names, option_values, split_options
from perdure.tools.shell_policy.parser import Redirects
from perdure.tools.shell_policy.rules import RiskReason

# Programs that run the command behind their options and this number of operands.
WRAPPERS: dict[str, tuple[str, int]] = {
    "builtin": ("", 0),
    "bundle exec": ("", 0),
    "busybox": ("", 0),
    "caffeinate": ("-d -i -m -s -u -t: -w:", 0),
    "chrt": ("-a -b -d -f -i -m -o -p -r -v", 1),
    "command": ("-p -v -V", 0),
    "exec": ("-a: -c -l", 0),
    "hatch run": ("", 0),
    "ionice": ("-c: -n: -t --class: --classdata: --ignore", 0),
    "nice": ("-n: --adjustment: -0 -1 -2 -3 -4 -5 -6 -7 -8 -9", 0),
    "nohup": ("", 0),
    "npx": ("-y -q -p: --yes --no --quiet --package:", 0),
    "pdm run": ("", 0),
    "pipenv run": ("", 0),
    "pipx run": ("-q --spec: --python:", 0),
    "poetry run": ("-n -q -v", 0),
    "setsid": ("-c -f -w --ctty --fork --wait", 0),
    "stdbuf": ("-i: -o: -e: --input: --output: --error:", 0),
    "strace": ("-c -C -f -i -k -q -r -t -T -v -x -y -a: -b: -e: -I: -o: -O: -P: -s: -S: -X:", 0),
    "taskset": ("-a -c --all-tasks --cpu-list", 1),
    "time": ("-a -p -v -f: -o: --append --portability --verbose --format: --output:", 0),
    "timeout": ("-f -p -v -k: -s: --foreground --preserve-status --verbose --kill-after: --signal:", 1),
    "toybox": ("", 0),
    "unbuffer": ("-p", 0),
    "uv run": ("-q -v -p: --quiet --verbose --no-sync --frozen --locked --python: --with: --extra: --group:", 0),
    "uvx": ("-q -p: --from: --with: --python: --isolated", 0),
}

_SHELLS = ("sh", "bash", "dash", "ash", "rbash")
_ENV = "-i -0 -v -u: --ignore-environment --null --debug --unset:"
_XARGS = (
    "-0 -o -p -r -t -x -a: -d: -E: -e? -I: -i? -J: -L: -l? -n: -P: -R: -s: -S: --null --open-tty --interactive "
    "--no-run-if-empty --verbose --exit --arg-file: --delimiter: --eof? --max-args: --max-chars: --max-lines? "
    "--max-procs: --replace?"
)
_SHELL = (
    "-a -b -c -e -f -h -i -k -l -m -n -o: -p -r -s -t -u -v -x -B -C -D -E -H -O: -P -T --login --norc "
    "--noprofile --posix --restricted --verbose --help --version"
)
_SSH = (
    "-4 -6 -A -a -C -f -G -g -K -k -M -N -n -q -s -T -t -V -v -X -x -Y -y -B: -b: -c: -D: -E: -e: -F: -I: -i: -J: "
    "-L: -l: -m: -O: -o: -P: -p: -Q: -R: -S: -W: -w:"
)
_EXEC = (
    "-d -i -t -T -c: -e: -n: -u: -w: --detach --interactive --privileged --stdin --tty --container: --env: "
    "--env-file: --index: --namespace: --user: --workdir:"
)
_WATCH = "-b -c -d? -e -g -n: -p -t -w -x --beep --color --differences? --errexit --interval: --no-title --exec"
_GIT_COMMAND = r"(?i)alias\.|pager|editor|command|cmd|helper|textconv|driver|hook|program|proxy|exec"


def wrapper_facts(words: Words) -> Iterator[CommandFact]:
    """The command that a program of `WRAPPERS` runs."""
    name = base_name(words[0].text)
    second = next((at for at, word in enumerate(words) if at and not word.text.startswith("-")), 0)
    both = f"{name} {words[second].text}"
    if name not in WRAPPERS and both not in WRAPPERS:
        return
    known, count = WRAPPERS.get(name) or WRAPPERS[both]
    _, rest = split_options(words[1 if name in WRAPPERS else second + 1 :], known)
    rest = operands(rest, count)[1]
    if rest and rest[0].text == "!":
        raise Unreadable("I do not know what `!` means there")
    if rest:
        yield RunsCommand(rest)


def input_facts(redirects: Redirects, *, bash: bool, local: bool = True) -> Iterator[CommandFact]:
    """What a shell runs that reads its commands from its standard input."""
    found = [each for each in redirects if each.operator[0] == "<" and each.descriptor in {"", "0"}][-1:]
    for redirect in found:
        if redirect.body is not None:
            yield RunsCode(Word(redirect.body, bare=False), bash, local)
        else:
            yield RunsFile(redirect.target) if redirect.operator == "<" else RiskReason.UNSEEN_CODE
    if not found:
        yield RiskReason.UNSEEN_CODE


def _shell(words: Words, redirects: Redirects) -> Iterator[CommandFact]:
    options, rest = split_options(words[1:], _SHELL)
    bash = words[0].text.endswith("bash")
    if option_names(options) & {"--version", "--help"}:
        return
    if "-c" in option_names(options):
        yield RunsCode(rest[0], bash) if rest else RiskReason.UNKNOWN_CODE
    elif rest and "-s" not in option_names(options):
        yield RunsFile(rest[0])
    else:
        yield from input_facts(redirects, bash=bash)


def _source(words: Words, redirects: Redirects) -> Iterator[CommandFact]:
    if words[1:2] and words[1].text == "/dev/stdin":
        yield from input_facts(redirects, bash=True)
    elif words[1:2]:
        yield RunsFile(words[1])


def _env(words: Words, _: Redirects) -> Iterator[CommandFact]:
    rest = split_options(words[1:], _ENV)[1]
    while rest and "=" in rest[0].text:
        (assignment,), rest = operands(rest, 1)
        yield SetsVariable(assignment)
    if rest:
        yield RunsCommand(rest)


def _xargs(words: Words, _: Redirects) -> Iterator[CommandFact]:
    options, rest = split_options(words[1:], _XARGS)
    if not rest:
        return
    marks = {"-I", "-i", "-J", "--replace"} & option_names(options)
    mark = [*option_values(options, *marks), Word("{}")][0].text if marks else ""
    yield RunsCommand(
        [_mark_unknown(word, mark) for word in rest]
        if mark
        else [*rest, Word(UNKNOWN_MARK, "…", splits=True, bare=False)]
    )


def _mark_unknown(word: Word, placeholder: str) -> Word:
    return replace(word, text=word.text.replace(placeholder, UNKNOWN_MARK)) if placeholder in word.text else word


def _find(words: Words, _: Redirects) -> Iterator[CommandFact]:
    rest = iter(words)
    for word in rest:
        if word.text in {"-exec", "-execdir", "-ok", "-okdir"}:
            inner = list[Word]()
            for each in rest:
                if each.text == ";" or (each.text == "+" and inner and inner[-1].text == UNKNOWN_MARK):
                    break
                inner.append(_mark_unknown(each, "{}"))
            yield RunsCommand(inner) if inner else RiskReason.UNKNOWN_CODE
        elif word.text in {"-fprint", "-fprint0", "-fprintf", "-fls"}:
            yield from (ChangesPath(path) for path in [next(rest, None)] if path)


def _fd(words: Words, _: Redirects) -> Iterator[CommandFact]:
    for at, word in enumerate(words):
        if word.text in {"--exec", "--exec-batch"} or re.fullmatch(r"-[A-Za-z]*[xX]", word.text):
            rest = [_mark_unknown(each, "{}") for each in words[at + 1 :]]
            yield RunsCommand([*rest, Word(UNKNOWN_MARK, "…", bare=False)]) if rest else RiskReason.UNKNOWN_CODE
            return


def _ssh(words: Words, redirects: Redirects) -> Iterator[CommandFact]:
    options, rest = split_options(words[1:], _SSH)
    _, rest = operands(rest, 1)
    if rest:
        yield RunsCode(join_words(rest), bash=False, local=False)
    elif not option_names(options) & {"-N", "-V", "-G", "-Q", "-O"}:
        yield from input_facts(redirects, bash=False, local=False)


def _in_container(words: Words, _: Redirects) -> Iterator[CommandFact]:
    texts = [word.text for word in words]
    if "exec" not in texts:
        shells = [at for at, text in enumerate(texts) if base_name(text) in _SHELLS]
        yield from (RunsCommand(words[at:]) for at in shells[:1])
        return
    behind = words[texts.index("exec") + 1 :]
    rest = words[texts.index("--") + 1 :] if "--" in texts else operands(split_options(behind, _EXEC)[1], 1)[1]
    if rest:
        yield RunsCommand(rest, local=False)


def _git(words: Words, _: Redirects) -> Iterator[CommandFact]:
    configures = any(word.text == "config" for word in words)
    for before, word in pairwise(words):
        key, sign, value = word.text.partition("=") if before.text == "-c" else (before.text, "", word.text)
        if (sign or (configures and "." in key)) and re.search(_GIT_COMMAND, key):
            code = value[1:] if value.startswith("!") else f"git {value}" if key.startswith("alias.") else value
            yield RunsCode(replace(word, text=code))


def _eval(words: Words, _: Redirects) -> Iterator[CommandFact]:
    yield RunsCode(join_words([word for word in words[1:] if word.text != "--"]))


def _trap(words: Words, _: Redirects) -> Iterator[CommandFact]:
    rest = split_options(words[1:], "-l -p", strict=False)[1]
    yield from (RunsCode(word) for word in rest[:1] if len(rest) > 1)


def _alias(words: Words, _: Redirects) -> Iterator[CommandFact]:
    for word in words[1:]:
        yield RunsCode(replace(word, text=word.text.partition("=")[2]))


def _watch(words: Words, _: Redirects) -> Iterator[CommandFact]:
    yield RunsCode(join_words(split_options(words[1:], _WATCH)[1]), bash=False)


def _flock(words: Words, _: Redirects) -> Iterator[CommandFact]:
    rest = operands(split_options(words[1:], "-e -F -n -o -s -u -x -E: -w: --nonblock --timeout:")[1], 1)[1]
    if rest[:1] and rest[0].text == "-c":
        yield RunsCode(join_words(rest[1:]), bash=False)
    elif rest:
        yield RunsCommand(rest)


COMMAND_RUNNERS: dict[str, Callable[[Words, Redirects], Iterator[CommandFact]]] = {
    **dict.fromkeys(_SHELLS, _shell),
    **dict.fromkeys(("docker", "podman", "nerdctl", "docker-compose", "kubectl", "oc", "lxc"), _in_container),
    **dict.fromkeys((".", "source"), _source),
    **dict.fromkeys(("fd", "fdfind"), _fd),
    "alias": _alias,
    "env": _env,
    "eval": _eval,
    "find": _find,
    "flock": _flock,
    "git": _git,
    "ssh": _ssh,
    "trap": _trap,
    "watch": _watch,
    "xargs": _xargs,
}

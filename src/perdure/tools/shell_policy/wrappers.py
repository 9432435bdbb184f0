"""Finds the commands, code and files that wrapper programs such as `env` or `xargs` run."""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec.structs import replace

from perdure.tools.shell_policy.facts import (
    ChangesPath,
    CommandFact,
    FactFinder,
    RunsCode,
    RunsCommand,
    RunsFile,
    SetsVariable,
    join_words,
)
from perdure.tools.shell_policy.lexer import UNKNOWN_MARK, Unreadable, Word, Words, base_name
from perdure.tools.shell_policy.options import (
    Options,
    operands,
    option_kinds,
    option_names,
    option_values,
    split_options,
)
from perdure.tools.shell_policy.parser import Redirects
from perdure.tools.shell_policy.rules import RiskReason
from perdure.tools.shell_policy.shell_builtins import input_facts

# Programs that run the command behind their options and this number of operands; another option is refused.
WRAPPERS: dict[str, tuple[str, int]] = {
    **dict.fromkeys(("builtin", "busybox", "eatmydata", "fakeroot", "nohup", "sem", "toybox", "winpty"), ("", 0)),
    **dict.fromkeys(("bundle exec", "hatch run", "pdm run", "pipenv run", "rye run"), ("", 0)),
    **dict.fromkeys(
        ("npm exec", "npm x", "bun x", "bunx", "pnpm exec", "pnpm dlx", "yarn exec", "yarn dlx", "yarn run"),
        ("", 0),
    ),
    **dict.fromkeys(("setarch", "linux32", "linux64", "i386", "i686", "x86_64"), ("-R -v --verbose", 0)),
    **dict.fromkeys(("torsocks", "proxychains", "proxychains4", "torify"), ("-q", 0)),
    "caffeinate": ("-d -i -m -s -u -t: -w:", 0),
    "ccache": ("", 0),
    "chronic": ("-e -v", 0),
    "choom": ("-n: --adjust:", 0),
    "chrt": ("-a -b -d -f -i -m -o -p -r -v", 1),
    "command": ("-p -v -V", 0),
    "conda run": ("-n: -p: --name: --prefix: --no-capture-output --live-stream", 0),
    "cpulimit": ("-l: -f -q -v -i -z --limit: --foreground --quiet", 0),
    "dbus-run-session": ("", 0),
    "direnv exec": ("", 1),
    "distcc": ("", 0),
    "dumb-init": ("-c -v -r: --single-child --verbose --rewrite:", 0),
    "exec": ("-a: -c -l", 0),
    "faketime": ("-f -m", 1),
    "ionice": ("-c: -n: -t --class: --classdata: --ignore", 0),
    "ltrace": ("-c -C -f -i -r -S -t -T -a: -e: -n: -o> -s: -x:", 0),
    "nice": ("-n: --adjustment: -0 -1 -2 -3 -4 -5 -6 -7 -8 -9", 0),
    "npx": ("-y -q -p: --yes --no --quiet --package:", 0),
    "numactl": ("-a -l -b -C: -i: -m: -N: -p: --cpunodebind: --membind: --interleave: --localalloc", 0),
    "perf stat": ("-a -d -v -e: -r: -o> --event: --repeat: --output>", 0),
    "perf record": ("-a -g -v -e: -F: -o> --event: --freq: --output>", 0),
    "pipx run": ("-q --spec: --python:", 0),
    "poetry run": ("-n -q -v", 0),
    "prlimit": (
        "-n? -u? -v? -t? -c? -d? -f? -s? --nofile? --nproc? --as? --cpu? --core? --data? --fsize? --stack?",
        0,
    ),
    "rlwrap": ("", 0),
    "setsid": ("-c -f -w --ctty --fork --wait", 0),
    "stdbuf": ("-i: -o: -e: --input: --output: --error:", 0),
    "strace": ("-c -C -f -i -k -q -r -t -T -v -x -y -a: -b: -e: -I: -o> -O: -P: -s: -S: -X:", 0),
    "taskset": ("-a -c --all-tasks --cpu-list", 1),
    "time": ("-a -p -v -f: -o> --append --portability --verbose --format: --output>", 0),
    "timeout": ("-f -p -v -k: -s: --foreground --preserve-status --verbose --kill-after: --signal:", 1),
    "tini": ("-s -v -w -g -p: -e:", 0),
    "unbuffer": ("-p", 0),
    "uv run": ("-q -v -p: --quiet --verbose --no-sync --frozen --locked --python: --with: --extra: --group:", 0),
    "uvx": ("-q -p: --from: --with: --python: --isolated", 0),
    "valgrind": (
        "-q -v --quiet --verbose --leak-check: --tool: --track-origins: --error-exitcode: --log-file>",
        0,
    ),
    "xvfb-run": ("-a -e> -n: -s: -w: --auto-servernum --server-num: --server-args: --error-file>", 0),
}
_SUBCOMMANDS = {
    first: {both.partition(" ")[2] for both in WRAPPERS if both.startswith(f"{first} ")}
    for first in {both.partition(" ")[0] for both in WRAPPERS if " " in both}
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
_HARMLESS_SSH = re.compile(
    r"(?i)(?:AddKeysToAgent|BatchMode|Ciphers|Compression|ConnectTimeout|ConnectionAttempts|ControlMaster|ControlPersist|"
    r"HostKeyAlgorithms|HostName|IdentitiesOnly|IdentityFile|KexAlgorithms|LogLevel|NumberOfPasswordPrompts|Port|"
    r"PasswordAuthentication|PreferredAuthentications|PubkeyAuthentication|RequestTTY|ServerAliveCountMax|"
    r"ServerAliveInterval|StrictHostKeyChecking|TCPKeepAlive|User|UserKnownHostsFile)[ \t=]"
)
_EXEC = (
    "-d -i -t -T -c: -e: -n: -u: -w: --detach --interactive --privileged --stdin --tty --container: --env: "
    "--env-file: --index: --namespace: --user: --workdir:"
)
_WATCH = "-b -c -d? -e -g -n: -p -t -w -x --beep --color --differences? --errexit --interval: --no-title --exec"


def wrapper_facts(words: Words) -> Iterator[CommandFact]:
    """The command that a program of `WRAPPERS` runs."""
    name, start = base_name(words[0].text), 1
    if name in _SUBCOMMANDS:
        start = next((at for at, word in enumerate(words, 1) if word.text in _SUBCOMMANDS[name]), 0)
        name = f"{name} {words[start - 1].text}"
    if not start or name not in WRAPPERS:
        return
    table, count = WRAPPERS[name]
    options, rest = split_options(words[start:], table)
    yield from changed_paths(options, table)
    rest = operands(rest, count)[1]
    if rest and rest[0].text == "!":
        raise Unreadable("I do not know what `!` means there")
    if rest:
        yield RunsCommand(rest)


def changed_paths(options: Options, table: str) -> Iterator[CommandFact]:
    """The values of options that name a path to change; a program that reads `|…` there runs a command."""
    for name, value in options:
        if value and option_kinds(table).get(name) == ">":
            yield RiskReason.OPTION_PROGRAM if value.text[:1] in {"|", "!"} else ChangesPath(value)


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


def _env(words: Words, _: Redirects) -> Iterator[CommandFact]:
    rest = split_options(words[1:], _ENV)[1]
    rest = rest[1:] if rest and rest[0].text == "-" else rest  # as `-i`
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
    yield from ssh_option_facts(options, "-F", "-I")
    _, rest = operands(rest, 1)
    if rest:
        yield RunsCode(join_words(rest), bash=False, local=False)
    elif not option_names(options) & {"-N", "-V", "-G", "-Q", "-O"}:
        yield from input_facts(redirects, bash=False, local=False)


def ssh_option_facts(options: Options, *running: str) -> Iterator[CommandFact]:
    """What options of ssh and its relatives run on this machine: settings that are not known, and `running`."""
    for value in option_values(options, "-o"):
        if not _HARMLESS_SSH.match(value.text):
            yield RiskReason.OPTION_PROGRAM
    if option_names(options) & set(running):
        yield RiskReason.OPTION_PROGRAM
    yield from (ChangesPath(path) for path in option_values(options, "-E"))


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


def _watch(words: Words, _: Redirects) -> Iterator[CommandFact]:
    yield RunsCode(join_words(split_options(words[1:], _WATCH)[1]), bash=False)


def _flock(words: Words, _: Redirects) -> Iterator[CommandFact]:
    rest = operands(split_options(words[1:], "-e -F -n -o -s -u -x -E: -w: --nonblock --timeout:")[1], 1)[1]
    if rest[:1] and rest[0].text == "-c":
        yield RunsCode(join_words(rest[1:]), bash=False)
    elif rest:
        yield RunsCommand(rest)


COMMAND_RUNNERS: dict[str, FactFinder] = {
    **dict.fromkeys(_SHELLS, _shell),
    **dict.fromkeys(("docker", "podman", "nerdctl", "docker-compose", "kubectl", "oc", "lxc"), _in_container),
    **dict.fromkeys(("fd", "fdfind"), _fd),
    "env": _env,
    "find": _find,
    "flock": _flock,
    "ssh": _ssh,
    "watch": _watch,
    "xargs": _xargs,
}

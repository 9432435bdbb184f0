"""Finds the paths that known programs change, in their operands and options."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from perdure.tools.shell_policy.facts import ChangesPath, CommandFact, FactFinder
from perdure.tools.shell_policy.lexer import Words
from perdure.tools.shell_policy.options import option_names, option_values, split_permuted_options
from perdure.tools.shell_policy.parser import Redirects
from perdure.tools.shell_policy.rules import RiskReason
from perdure.tools.shell_policy.wrappers import ssh_option_facts

_COPYING = "-t: -S: -m: -o: -g: -e: -P: -p: --target-directory: --suffix: --mode: --owner: --group: --rsh:"
_SSH_COPYING = "-F: -S: -D: -o: -P: -i: -J: -l: -c: -b: -B: -R: -s: -X:"
SED_OPTIONS = "-e: -f: -l: -i? --expression: --file: --line-length: --in-place?"


def _all(words: Words, _: Redirects) -> Iterator[CommandFact]:
    """The program changes every operand."""
    options, paths = split_permuted_options(words[1:], "-t: --target-directory:")
    yield from (ChangesPath(path) for path in [*paths, *option_values(options, "-t", "--target-directory")])


def _last(words: Words, _: Redirects) -> Iterator[CommandFact]:
    """The program changes its last operand, or a folder that an option names."""
    options, paths = split_permuted_options(words[1:], _COPYING)
    targets = option_values(options, "-t", "--target-directory") or paths[-1:]
    yield from (ChangesPath(path) for path in (paths if "-d" in option_names(options) else targets))


def _remote(words: Words, _: Redirects) -> Iterator[CommandFact]:
    """The program changes its last operand, which may be on another machine."""
    options, paths = split_permuted_options(
        words[1:], _COPYING if words[0].text.endswith("rsync") else _SSH_COPYING
    )
    if not words[0].text.endswith("rsync"):
        yield from ssh_option_facts(options, "-F", "-S", "-D")
    for path in paths[-1:]:
        yield RiskReason.OUTSIDE if ":" in path.text else ChangesPath(path)


def _removed_operands(words: Words, _: Redirects) -> Iterator[CommandFact]:
    """The program removes every operand, so that each must be known by name."""
    for path in split_permuted_options(words[1:], "")[1]:
        yield ChangesPath(path) if path.known else RiskReason.REMOVES


def _dd(words: Words, _: Redirects) -> Iterator[CommandFact]:
    for word in words[1:]:
        if word.splits or word.text.startswith("of="):
            yield ChangesPath(replace(word, text=word.text.removeprefix("of=")))


def _sed(words: Words, _: Redirects) -> Iterator[CommandFact]:
    """`sed -i` changes every file; `interpreters` assesses its script."""
    options, rest = split_permuted_options(words[1:], SED_OPTIONS)
    scripted = option_names(options) & {"-e", "-f", "--expression", "--file"}
    if option_names(options) & {"-i", "--in-place"}:
        yield from (ChangesPath(path) for path in (rest if scripted else rest[1:]))


FILE_WRITERS: dict[str, FactFinder] = {
    **dict.fromkeys(("mv", "touch", "mkdir", "rmdir", "tee", "chmod", "chown", "chgrp", "mkfifo", "mknod"), _all),
    **dict.fromkeys(("cp", "ln", "install"), _last),
    **dict.fromkeys(("rsync", "scp", "sftp"), _remote),
    **dict.fromkeys(("rm", "unlink"), _removed_operands),
    "dd": _dd,
    **dict.fromkeys(("sed", "gsed"), _sed),
}

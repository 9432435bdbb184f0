"""Finds the paths that known programs change, in their operands and options."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from msgspec.structs import replace

from perdure.tools.shell_policy.facts import ChangesPath, CommandFact
from perdure.tools.shell_policy.lexer import Word
from perdure.tools.shell_policy.options import option_names, option_values, split_permuted_options
from perdure.tools.shell_policy.rules import RiskReason

_COPYING = "-t: -S: -m: -o: -g: -e: -P: -p: --target-directory: --suffix: --mode: --owner: --group: --rsh:"
SED_OPTIONS = "-e: -f: -l: -i? --expression: --file: --line-length: --in-place?"

# Before the stroke: options that name a destination. Behind it: other options with a value.
_DESTINATIONS = {
    "curl": "-o: -D: -c: --output: --output-dir: --dump-header: --cookie-jar: | "
    "-A: -b: -d: -e: -E: -F: -H: -K: -m: -T: -u: -w: -x: -X:",
    "wget": "-O: -P: -o: -a: --output-document: --directory-prefix: --output-file: | -U: -t: -T: -Q: -i:",
    "tar": "-C: --directory: | -f: -b: -T: -X: --file: --exclude:",
    "unzip": "-d: | -x: -P:",
    "7z": "-o: |",
    "sort": "-o: --output: | -k: -t: -S: -T:",
    "gcc": "-o: | -D: -I: -L: -l: -x:",
}


def _all(words: Sequence[Word]) -> Iterator[CommandFact]:
    """The program changes every operand."""
    options, paths = split_permuted_options(words[1:], "-t: --target-directory:")
    yield from (ChangesPath(path) for path in [*paths, *option_values(options, "-t", "--target-directory")])


def _last(words: Sequence[Word]) -> Iterator[CommandFact]:
    """The program changes its last operand, or a folder that an option names."""
    options, paths = split_permuted_options(words[1:], _COPYING)
    targets = option_values(options, "-t", "--target-directory") or paths[-1:]
    yield from (ChangesPath(path) for path in (paths if "-d" in option_names(options) else targets))


def _remote(words: Sequence[Word]) -> Iterator[CommandFact]:
    """The program changes its last operand, which may be on another machine."""
    _, paths = split_permuted_options(words[1:], _COPYING)
    for path in paths[-1:]:
        yield RiskReason.OUTSIDE if ":" in path.text else ChangesPath(path)


def _removed_operands(words: Sequence[Word]) -> Iterator[CommandFact]:
    """The program removes every operand, so that each must be known by name."""
    for path in split_permuted_options(words[1:], "")[1]:
        yield ChangesPath(path) if path.known else RiskReason.REMOVES


def _dd(words: Sequence[Word]) -> Iterator[CommandFact]:
    for word in words[1:]:
        if word.splits or word.text.startswith("of="):
            yield ChangesPath(replace(word, text=word.text.removeprefix("of=")))


def _sed(words: Sequence[Word]) -> Iterator[CommandFact]:
    """`sed -i` changes every file; `interpreters` assesses its script."""
    options, rest = split_permuted_options(words[1:], SED_OPTIONS)
    scripted = option_names(options) & {"-e", "-f", "--expression", "--file"}
    if option_names(options) & {"-i", "--in-place"}:
        yield from (ChangesPath(path) for path in (rest if scripted else rest[1:]))


def _option_destinations(words: Sequence[Word], known: str) -> Iterator[CommandFact]:
    destinations, _, others = known.partition("|")
    options, _ = split_permuted_options(words[1:], f"{destinations} {others}")
    yield from (
        ChangesPath(path)
        for path in option_values(options, *destinations.replace(":", "").split())
        if path.text != "-"
    )


WriterFacts = Callable[[Sequence[Word]], Iterator[CommandFact]]
_WRITERS: dict[str, WriterFacts] = {
    **dict.fromkeys(("mv", "touch", "mkdir", "rmdir", "tee", "chmod", "chown", "chgrp", "mkfifo", "mknod"), _all),
    **dict.fromkeys(("cp", "ln", "install"), _last),
    **dict.fromkeys(("rsync", "scp", "sftp"), _remote),
    **dict.fromkeys(("rm", "unlink"), _removed_operands),
    "dd": _dd,
    "sed": _sed,
}


def file_writer_facts(name: str, words: Sequence[Word]) -> Iterator[CommandFact]:
    """The paths that a program of these tables changes."""
    if name in _WRITERS:
        yield from _WRITERS[name](words)
    elif name in _DESTINATIONS:
        yield from _option_destinations(words, _DESTINATIONS[name])

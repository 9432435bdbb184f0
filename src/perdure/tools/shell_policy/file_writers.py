"""Programs that change files: which of their words are places that they change."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from msgspec.structs import replace

from perdure.tools.shell_policy.facts import ChangesPath, CommandFact
from perdure.tools.shell_policy.lexer import Word
from perdure.tools.shell_policy.options import option_names, option_values, split_permuted_options
from perdure.tools.shell_policy.rules import RiskReason

_COPYING = "-t: -S: -m: -o: -g: -e: -P: -p: --target-directory: --suffix: --mode: --owner: --group: --rsh:"
SED_OPTIONS = "-e: -f: -l: -i? --expression: --file: --line-length: --in-place?"

# Options of programs that write elsewhere, before the stroke; and others of theirs that have a value.
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
    """Every operand is changed."""
    options, places = split_permuted_options(words[1:], "-t: --target-directory:")
    yield from (ChangesPath(place) for place in [*places, *option_values(options, "-t", "--target-directory")])


def _last(words: Sequence[Word]) -> Iterator[CommandFact]:
    """The last operand is changed, or a folder that an option names."""
    options, places = split_permuted_options(words[1:], _COPYING)
    targets = option_values(options, "-t", "--target-directory") or places[-1:]
    yield from (ChangesPath(place) for place in (places if "-d" in option_names(options) else targets))


def _remote(words: Sequence[Word]) -> Iterator[CommandFact]:
    """The last operand is changed, and may be on another machine."""
    _, places = split_permuted_options(words[1:], _COPYING)
    for place in places[-1:]:
        yield RiskReason.OUTSIDE if ":" in place.text else ChangesPath(place)


def _removed_operands(words: Sequence[Word]) -> Iterator[CommandFact]:
    """Every operand is removed, so each has to be named."""
    for place in split_permuted_options(words[1:], "")[1]:
        yield ChangesPath(place) if place.known else RiskReason.REMOVES


def _dd(words: Sequence[Word]) -> Iterator[CommandFact]:
    for word in words[1:]:
        if word.splits or word.text.startswith("of="):
            yield ChangesPath(replace(word, text=word.text.removeprefix("of=")))


def _sed(words: Sequence[Word]) -> Iterator[CommandFact]:
    """`sed`: with `-i` every file is changed. What its script runs is found elsewhere."""
    options, rest = split_permuted_options(words[1:], SED_OPTIONS)
    scripted = option_names(options) & {"-e", "-f", "--expression", "--file"}
    if option_names(options) & {"-i", "--in-place"}:
        yield from (ChangesPath(place) for place in (rest if scripted else rest[1:]))


def _option_destinations(words: Sequence[Word], known: str) -> Iterator[CommandFact]:
    places, _, others = known.partition("|")
    options, _ = split_permuted_options(words[1:], f"{places} {others}")
    yield from (
        ChangesPath(place)
        for place in option_values(options, *places.replace(":", "").split())
        if place.text != "-"
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
    """The places that this program changes, if it is one that is known here."""
    if name in _WRITERS:
        yield from _WRITERS[name](words)
    elif name in _DESTINATIONS:
        yield from _option_destinations(words, _DESTINATIONS[name])

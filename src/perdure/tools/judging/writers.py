"""Programs that change files: which of their words are places that they change."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from msgspec.structs import replace

from perdure.tools.judging.dangers import Seen
from perdure.tools.judging.deeds import Changes, Deed
from perdure.tools.judging.options import anywhere, named, values
from perdure.tools.judging.words import Word

_COPYING = "-t: -S: -m: -o: -g: -e: -P: -p: --target-directory: --suffix: --mode: --owner: --group: --rsh:"
SED = "-e: -f: -l: -i? --expression: --file: --line-length: --in-place?"

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


def _all(words: Sequence[Word]) -> Iterator[Deed]:
    """Every operand is changed."""
    options, places = anywhere(words[1:], "-t: --target-directory:")
    yield from (Changes(place) for place in [*places, *values(options, "-t", "--target-directory")])


def _last(words: Sequence[Word]) -> Iterator[Deed]:
    """The last operand is changed, or a folder that an option names."""
    options, places = anywhere(words[1:], _COPYING)
    targets = values(options, "-t", "--target-directory") or places[-1:]
    yield from (Changes(place) for place in (places if "-d" in named(options) else targets))


def _remote(words: Sequence[Word]) -> Iterator[Deed]:
    """The last operand is changed, and may be on another machine."""
    _, places = anywhere(words[1:], _COPYING)
    for place in places[-1:]:
        yield Seen.OUTSIDE if ":" in place.text else Changes(place)


def _removed(words: Sequence[Word]) -> Iterator[Deed]:
    """Every operand is removed, so each has to be named."""
    for place in anywhere(words[1:], "")[1]:
        yield Changes(place) if place.known else Seen.REMOVES


def _disk(words: Sequence[Word]) -> Iterator[Deed]:
    for word in words[1:]:
        if word.splits or word.text.startswith("of="):
            yield Changes(replace(word, text=word.text.removeprefix("of=")))


def _edited(words: Sequence[Word]) -> Iterator[Deed]:
    """`sed`: with `-i` every file is changed. What its script runs is found elsewhere."""
    options, rest = anywhere(words[1:], SED)
    scripted = named(options) & {"-e", "-f", "--expression", "--file"}
    if named(options) & {"-i", "--in-place"}:
        yield from (Changes(place) for place in (rest if scripted else rest[1:]))


def _destined(words: Sequence[Word], known: str) -> Iterator[Deed]:
    places, _, others = known.partition("|")
    options, _ = anywhere(words[1:], f"{places} {others}")
    yield from (Changes(place) for place in values(options, *places.replace(":", "").split()) if place.text != "-")


Writes = Callable[[Sequence[Word]], Iterator[Deed]]
_WRITES: dict[str, Writes] = {
    **dict.fromkeys(("mv", "touch", "mkdir", "rmdir", "tee", "chmod", "chown", "chgrp", "mkfifo", "mknod"), _all),
    **dict.fromkeys(("cp", "ln", "install"), _last),
    **dict.fromkeys(("rsync", "scp", "sftp"), _remote),
    **dict.fromkeys(("rm", "unlink"), _removed),
    "dd": _disk,
    "sed": _edited,
}


def changes(name: str, words: Sequence[Word]) -> Iterator[Deed]:
    """The places that this program changes, if it is one that is known here."""
    if name in _WRITES:
        yield from _WRITES[name](words)
    elif name in _DESTINATIONS:
        yield from _destined(words, _DESTINATIONS[name])

"""What the file tools answer."""

from __future__ import annotations

from collections.abc import Sequence

from perdure.core.texts import phrases


def _byte_count(count: int) -> str:
    return "1 byte" if count == 1 else f"{count} bytes"


def bad_path(path: str, error: BaseException) -> str:
    return f"`{path[:200]!r}` cannot be a path: {error}."


def outside_root(path: str, root: str) -> str:
    return f"`{path}` leads out of `{root}`, the root folder; only what is in it can be used. Give a path inside."


def no_such_file(name: str) -> str:
    return f"`{name}` does not exist. read_file shows the entries of a folder."


def unusable(name: str, why: str) -> str:
    return f"`{name}` cannot be used: {why}."


def parent_is_file(name: str) -> str:
    return f"`{name}` cannot be there: a part of its path is a file, not a folder."


def not_a_file(name: str) -> str:
    return f"`{name}` is not a file but a folder, a pipe or a device. Name a file."


def gateway_file(name: str) -> str:
    return f"`{name}` is a file of the gateway itself under another name, and cannot be used."


def exchanged(name: str) -> str:
    return f"A part of `{name}` became a link while it was being used, so it was not. Try again."


def binary_file(name: str) -> str:
    return f"`{name}` is a binary file, so there is no text to show or edit."


def not_utf8(name: str) -> str:
    return f"`{name}` is not encoded in UTF-8, so it cannot be shown or edited as text."


def too_large(name: str, limit: int) -> str:
    return f"`{name}` is larger than {limit >> 20} MiB, too large to be edited."


def folder_listing(name: str, entries: Sequence[str], whole: bool) -> str:
    if not entries:
        return f"The folder `{name}` is empty."
    count = (
        f"{len(entries)} of more" if not whole else "1 entry" if len(entries) == 1 else f"{len(entries)} entries"
    )
    return "\n".join([f"The folder `{name}`, {count}:", *entries])


LINE_TRUNCATED = " [… the rest of this line is left out]\n"


def excerpt(name: str, text: str, first: int, last: int, total: int, *, whole: bool) -> str:
    """Lines of a file, below a line that says which lines they are."""
    if not total:
        return f"`{name}` is empty."
    said = [f"`{name}`, lines {first} to {last} of {total if whole else f'more than {total}'}"]
    if last < total or not whole:
        said.append(f"go on with offset={last + 1}")
    return f"{'; '.join(said)}\n{text}"


def no_such_line(name: str, offset: int, total: int, whole: bool) -> str:
    if whole:
        return f"`{name}` has no line {offset}: it has {total} lines."
    return f"`{name}` is too large: it is read up to line {total}, and line {offset} is after that."


def written(name: str, size: int) -> str:
    return f"Wrote {_byte_count(size)} to `{name}`."


def not_edited(name: str, count: int, lines: Sequence[int], *, same: bool) -> str:
    if same:
        return f"`{name}` was not changed: `old` and `new` are the same."
    if not count:
        look = "It must be the exact text, with every space and line break; read_file shows it."
        return f"`{name}` was not changed: `old` does not occur in it. {look}"
    where = f"{count} times, in the lines {_first_numbers(lines, count)}"
    return f"`{name}` was not changed: `old` occurs {where}. Give more of the text around it, or all=true."


def edited(name: str, count: int, lines: Sequence[int]) -> str:
    places = f"1 place, line {lines[0]}" if count == 1 else f"{count} places, lines {_first_numbers(lines, count)}"
    return f"Changed `{name}` in {places}."


def _first_numbers(numbers: Sequence[int], count: int) -> str:
    shown = ", ".join(map(str, numbers[:10]))
    return f"{shown} and {count - 10} more" if count > 10 else shown


def bad_pattern(pattern: str, why: str) -> str:
    hint = "To search for a character such as ( [ . * + ? itself, put a backslash before it."
    return f"`{phrases.clip(pattern, 200)}` cannot be searched for: {why}. {hint}"


def search_aborted(pattern: str, seconds: float, error: str, found: Sequence[str]) -> str:
    why = f"failed ({error})" if error else f"was given up after {seconds:g} s"
    hint = (
        "Repetitions inside of repetitions, such as (a+)+, may take for ever. Make the pattern simpler, or narrow"
    )
    said = [f"The search for `{phrases.clip(pattern, 200)}` {why}. {hint} `path` or `glob`."]
    return "\n".join([*said, "Found until then:", *found] if found else said)


def search_results(found: Sequence[str], under: str, files: int, *, large: int, full: bool, late: bool) -> str:
    count = "1 match" if len(found) == 1 else f"{len(found)} matches" if found else "No match"
    said = [f"{count} in {'1 file' if files == 1 else f'{files} files'} under `{under}`."]
    if large:
        said.append(f"{large} {'was' if large == 1 else 'were'} too large to be searched.")
    if full:
        said.append("There are more: narrow `pattern`, `path` or `glob`.")
    if late:
        said.append("The time was up before all files were searched: narrow `path` or `glob`.")
    return "\n".join([" ".join(said), *found])

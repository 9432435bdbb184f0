"""What tools answer a model."""

from __future__ import annotations

from collections.abc import Sequence

from perdure.core.notes.words import clipped

TOOL_DONE = "done"


def argument_missing(name: str, schema: str) -> str:
    return f"`{name}` is missing; its schema is {clipped(schema, 400)}."


def argument_misfit(place: str, problem: str, came: str, schema: str) -> str:
    said = f"{problem[:1].lower()}{problem[1:]}"
    return f"`{place}`: {said}; the argument came as {clipped(came, 200)}, its schema is {clipped(schema, 400)}."


def no_such_argument(name: str) -> str:
    return f"There is no argument `{name[:100]}`."


def arguments_misfit(tool: str, problems: Sequence[str], known: Sequence[str]) -> str:
    takes = ", ".join(f"`{name}`" for name in known) or "no arguments"
    return f"`{tool}` was not run, because its arguments do not fit. {' '.join(problems)} It takes {takes}."


def tool_exits(tool: str, code: object) -> str:
    return f"`{tool}` wanted to end the whole process (exit code {code!r}), which a tool cannot do."


def untellable_result(tool: str, kind: str, error: BaseException) -> str:
    return f"`{tool}` ran to its end, but its result, of the type {kind}, cannot be told as JSON: {error}"


def _size(count: int) -> str:
    return "1 byte" if count == 1 else f"{count} bytes"


def bad_path(path: str, error: BaseException) -> str:
    return f"`{path[:200]!r}` cannot be a path: {error}."


def outside(path: str, root: str) -> str:
    return f"`{path}` leads out of `{root}`, the root folder; only what is in it can be used. Give a path inside."


def no_such_file(name: str) -> str:
    return f"`{name}` does not exist. read_file shows the entries of a folder."


def file_trouble(name: str, why: str) -> str:
    return f"`{name}` cannot be used: {why}."


def file_for_folder(name: str) -> str:
    return f"`{name}` cannot be there: a part of its path is a file, not a folder."


def not_a_file(name: str) -> str:
    return f"`{name}` is not a file but a folder, a pipe or a device. Name a file."


def binary(name: str) -> str:
    return f"`{name}` is a binary file, so there is no text to show or edit."


def not_utf8(name: str) -> str:
    return f"`{name}` is not encoded in UTF-8, so it cannot be shown or edited as text."


def too_large(name: str, limit: int) -> str:
    return f"`{name}` is larger than {limit >> 20} MiB, too large to be edited."


def listing(name: str, entries: Sequence[str], whole: bool) -> str:
    if not entries:
        return f"The folder `{name}` is empty."
    count = (
        f"{len(entries)} of more" if not whole else "1 entry" if len(entries) == 1 else f"{len(entries)} entries"
    )
    return "\n".join([f"The folder `{name}`, {count}:", *entries])


LINE_CUT = " [… the rest of this line is left out]\n"


def excerpt(name: str, text: str, first: int, last: int, total: int, *, whole: bool) -> str:
    """Lines of a file under a line that says which they are."""
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


def wrote(name: str, size: int) -> str:
    return f"Wrote {_size(size)} to `{name}`."


def not_edited(name: str, count: int, lines: Sequence[int], *, same: bool) -> str:
    if same:
        return f"`{name}` was not changed: `old` and `new` are the same."
    if not count:
        look = "It must be the exact text, with every space and line break; read_file shows it."
        return f"`{name}` was not changed: `old` does not occur in it. {look}"
    where = f"{count} times, in the lines {_some(lines, count)}"
    return f"`{name}` was not changed: `old` occurs {where}. Give more of the text around it, or all=true."


def edited(name: str, count: int, lines: Sequence[int]) -> str:
    places = f"1 place, line {lines[0]}" if count == 1 else f"{count} places, lines {_some(lines, count)}"
    return f"Changed `{name}` in {places}."


def _some(numbers: Sequence[int], count: int) -> str:
    shown = ", ".join(map(str, numbers[:10]))
    return f"{shown} and {count - 10} more" if count > 10 else shown


def bad_pattern(pattern: str, why: str) -> str:
    hint = "To search for a character such as ( [ . * + ? itself, put a backslash before it."
    return f"`{clipped(pattern, 200)}` cannot be searched for: {why}. {hint}"


def search_cut_off(pattern: str, seconds: float, error: str, found: Sequence[str]) -> str:
    why = f"failed ({error})" if error else f"was given up after {seconds:g} s"
    hint = (
        "Repetitions inside of repetitions, such as (a+)+, may take for ever. Make the pattern simpler, or narrow"
    )
    said = [f"The search for `{clipped(pattern, 200)}` {why}. {hint} `path` or `glob`."]
    return "\n".join([*said, "Found until then:", *found] if found else said)


def matches(found: Sequence[str], under: str, files: int, *, large: int, full: bool, late: bool) -> str:
    count = "1 match" if len(found) == 1 else f"{len(found)} matches" if found else "No match"
    said = [f"{count} in {'1 file' if files == 1 else f'{files} files'} under `{under}`."]
    if large:
        said.append(f"{large} {'was' if large == 1 else 'were'} too large to be searched.")
    if full:
        said.append("There are more: narrow `pattern`, `path` or `glob`.")
    if late:
        said.append("The time was up before all files were searched: narrow `path` or `glob`.")
    return "\n".join([" ".join(said), *found])


def bad_url(url: str, why: str) -> str:
    return f"`{clipped(url, 200)}` cannot be fetched: {why}. Give an address such as https://example.org/page."


def no_such_host(host: str) -> str:
    return f"There is no host `{clipped(host, 200)}`, or its name cannot be looked up just now."


def not_public(host: str, address: str) -> str:
    return f"`{clipped(host, 200)}` ({address}) is not on the public internet, so it is not fetched."


def too_many_redirects(url: str, limit: int) -> str:
    return f"`{clipped(url, 200)}` leads on and on: more than {limit} redirects were not followed."


def not_fetched(url: str, problems: Sequence[str]) -> str:
    return f"`{clipped(url, 200)}` could not be fetched: {'; '.join(dict.fromkeys(problems))}."


def fetch_too_slow(url: str, seconds: float) -> str:
    return f"`{clipped(url, 200)}` was given up: it was not read to its end within {seconds:g} s."


def fetch_refused(url: str, status: str, text: str) -> str:
    begins = f" Its answer begins:\n{clipped(text.strip(), 1000)}" if text.strip() else ""
    return f"`{clipped(url, 200)}` answered {status}.{begins}"


def fetched(url: str, kind: str, text: str, limit: int | None) -> str:
    cut = f", only the first {limit} bytes" if limit is not None else ""
    return f"`{clipped(url, 2000)}` ({kind or 'no type given'}{cut}):\n\n{text.strip() or '(nothing to read)'}"


def not_text(kind: str, size: str) -> str:
    return f"(This is not text but {kind or 'something else'}, {f'{size} bytes' if size else 'of unknown size'}.)"


def page_as_it_is(page: str) -> str:
    return f"(The page is written in a way that cannot be made readable. It begins:)\n{page[:5000]}"


def unknown_packing(encoding: str) -> str:
    return f"(The server packed its answer in a way that cannot be unpacked: {clipped(encoding, 100)}.)"

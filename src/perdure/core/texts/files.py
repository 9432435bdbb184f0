"""What people and models read about files: answers of the file tools, and attachments that come or are sent."""

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


PLATFORM_CANNOT_FETCH = "this platform does not give files to the gateway"
GONE_FROM_PLATFORM = "the platform does not have it any more"
MAKE_ROOM_HINT = "Erase conversations that are not needed any more, or raise attachments.max_total."
ATTACHMENT_TOO_SLOW = "it came too slowly"
NOT_UPLOADED = "no such file was uploaded here, or it was not used in time"
UPLOAD_HINT = "Send the file to POST /api/attachments first, and name it here by the id that it got, within a day."


def attachment_too_large(limit: int) -> str:
    return f"it is larger than {phrases.byte_size(limit)}"


def no_room_for_attachments(limit: int) -> str:
    """Why a file was refused; what the operator can do stands in `MAKE_ROOM_HINT`."""
    return f"there is no room for it: all files together may take {phrases.byte_size(limit)}"


def no_room_in_chat(limit: int) -> str:
    return f"there is no room for it: the files of one conversation may take {phrases.byte_size(limit)}"


def attachment_not_fetched(name: str, why: str) -> str:
    """To the chat: a file of its message could not be fetched."""
    return f"I could not get your file {name}: {why}. I go on without it; you can send it again."


def attached_line(name: str, kind: str, size: int | None, path: str) -> str:
    """To the model, under a message: one of its files."""
    return f"[Attached file: {name} ({kind}, {phrases.byte_size(size)}), at {path}]"


def missing_attachment_line(name: str, why: str) -> str:
    return f"[Attached file: {name}, which could not be fetched: {why}. Tell the user so if it matters.]"


def deleted_attachment_line(name: str, kind: str, size: int | None) -> str:
    return f"[Attached file: {name} ({kind}, {phrases.byte_size(size)}), which is not here any more]"


def file_will_be_sent(name: str, size: int) -> str:
    """To the model: the result of sending a file."""
    return f"{name} ({phrases.byte_size(size)}) goes to the user, as it is now."


def file_not_sent(name: str, why: str) -> str:
    return f"{name} was not sent: {why}. Send a smaller one, or tell the user where it is."


def files_cannot_be_sent_here(words: str, name: str, path: str) -> str:
    """To the chat, in place of a file that its platform cannot send."""
    said = f"I have a file for you that cannot be sent here: {name}. It is on the gateway's machine, at {path}"
    return said if words == name else f"{words}\n{said}"


def file_lost_before_sending(words: str, name: str) -> str:
    said = (
        f"I wanted to send you {name}, but it is not on the gateway's machine any more. Ask me to make it again."
    )
    return said if words == name else f"{words}\n{said}"


def download_hint(name: str, size: int | None, file: str) -> str:
    """In the terminal chat, which shows no files: where to get one."""
    return f"(a file: {name}, {phrases.byte_size(size)}; GET /api/attachments/{file} has it)"


def message_without_text(*files: str) -> str:
    """The text that stands for a message without text."""
    return f"[a message without words, with: {', '.join(files)}]" if files else "[a message without words]"

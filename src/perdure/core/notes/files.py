"""What people and models read about files that come and go."""

from __future__ import annotations

CANNOT_FETCH = "this platform does not give files to the gateway"
GONE_THERE = "the platform does not have it any more"
TOO_SLOW = "it came too slowly"
NOT_UPLOADED = "no such file was uploaded here, or it was not used in time"
UPLOAD_FIRST = (
    "Send the file to POST /api/attachments first, and name it here by the id that it got, within a day."
)


def size_of(count: int | None) -> str:
    """A number of bytes as one would say it."""
    if count is None:
        return "of unknown size"
    for unit, size in (("MB", 1_000_000), ("kB", 1_000)):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return "1 byte" if count == 1 else f"{count} bytes"


def file_too_large(limit: int) -> str:
    return f"it is larger than {size_of(limit)}"


def file_not_fetched(name: str, why: str) -> str:
    """Told to the chat."""
    return f"I could not get your file {name}: {why}. I go on without it; you can send it again."


def given_file(name: str, kind: str, size: int | None, path: str) -> str:
    """Told to the model, under the words of a message."""
    return f"[Attached file: {name} ({kind}, {size_of(size)}), at {path}]"


def missing_file(name: str, why: str) -> str:
    return f"[Attached file: {name}, which could not be fetched: {why}. Tell the user so if it matters.]"


def gone_file(name: str, kind: str, size: int | None) -> str:
    return f"[Attached file: {name} ({kind}, {size_of(size)}), which is not here any more]"


def file_owed(name: str, size: int) -> str:
    """Told to the model that sends one."""
    return f"{name} ({size_of(size)}) goes to the user, as it is now."


def file_not_sent(name: str, why: str) -> str:
    return f"{name} was not sent: {why}. Send a smaller one, or tell the user where it is."


def file_left_here(words: str, name: str, path: str) -> str:
    """Told to the chat in place of a file that cannot be sent there."""
    said = f"I have a file for you that cannot be sent here: {name}. It is on the gateway's machine, at {path}"
    return said if words == name else f"{words}\n{said}"


def file_lost(words: str, name: str) -> str:
    said = (
        f"I wanted to send you {name}, but it is not on the gateway's machine any more. Ask me to make it again."
    )
    return said if words == name else f"{words}\n{said}"


def file_to_get(name: str, size: int | None, file: str) -> str:
    """Told to whoever chats in a terminal, which shows no files."""
    return f"(a file: {name}, {size_of(size)}; GET /api/attachments/{file} has it)"

"""What people and models read about files that come with messages or are sent to the chat."""

from __future__ import annotations

from perdure.core.texts import phrases

PLATFORM_CANNOT_FETCH = "this platform does not give files to the gateway"
GONE_FROM_PLATFORM = "the platform does not have it any more"
MAKE_ROOM_HINT = "Erase conversations that are not needed any more, or raise attachments.max_total."
TOO_SLOW = "it came too slowly"
NOT_UPLOADED = "no such file was uploaded here, or it was not used in time"
UPLOAD_HINT = "Send the file to POST /api/attachments first, and name it here by the id that it got, within a day."


def too_large(limit: int) -> str:
    return f"it is larger than {phrases.byte_size(limit)}"


def no_room(limit: int) -> str:
    """Why a file was refused; what the operator can do stands in `MAKE_ROOM_HINT`."""
    return f"there is no room for it: all files together may take {phrases.byte_size(limit)}"


def no_room_in_chat(limit: int) -> str:
    return f"there is no room for it: the files of one conversation may take {phrases.byte_size(limit)}"


def not_fetched(name: str, why: str) -> str:
    """To the chat: a file of its message could not be fetched."""
    return f"I could not get your file {name}: {why}. I go on without it; you can send it again."


def attached_line(name: str, kind: str, size: int | None, path: str) -> str:
    """To the model, under a message: one of its files."""
    return f"[Attached file: {name} ({kind}, {phrases.byte_size(size)}), at {path}]"


def missing_line(name: str, why: str) -> str:
    return f"[Attached file: {name}, which could not be fetched: {why}. Tell the user so if it matters.]"


def deleted_line(name: str, kind: str, size: int | None) -> str:
    return f"[Attached file: {name} ({kind}, {phrases.byte_size(size)}), which is not here any more]"


def will_be_sent(name: str, size: int) -> str:
    """To the model: the result of sending a file."""
    return f"{name} ({phrases.byte_size(size)}) goes to the user, as it is now."


def not_sent(name: str, why: str) -> str:
    return f"{name} was not sent: {why}. Send a smaller one, or tell the user where it is."


def cannot_be_sent_here(words: str, name: str, path: str) -> str:
    """To the chat, in place of a file that its platform cannot send."""
    said = f"I have a file for you that cannot be sent here: {name}. It is on the gateway's machine, at {path}"
    return said if words == name else f"{words}\n{said}"


def lost_before_sending(words: str, name: str) -> str:
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

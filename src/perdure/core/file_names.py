"""File names and media types from outside, made safe for paths, commands and people; and folders of chats."""

from __future__ import annotations

import hashlib
import re
import unicodedata

from perdure.core.address import parent_session_key

MAX_NAME_BYTES = 100  # of a name on disk: below the limit of every file system
MAX_DISPLAY_CHARACTERS = 120  # of a name that is shown
CHATS_FOLDER = "chats"  # in the home
MAX_CHAT_NAME_CHARACTERS = 100  # of a chat's folder, before the digest
UNKNOWN_MEDIA_TYPE = "application/octet-stream"

_RESERVED_NAMES = re.compile(r"(con|prn|aux|nul|com[0-9]|lpt[0-9])(\..*)?", re.IGNORECASE)
_PLAIN_KEY = re.compile(r"agent:[a-z0-9_][a-z0-9._-]*(:[a-z0-9._-]*){3,5}")
_MEDIA_TYPE = re.compile(r"[a-z0-9][a-z0-9!#$&^_.+-]{0,60}/[a-z0-9][a-z0-9!#$&^_.+-]{0,60}")


def safe_file_name(name: str) -> str:
    """A file name that is safe as one part of a path and within a command."""
    last = re.split(r"[/\\]", unicodedata.normalize("NFC", name))[-1]
    clean = "".join(each if each.isalnum() or each in "._-+" else "_" for each in last).strip(".")
    if _RESERVED_NAMES.fullmatch(clean):
        clean = f"_{clean}"
    return _shorten(clean) or "file"


def _shorten(name: str) -> str:
    """The name, with its middle left out if it is too long; the extension is kept."""
    if len(name.encode()) <= MAX_NAME_BYTES:
        return name
    stem, dot, ending = name.rpartition(".")
    if not dot or len(ending.encode()) > 10:
        stem, dot, ending = name, "", ""
    room = MAX_NAME_BYTES - len(f"{dot}{ending}".encode())
    return f"{stem.encode()[:room].decode(errors='ignore')}{dot}{ending}"


def display_file_name(name: str) -> str:
    """A file name for people and models to read: on one line, and shortened."""
    clean = "".join(each if each.isprintable() else "_" for each in name).strip()
    return (
        clean if len(clean) <= MAX_DISPLAY_CHARACTERS else f"{clean[: MAX_DISPLAY_CHARACTERS - 20]}…{clean[-19:]}"
    ) or "file"


def chat_folder(session_key: str) -> str:
    """The path of a conversation's folder, relative to the home; a background session has that of its chat.

    No two conversations have the same: a key that cannot be a name as it is gets a digest behind a `+`, which no
    other name has. Letters are small, because some file systems do not tell them from capitals.
    """
    key = parent_session_key(session_key)
    name = key.removeprefix("agent:").replace(":", "~")
    if _PLAIN_KEY.fullmatch(key) and len(name) <= MAX_CHAT_NAME_CHARACTERS:
        return f"{CHATS_FOLDER}/{name}"
    digest = hashlib.sha256(key.encode(errors="surrogatepass")).hexdigest()[:32]
    readable = re.sub(r"[^a-z0-9._~-]", "_", name.lower()[:MAX_CHAT_NAME_CHARACTERS]).lstrip(".")
    return f"{CHATS_FOLDER}/{readable}+{digest}"


def safe_media_type(given: str) -> str:
    """The media type that was given for a file, if it is well-formed."""
    bare = given.partition(";")[0].strip().lower()
    return bare if _MEDIA_TYPE.fullmatch(bare) else UNKNOWN_MEDIA_TYPE

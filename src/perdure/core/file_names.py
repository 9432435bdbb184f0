"""File names and media types from outside, made safe for paths, commands and people."""

from __future__ import annotations

import re
import unicodedata

MAX_NAME_BYTES = 100  # of a name on disk: below the limit of every file system
MAX_DISPLAY_CHARACTERS = 120  # of a name that is shown
UNKNOWN_MEDIA_TYPE = "application/octet-stream"

_RESERVED_NAMES = re.compile(r"(con|prn|aux|nul|com[0-9]|lpt[0-9])(\..*)?", re.IGNORECASE)
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


def safe_media_type(given: str) -> str:
    """The media type that was given for a file, if it is well-formed."""
    bare = given.partition(";")[0].strip().lower()
    return bare if _MEDIA_TYPE.fullmatch(bare) else UNKNOWN_MEDIA_TYPE

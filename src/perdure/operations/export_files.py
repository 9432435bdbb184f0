"""The files of an export for people: copied into a folder beside it, each below its id."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import msgspec

from perdure.store.api import Store
from perdure.tools.attachments import AttachmentFiles


async def copy_attachments(store: Store, home: Path, document: str, folder: Path) -> int:
    """Copy every file that a document tells of, and that is here; how many there were."""
    names = _referenced_ids(msgspec.json.decode(document))
    found = [await store.attachments.get(name) for name in names["files"]]
    found += await store.attachments.of_turns(names["turns"])
    cabinet, count = AttachmentFiles(home), 0
    for file in found:
        place = cabinet.find(file.path) if file is not None else None
        if file is not None and place is not None:
            _copy(place, folder / file.id)
            count += 1
    return count


def _referenced_ids(document: dict[str, Any]) -> dict[str, list[str]]:
    """The ids of the files of messages, and of the turns, in a document."""
    sessions = document["sessions"]
    messages = [*document.get("messages", []), *(message for session in sessions for message in session["inbox"])]
    files = [file["id"] for message in messages for file in message["attachments"]]
    return {"files": files, "turns": [turn["id"] for session in sessions for turn in session["turns"]]}


def _copy(source_path: Path, folder: Path) -> None:
    for made in (folder.parent, folder):
        made.mkdir(mode=0o700, exist_ok=True)
    copy = folder / source_path.name
    with (
        source_path.open("rb") as source,
        os.fdopen(os.open(copy, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as to,
    ):
        shutil.copyfileobj(source, to)

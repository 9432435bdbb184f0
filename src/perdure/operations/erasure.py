"""Erasing, in words: what would go, and what is gone. `runtime.erasure` does it."""

from __future__ import annotations

from pathlib import Path

from perdure.core import texts
from perdure.core.file_names import chat_folder
from perdure.errors import NotFound
from perdure.store.api import Store
from perdure.store.erasure import ErasedSession


async def erasure_preview(store: Store, name: str, home: Path) -> list[str]:
    """The sessions that an erasure would remove, one line each, and the folders of their chats."""
    lines, found = [], await store.sessions.find_by_name(name)
    for session in found:
        turns = len(await store.turns.of_session(session.id))
        lines.append(texts.cli.session_to_erase(session.id, session.state, session.key, turns))
    if not lines:
        raise NotFound(texts.phrases.session_not_found(name), hint=texts.phrases.SESSION_NAMES_HINT)
    folders = dict.fromkeys(chat_folder(session.key) for session in found)
    return [*lines, *(texts.cli.folder_to_erase(folder) for folder in folders if (home / folder).is_dir())]


def erased_line(erased: ErasedSession) -> str:
    """The parts of a session that were erased, as one line."""
    counts = {
        "turn": erased.turns,
        "message": erased.messages,
        "reply": erased.replies,
        "attachment": erased.attachments,
        "process": erased.processes,
    }
    return texts.cli.erased_session(erased.session, erased.key, counts)

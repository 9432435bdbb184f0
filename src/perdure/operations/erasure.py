"""Erasing, in words: what would go, and what is gone. `runtime.erasure` does it."""

from __future__ import annotations

from perdure.core import texts
from perdure.errors import NotFound
from perdure.store.api import Store
from perdure.store.erasure import ErasedSession


async def erasure_preview(store: Store, name: str) -> list[str]:
    """What would go, a line for each session."""
    lines = []
    for session in await store.sessions.find_by_name(name):
        turns = len(await store.turns.of_session(session.id))
        lines.append(f"{session.id}  {session.state:9}  {session.key}  turns: {turns}")
    if not lines:
        raise NotFound(f"no session is named {name!r}", hint=texts.phrases.SESSION_NAMES_HINT)
    return lines


def erased_line(erased: ErasedSession) -> str:
    """What was removed, as one line for people."""
    counts = {
        "turn": erased.turns,
        "message": erased.messages,
        "reply": erased.replies,
        "attachment": erased.attachments,
        "process": erased.processes,
    }
    plural = {"reply": "replies", "process": "processes"}
    told = [f"{n} {what if n == 1 else plural.get(what, what + 's')}" for what, n in counts.items() if n]
    return f"{erased.session}  {erased.key}  {', '.join(told) or 'nothing was in it'}"

"""The chats of the web, for whoever wants to go on with one."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from perdure.console.answers import answer
from perdure.console.routes import call
from perdure.core import notes
from perdure.core.address import Address, parse_session_key, session_key
from perdure.operations.look import waits_for
from perdure.runtime.gateway import Gateway
from perdure.store.sessions import Session

MOST = 50
TITLE = 60  # letters


class TalkApi:
    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    @call("GET", "/api/chats", "the chats that were used last, newest first, at most 50")
    async def recent(self, _: Request) -> Response:
        named_alike = session_key(self._gateway.settings.agent.name, Address("web", "dm", "x"))[:-1]
        found = await self._gateway.store.sessions.recent(named_alike, MOST)
        return answer({"chats": [await self._fields(session, words) for session, words in found]})

    async def _fields(self, session: Session, words: str) -> dict[str, Any]:
        chat = parse_session_key(session.key)[1].chat
        return {
            "chat": chat,
            "title": notes.beginning(words, TITLE) or chat,
            "session": session.id,
            "state": session.state,
            "updated_at": session.updated_at,
            "waits_for": await waits_for(self._gateway.store, session.id),
        }

"""The chats of the web, for whoever wants to go on with one."""

from __future__ import annotations

from starlette.requests import Request

from perdure.core import texts
from perdure.core.address import Address, session_key, split_session_key
from perdure.operations.inspect import waits_for
from perdure.runtime.gateway import Gateway
from perdure.store.sessions import Session
from perdure.web.routes import json_route
from perdure.web.schemas.chats import ChatListResponse, ChatResource

MAX_CHATS = 50
MAX_TITLE_CHARACTERS = 60  # letters


class ChatListApi:
    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    @json_route("GET", "/api/chats", "the chats that were used last, newest first, at most 50", ChatListResponse)
    async def recent(self, _: Request) -> ChatListResponse:
        named_alike = session_key(self._gateway.settings.agent.name, Address("web", "dm", "x"))[:-1]
        found = await self._gateway.store.sessions.recent_by_prefix(named_alike, MAX_CHATS)
        return ChatListResponse([await self._chat_resource(session, words) for session, words in found])

    async def _chat_resource(self, session: Session, words: str) -> ChatResource:
        chat, waits = split_session_key(session.key)[1].chat, await waits_for(self._gateway.store, session.id)
        title = texts.phrases.first_words(words, MAX_TITLE_CHARACTERS) or chat
        return ChatResource(chat, title, session.id, session.state, session.updated_at, waits)

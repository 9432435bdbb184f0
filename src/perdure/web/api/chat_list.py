"""The chats of the web, for whoever wants to go on with one."""

from __future__ import annotations

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from perdure.core import texts
from perdure.core.address import Address, session_key, split_session_key
from perdure.core.session import SessionState
from perdure.operations.inspect import waits_for
from perdure.runtime.gateway import Gateway
from perdure.store.sessions import Session
from perdure.web.responses import json_response
from perdure.web.routes import route

MAX_CHATS = 50
MAX_TITLE_CHARACTERS = 60  # letters


class ChatResource(Struct, frozen=True):
    """A chat of the web, as the list of them shows it."""

    chat: str
    title: str  # how its conversation began
    session: str
    state: SessionState
    updated_at: int
    waits_for: str | None  # in words


class ChatListResponse(Struct, frozen=True):
    chats: list[ChatResource]


class ChatListApi:
    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    @route(
        "GET",
        "/api/chats",
        "the chats that were used last, newest first, at most 50",
        response_type=ChatListResponse,
    )
    async def recent(self, _: Request) -> Response:
        named_alike = session_key(self._gateway.settings.agent.name, Address("web", "dm", "x"))[:-1]
        found = await self._gateway.store.sessions.recent_by_prefix(named_alike, MAX_CHATS)
        return json_response(
            ChatListResponse([await self._chat_resource(session, words) for session, words in found])
        )

    async def _chat_resource(self, session: Session, words: str) -> ChatResource:
        chat, waits = split_session_key(session.key)[1].chat, await waits_for(self._gateway.store, session.id)
        title = texts.phrases.first_words(words, MAX_TITLE_CHARACTERS) or chat
        return ChatResource(chat, title, session.id, session.state, session.updated_at, waits)

"""The chats of the web, for whoever wants to go on with one."""

from __future__ import annotations

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from perdure.console.answers import answer
from perdure.console.routes import call
from perdure.core import notes
from perdure.core.address import Address, parse_session_key, session_key
from perdure.core.session import SessionState
from perdure.operations.look import waits_for
from perdure.runtime.gateway import Gateway
from perdure.store.sessions import Session

MOST = 50
TITLE = 60  # letters


class Talk(Struct, frozen=True):
    """A chat of the web, as the list of them shows it."""

    chat: str
    title: str  # how its conversation began
    session: str
    state: SessionState
    updated_at: int
    waits_for: str | None  # in words


class Talks(Struct, frozen=True):
    chats: list[Talk]


class TalkApi:
    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    @call("GET", "/api/chats", "the chats that were used last, newest first, at most 50", answer=Talks)
    async def recent(self, _: Request) -> Response:
        named_alike = session_key(self._gateway.settings.agent.name, Address("web", "dm", "x"))[:-1]
        found = await self._gateway.store.sessions.recent(named_alike, MOST)
        return answer(Talks([await self._talk(session, words) for session, words in found]))

    async def _talk(self, session: Session, words: str) -> Talk:
        chat, waits = parse_session_key(session.key)[1].chat, await waits_for(self._gateway.store, session.id)
        title = notes.beginning(words, TITLE) or chat
        return Talk(chat, title, session.id, session.state, session.updated_at, waits)

"""Chats of the web platform over HTTP: list them, write, change and read messages, follow events."""

from __future__ import annotations

import re
import secrets
from typing import cast

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from perdure.core import texts
from perdure.core.address import Address, session_key, split_session_key
from perdure.core.logins import Scope, message_scope
from perdure.core.messages import Inbound
from perdure.core.queue import Fate
from perdure.operations.inspect import waits_for
from perdure.operations.resources import cut_page
from perdure.platforms.web import WebAdapter
from perdure.runtime.gateway import Gateway
from perdure.store.sessions import Session
from perdure.web.api.attachments import find_uploads
from perdure.web.api.events import EventCursor, stream_events
from perdure.web.auth.login import login_of, require_scope
from perdure.web.requests import (
    ID_PATTERN,
    read_chat_address,
    read_event_cursor,
    read_new_message,
    read_new_text,
)
from perdure.web.responses import HttpRefusal
from perdure.web.routes import EVENT_STREAM, GatewayApi, JsonReply, json_route, route
from perdure.web.schemas import (
    ChangedMessageResponse,
    ChatListResponse,
    ChatResource,
    EditMessageRequest,
    MessageChange,
    MessageListResponse,
    NewMessageRequest,
    StoredMessageResponse,
)

MAX_CHATS = 50
MAX_TITLE_CHARACTERS = 60
PAGE_SIZE = 500
NOT_CHANGED_HINTS = {
    Fate.TOO_LATE: texts.http.MESSAGE_HAS_BEGUN_HINT,
    Fate.UNKNOWN: texts.http.MESSAGE_UNKNOWN_HINT,
}
_POSITION = re.compile(r"[0-9]{1,18}")


class ChatListApi(GatewayApi):
    @json_route(
        "GET",
        "/api/chats",
        "the chats that were used last, newest first, at most 50",
        ChatListResponse,
        scope=Scope.READ,
    )
    async def recent(self, _: Request) -> ChatListResponse:
        prefix = session_key(self._gateway.settings.agent.name, Address("web", "dm", "x"))[:-1]
        found = await self._gateway.store.sessions.recent_by_prefix(prefix, MAX_CHATS)
        return ChatListResponse([await self._chat_resource(session, words) for session, words in found])

    async def _chat_resource(self, session: Session, words: str) -> ChatResource:
        """The chat of a session; its title is the first of these words."""
        chat, waits = split_session_key(session.key)[1].chat, await waits_for(self._gateway.store, session.id)
        title = texts.phrases.first_words(words, MAX_TITLE_CHARACTERS) or chat
        return ChatResource(chat, title, session.id, session.state, session.updated_at, waits)


class ChatApi:
    def __init__(self, gateway: Gateway, web: WebAdapter) -> None:
        self._gateway = gateway
        self._web = web

    @json_route(
        "POST",
        "/api/chats/{chat:path}/messages",
        "takes a message: 202, or 200 if it is here already",
        StoredMessageResponse,
        body=NewMessageRequest,
        statuses=(202, 200),
        scope=Scope.CHAT,
    )
    async def write(self, request: Request) -> JsonReply[StoredMessageResponse]:
        """Store a message for the agent."""
        address, body = read_chat_address(request), await read_new_message(request)
        require_scope(request, message_scope(body.text))
        files, person = await find_uploads(self._gateway, body.attachments), login_of(request).person
        stored = await self._web.submit(Inbound(address, body.id, person, body.text, attachments=files))
        if stored.fate is Fate.FULL:
            cap = self._gateway.settings.queue.cap
            raise HttpRefusal(429, texts.turns.refused_as_queue_full(cap), texts.http.WAIT_FOR_ANSWERS)
        if stored.fate is Fate.ERASED:
            raise HttpRefusal(410, texts.http.MESSAGE_ERASED, texts.http.SEND_WITH_NEW_ID)
        response = StoredMessageResponse(stored.message, stored.session, stored.key)
        return JsonReply(response, 202 if stored.fresh else 200)

    @json_route(
        "PUT",
        "/api/chats/{chat:path}/messages/{id:path}",
        "gives a message that has not begun other words, see [below](#change-a-message)",
        ChangedMessageResponse,
        body=EditMessageRequest,
        scope=Scope.CHAT,
    )
    async def change(self, request: Request) -> ChangedMessageResponse:
        """Change the text of a message whose turn has not begun."""
        name, address = request.path_params["id"], read_chat_address(request)
        text, person = await read_new_text(request), login_of(request).person
        require_scope(request, message_scope(text))
        return await self._submit_change(
            Inbound(address, name, person, text, kind="edit", version=secrets.token_hex(8))
        )

    @json_route(
        "DELETE",
        "/api/chats/{chat:path}/messages/{id:path}",
        "takes a message back that has not begun",
        ChangedMessageResponse,
        scope=Scope.CHAT,
    )
    async def take_back(self, request: Request) -> ChangedMessageResponse:
        """Delete a message whose turn has not begun."""
        address, person = read_chat_address(request), login_of(request).person
        return await self._submit_change(Inbound(address, request.path_params["id"], person, "", kind="delete"))

    async def _submit_change(self, change: Inbound) -> ChangedMessageResponse:
        stored = await self._web.submit(change)
        if stored.fate in (Fate.UNKNOWN, Fate.TOO_LATE):
            known = stored.fate is Fate.TOO_LATE
            raise HttpRefusal(
                409 if known else 404, texts.turns.message_not_waiting(known=known), NOT_CHANGED_HINTS[stored.fate]
            )
        return ChangedMessageResponse(
            stored.message, stored.session, stored.key, cast("MessageChange", stored.fate)
        )

    @json_route(
        "GET",
        "/api/chats/{chat:path}/messages",
        "what is in the chat, in order",
        MessageListResponse,
        query=("after",),
        scope=Scope.READ,
    )
    async def read(self, request: Request) -> MessageListResponse:
        """A page of the messages in a chat."""
        key = self._read_session_key(request)
        after = await self._message_position(key, request.query_params.get("after") or "0")
        found = await self._gateway.store.inbox.chat_messages(key, after, PAGE_SIZE + 1)
        return MessageListResponse(*cut_page(found, PAGE_SIZE))

    @route(
        "GET",
        "/api/chats/{chat:path}/events",
        "what happens in the chat, as it happens",
        query=("after",),
        media_type=EVENT_STREAM,
        scope=Scope.READ,
    )
    async def events(self, request: Request) -> Response:
        """Stream the events of a chat, from the reader's cursor on."""
        key = self._read_session_key(request)
        cursor = read_event_cursor(request)
        await self._check_cursor(key, cursor)
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        if request.method == "HEAD":  # its response has no body, and must not wait for the end of the stream
            return Response(None, headers=headers, media_type=EVENT_STREAM)
        stream = stream_events(self._gateway, self._web, key, cursor, request.state.is_logged_in)
        return StreamingResponse(stream, media_type=EVENT_STREAM, headers=headers)

    def _read_session_key(self, request: Request) -> str:
        return session_key(self._gateway.settings.agent.name, read_chat_address(request))

    async def _message_position(self, key: str, after: str) -> int:
        """A position in the chat, given as a number or as the id of a message."""
        if _POSITION.fullmatch(after):
            return int(after)
        inbox = self._gateway.store.inbox
        position = await inbox.position_of(key, after) if ID_PATTERN.fullmatch(after) else None
        if position is None:
            raise HttpRefusal(400, texts.http.bad_message_cursor(after), texts.http.GIVE_MESSAGE)
        return position

    async def _check_cursor(self, key: str, cursor: EventCursor) -> None:
        """Refuse a cursor into the journal of a session that is not one of this chat."""
        store = self._gateway.store
        session = await store.sessions.get(cursor.session) if cursor.session else None
        if session is None and cursor.session and await store.erasure.was_erased(cursor.session):
            return  # the session was erased: the stream goes on with the events since
        if cursor.session and (session is None or session.key != key):
            raise HttpRefusal(400, texts.http.event_of_another_chat(str(cursor)), texts.http.GIVE_EVENT_OF_CHAT)

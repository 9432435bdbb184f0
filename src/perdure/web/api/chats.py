"""A person's side of a chat: write a message, read what is there, follow what happens."""

from __future__ import annotations

import re
import secrets
from typing import cast

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from perdure.core import texts
from perdure.core.address import Address, session_key
from perdure.core.messages import Inbound
from perdure.core.queue import Fate
from perdure.core.roles import TOKEN_HOLDER
from perdure.platforms.web import WebAdapter
from perdure.runtime.gateway import Gateway
from perdure.web.api.attachments import find_uploads
from perdure.web.api.events import EventCursor, read_cursor, stream_events
from perdure.web.requests import read_json
from perdure.web.responses import ID_PATTERN, HttpRefusal
from perdure.web.routes import EVENT_STREAM, Reply, json_route, route
from perdure.web.schemas.chats import (
    ChangedMessageResponse,
    EditMessageRequest,
    MessageChange,
    MessageListResponse,
    NewMessageRequest,
    StoredMessageResponse,
)

PAGE_SIZE = 500
# No control characters, and not the one that stands for bytes which were no text.
_CHAT_NAME = re.compile(r"[^\x00-\x1f\x7f-\x9f\ufffd]{1,200}")
_POSITION = re.compile(r"[0-9]{1,18}")


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
    )
    async def write(self, request: Request) -> Reply[StoredMessageResponse]:
        """Write a message to a chat."""
        address, body = _read_address(request), await _read_message(request)
        files = await find_uploads(self._gateway, body.attachments)
        stored = await self._web.submit(Inbound(address, body.id, TOKEN_HOLDER, body.text, attachments=files))
        if stored.fate is Fate.FULL:
            cap = self._gateway.settings.queue.cap
            raise HttpRefusal(
                429, texts.queue.refused_as_full(cap), "Wait until some are answered; then send it with a new id."
            )
        if stored.fate is Fate.ERASED:
            raise HttpRefusal(410, "a message of this id was here, and was erased", "Send it with a new id.")
        return Reply(
            StoredMessageResponse(stored.message, stored.session, stored.key), 202 if stored.fresh else 200
        )

    @json_route(
        "PUT",
        "/api/chats/{chat:path}/messages/{id:path}",
        "gives a message that has not begun other words, see [below](#change-a-message)",
        ChangedMessageResponse,
        body=EditMessageRequest,
    )
    async def change(self, request: Request) -> ChangedMessageResponse:
        """Give a message that has not begun other words."""
        name, address = request.path_params["id"], _read_address(request)
        text = await _read_new_text(request)
        return await self._submit_change(
            Inbound(address, name, TOKEN_HOLDER, text, kind="edit", version=secrets.token_hex(8))
        )

    @json_route(
        "DELETE",
        "/api/chats/{chat:path}/messages/{id:path}",
        "takes a message back that has not begun",
        ChangedMessageResponse,
    )
    async def take_back(self, request: Request) -> ChangedMessageResponse:
        """Take a message back that has not begun."""
        return await self._submit_change(
            Inbound(_read_address(request), request.path_params["id"], TOKEN_HOLDER, "", kind="delete")
        )

    async def _submit_change(self, change: Inbound) -> ChangedMessageResponse:
        stored = await self._web.submit(change)
        if stored.fate in (Fate.UNKNOWN, Fate.TOO_LATE):
            known = stored.fate is Fate.TOO_LATE
            raise HttpRefusal(
                409 if known else 404, texts.queue.not_waiting(known=known), NOT_CHANGED_HINTS[stored.fate]
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
    )
    async def read(self, request: Request) -> MessageListResponse:
        """What is in a chat."""
        key = self._read_session_key(request)
        after = await self._message_position(key, request.query_params.get("after") or "0")
        seen = await self._gateway.store.inbox.chat_messages(key, after, PAGE_SIZE + 1)
        return MessageListResponse(seen[:PAGE_SIZE], len(seen) > PAGE_SIZE)

    @route(
        "GET",
        "/api/chats/{chat:path}/events",
        "what happens in the chat, as it happens",
        query=("after",),
        media_type=EVENT_STREAM,
    )
    async def events(self, request: Request) -> Response:
        """Follow what happens in a chat."""
        key = self._read_session_key(request)
        cursor = read_cursor(request.headers.get("last-event-id") or request.query_params.get("after", ""))
        await self._check_cursor(key, cursor)
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        if request.method == "HEAD":  # it has no body, so it must not wait for the end of one
            return Response(None, headers=headers, media_type=EVENT_STREAM)
        stream = stream_events(self._gateway, self._web, key, cursor)
        return StreamingResponse(stream, media_type=EVENT_STREAM, headers=headers)

    def _read_session_key(self, request: Request) -> str:
        return session_key(self._gateway.settings.agent.name, _read_address(request))

    async def _message_position(self, key: str, after: str) -> int:
        """A place in the chat, given as a number or as the id of a message."""
        if _POSITION.fullmatch(after):
            return int(after)
        place = await self._gateway.store.inbox.position_of(key, after) if ID_PATTERN.fullmatch(after) else None
        if place is None:
            raise HttpRefusal(
                400, f"after={after[:60]!r} names no message of this chat", "Give the id or position of one."
            )
        return place

    async def _check_cursor(self, key: str, cursor: EventCursor) -> None:
        """An event id leads into the journal of a session: that must be one of this chat."""
        store = self._gateway.store
        session = await store.sessions.get(cursor.session) if cursor.session else None
        if session is None and cursor.session and await store.erasure.was_erased(cursor.session):
            return  # what was behind it is gone: the stream goes on with what came since
        if cursor.session and (session is None or session.key != key):
            raise HttpRefusal(
                400, f"Last-Event-ID {str(cursor)!r} is not of this chat", "Send the id of an event of this chat."
            )


def _read_address(request: Request) -> Address:
    chat = request.path_params["chat"]
    if not _CHAT_NAME.fullmatch(chat):
        raise HttpRefusal(
            400,
            "the name of the chat cannot be used",
            "Use 1 to 200 characters, none of them a control character.",
        )
    return Address("web", "dm", chat)


async def _read_message(request: Request) -> NewMessageRequest:
    message = await read_json(request, NewMessageRequest, MESSAGE_EXAMPLE, "the body is not a message")
    if not 0 < len(message.id) <= 200:
        raise HttpRefusal(400, f"id: expected 1 to 200 characters, got {len(message.id)}", MESSAGE_EXAMPLE)
    if not message.attachments:
        _check_not_blank(message.text, MESSAGE_EXAMPLE)
    _check_storable("id", message.id, MESSAGE_EXAMPLE)
    _check_storable("text", message.text, MESSAGE_EXAMPLE)
    return message


async def _read_new_text(request: Request) -> str:
    text = (await read_json(request, EditMessageRequest, EDIT_EXAMPLE, "the body has no new words")).text
    _check_not_blank(text, EDIT_EXAMPLE)
    _check_storable("text", text, EDIT_EXAMPLE)
    return text


def _check_not_blank(text: str, example: str) -> None:
    if not text.strip():
        raise HttpRefusal(400, "text: expected something to answer, got nothing but blanks", example)


def _check_storable(name: str, text: str, example: str) -> None:
    """PostgreSQL keeps no text with a zero, and one gateway must not take what another one cannot."""
    if "\0" in text:
        raise HttpRefusal(400, f"{name}: expected characters other than NUL (U+0000), got one", example)


NOT_CHANGED_HINTS = {
    Fate.TOO_LATE: "It has begun, or was answered, dropped or deleted. Write a new message instead.",
    Fate.UNKNOWN: "Name it by the id that you gave it when you wrote it.",
}
EDIT_EXAMPLE = 'Send JSON such as {"text": "hello"}.'
MESSAGE_EXAMPLE = 'Send JSON such as {"id": "1", "text": "hello"}, with an id of your own for every new message.'

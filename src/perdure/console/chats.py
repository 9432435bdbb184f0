"""A person's side of a chat: write a message, read what is there, follow what happens."""

from __future__ import annotations

import re
import secrets
from typing import Annotated

from msgspec import Meta, Struct
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from perdure.console.answers import OUR_ID, Refusal, answer
from perdure.console.bodies import read_json
from perdure.console.events import Cursor, follow, read_cursor
from perdure.console.files import named
from perdure.console.routes import EVENTS, call
from perdure.console.shapes import Altered, Messages, Written
from perdure.core import notes
from perdure.core.address import Address, session_key
from perdure.core.messages import Inbound, Stored
from perdure.core.people import TOKEN_HOLDER
from perdure.core.queueing import Fate
from perdure.platforms.web import WebAdapter
from perdure.runtime.gateway import Gateway

MOST_FILES = 20  # in one message
PAGE = 500
# No control characters, and not the one that stands for bytes which were no text.
_CHAT = re.compile(r"[^\x00-\x1f\x7f-\x9f\ufffd]{1,200}")
_POSITION = re.compile(r"[0-9]{1,18}")


class NewMessage(Struct, frozen=True, forbid_unknown_fields=True):
    """The body of a message to send. The id is the sender's own: sent again, it is the same message."""

    id: str
    text: str = ""
    attachments: Annotated[tuple[str, ...], Meta(max_length=MOST_FILES)] = ()


class NewWords(Struct, frozen=True, forbid_unknown_fields=True):
    """The body of a change."""

    text: str


class ChatApi:
    def __init__(self, gateway: Gateway, web: WebAdapter) -> None:
        self._gateway = gateway
        self._web = web

    @call(
        "POST",
        "/api/chats/{chat:path}/messages",
        "takes a message: 202, or 200 if it is here already",
        body=NewMessage,
        answer=Written,
        statuses=(202, 200),
    )
    async def write(self, request: Request) -> Response:
        """Write a message to a chat."""
        address, body = _address(request), await _read_message(request)
        files = await named(self._gateway, body.attachments)
        stored = await self._web.submit(Inbound(address, body.id, TOKEN_HOLDER, body.text, attachments=files))
        if stored.fate is Fate.FULL:
            cap = self._gateway.settings.queue.cap
            raise Refusal(
                429, notes.queue_was_full(cap), "Wait until some are answered; then send it with a new id."
            )
        if stored.fate is Fate.ERASED:
            raise Refusal(410, "a message of this id was here, and was erased", "Send it with a new id.")
        return answer(_found(stored), 202 if stored.fresh else 200)

    @call(
        "PUT",
        "/api/chats/{chat:path}/messages/{id:path}",
        "gives a message that has not begun other words, see [below](#change-a-message)",
        body=NewWords,
        answer=Altered,
    )
    async def change(self, request: Request) -> Response:
        """Give a message that has not begun other words."""
        name, address = request.path_params["id"], _address(request)
        text = await _read_words(request)
        return await self._alter(
            Inbound(address, name, TOKEN_HOLDER, text, kind="edit", version=secrets.token_hex(8))
        )

    @call(
        "DELETE",
        "/api/chats/{chat:path}/messages/{id:path}",
        "takes a message back that has not begun",
        answer=Altered,
    )
    async def take_back(self, request: Request) -> Response:
        """Take a message back that has not begun."""
        return await self._alter(
            Inbound(_address(request), request.path_params["id"], TOKEN_HOLDER, "", kind="delete")
        )

    async def _alter(self, change: Inbound) -> Response:
        stored = await self._web.submit(change)
        if stored.fate in (Fate.UNKNOWN, Fate.TOO_LATE):
            known = stored.fate is Fate.TOO_LATE
            raise Refusal(409 if known else 404, notes.not_waiting(known=known), NOT_CHANGED[stored.fate])
        return answer(_found(stored) | {"fate": stored.fate})

    @call(
        "GET",
        "/api/chats/{chat:path}/messages",
        "what is in the chat, in order",
        query=("after",),
        answer=Messages,
    )
    async def read(self, request: Request) -> Response:
        """What is in a chat."""
        key = self._key(request)
        after = await self._place(key, request.query_params.get("after") or "0")
        seen = await self._gateway.store.inbox.seen(key, after, PAGE + 1)
        return answer({"messages": seen[:PAGE], "more": len(seen) > PAGE})

    @call(
        "GET",
        "/api/chats/{chat:path}/events",
        "what happens in the chat, as it happens",
        query=("after",),
        kind=EVENTS,
    )
    async def events(self, request: Request) -> Response:
        """Follow what happens in a chat."""
        key = self._key(request)
        cursor = read_cursor(request.headers.get("last-event-id") or request.query_params.get("after", ""))
        await self._check_cursor(key, cursor)
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        if request.method == "HEAD":  # it has no body, so it must not wait for the end of one
            return Response(None, headers=headers, media_type=EVENTS)
        stream = follow(self._gateway, self._web, key, cursor)
        return StreamingResponse(stream, media_type=EVENTS, headers=headers)

    def _key(self, request: Request) -> str:
        return session_key(self._gateway.settings.agent.name, _address(request))

    async def _place(self, key: str, after: str) -> int:
        """A place in the chat, given as a number or as the id of a message."""
        if _POSITION.fullmatch(after):
            return int(after)
        place = await self._gateway.store.inbox.place(key, after) if OUR_ID.fullmatch(after) else None
        if place is None:
            raise Refusal(
                400, f"after={after[:60]!r} names no message of this chat", "Give the id or position of one."
            )
        return place

    async def _check_cursor(self, key: str, cursor: Cursor) -> None:
        """An event id leads into the journal of a session: that must be one of this chat."""
        store = self._gateway.store
        session = await store.sessions.get(cursor.session) if cursor.session else None
        if session is None and cursor.session and await store.erasing.knows(cursor.session):
            return  # what was behind it is gone: the stream goes on with what came since
        if cursor.session and (session is None or session.key != key):
            raise Refusal(
                400, f"Last-Event-ID {str(cursor)!r} is not of this chat", "Send the id of an event of this chat."
            )


def _found(stored: Stored) -> dict[str, str]:
    return {"message": stored.message, "session": stored.session, "key": stored.key}


def _address(request: Request) -> Address:
    chat = request.path_params["chat"]
    if not _CHAT.fullmatch(chat):
        raise Refusal(
            400,
            "the name of the chat cannot be used",
            "Use 1 to 200 characters, none of them a control character.",
        )
    return Address("web", "dm", chat)


async def _read_message(request: Request) -> NewMessage:
    message = await read_json(request, NewMessage, EXAMPLE, "the body is not a message")
    if not 0 < len(message.id) <= 200:
        raise Refusal(400, f"id: expected 1 to 200 characters, got {len(message.id)}", EXAMPLE)
    if not message.attachments:
        _check_said(message.text, EXAMPLE)
    _check_storable("id", message.id, EXAMPLE)
    _check_storable("text", message.text, EXAMPLE)
    return message


async def _read_words(request: Request) -> str:
    text = (await read_json(request, NewWords, WORDS_EXAMPLE, "the body has no new words")).text
    _check_said(text, WORDS_EXAMPLE)
    _check_storable("text", text, WORDS_EXAMPLE)
    return text


def _check_said(text: str, example: str) -> None:
    if not text.strip():
        raise Refusal(400, "text: expected something to answer, got nothing but blanks", example)


def _check_storable(name: str, text: str, example: str) -> None:
    """PostgreSQL keeps no text with a zero, and one gateway must not take what another one cannot."""
    if "\0" in text:
        raise Refusal(400, f"{name}: expected characters other than NUL (U+0000), got one", example)


NOT_CHANGED = {
    Fate.TOO_LATE: "It has begun, or was answered, dropped or deleted. Write a new message instead.",
    Fate.UNKNOWN: "Name it by the id that you gave it when you wrote it.",
}
WORDS_EXAMPLE = 'Send JSON such as {"text": "hello"}.'
EXAMPLE = 'Send JSON such as {"id": "1", "text": "hello"}, with an id of your own for every new message.'

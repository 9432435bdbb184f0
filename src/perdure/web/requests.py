"""Reads and checks every part of a request: bodies, names in paths, cursors and filters."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Mapping
from typing import TypeVar

import msgspec
from starlette.requests import ClientDisconnect, Request

from perdure.core.address import Address
from perdure.core.delivery import DeliveryState
from perdure.core.states import OPEN_STATES, SessionState
from perdure.core.texts import http as texts
from perdure.store.decisions import CURSOR
from perdure.store.sessions import SessionFilter
from perdure.web.api.events import EventCursor
from perdure.web.responses import HttpRefusal
from perdure.web.schemas import (
    AnswerQuestionRequest,
    DecideApprovalRequest,
    EditMessageRequest,
    NewMessageRequest,
    PersonRequest,
)

T = TypeVar("T")
P = TypeVar("P", bound=PersonRequest)

MAX_BODY_BYTES = 1 << 20
MAX_BODY_SECONDS = 120.0  # for a body of at most `MAX_BODY_BYTES`; a file may take longer
MAX_MESSAGE_ID_CHARACTERS = 200
MAX_PERSON_TEXT_CHARACTERS = 1000
NUL = "\0"  # PostgreSQL stores no text with this character, and cannot even be asked for one

ID_PATTERN = re.compile(r"[a-z]+_[0-9a-z]+")
# No control characters, and no replacement character, which stands for bytes that were no text.
_CHAT_NAME = re.compile(r"[^\x00-\x1f\x7f-\x9f\ufffd]{1,200}")
_OUTPUT_OFFSET = re.compile(r"[0-9]{1,15}")
_EVENT_CURSOR = re.compile(r"([0-9]{1,18})\.((?:s_[0-9a-z]+)?)\.([0-9]{1,18})")


# ── bodies ──────────────────────────────────────────────────────────────────────────────────────────────────


async def stream_body(request: Request, closed_early: str) -> AsyncIterator[bytes]:
    """The body piece by piece; a connection that closes too early is refused with these words.

    A body that stops coming is refused too: a request that never ends would be held in memory for ever.
    """
    pieces, silence = aiter(request.stream()), _max_silence_seconds(request)
    try:
        while True:
            async with asyncio.timeout(silence):
                piece = await anext(pieces, None)
            if piece is None:
                return
            yield piece
    except ClientDisconnect as error:
        raise HttpRefusal(400, closed_early, texts.SEND_AGAIN) from error
    except TimeoutError as error:
        raise HttpRefusal(408, texts.body_too_slow(silence), texts.SEND_AGAIN) from error


async def read_body(request: Request) -> bytes:
    """The whole body, up to `MAX_BODY_BYTES`, within `MAX_BODY_SECONDS`."""
    body = bytearray()
    try:
        async with asyncio.timeout(MAX_BODY_SECONDS):
            async for piece in stream_body(request, texts.MESSAGE_CLOSED_EARLY):
                body += piece
                if len(body) > MAX_BODY_BYTES:
                    raise HttpRefusal(413, texts.body_too_large(MAX_BODY_BYTES), texts.SEND_LESS)
    except TimeoutError as error:
        raise HttpRefusal(408, texts.body_too_slow(MAX_BODY_SECONDS), texts.SEND_AGAIN) from error
    return bytes(body)


def _max_silence_seconds(request: Request) -> float:
    """How long the body may stop coming, as its connection says."""
    connection = request.scope.get("state", {}).get("connection")
    return float(getattr(connection, "request_seconds", MAX_BODY_SECONDS))


async def read_json(
    request: Request, body_type: type[T], example: str, problem: str = texts.BODY_DOES_NOT_FIT
) -> T:
    """The body as this type; any other body is refused with the problem and the example."""
    body = await read_body(request)
    try:
        return msgspec.json.decode(body, type=body_type)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise HttpRefusal(400, f"{problem}: {error}", example) from error


async def read_new_message(request: Request) -> NewMessageRequest:
    """A message with an id, and with a text or attachments."""
    example = texts.MESSAGE_EXAMPLE
    message = await read_json(request, NewMessageRequest, example, texts.BODY_IS_NO_MESSAGE)
    if not 0 < len(message.id) <= MAX_MESSAGE_ID_CHARACTERS:
        raise HttpRefusal(400, texts.message_id_length(len(message.id)), example)
    if not message.attachments:
        _check_not_blank(message.text, example)
    _check_storable("id", message.id, example)
    _check_storable("text", message.text, example)
    return message


async def read_new_text(request: Request) -> str:
    """The new text of a message."""
    text = (await read_json(request, EditMessageRequest, texts.EDIT_EXAMPLE, texts.BODY_HAS_NO_WORDS)).text
    _check_not_blank(text, texts.EDIT_EXAMPLE)
    _check_storable("text", text, texts.EDIT_EXAMPLE)
    return text


def _check_not_blank(text: str, example: str) -> None:
    if not text.strip():
        raise HttpRefusal(400, texts.BLANK_TEXT, example)


def _check_storable(name: str, text: str, example: str) -> None:
    """Refuse a text that PostgreSQL cannot store, on SQLite too: both databases accept the same messages."""
    if NUL in text:
        raise HttpRefusal(400, texts.contains_nul(name), example)


async def read_answer(request: Request) -> str:
    """The answer to a question."""
    answer = (await read_json(request, AnswerQuestionRequest, texts.ANSWER_EXAMPLE)).answer
    if not answer.strip() or NUL in answer:
        raise HttpRefusal(400, texts.BAD_ANSWER, texts.ANSWER_EXAMPLE)
    return answer


async def read_approval(request: Request) -> bool:
    """Whether a call is approved or denied."""
    return (await read_json(request, DecideApprovalRequest, texts.APPROVAL_EXAMPLE)).approve


async def read_person_request(request: Request, body_type: type[P]) -> P:
    """The body of a verb on a person, with texts that the store can hold."""
    body = await read_json(request, body_type, texts.PERSON_EXAMPLE)
    given = [text for text in msgspec.structs.astuple(body) if isinstance(text, str)]
    if any(NUL in text or len(text) > MAX_PERSON_TEXT_CHARACTERS for text in given):
        problem = texts.person_text_limits(MAX_PERSON_TEXT_CHARACTERS)
        raise HttpRefusal(400, problem, texts.PERSON_EXAMPLE)
    return body


# ── names in paths ──────────────────────────────────────────────────────────────────────────────────────────


def read_chat_address(request: Request) -> Address:
    """The chat of the web platform that the path names."""
    chat = request.path_params["chat"]
    if not _CHAT_NAME.fullmatch(chat):
        raise HttpRefusal(400, texts.BAD_CHAT_NAME, texts.CHAT_NAME_FORM)
    return Address("web", "dm", chat)


def read_path_id(request: Request, name: str, noun: str) -> str:
    """An id in the path; a text of another form names nothing, and PostgreSQL might not take it in a query."""
    given: str = request.path_params[name]
    if not ID_PATTERN.fullmatch(given):
        raise HttpRefusal(404, texts.unknown_id(noun, given), texts.LISTS_HAVE_IDS)
    return given


def read_session_name(request: Request) -> str:
    """The id or key of a session in the path."""
    name: str = request.path_params["session"]
    if NUL in name:
        raise HttpRefusal(404, texts.unknown_session(name), texts.NO_NUL_IN_NAMES)
    return name


def read_question_id(request: Request) -> str:
    """The id of a question or approval in the path; NUL is replaced, because no id holds one."""
    name: str = request.path_params["id"]
    return name.replace(NUL, "?")


# ── cursors ─────────────────────────────────────────────────────────────────────────────────────────────────


def read_after(request: Request, noun: str) -> str:
    """The id behind which a page begins; an empty one is the beginning."""
    after = request.query_params.get("after", "")
    if after and not ID_PATTERN.fullmatch(after):
        raise HttpRefusal(400, texts.bad_cursor(after, noun), texts.GIVE_NAMED_CURSOR)
    return after


def read_decisions_after(request: Request) -> str:
    """The cursor of a page of decisions."""
    after = request.query_params.get("after", "")
    if after and not CURSOR.fullmatch(after):
        raise HttpRefusal(400, texts.bad_decision_cursor(after), texts.GIVE_NEXT_OF_PAGE)
    return after


def read_people_after(request: Request) -> str:
    """The cursor of a page of people: the `place` of the last person on the page before."""
    after = request.query_params.get("after", "")
    if NUL in after or len(after) > MAX_PERSON_TEXT_CHARACTERS:
        raise HttpRefusal(400, texts.bad_person_cursor(after), texts.GIVE_PLACE)
    return after


def read_event_cursor(request: Request) -> EventCursor:
    """The id of the last event that the reader has seen, as the header or `after`; none is the beginning."""
    given = request.headers.get("last-event-id") or request.query_params.get("after", "")
    if not given:
        return EventCursor()
    found = _EVENT_CURSOR.fullmatch(given)
    if found is None:
        raise HttpRefusal(400, texts.bad_event_id(given), texts.GIVE_EVENT_OR_NONE)
    return EventCursor(int(found[1]), found[2], int(found[3]))


def read_offset(request: Request) -> int | None:
    """The byte at which a part of a process's output begins; none asks for the last part."""
    given = request.query_params.get("offset", "")
    if given and not _OUTPUT_OFFSET.fullmatch(given):
        raise HttpRefusal(400, texts.bad_offset(given), texts.GIVE_NEXT_OF_OUTPUT)
    return int(given) if given else None


# ── filters ─────────────────────────────────────────────────────────────────────────────────────────────────


def read_session_filter(query: Mapping[str, str]) -> SessionFilter:
    """Which sessions to list: by `state`, by the state of their open `turn`, by `key`; and in which `order`."""
    choices = {"state": tuple(SessionState), "turn": OPEN_STATES, "order": ("oldest", "newest")}
    for name, known in choices.items():
        if query.get(name, known[0]) not in known:
            raise HttpRefusal(400, texts.unknown_filter(name, query[name]), texts.one_of(known))
    key = query.get("key", "").replace(NUL, "?")
    return SessionFilter(query.get("state", ""), query.get("turn", ""), key, query.get("order") == "newest")


def read_delivery_states(request: Request) -> list[DeliveryState]:
    """The delivery states to list, separated by commas; none means all of them."""
    words = [word for word in request.query_params.get("state", "").split(",") if word]
    unknown = [word for word in words if word not in tuple(DeliveryState)]
    if unknown:
        raise HttpRefusal(400, texts.unknown_delivery_state(unknown[0]), texts.delivery_states(DeliveryState))
    return [DeliveryState(word) for word in words]

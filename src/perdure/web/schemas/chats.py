"""Request and response bodies about chats, their messages and attachments, and the agent's questions."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from perdure.core.session import SessionState
from perdure.store.inbox import ChatMessage

MAX_FILES = 20  # in one message

MessageChange = Literal["changed", "deleted"]


class NewMessageRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """The body of a message to send. The id is the sender's own: sent again, it is the same message."""

    id: str
    text: str = ""
    attachments: Annotated[tuple[str, ...], Meta(max_length=MAX_FILES)] = ()


class EditMessageRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """The new text of a message."""

    text: str


class AnswerQuestionRequest(Struct, forbid_unknown_fields=True):
    answer: str


class DecideApprovalRequest(Struct, forbid_unknown_fields=True):
    approve: bool


class ChatResource(Struct, frozen=True):
    """A chat of the web platform in the list of chats."""

    chat: str
    title: str  # the first words of the conversation
    session: str
    state: SessionState
    updated_at: int
    waits_for: str | None  # in words


class ChatListResponse(Struct, frozen=True):
    chats: list[ChatResource]


class StoredMessageResponse(Struct, frozen=True):
    """A message that the gateway has stored."""

    message: str
    session: str
    key: str


class ChangedMessageResponse(StoredMessageResponse, frozen=True):
    """A message whose text was changed or deleted."""

    fate: MessageChange


class MessageListResponse(Struct, frozen=True):
    """A page of a chat."""

    messages: list[ChatMessage]
    more: bool


class UploadResponse(Struct, frozen=True):
    """An uploaded file; a message names it by its id."""

    id: str
    name: str
    size: int
    media_type: str


class QuestionAnswerResponse(Struct, frozen=True):
    question: str
    answered: bool


class ApprovalResponse(Struct, frozen=True):
    approval: str
    verdict: str

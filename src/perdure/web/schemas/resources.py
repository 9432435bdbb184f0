"""What the HTTP API answers with, as its description tells. Endpoints may answer with more fields than these."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from perdure.core.address import Address
from perdure.core.roles import Role
from perdure.store.erasure import ErasedSession
from perdure.store.inbox import ChatMessage
from perdure.web.schemas.history import PastTurnResource


class StoredMessageResponse(Struct, frozen=True):
    """A message that is here."""

    message: str
    session: str
    key: str


class ChangedMessageResponse(StoredMessageResponse, frozen=True):
    """A message with other words, or without any."""

    fate: Literal["changed", "deleted"]


class MessageListResponse(Struct, frozen=True):
    """A page of a chat."""

    messages: list[ChatMessage]
    more: bool


class UploadResponse(Struct, frozen=True):
    """A file that is here, to be named by a message."""

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


class PersonResource(Struct, frozen=True):
    """Somebody who was let in by name, everywhere or in one chat."""

    who: str
    platform: str
    person: str
    name: str
    role: Role
    added_at: int
    chat: str | None
    place: str


class ConfiguredPersonResource(Struct, frozen=True):
    """Somebody whom the configuration lets in; `*` is everybody."""

    platform: str
    person: str
    role: Role
    chat: str | None


class PairingRequestResource(Struct, frozen=True):
    """Somebody who was told a code that is still good."""

    id: str
    who: str
    platform: str
    person: str
    name: str
    chat: str
    asked_at: int
    expires_at: int


class PeopleResponse(Struct, frozen=True):
    """A page of people; the first one has also who is configured and who asks."""

    people: list[PersonResource]
    more: bool
    configured: list[ConfiguredPersonResource] = []
    requests: list[PairingRequestResource] = []


class PersonChangeResponse(Struct, frozen=True):
    done: bool
    said: str
    who: str


class HealthResponse(Struct, frozen=True):
    healthy: bool
    reasons: list[str]


class ReadinessResponse(Struct, frozen=True):
    ready: bool
    reasons: list[str]


class LoginForm(Struct, frozen=True):
    """What the form of the login sends."""

    token: str


class SessionResource(Struct, frozen=True):
    """A session with its recovery state; in a list with what it waits for, alone with its turns and its why."""

    key: str
    id: str
    state: Literal["open", "suspended", "closed"]
    address: Address
    created_at: int
    updated_at: int
    was_auto_reset: bool
    auto_reset_reason: str | None
    run_generation: int
    resume_pending: bool
    resume_reason: str | None
    last_resume_marked_at: int | None
    interruptions: int
    waits_for: str | None = None
    turn: str | None = None
    why: list[str] = []
    turns: list[PastTurnResource] = []
    more: bool = False


class SessionListResponse(Struct, frozen=True):
    sessions: list[SessionResource]
    more: bool


class SessionVerbResponse(Struct, frozen=True):
    """What an operator's verb did to a session; `erased` lists what went."""

    session: str
    verb: str
    done: bool
    erased: list[ErasedSession] = []


class ResumeAllResponse(Struct, frozen=True):
    done: bool

"""What the HTTP API answers with, as its description tells. Endpoints may answer with more fields than these."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from perdure.core.people import Role
from perdure.store.inbox import Seen


class Written(Struct, frozen=True):
    """A message that is here."""

    message: str
    session: str
    key: str


class Altered(Written, frozen=True):
    """A message with other words, or without any."""

    fate: Literal["changed", "deleted"]


class Messages(Struct, frozen=True):
    """A page of a chat."""

    messages: list[Seen]
    more: bool


class AnsweredQuestion(Struct, frozen=True):
    question: str
    answered: bool


class JudgedCall(Struct, frozen=True):
    approval: str
    verdict: str


class KnownPerson(Struct, frozen=True):
    """Somebody who was let in by name, everywhere or in one chat."""

    who: str
    platform: str
    person: str
    name: str
    role: Role
    added_at: int
    chat: str | None
    place: str


class ConfiguredPerson(Struct, frozen=True):
    """Somebody whom the configuration lets in; `*` is everybody."""

    platform: str
    person: str
    role: Role
    chat: str | None


class AskingPerson(Struct, frozen=True):
    """Somebody who was told a code that is still good."""

    id: str
    who: str
    platform: str
    person: str
    name: str
    chat: str
    asked_at: int
    expires_at: int


class People(Struct, frozen=True):
    """A page of people; the first one has also who is configured and who asks."""

    people: list[KnownPerson]
    more: bool
    configured: list[ConfiguredPerson] = []
    requests: list[AskingPerson] = []


class ChangedPerson(Struct, frozen=True):
    done: bool
    said: str
    who: str


class Healthy(Struct, frozen=True):
    healthy: bool
    reasons: list[str]


class Ready(Struct, frozen=True):
    ready: bool
    reasons: list[str]


class Token(Struct, frozen=True):
    """What the form of the login sends."""

    token: str

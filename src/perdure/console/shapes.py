"""What the HTTP API answers with, as its description tells. Endpoints may answer with more fields than these."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct

from perdure.core.address import Address
from perdure.core.delivery import Deed, Delivery
from perdure.core.lives import Attempt, Span
from perdure.core.people import Role
from perdure.core.turn import State
from perdure.store.erasing import Erased
from perdure.store.inbox import Seen
from perdure.store.overview import Counts
from perdure.store.previews import Kept
from perdure.store.runs import Run


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


# ── what happened ───────────────────────────────────────────────────────────────────────────────────────────


class Reply(Struct, frozen=True):
    """A message of ours to a chat: what became of it, and what can be done about it."""

    id: str
    key: str
    lane: str
    turn: str | None
    reply: str
    part: int
    text: str
    file: str | None
    state: Delivery
    attempts: int
    due_at: int
    created_at: int
    updated_at: int
    receipt: str | None
    problem: str | None
    can: list[Deed]
    advice: str


class Replies(Struct, frozen=True):
    """A page of replies, the newest first."""

    outbox: list[Reply]
    more: bool
    next: str | None


class MendedReply(Struct, frozen=True):
    id: str
    verb: Deed
    done: bool
    said: str
    again: str | None


class DecisionOfTurn(Struct, frozen=True):
    """What recovery decided, and why."""

    at: int
    choice: str
    choice_in_words: str
    rule: str
    rule_in_words: str
    why: str
    reason: str
    evidence: dict[str, Any]
    words: list[str]


class ListedDecision(DecisionOfTurn, frozen=True):
    session: str
    key: str
    turn: str
    interrupted_at: int


class Decisions(Struct, frozen=True):
    """A page of decisions, those about the newest interruptions first."""

    decisions: list[ListedDecision]
    more: bool
    next: str | None


class TakenMessage(Struct, frozen=True):
    """What a turn began with, or what joined it."""

    id: str
    event: str
    kind: str
    state: str
    platform_id: str
    by: str
    text: str
    sent_at: int | None
    received_at: int
    taken_at: int | None


class InterruptionOfTurn(Struct, frozen=True):
    at: int
    found_at: int
    reason: str
    attempt: int
    cause: str


class Fact(Struct, frozen=True):
    at: int
    what: str
    detail: str


class Life(Struct, frozen=True):
    """All that is on record of a turn, with its times."""

    id: str
    session: str
    key: str
    state: State
    said: str
    attempt: int
    generation: int
    began_at: int
    updated_at: int
    whole: bool
    messages: list[TakenMessage]
    attempts: list[Attempt]
    steps: list[Span]
    calls: list[Span]
    questions: list[Span]
    interruptions: list[InterruptionOfTurn]
    decisions: list[DecisionOfTurn]
    replies: list[Reply]
    previews: list[Kept]
    runs: list[Run]
    facts: list[Fact]


class Situation(Struct, frozen=True):
    """How the gateway is."""

    phase: str
    run: str
    started_at: int | None
    problems: list[str]
    platforms: list[str]
    running: int
    resume_paused: bool
    counts: Counts
    summary: list[str]


class Output(Struct, frozen=True):
    """A process in the background, with some of what it has said."""

    id: str
    command: str
    state: str
    output: str
    offset: int
    next: int
    size: int
    here: bool


class EffectiveSetting(Struct, frozen=True):
    key: str
    value: Any
    shown: str
    default: str
    changed: bool
    secret: bool
    description: str


class Configuration(Struct, frozen=True):
    home: str
    settings: list[EffectiveSetting]


class OneSession(Struct, frozen=True):
    """A session with its recovery state; in a list also what it waits for, alone also why it stands so."""

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
    why: list[str] = []


class Sessions(Struct, frozen=True):
    sessions: list[OneSession]
    more: bool


class ActedOn(Struct, frozen=True):
    """What an operator's verb did to a session; `erased` lists what went."""

    session: str
    verb: str
    done: bool
    erased: list[Erased] = []


class Done(Struct, frozen=True):
    done: bool

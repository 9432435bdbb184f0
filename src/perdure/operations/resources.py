"""The response types that the HTTP API and `--json` share; fields stand in the order of the JSON keys."""

from __future__ import annotations

from typing import Any, TypeVar

from msgspec import UNSET, Struct, UnsetType

from perdure.core.address import Address
from perdure.core.delivery import DeliveryState, OutboxVerb
from perdure.core.roles import Role
from perdure.core.states import SessionState, TurnState
from perdure.core.timeline import AttemptSpan, Span
from perdure.store.previews import StoredPreview
from perdure.store.runs import Run

T = TypeVar("T")


def cut_page(found: list[T], size: int) -> tuple[list[T], bool]:
    """The page of `size` items, and whether there are more, from a read of `size + 1` items."""
    return found[:size], len(found) > size


# ── outbox ──────────────────────────────────────────────────────────────────────────────────────────────────


class DeliveryResource(Struct, frozen=True):
    """A message from the gateway to a chat: its delivery state, and the verbs that an operator can apply to it."""

    id: str
    key: str
    lane: str
    turn: str | None
    reply: str
    part: int
    state: DeliveryState
    attempts: int
    due_at: int
    created_at: int
    updated_at: int
    receipt: str | None
    problem: str | None
    text: str
    file: str | None
    can: list[OutboxVerb]
    advice: str


class OutboxResponse(Struct, frozen=True):
    """A page of replies, the newest first."""

    outbox: list[DeliveryResource]
    more: bool
    next: str | None


class OutboxVerbResponse(Struct, frozen=True):
    """The result of an operator's verb on a reply; `again` is the id of the copy that is sent in its place."""

    id: str
    done: bool
    said: str
    again: str | None
    verb: OutboxVerb


# ── turns ───────────────────────────────────────────────────────────────────────────────────────────────────


class TurnResource(Struct, frozen=True):
    id: str
    session: str
    key: str
    address: Address
    state: TurnState
    said: str
    attempt: int
    generation: int
    began_at: int
    updated_at: int


class PastTurnResource(TurnResource, frozen=True):
    """A turn in the list of its session, with the first words of the message that began it."""

    words: str
    interruptions: int


class TurnMessageResource(Struct, frozen=True):
    """A message that began a turn or joined it."""

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


class InterruptionResource(Struct, frozen=True):
    at: int
    found_at: int
    reason: str
    attempt: int
    exit_code: int | None
    cause: str
    death: str | None


class DecisionReasons(Struct, frozen=True, kw_only=True):
    """What recovery decided about a turn, and why. Keyword-only fields stand last in JSON."""

    choice: str
    choice_in_words: str
    rule: str
    rule_in_words: str
    why: str
    reason: str
    evidence: dict[str, Any]
    words: list[str]


class DecisionResource(DecisionReasons, frozen=True):
    """A decision of recovery about an interrupted turn, and the reasons for it."""

    at: int


class ListedDecisionResource(DecisionResource, frozen=True):
    """A decision of recovery with the session and turn that it is about."""

    session: str
    key: str
    turn: str
    interrupted_at: int


class DecisionListResponse(Struct, frozen=True):
    """A page of decisions, those about the newest interruptions first."""

    decisions: list[ListedDecisionResource]
    more: bool
    next: str | None


class TurnRunResource(Run, frozen=True, kw_only=True):
    """A run of the gateway that attempted the turn."""

    death: str | None


class FactResource(Struct, frozen=True):
    """One recorded fact about a message or a turn, for people to read."""

    at: int
    what: str
    detail: str


class TurnTimelineResponse(TurnResource, frozen=True):
    """Everything on record about a turn, with its times."""

    whole: bool
    messages: list[TurnMessageResource]
    attempts: list[AttemptSpan]
    steps: list[Span]
    calls: list[Span]
    questions: list[Span]
    interruptions: list[InterruptionResource]
    decisions: list[DecisionResource]
    replies: list[DeliveryResource]
    previews: list[StoredPreview]
    runs: list[TurnRunResource]
    facts: list[FactResource]


# ── sessions ────────────────────────────────────────────────────────────────────────────────────────────────


class SessionResource(Struct, frozen=True):
    """A session with its recovery state.

    `waits_for` and `turn` are only in a list of sessions; `why`, `turns` and `more` only for one session.
    """

    key: str
    id: str
    state: SessionState
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
    waits_for: str | UnsetType | None = UNSET
    turn: str | UnsetType | None = UNSET
    why: list[str] | UnsetType = UNSET
    turns: list[PastTurnResource] | UnsetType = UNSET
    more: bool | UnsetType = UNSET


# ── people ──────────────────────────────────────────────────────────────────────────────────────────────────


class PersonResource(Struct, frozen=True):
    """A person whom an operator let in by name, everywhere or in one chat; `place` is the cursor behind them."""

    who: str
    platform: str
    person: str
    name: str
    role: Role
    added_at: int
    chat: str | None
    place: str


class ConfiguredPersonResource(Struct, frozen=True):
    """A person whom the configuration lets in; `*` is everybody."""

    platform: str
    person: str
    role: Role
    chat: str | None


class PairingRequestResource(Struct, frozen=True):
    """A person who asks to be let in and holds a pairing code that has not expired."""

    who: str
    platform: str
    id: str
    person: str
    name: str
    asked_at: int
    expires_at: int
    chat: str


class PeopleResponse(Struct, frozen=True):
    """A page of people; the first page also has `configured` and `requests`."""

    people: list[PersonResource]
    more: bool
    configured: list[ConfiguredPersonResource] | UnsetType = UNSET
    requests: list[PairingRequestResource] | UnsetType = UNSET


# ── configuration ───────────────────────────────────────────────────────────────────────────────────────────


class SettingResource(Struct, frozen=True):
    """A setting with its value in effect; the value of a secret is never shown."""

    key: str
    value: Any
    shown: str
    default: str
    changed: bool
    secret: bool
    description: str

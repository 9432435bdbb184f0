"""What the HTTP API tells of what happened and how things stand, as its description says. It may tell more."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct

from perdure.core.address import Address
from perdure.core.delivery import DeliveryState, OutboxVerb
from perdure.core.timeline import AttemptSpan, Span
from perdure.core.turn import TurnState
from perdure.store.metrics import OpenCounts
from perdure.store.previews import StoredPreview
from perdure.store.runs import Run


class DeliveryResource(Struct, frozen=True):
    """A message of ours to a chat: what became of it, and what can be done about it."""

    id: str
    key: str
    lane: str
    turn: str | None
    reply: str
    part: int
    text: str
    file: str | None
    state: DeliveryState
    attempts: int
    due_at: int
    created_at: int
    updated_at: int
    receipt: str | None
    problem: str | None
    can: list[OutboxVerb]
    advice: str


class OutboxResponse(Struct, frozen=True):
    """A page of replies, the newest first."""

    outbox: list[DeliveryResource]
    more: bool
    next: str | None


class OutboxVerbResponse(Struct, frozen=True):
    id: str
    verb: OutboxVerb
    done: bool
    said: str
    again: str | None


class DecisionResource(Struct, frozen=True):
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


class ListedDecisionResource(DecisionResource, frozen=True):
    session: str
    key: str
    turn: str
    interrupted_at: int


class DecisionListResponse(Struct, frozen=True):
    """A page of decisions, those about the newest interruptions first."""

    decisions: list[ListedDecisionResource]
    more: bool
    next: str | None


class TurnMessageResource(Struct, frozen=True):
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


class InterruptionResource(Struct, frozen=True):
    at: int
    found_at: int
    reason: str
    attempt: int
    cause: str
    exit_code: int | None
    death: str | None


class TurnRunResource(Run, frozen=True, kw_only=True):
    """A start of the gateway that had the turn."""

    death: str | None


class FactResource(Struct, frozen=True):
    at: int
    what: str
    detail: str


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
    """A turn of a session, with what it began with."""

    words: str
    interruptions: int


class TurnTimelineResponse(TurnResource, frozen=True):
    """All that is on record of a turn, with its times."""

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


class StatusResponse(Struct, frozen=True):
    """How the gateway is."""

    phase: str
    run: str
    started_at: int | None
    problems: list[str]
    platforms: list[str]
    running: int
    resume_paused: bool
    counts: OpenCounts
    summary: list[str]


class ActionResource(Struct, frozen=True):
    """What can be done: `body` posted to `path`."""

    label: str
    question: str
    means: str
    path: str
    body: dict[str, Any]
    about: str
    danger: bool


class AttentionItem(Struct, frozen=True):
    """Something that does not go on by itself."""

    level: Literal["warn", "bad"]
    text: str
    detail: str
    at: int | None
    where: str | None
    link: str | None
    acts: list[ActionResource]


class PlatformStatusResource(Struct, frozen=True):
    name: str
    problem: str


class OverviewResponse(StatusResponse, frozen=True):
    """How the gateway is, and what needs somebody."""

    version: str
    model: str
    adapters: list[PlatformStatusResource]
    well: str
    attention: list[AttentionItem]
    turns: list[TurnResource]
    decisions: list[ListedDecisionResource]


class ProcessResource(Struct, frozen=True):
    """A process in the background, and what became of it."""

    id: str
    key: str
    session: str
    turn: str
    command: str
    state: Literal["live", "ended", "lost"]
    exit_code: int | None
    signal: int | None
    started_at: int
    ended_at: int | None
    notify_on_complete: bool
    watch_patterns: list[str]
    told: str | None


class ProcessListResponse(Struct, frozen=True):
    processes: list[ProcessResource]
    more: bool


class ProcessOutputResponse(ProcessResource, frozen=True):
    """A process in the background, with some of what it has said."""

    output: str
    offset: int
    next: int
    size: int
    here: bool


class SettingResource(Struct, frozen=True):
    key: str
    value: Any
    shown: str
    default: str
    changed: bool
    secret: bool
    description: str


class ConfigurationResponse(Struct, frozen=True):
    home: str
    settings: list[SettingResource]

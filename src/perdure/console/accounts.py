"""What the HTTP API tells of what happened and how things stand, as its description says. It may tell more."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct

from perdure.core.address import Address
from perdure.core.delivery import Delivery, Mend
from perdure.core.lives import Attempt, Span
from perdure.core.turn import State
from perdure.store.overview import Counts
from perdure.store.previews import Kept
from perdure.store.runs import Run


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
    can: list[Mend]
    advice: str


class Replies(Struct, frozen=True):
    """A page of replies, the newest first."""

    outbox: list[Reply]
    more: bool
    next: str | None


class MendedReply(Struct, frozen=True):
    id: str
    verb: Mend
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
    exit_code: int | None
    death: str | None


class RunOfTurn(Run, frozen=True, kw_only=True):
    """A start of the gateway that had the turn."""

    death: str | None


class Fact(Struct, frozen=True):
    at: int
    what: str
    detail: str


class ListedTurn(Struct, frozen=True):
    id: str
    session: str
    key: str
    address: Address
    state: State
    said: str
    attempt: int
    generation: int
    began_at: int
    updated_at: int


class PastTurn(ListedTurn, frozen=True):
    """A turn of a session, with what it began with."""

    words: str
    interruptions: int


class Life(ListedTurn, frozen=True):
    """All that is on record of a turn, with its times."""

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
    runs: list[RunOfTurn]
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


class Act(Struct, frozen=True):
    """What can be done: `body` posted to `path`."""

    label: str
    question: str
    means: str
    path: str
    body: dict[str, Any]
    about: str
    danger: bool


class Need(Struct, frozen=True):
    """Something that does not go on by itself."""

    level: Literal["warn", "bad"]
    text: str
    detail: str
    at: int | None
    where: str | None
    link: str | None
    acts: list[Act]


class PlatformStanding(Struct, frozen=True):
    name: str
    problem: str


class WholeSituation(Situation, frozen=True):
    """How the gateway is, and what needs somebody."""

    version: str
    model: str
    adapters: list[PlatformStanding]
    well: str
    attention: list[Need]
    turns: list[ListedTurn]
    decisions: list[ListedDecision]


class BackgroundProcess(Struct, frozen=True):
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


class Processes(Struct, frozen=True):
    processes: list[BackgroundProcess]
    more: bool


class Output(BackgroundProcess, frozen=True):
    """A process in the background, with some of what it has said."""

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

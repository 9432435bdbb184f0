"""The recovery decision: whether an interrupted turn resumes, by its journal, its context and the policy.

`decide()` reads from top to bottom as an operator would explain it. It never acts: `runtime.recovery` journals
the decision with its evidence and applies it.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import msgspec
from msgspec import Struct

from perdure.core import texts
from perdure.core.journal import HANDED_OVER_EVIDENCE, RecoveryDecided, TurnView
from perdure.core.recovery.tail import Tail, tail_of
from perdure.core.session import ResumePolicy, SessionState
from perdure.core.turn import TurnState


class InterruptionReason(StrEnum):
    """Why a turn was interrupted."""

    RESTART_TIMEOUT = "restart_timeout"
    SHUTDOWN_TIMEOUT = "shutdown_timeout"
    RESTART_INTERRUPTED = "restart_interrupted"
    LEASE_LOST = "lease_lost"


# Reasons after which a turn resumes by itself.
AUTO_RESUME_REASONS: frozenset[str] = frozenset(InterruptionReason)


class RecoveryPolicy(Struct, frozen=True):
    """The operator's settings for recovery in one chat."""

    policy: ResumePolicy = "auto"
    freshness_ms: int = 3_600_000  # 0 switches the check off
    max_without_progress: int = 3
    max_interruptions: int = 10
    max_tokens: int | None = None


class RecoveryContext(Struct, frozen=True):
    """The facts for a decision that are not in the turn's journal."""

    session: SessionState = SessionState.OPEN
    last_sign_of_life: int | None = None
    has_address: bool = True
    authorised: bool = True
    connected: bool = True
    attached_alive: bool = False
    paused: bool = False
    handed_over: bool = False  # another gateway, which was stopped in order, had it before


class RecoveryChoice(StrEnum):
    RESUME = "resume"
    DELIVER = "deliver"
    CLEAR = "clear"
    WAIT_FOR_USER = "wait_for_user"
    ASK_USER = "ask_user"
    WAIT_FOR_PLATFORM = "wait_for_platform"
    SKIP = "skip"
    SUSPEND = "suspend"


class RecoveryRule(StrEnum):
    """The line of `decide()` that made a decision."""

    FINAL_ANSWER = "final_answer"
    NOTHING_DONE = "nothing_done"
    NOT_OPEN = "not_open"
    QUESTION = "question"
    NO_ADDRESS = "no_address"
    REASON = "reason"
    UNAUTHORISED = "unauthorised"
    STALE = "stale"
    NO_PROGRESS = "no_progress"
    TOO_OFTEN = "too_often"
    TOKENS = "tokens"
    OFF = "off"
    PAUSED = "paused"
    NOT_CONNECTED = "not_connected"
    ASK = "ask"
    RESUME = "resume"


# In the evidence of a decision to resume: recoveries run one at a time, and this one waits for its time.
ALONE_EVIDENCE = "alone"


# Rules that hold a turn back for good: a new message does not join such a turn, it supersedes it.
HELD_BACK_RULES: frozenset[str] = frozenset(
    (RecoveryRule.UNAUTHORISED, RecoveryRule.STALE, RecoveryRule.TOKENS, RecoveryRule.NO_ADDRESS)
)


class RecoveryDecision(Struct, frozen=True):
    choice: RecoveryChoice
    rule: RecoveryRule
    why: str
    evidence: dict[str, Any] = msgspec.field(default_factory=dict)


def decide(view: TurnView, context: RecoveryContext, policy: RecoveryPolicy, now: int) -> RecoveryDecision:
    """Decide about an interrupted turn. Every turn gets a decision; none raises an error."""
    tail, last = tail_of(view), view.last_interruption
    reason = last.reason if last else None
    age = None if context.last_sign_of_life is None else max(0, now - context.last_sign_of_life)
    handed_over = context.handed_over and last is not None and not last.handed_over
    without_progress = view.without_progress - handed_over
    evidence = {
        "tail": tail,
        "reason": reason,
        "age_ms": age,
        "interruptions": len(view.interruptions),
        "without_progress": without_progress,
        "tokens": view.tokens,
    } | ({HANDED_OVER_EVIDENCE: True} if handed_over else {})

    def decided(choice: RecoveryChoice, rule: RecoveryRule, why: str) -> RecoveryDecision:
        return RecoveryDecision(choice, rule, why, evidence)

    if tail is Tail.FINAL:
        return decided(RecoveryChoice.DELIVER, RecoveryRule.FINAL_ANSWER, texts.recovery.WHY_FINAL_ANSWER)
    if tail is Tail.NOTHING:
        return decided(RecoveryChoice.CLEAR, RecoveryRule.NOTHING_DONE, texts.recovery.WHY_NOTHING_DONE)
    if context.session is not SessionState.OPEN:
        return decided(RecoveryChoice.SKIP, RecoveryRule.NOT_OPEN, texts.recovery.why_not_open(context.session))
    if tail is Tail.QUESTION:
        return decided(RecoveryChoice.WAIT_FOR_USER, RecoveryRule.QUESTION, texts.recovery.WHY_QUESTION)
    if not context.has_address:
        return decided(RecoveryChoice.SKIP, RecoveryRule.NO_ADDRESS, texts.recovery.WHY_NO_ADDRESS)
    if not context.authorised:
        return decided(RecoveryChoice.SKIP, RecoveryRule.UNAUTHORISED, texts.recovery.WHY_UNAUTHORISED)
    if policy.freshness_ms and not context.attached_alive and (age is None or age > policy.freshness_ms):
        return decided(RecoveryChoice.SKIP, RecoveryRule.STALE, texts.recovery.why_stale(age, policy.freshness_ms))
    if without_progress >= policy.max_without_progress and not context.attached_alive:
        stuck = texts.recovery.why_no_progress(without_progress)
        return decided(RecoveryChoice.SUSPEND, RecoveryRule.NO_PROGRESS, stuck)
    if len(view.interruptions) >= policy.max_interruptions:
        often = texts.recovery.why_too_often(len(view.interruptions))
        return decided(RecoveryChoice.SUSPEND, RecoveryRule.TOO_OFTEN, often)
    if policy.max_tokens is not None and view.tokens >= policy.max_tokens:
        cost = texts.recovery.why_tokens(view.tokens, policy.max_tokens)
        return decided(RecoveryChoice.SKIP, RecoveryRule.TOKENS, cost)
    if reason not in AUTO_RESUME_REASONS:
        return decided(RecoveryChoice.SKIP, RecoveryRule.REASON, texts.recovery.why_reason(reason))
    if policy.policy == "off":
        return decided(RecoveryChoice.SKIP, RecoveryRule.OFF, texts.recovery.WHY_OFF)
    if context.paused:
        return decided(RecoveryChoice.SKIP, RecoveryRule.PAUSED, texts.recovery.WHY_PAUSED)
    if not context.connected:
        return decided(
            RecoveryChoice.WAIT_FOR_PLATFORM, RecoveryRule.NOT_CONNECTED, texts.recovery.WHY_NOT_CONNECTED
        )
    if policy.policy == "ask":
        return decided(RecoveryChoice.ASK_USER, RecoveryRule.ASK, texts.recovery.WHY_ASK)
    return decided(RecoveryChoice.RESUME, RecoveryRule.RESUME, texts.recovery.why_resume(tail))


def may_end_gateways(view: TurnView) -> bool:
    """Whether a turn's gateway died while it ran and made no progress: the turn itself may have been the cause.

    Where gateways share a database, it would go from one to the next.
    """
    last = view.last_interruption
    died = (InterruptionReason.LEASE_LOST, InterruptionReason.RESTART_INTERRUPTED)
    return last is not None and last.reason in died and not last.progress


def awaits_slot(view: TurnView) -> bool:
    """Whether recovery has decided to resume the turn, and it still waits for a slot."""
    last = view.records[-1].entry if view.records else None
    begun = view.state in (TurnState.INTERRUPTED, TurnState.RUNNING)
    return begun and isinstance(last, RecoveryDecided) and last.rule == RecoveryRule.RESUME

"""The recovery decision: whether an interrupted turn resumes, by its tail, context, crash loops and the policy."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import msgspec
from msgspec import Struct

from perdure.core import texts
from perdure.core.journal import (
    HANDED_OVER_EVIDENCE,
    CallProgress,
    ModelAnswered,
    QuestionAnswered,
    QuestionAsked,
    RecoveryDecided,
    ToolEnded,
    TurnClaimed,
    TurnView,
)
from perdure.core.messages import Sender
from perdure.core.roles import Right
from perdure.core.states import ResumePolicy, SessionState, TurnState

# The finish reasons of a complete answer, in lower case, by any provider. Any other (length, max_tokens,
# content_filter, error, none at all) means that the response is truncated.
FINAL_FINISH_REASONS = frozenset(
    (
        "stop",
        "end",
        "end_turn",
        "stop_sequence",
        "stop_criteria_met",
        "complete",
        "completed",
        "eos",
        "eos_token",
        "endoftext",
        "done",
        "finish",
        "finished",
    )
)


# The finish reasons of a response that reached its length limit, in lower case.
LENGTH_FINISH_REASONS = frozenset(("length", "max_tokens", "model_length"))
# Finish reasons at which a provider stopped the model: a tool call before one of them may be incomplete.
STOPPED_FINISH_REASONS = LENGTH_FINISH_REASONS | {"content_filter", "refusal", "safety", "error"}


class Tail(StrEnum):
    NOTHING = "nothing but ours"
    MESSAGE = "an unanswered message"
    OPEN_CALL = "a tool call without result"
    RESULT = "a tool result without answer"
    QUESTION = "a question to the user"
    TRUNCATED = "a response that was cut off"
    FINAL = "the final answer"


def is_final_response(response: ModelAnswered) -> bool:
    """Whether a model's response ends the turn: no tool call, and an explicit finish."""
    return not response.calls and (response.finish or "").lower() in FINAL_FINISH_REASONS


def is_length_limited(response: ModelAnswered) -> bool:
    """Whether a response is a text that ends at the model's length limit."""
    return not response.calls and (response.finish or "").lower() in LENGTH_FINISH_REASONS


def tail_of(view: TurnView) -> Tail:
    """The tail of a turn."""
    if not view.content:
        return Tail.NOTHING
    if view.awaits_answer:
        return Tail.QUESTION
    if any(_lacks_result(call) for call in view.calls.values()):
        return Tail.OPEN_CALL
    match view.content[-1].entry:
        case ModelAnswered() as response:
            return Tail.FINAL if is_final_response(response) else Tail.TRUNCATED
        case ToolEnded():
            return Tail.RESULT
        case _:
            return Tail.MESSAGE


def _lacks_result(call: CallProgress) -> bool:
    """Whether the call has no result. `cancelled` is none: the gateway wrote it when the turn ended first."""
    return call.ended is None or call.ended.outcome == "cancelled"


PERSON_RULE = "person"  # the rule of a decision that a person made, with `/resume`


class PendingRequest(Struct, frozen=True):
    """Who requested it, when, the right that it needs, and the question that it answers, if any."""

    by: Sender
    at: int
    right: Right
    question: QuestionAsked | None = None
    platform: str = ""  # where they requested it; empty: in the conversation itself


def pending_request(view: TurnView) -> PendingRequest | None:
    """The newest request of a person since the turn's last claim; None if there is none."""
    for record in reversed(view.records):
        match record.entry:
            case TurnClaimed():
                return None
            case QuestionAnswered(by=by, platform=platform):
                asked = view.question
                right: Right = "approve" if asked and asked.approves else "talk"
                return PendingRequest(by, record.at, right, asked, platform)
            case RecoveryDecided(rule=rule, evidence={"by": str(person)}) if rule == PERSON_RULE:
                return PendingRequest(Sender(person), record.at, "command")
    return None


def times_asked(view: TurnView, question: str) -> int:
    """How often a question was asked."""
    entries = (record.entry for record in view.records)
    return sum(isinstance(entry, QuestionAsked) and entry.question == question for entry in entries)


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


def awaits_slot(view: TurnView) -> bool:
    """Whether recovery has decided to resume the turn, and it still waits for a slot."""
    last = view.records[-1].entry if view.records else None
    begun = view.state in (TurnState.INTERRUPTED, TurnState.RUNNING)
    return begun and isinstance(last, RecoveryDecided) and last.rule == RecoveryRule.RESUME


CRASH_LOOP_WINDOW_MS = 300_000  # in which unclean starts count as shortly after one another
PAUSE_AFTER_UNCLEAN_STARTS = 3  # within the window
SERIAL_AFTER_UNCLEAN_STARTS = 2  # in a row


def pauses_recovery(unclean_lately: int) -> bool:
    """Whether nothing is resumed automatically after so many unclean starts within the window."""
    return unclean_lately >= PAUSE_AFTER_UNCLEAN_STARTS


def resumes_one_at_a_time(unclean_in_a_row: int) -> bool:
    """Whether turns are resumed one by one after so many unclean starts, so that a crash counts for one alone."""
    return unclean_in_a_row >= SERIAL_AFTER_UNCLEAN_STARTS

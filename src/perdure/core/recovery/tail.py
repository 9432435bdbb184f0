"""The tail of a turn: what its content ends with, and what a person has asked of it since."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from perdure.core.journal import (
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

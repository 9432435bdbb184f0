"""The tail of a turn: what its content ends with. The gateway's own entries are never the tail."""

from __future__ import annotations

from enum import StrEnum

from perdure.core.journal import CallProgress, ModelAnswered, ToolEnded, TurnView

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

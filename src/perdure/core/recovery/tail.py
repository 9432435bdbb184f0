"""What a turn's journal ends with. Our own marks, notes, decisions and results are never the tail."""

from __future__ import annotations

from enum import StrEnum

from perdure.core.journal import CallProgress, ModelAnswered, ToolEnded, TurnView

# How providers spell "I have said all I wanted to say", in lower case. Anything else (length, max_tokens,
# content_filter, error, none at all) is a response that was cut off.
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


# How providers spell "I reached my length limit", in lower case: this ends a text, never a tool call.
LENGTH_FINISH_REASONS = frozenset(("length", "max_tokens", "model_length"))
# Ends at which a provider stopped the model in the middle: a tool call before one of them is half a call.
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
    """Name what the turn's content ends with."""
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
    """Whether nothing came of the call: a `cancelled` result is ours, written when its turn ended before it."""
    return call.ended is None or call.ended.outcome == "cancelled"

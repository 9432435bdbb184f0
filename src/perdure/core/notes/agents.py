"""What is said to and of agents of somebody's own."""

from __future__ import annotations

from collections.abc import Sequence

from perdure.core.notes.people import question
from perdure.core.notes.words import clipped


def adapter_failed(kind: str) -> str:
    """Why a platform is not connected when its adapter has a defect; what was said is for the log alone."""
    return f"its adapter failed with {kind}; the log says where"


def wrong_event(why: str) -> str:
    """Why an event is kept as rejected whose adapter has filled it wrongly."""
    return f"the adapter handed over an event that cannot be read: {why}"


SENDING_FAILED = "something went wrong inside the gateway while it was sent; its log says what"


NOT_STORED = "not received: something went wrong inside the gateway; its log says what"


TRY_AGAIN = "Mend that, and make the call again."


CANNOT_BE_PUT_OFF = "not run: this tool wants to wait for an approval or a result from elsewhere, and cannot."


NOT_FOR_TOOLS = "not run: a tool can be called by the model only, not from inside of another tool."


def try_again(why: str) -> str:
    """The result of a call that a model is asked to make again."""
    return f"{why}\n\n{TRY_AGAIN}"


CUT_OFF = "it was cut off"


def step_unknown(call: str, why: str) -> str:
    doubt = f"{call}: {why.rstrip('.')}, and nobody can tell whether it took effect."
    return f"{doubt} I did not repeat it. Look whether it did, and then write again."


def step_error(error: BaseException) -> str:
    """What a step failed with, as the journal keeps it."""
    said = clipped(str(error), 2000)
    return f"{type(error).__name__}: {said}" if said else type(error).__name__


def step_failed(step: str, why: str) -> str:
    return f"the step {step!r} failed: {why}"


def large_result(size: int, limit: int) -> str:
    return f"it ran, but its result is {size} bytes long; at most {limit} are kept. Return less, such as a name."


def unkeepable_result(kind: str, error: BaseException) -> str:
    return f"it ran, but its result, of the type {kind}, cannot be kept as JSON: {error}"


def step_changed(was: str, now: str) -> str:
    return (
        f"when this began it went by {was}, and now it would go by {now}. The agent has changed meanwhile, or "
        "does not do the same when it begins anew. What was done stays done; write again to begin afresh."
    )


def asking(text: str, options: Sequence[str]) -> str:
    return f"asking {question(text, options)!r}"


def put_off(tools: Sequence[str]) -> str:
    return f"the agent wants to wait for results from elsewhere ({', '.join(tools)}), and cannot."

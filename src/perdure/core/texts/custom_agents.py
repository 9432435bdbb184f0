"""Messages to and about agents and adapters of other packages."""

from __future__ import annotations

from collections.abc import Sequence

from perdure.core.texts import phrases, questions

CALL_AGAIN_HINT = "Mend that, and make the call again."
DEFERRED_TOOL_NOT_RUN = "not run: this tool wants to wait for an approval or a result from elsewhere, and cannot."
NESTED_CALL_NOT_RUN = "not run: a tool can be called by the model only, not from inside of another tool."


def call_again(why: str) -> str:
    """The result of a call that a model is asked to make again."""
    return f"{why}\n\n{CALL_AGAIN_HINT}"


STEP_INTERRUPTED = "it was cut off"


def step_outcome_unknown(call: str, why: str) -> str:
    doubt = f"{call}: {why.rstrip('.')}, and nobody can tell whether it took effect."
    return f"{doubt} I did not repeat it. Look whether it did, and then write again."


def step_error(error: BaseException) -> str:
    """The error of a failed step, as it is journalled."""
    said = phrases.clip(str(error), 2000)
    return f"{type(error).__name__}: {said}" if said else type(error).__name__


def step_failed(step: str, why: str) -> str:
    return f"the step {step!r} failed: {why}"


def result_too_large(size: int, limit: int) -> str:
    return f"it ran, but its result is {size} bytes long; at most {limit} are kept. Return less, such as a name."


def result_not_json(kind: str, error: BaseException) -> str:
    return f"it ran, but its result, of the type {kind}, cannot be kept as JSON: {error}"


def step_changed(was: str, now: str) -> str:
    return (
        f"when this began it went by {was}, and now it would go by {now}. The agent has changed meanwhile, or "
        "does not do the same when it begins anew. What was done stays done; write again to begin afresh."
    )


def question_step(text: str, options: Sequence[str]) -> str:
    return f"asking {questions.format_question(text, options)!r}"


def deferred_results(tools: Sequence[str]) -> str:
    return f"the agent wants to wait for results from elsewhere ({', '.join(tools)}), and cannot."

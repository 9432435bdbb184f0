"""Encodes the arguments and results of steps as JSON for the journal, and decodes them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from perdure.core import texts
from perdure.core.journal import ToolEnded, ToolOutcome, ToolStarted
from perdure.core.storable_text import to_json
from perdure.errors import OutcomeUnknown, StepFailed

MAX_STEP_BYTES = 256 * 1024  # of the arguments of one step, and of its result


def encode_arguments(
    name: str, function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], key: str | None
) -> dict[str, Any]:
    """The arguments by name, for the journal; arguments that do not fit the function are refused here."""
    try:
        signature = inspect.signature(function)
    except ValueError:  # some builtins have none
        given = {"arguments": args, **kwargs}
    else:
        signature.bind(*args, **kwargs, **({key: ""} if key else {}))
        given = signature.bind_partial(*args, **kwargs).arguments
    try:
        text = to_json(given, ordered=True)  # so that a set has the same order in every process
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise TypeError(
            f"the arguments of the step {name!r} cannot be kept as JSON: {error}. Give it plain values, such as "
            "ids and texts, and let the function find the rest"
        ) from error
    size = len(text.encode())
    if size > MAX_STEP_BYTES:
        raise ValueError(
            f"the arguments of the step {name!r} are {size} bytes long; at most {MAX_STEP_BYTES} are kept"
        )
    return msgspec.json.decode(text, type=dict[str, Any])


def encode_result(result: Any) -> tuple[ToolOutcome, str, BaseException | None]:
    """A result for the journal; a result that cannot be stored is an error."""
    try:
        text = to_json(result, ordered=True)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        return "error", texts.custom_agents.result_not_json(type(result).__name__, error), error
    size = len(text.encode())
    if size > MAX_STEP_BYTES:
        return "error", texts.custom_agents.result_too_large(size, MAX_STEP_BYTES), None
    return "ok", text, None


def decode_result(step: ToolStarted, ended: ToolEnded) -> Any:
    """The value or error of a step: the same the first time and from the journal."""
    match ended.outcome:
        case "ok":
            return msgspec.json.decode(ended.text)
        case "error":
            raise StepFailed(texts.custom_agents.step_failed(step.tool, ended.text))
        case _:
            raise OutcomeUnknown(
                texts.custom_agents.step_outcome_unknown(describe_step(step, step.arguments), ended.text)
            )


def describe_step(step: ToolStarted, arguments: Mapping[str, Any]) -> str:
    """The step with these arguments, written like a function call."""
    return texts.phrases.clip(texts.tool_calls.format_call(step.tool, arguments), 300)

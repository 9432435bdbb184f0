"""Ask a model until it answers. Each failed try is journalled, with the provider's words, before the next begins.

The count of tries is read from the journal, so a restart does not begin it anew.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from perdure.agents.api import TurnContext
from perdure.core import notes
from perdure.core.journal import Compacted, ModelAnswered, ModelAsked, ModelFailed, TurnView
from perdure.errors import ModelCallFailed, ModelError

TRIES = 5  # of one step
ASKED_AGAIN = 3  # how often an answer that broke off is asked for again
LONGEST_PAUSE = 60.0  # seconds; a provider that wants to be left alone for longer has failed

Given = TypeVar("Given")


async def ask_until_answered(
    context: TurnContext, step: int, model: str, ask: Callable[[], Awaitable[Given]], pause: float
) -> Given:
    """What `ask` gives, whose intent is journalled already. `ModelError` tells a person of the last failure.

    `pause` is the seconds before the second try; they double with every further one.
    If we die inside: the failed tries are on record, and the next attempt goes on behind them.
    """
    while True:
        try:
            return await ask()
        except ModelCallFailed as error:
            before = failed_tries(context.view, step)
            wait = seconds_to_next_try(error, before, pause)
            await context.append(_failed(step, model, len(before) + 1, error, wait))
            if wait is None:
                told = notes.model_failed(error.message, error.status, error.said, len(before) + 1)
                raise ModelError(told) from error
        await asyncio.sleep(wait)
        await context.append(ModelAsked(step, model))


def failed_tries(view: TurnView, step: int) -> list[ModelFailed]:
    """The failed tries of a step since the model last gave anything, in every attempt."""
    found: list[ModelFailed] = []
    for record in reversed(view.records):
        match record.entry:
            case ModelFailed() as failed if failed.step == step:
                found.insert(0, failed)
            case ModelAnswered() | Compacted():
                break
    return found


def seconds_to_next_try(error: ModelCallFailed, before: Sequence[ModelFailed], pause: float) -> float | None:
    """How long to wait before a failed call is made again; None: it is not."""
    broken = sum(failed.broke_off for failed in before)
    if not error.again or len(before) + 1 >= TRIES or (error.broke_off and broken >= ASKED_AGAIN):
        return None
    wait = error.wait or pause * 2 ** len(before)
    return wait if wait <= LONGEST_PAUSE else None


def _failed(step: int, model: str, number: int, error: ModelCallFailed, wait: float | None) -> ModelFailed:
    until = None if wait is None else round(wait * 1000)
    return ModelFailed(step, model, number, error.said, error.status, until, error.broke_off)

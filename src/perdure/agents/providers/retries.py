"""Ask a model until it answers. Each failed try is journalled, with the provider's words, before the next begins.

The count of tries is read from the journal, so a restart does not begin it anew.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from perdure.agents.api import TurnContext
from perdure.core import texts
from perdure.core.journal import ConversationCompacted, ModelAnswered, ModelAsked, ModelFailed, TurnView
from perdure.errors import ModelCallFailed, ModelError

MAX_REQUESTS = 5  # of one step
MAX_INCOMPLETE_RETRIES = 3  # how often an answer that broke off is asked for again
MAX_BACKOFF_SECONDS = 60.0  # seconds; a provider that wants to be left alone for longer has failed

Given = TypeVar("Given")


async def ask_with_retries(
    context: TurnContext, step: int, model: str, ask: Callable[[], Awaitable[Given]], backoff_seconds: float
) -> Given:
    """What `ask` gives, whose intent is journalled already. `ModelError` tells a person of the last failure.

    `pause` is the seconds before the second try; they double with every further one.
    If we die inside: the failed tries are on record, and the next attempt goes on behind them.
    """
    while True:
        try:
            return await ask()
        except ModelCallFailed as error:
            before = failed_requests(context.view, step)
            wait = retry_delay(error, before, backoff_seconds)
            await context.append(_failure_entry(step, model, len(before) + 1, error, wait))
            if wait is None:
                told = texts.providers.failed(error.message, error.status, error.said, len(before) + 1)
                raise ModelError(told) from error
        await asyncio.sleep(wait)
        await context.append(ModelAsked(step, model))


def failed_requests(view: TurnView, step: int) -> list[ModelFailed]:
    """The failed tries of a step since the model last gave anything, in every attempt."""
    found: list[ModelFailed] = []
    for record in reversed(view.records):
        match record.entry:
            case ModelFailed() as failed if failed.step == step:
                found.insert(0, failed)
            case ModelAnswered() | ConversationCompacted():
                break
    return found


def retry_delay(error: ModelCallFailed, before: Sequence[ModelFailed], backoff_seconds: float) -> float | None:
    """How long to wait before a failed call is made again; None: it is not."""
    broken = sum(failed.broke_off for failed in before)
    if (
        not error.again
        or len(before) + 1 >= MAX_REQUESTS
        or (error.broke_off and broken >= MAX_INCOMPLETE_RETRIES)
    ):
        return None
    wait = error.wait or backoff_seconds * 2 ** len(before)
    return wait if wait <= MAX_BACKOFF_SECONDS else None


def _failure_entry(step: int, model: str, number: int, error: ModelCallFailed, wait: float | None) -> ModelFailed:
    until = None if wait is None else round(wait * 1000)
    return ModelFailed(step, model, number, error.said, error.status, until, error.broke_off)

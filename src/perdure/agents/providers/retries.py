"""Retries failed model calls. Each failure is journalled with the provider's words before the next request.

The count of failures is read from the journal, so that a restart does not reset it.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from perdure.agents.api import TurnContext
from perdure.core import texts
from perdure.core.backoff import backoff_delay
from perdure.core.journal import ConversationCompacted, ModelAnswered, ModelAsked, ModelFailed, TurnView
from perdure.errors import ModelCallFailed, ModelError

MAX_REQUESTS = 5  # of one step
MAX_INCOMPLETE_RETRIES = 3  # of an answer that broke off
MAX_BACKOFF_SECONDS = 60.0  # a provider that asks for a longer pause has failed

Answer = TypeVar("Answer")


async def ask_with_retries(
    context: TurnContext, step: int, model: str, ask: Callable[[], Awaitable[Answer]], backoff_seconds: float
) -> Answer:
    """The result of `ask`, whose intent is journalled already; `ModelError` with the last failure, for a person.

    `backoff_seconds` is the pause before the first retry; it doubles with every further one.
    If we die inside: the failures are journalled, and the next attempt continues the count.
    """
    while True:
        try:
            return await ask()
        except ModelCallFailed as error:
            before = failed_requests(context.view, step)
            wait = retry_delay(error, before, backoff_seconds)
            await context.append(_failure_entry(step, model, len(before) + 1, error, wait))
            if wait is None:
                reason = texts.agents.provider_failed(error.message, error.status, error.said, len(before) + 1)
                raise ModelError(reason) from error
        await asyncio.sleep(wait)
        await context.append(ModelAsked(step, model))


def failed_requests(view: TurnView, step: int) -> list[ModelFailed]:
    """The failed requests of a step since the model last answered, over all attempts."""
    found: list[ModelFailed] = []
    for record in reversed(view.records):
        match record.entry:
            case ModelFailed() as failed if failed.step == step:
                found.insert(0, failed)
            case ModelAnswered() | ConversationCompacted():
                break
    return found


def retry_delay(error: ModelCallFailed, before: Sequence[ModelFailed], backoff_seconds: float) -> float | None:
    """The seconds to wait before a failed call is retried; None: no retry."""
    broken = sum(failed.broke_off for failed in before)
    if (
        not error.again
        or len(before) + 1 >= MAX_REQUESTS
        or (error.broke_off and broken >= MAX_INCOMPLETE_RETRIES)
    ):
        return None
    wait = error.wait or backoff_delay(len(before) + 1, first=backoff_seconds, longest=math.inf)
    return wait if wait <= MAX_BACKOFF_SECONDS else None


def _failure_entry(step: int, model: str, number: int, error: ModelCallFailed, wait: float | None) -> ModelFailed:
    until = None if wait is None else round(wait * 1000)
    return ModelFailed(step, model, number, error.said, error.status, until, error.broke_off)

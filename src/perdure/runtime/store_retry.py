"""Repeats an operation of the store until the store is available."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from perdure.errors import Unavailable
from perdure.logs import Log
from perdure.runtime.wakeups import STORE_RETRY_SECONDS

log = Log("store_retry")

T = TypeVar("T")


async def retry_while_unavailable(
    operation: Callable[[], Awaitable[T]], *, on_wait: Callable[[], None] = lambda: None, **fields: str
) -> T:
    """Await the operation, again after every `Unavailable`; `on_wait` is called before each wait."""
    while True:
        try:
            return await operation()
        except Unavailable as error:
            log.warning("waiting_for_store", **fields, error=error.message)
            on_wait()
            await asyncio.sleep(STORE_RETRY_SECONDS)

"""Waits for a fact by polling, and names the fact when it does not come true."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar, overload

T = TypeVar("T")

POLL_SECONDS = 0.01
DEADLINE_FACTOR = float(os.environ.get("PERDURE_DEADLINE_FACTOR", "1"))  # above 1 on a machine under load


@overload
async def eventually(fact: str, probe: Callable[[], Awaitable[T | None]], timeout: float = 30.0) -> T: ...
@overload
async def eventually(fact: str, probe: Callable[[], T | None], timeout: float = 30.0) -> T: ...
async def eventually(fact: str, probe: Callable[[], Any], timeout: float = 30.0) -> Any:
    """Return the probe's first truthy value; fail with the name of the fact at the deadline.

    The probe is a function or a coroutine function.
    """
    timeout *= DEADLINE_FACTOR
    deadline = asyncio.get_running_loop().time() + timeout
    while True:
        answer = probe()
        seen = await answer if isinstance(answer, Awaitable) else answer
        if seen:
            return seen
        if asyncio.get_running_loop().time() > deadline:
            raise AssertionError(f"never came true within {timeout:g} s: {fact} (last seen: {seen!r})")
        await asyncio.sleep(POLL_SECONDS)

"""Tests wait on facts, never on time: poll until the fact holds, and name it when it does not."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar, overload

T = TypeVar("T")

POLL_SECONDS = 0.01
DEADLINE_FACTOR = float(os.environ.get("PERDURE_DEADLINE_FACTOR", "1"))  # above 1 on a machine under load


def wait_for(fact: str, probe: Callable[[], T | None], timeout: float = 30.0) -> T:
    """Return the probe's first truthy value; fail naming the fact if there is none by the deadline."""
    timeout *= DEADLINE_FACTOR
    deadline = time.monotonic() + timeout
    while True:
        seen = probe()
        if seen:
            return seen
        if time.monotonic() > deadline:
            raise AssertionError(f"never came true within {timeout:g} s: {fact} (last seen: {seen!r})")
        time.sleep(POLL_SECONDS)


@overload
async def eventually(fact: str, probe: Callable[[], Awaitable[T | None]], timeout: float = 30.0) -> T: ...
@overload
async def eventually(fact: str, probe: Callable[[], T | None], timeout: float = 30.0) -> T: ...
async def eventually(fact: str, probe: Callable[[], Any], timeout: float = 30.0) -> Any:
    """The same inside an event loop; the probe may be a coroutine function."""
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

"""The tasks of a gateway.

Drives `runtime/tasks`.
"""

from __future__ import annotations

import asyncio
import inspect

import pytest

from perdure.runtime.tasks import GatewayTasks

pytestmark = pytest.mark.anyio


async def _nothing() -> None: ...


async def test_coroutine_that_comes_too_late_for_the_gateways_tasks_is_closed() -> None:
    async with asyncio.TaskGroup() as group:
        tasks = GatewayTasks(group)
    late = _nothing()
    with pytest.raises(RuntimeError, match="finished"):
        tasks.create_task(late)
    assert inspect.getcoroutinestate(late) == inspect.CORO_CLOSED
    with pytest.raises(RuntimeError, match="finished"):
        tasks.run_loop(_nothing)

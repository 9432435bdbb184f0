"""An event loop that skips waiting times, for code without threads and sockets."""

from __future__ import annotations

import asyncio
import selectors
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

TOOL_THREAD_NAME = "perdure-tool"  # the prefix of the names of executor threads
THREAD_POLL_SECONDS = 0.001  # seconds between two probes while a thread works


class FastForwardLoop(asyncio.SelectorEventLoop):
    """Its clock jumps to the next timer as soon as every task waits."""

    def __init__(self) -> None:
        self.now = 0.0
        super().__init__(_FastForwardSelector(self))

    def time(self) -> float:
        return self.now

    @property
    def waits_for_threads(self) -> bool:
        return False


class _FastForwardSelector(selectors.DefaultSelector):
    def __init__(self, loop: FastForwardLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if self._loop.waits_for_threads:
            return list(
                super().select(min(timeout, THREAD_POLL_SECONDS) if timeout is not None else THREAD_POLL_SECONDS)
            )
        self._loop.now += timeout or 0.0
        return list(super().select(0))


class FastForwardGatewayLoop(FastForwardLoop):
    """A fast-forward loop for a gateway on SQLite: no time passes while an executor thread works."""

    def __init__(self) -> None:
        super().__init__()
        self._executor_calls = 0  # pending calls in executor threads

    def run_in_executor(  # type: ignore[override]
        self, executor: Any, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        future = super().run_in_executor(executor, func, *args)
        self._executor_calls += 1
        future.add_done_callback(self._finish_executor_call)
        return future

    def _finish_executor_call(self, _: asyncio.Future[Any]) -> None:
        self._executor_calls -= 1

    @property
    def waits_for_threads(self) -> bool:
        return self._executor_calls > 0 or any(thread.name == TOOL_THREAD_NAME for thread in threading.enumerate())


def run_fast_forward(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end on a fast-forward loop."""
    with asyncio.Runner(loop_factory=FastForwardGatewayLoop) as runner:
        return runner.run(coroutine)

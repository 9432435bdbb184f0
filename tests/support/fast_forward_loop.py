"""An event loop on which hours pass at once, for what waits on its clock alone: no threads, no sockets."""

from __future__ import annotations

import asyncio
import selectors
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

TOOL_THREAD_NAME = "perdure-tool"  # the name of the threads in which blocking work is done
THREAD_POLL_SECONDS = 0.001  # seconds for which a thread is waited for before we look again


class FastForwardLoop(asyncio.SelectorEventLoop):
    """Its clock moves only when everybody waits, and then at once to where the next one wakes up."""

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
    """The same for a whole gateway on SQLite: no time passes while a thread works, such as one that reads."""

    def __init__(self) -> None:
        super().__init__()
        self._executor_calls = 0  # calls in threads of executors

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
    """Run something to its end on a loop whose hours pass at once."""
    with asyncio.Runner(loop_factory=FastForwardGatewayLoop) as runner:
        return runner.run(coroutine)

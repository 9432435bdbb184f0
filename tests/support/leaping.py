"""An event loop on which hours pass at once, for what waits on its clock alone: no threads, no sockets."""

from __future__ import annotations

import asyncio
import selectors


class Leaping(asyncio.SelectorEventLoop):
    """Its clock moves only when everybody waits, and then at once to where the next one wakes up."""

    def __init__(self) -> None:
        self.now = 0.0
        super().__init__(_Leaps(self))

    def time(self) -> float:
        return self.now


class _Leaps(selectors.DefaultSelector):
    def __init__(self, loop: Leaping) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        self._loop.now += timeout or 0.0
        return list(super().select(0))

"""Keeps one MCP server connected: connects, and connects again after every loss, with growing pauses."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from perdure.core import notes
from perdure.core.effects import Effect
from perdure.core.text import storable
from perdure.core.tools import Tool, Use
from perdure.errors import ToolFailed
from perdure.tools.mcp.server import McpServer

if TYPE_CHECKING:
    from anyio import CancelScope
    from mcp.types import Tool as Offered

    from perdure.tools.mcp.connection import Connection

FIRST_PAUSE = 0.5
LONGEST_PAUSE = 60.0  # also how long a connection must last to count as a good one
TRIES = 2  # of a call that was not even sent
MARGIN = 10.0  # seconds by which the agent's patience with a call outlasts ours, so that ours finds the words

_log = logging.getLogger("perdure.tools.mcp")


class Link:
    """One server, and the connection to it if there is one."""

    def __init__(self, server: McpServer, rename: Callable[[str], str], patience: float) -> None:
        self._server = server
        self._rename = rename
        self._patience = patience
        self._connection: Connection | None = None
        self._connected = asyncio.Event()
        self._awaited_until = math.nan  # nobody waits yet
        self.problem: str | None = notes.MCP_NOT_YET

    async def keep(self, life: CancelScope) -> None:
        """Stay connected until `life` is cancelled.

        Scopes of the SDK are entered and left here, in one task. It is ended by a scope and not by the task's own
        `cancel()`: a second `cancel()` would break off the orderly end of a server's process, and leave it alive.
        """
        with life:
            pause = FIRST_PAUSE
            while True:
                began = time.monotonic()
                await self._once()
                pause = FIRST_PAUSE if time.monotonic() - began >= LONGEST_PAUSE else pause
                self._tell(logging.WARNING, "mcp_disconnected", problem=self.problem, retry_in=pause)
                await asyncio.sleep(pause)
                pause = min(LONGEST_PAUSE, pause * 2)

    def await_anew(self) -> None:
        """From now on whoever wants the tools waits for the server, though not for long."""
        self._awaited_until = time.monotonic() + self._patience

    async def settled(self) -> None:
        """Return when the server is connected, or has had its time to be."""
        if math.isnan(self._awaited_until):
            self.await_anew()
        await self._wait(self._awaited_until - time.monotonic())

    def tools(self) -> Sequence[Tool]:
        """The tools of the server, if it is connected."""
        return [self._tool(offered) for offered in self._connection.offered] if self._connection else []

    # ── inside ──────────────────────────────────────────────────────────────────────────────────────────────

    async def _once(self) -> None:
        from perdure.tools.mcp.connection import Connection, Ended

        connection = Connection(self._server, lambda: self._opened(connection), self._lost)
        try:
            await connection.run()
        except Ended as error:
            self.problem = storable(str(error))
        finally:
            self._lost()

    def _opened(self, connection: Connection) -> None:
        self._connection = connection
        self.problem = None
        self._connected.set()
        self._tell(logging.INFO, "mcp_connected", tools=len(connection.offered))

    def _lost(self) -> None:
        if self._connection is not None:
            self._connection = None
            self.problem = notes.MCP_RECONNECTING
            self._connected.clear()
            self.await_anew()

    async def _wait(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(max(0.0, seconds)):
                await self._connected.wait()
        except TimeoutError:
            pass  # whoever waits goes on without

    def _tool(self, offered: Offered) -> Tool:
        hints = offered.annotations
        harmless = bool(hints and (hints.read_only_hint or hints.idempotent_hint))
        effect = self._server.effect(offered.name, harmless=harmless)
        return Tool(
            self._rename(offered.name),
            offered.description or offered.title or "",
            partial(self._use, offered.name, effect),
            effect,
            offered.input_schema,
            TRIES * self._patience + self._server.timeout + MARGIN,
        )

    async def _use(self, tool: str, effect: Effect, use: Use) -> str:
        from perdure.tools.mcp.connection import NotSent

        for _ in range(TRIES):
            await self._wait(self._patience)
            if self._connection is None:
                break
            with suppress(NotSent):  # the server went away while nobody looked: there will be another connection
                return await self._connection.call(tool, effect, use)
        raise ToolFailed(notes.mcp_not_connected(self._server.name, self.problem or notes.MCP_RECONNECTING))

    def _tell(self, level: int, event: str, **fields: Any) -> None:
        _log.log(level, event, extra={"fields": {"server": self._server.name, **fields}})

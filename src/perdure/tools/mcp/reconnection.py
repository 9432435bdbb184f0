"""Keeps one MCP server connected: reconnects after every loss, with growing pauses."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from perdure.core import texts
from perdure.core.backoff import backoff_delay
from perdure.core.effects import Effect
from perdure.core.storable_text import make_storable
from perdure.core.tools import Tool, Use
from perdure.errors import ToolFailed
from perdure.tools.mcp.server import McpServer

if TYPE_CHECKING:
    from anyio import CancelScope
    from mcp.types import Tool as Offered

    from perdure.tools.mcp.connection import McpConnection

FIRST_PAUSE_SECONDS = 0.5
MAX_PAUSE_SECONDS = 60.0  # also the time after which a connection counts as good
MAX_SENDS = 2  # of a call that did not reach the server
TIMEOUT_MARGIN_SECONDS = 10.0  # from our timeout of a call to the agent's, so that ours explains it

_log = logging.getLogger("perdure.tools.mcp")


class ReconnectingServer:
    """One server, and its connection while there is one."""

    def __init__(self, server: McpServer, tool_name: Callable[[str], str]) -> None:
        self._server = server
        self._tool_name = tool_name
        self._connection: McpConnection | None = None
        self._connected = asyncio.Event()
        self._wait_deadline = math.nan  # nobody waits yet
        self.problem: str | None = texts.tool_calls.MCP_NOT_CONNECTED_YET

    async def run(self, scope: CancelScope) -> None:
        """Stay connected until `scope` is cancelled.

        This one task enters and leaves the scopes of the SDK. It is ended by `scope` and not by the task's own
        `cancel()`: a second `cancel()` would interrupt the orderly end of a server's process, and leave it alive.
        """
        with scope:
            failures = 0
            while True:
                began = time.monotonic()
                await self._connect_once()
                failures = 1 if time.monotonic() - began >= MAX_PAUSE_SECONDS else failures + 1
                pause = backoff_delay(failures, first=FIRST_PAUSE_SECONDS, longest=MAX_PAUSE_SECONDS)
                self._log_event(logging.WARNING, "mcp_disconnected", problem=self.problem, retry_in=pause)
                await asyncio.sleep(pause)

    def restart_wait(self) -> None:
        """Let callers of `wait_until_settled` wait for the server again, for its `startup_timeout` from now on."""
        self._wait_deadline = time.monotonic() + self._server.startup_timeout

    async def wait_until_settled(self) -> None:
        """Wait until the server is connected, or its `startup_timeout` is up."""
        if math.isnan(self._wait_deadline):
            self.restart_wait()
        await self._wait(self._wait_deadline - time.monotonic())

    def tools(self) -> Sequence[Tool]:
        """The tools of the server, if it is connected."""
        return [self._tool(offered) for offered in self._connection.offered_tools] if self._connection else []

    # ── inside ──────────────────────────────────────────────────────────────────────────────────────────────

    async def _connect_once(self) -> None:
        from perdure.tools.mcp.connection import McpConnection, McpConnectionEnded

        connection = McpConnection(self._server, lambda: self._mark_connected(connection), self._mark_disconnected)
        try:
            await connection.run()
        except McpConnectionEnded as error:
            self.problem = make_storable(self._explain(str(error), was_connected=bool(connection.offered_tools)))
        finally:
            self._mark_disconnected()

    def _explain(self, why: str, *, was_connected: bool) -> str:
        """Why the connection ended; of a server that does not come up in its sandbox, also how to let it out."""
        if was_connected or not self._server.is_confined:
            return why
        return texts.tool_calls.mcp_failed_in_sandbox(why, self._server.name)

    def _mark_connected(self, connection: McpConnection) -> None:
        self._connection = connection
        self.problem = None
        self._connected.set()
        self._log_event(logging.INFO, "mcp_connected", tools=len(connection.offered_tools))

    def _mark_disconnected(self) -> None:
        if self._connection is not None:
            self._connection = None
            self.problem = texts.tool_calls.MCP_RECONNECTING
            self._connected.clear()
            self.restart_wait()

    async def _wait(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(max(0.0, seconds)):
                await self._connected.wait()
        except TimeoutError:
            pass  # the caller continues without the server

    def _tool(self, offered: Offered) -> Tool:
        hints = offered.annotations
        harmless = bool(hints and (hints.read_only_hint or hints.idempotent_hint))
        effect = self._server.effect(offered.name, harmless=harmless)
        return Tool(
            self._tool_name(offered.name),
            offered.description or offered.title or "",
            partial(self._call_tool, offered.name, effect),
            effect,
            offered.input_schema,
            MAX_SENDS * self._server.startup_timeout + self._server.timeout + TIMEOUT_MARGIN_SECONDS,
            server=self._server.name,
        )

    async def _call_tool(self, tool: str, effect: Effect, use: Use) -> str:
        from perdure.tools.mcp.connection import McpCallNotSent

        for _ in range(MAX_SENDS):
            await self._wait(self._server.startup_timeout)
            if self._connection is None:
                break
            with suppress(McpCallNotSent):  # the server went away unnoticed: wait for the next connection
                return await self._connection.call(tool, effect, use)
        raise ToolFailed(
            texts.tool_calls.mcp_not_connected(
                self._server.name, self.problem or texts.tool_calls.MCP_RECONNECTING
            )
        )

    def _log_event(self, level: int, event: str, **fields: Any) -> None:
        _log.log(level, event, extra={"fields": {"server": self._server.name, **fields}})
